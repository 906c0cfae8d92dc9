/* SPDX-License-Identifier: MIT */
#include "kube/webhook/served.h"

#include <string.h>

#include "base/banned.h"

/* Find the number that a variable has in the containers of a list; false: it has something else. */
static bool read_containers(const jsonr_value *containers, const char *env, uint16_t *number)
{
    for (size_t c = 0; c < jsonr_array_size(containers); c++) {
        const jsonr_value *all = jsonr_get(jsonr_array_at(containers, c), "env");

        for (size_t i = 0; i < jsonr_array_size(all); i++) {
            const jsonr_value *entry = jsonr_array_at(all, i);
            const char *value = NULL;

            if (strcmp(jsonr_text_at(entry, "name"), env) != 0)
                continue;
            (void) jsonr_get_string(entry, "value", &value);
            uint16_t found = jsonr_get(entry, "valueFrom") ? 0 : port_request_number(value);
            if (!found || (*number && found != *number))
                return false;
            *number = found;
        }
    }
    return true;
}

/* Return the number of the variable; 0: there is none. RBG sets it in all containers, but another webhook may
 * have added a container since. */
static uint16_t given_in(const jsonr_value *pod, const char *env)
{
    uint16_t number = 0;
    bool is_one = read_containers(jsonr_at(pod, "spec.initContainers"), env, &number) &&
                  read_containers(jsonr_at(pod, "spec.containers"), env, &number);

    return is_one ? number : 0;
}

/* Return the number that RBG gave for the port; 0: none. */
static uint16_t given_for(const jsonr_value *pod, const struct workload_port *port)
{
    uint16_t number = port->count == 1 ? given_in(pod, port->env) : 0; /* RBG knows single ports only */

    return !port->annotation || port_request_number(port_request_annotation(pod, port->annotation)) == number
               ? number
               : 0;
}

/* RBG ignores the role of a reference and looks in the pod's own instance. */
static bool is_of_own_role(const struct port_request *request, const struct identity *who, size_t i)
{
    const char *role = request->config->references[i].role;

    return i < request->n_written && (!role || strcmp(role, who->role_name) == 0);
}

static bool is_of_instance(const struct identity *who)
{
    return who->is_named &&
           (strncmp(who->keeper, "RoleInstance/", 13) == 0 || strncmp(who->keeper, "Instance/", 9) == 0);
}

void served_adopt(const jsonr_value *pod, const struct identity *who, struct port_request *request)
{
    const struct workload_component *config = request->config;
    uint16_t *given = NULL;

    if (strcmp(request->key, WORKLOAD_KEY_RBG) != 0 || !is_of_instance(who) ||
        port_request_annotation(pod, IDENTITY_KEY_ASSIGNED))
        return;
    for (size_t i = 0; i < config->n_ports; i++)
        if (!given_for(pod, &config->ports[i]))
            return;
    given = workload_take(request->group, (config->n_references + 1) * sizeof *given);
    if (!given) /* what is not adopted is chosen again, and RBG's numbers are replaced */
        return;
    for (size_t i = 0; i < config->n_references; i++) {
        bool is_own = is_of_own_role(request, who, i);

        given[i] = is_own ? given_in(pod, config->references[i].env) : 0;
        if (is_own && !given[i])
            return;
    }
    for (size_t i = 0; i < config->n_ports; i++) {
        struct workload_port *port = &config->ports[i];

        if (port->mode == DIBS_REQUIRED)
            continue;
        port->port = given_for(pod, port);
        port->mode = DIBS_REQUIRED;
    }
    request->given = given;
}
