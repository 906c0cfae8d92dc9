/* SPDX-License-Identifier: MIT */
#include "kube/webhook/adopt.h"

#include <string.h>

#include "base/err.h"
#include "base/text.h"

#include "base/banned.h"

/* Find the value that a variable has in the containers of a list; false: it has something else. */
static bool read_containers(const jsonr_value *containers, const char *env, const char **value)
{
    for (size_t c = 0; c < jsonr_array_size(containers); c++) {
        const jsonr_value *all = jsonr_get(jsonr_array_at(containers, c), "env");

        for (size_t i = 0; i < jsonr_array_size(all); i++) {
            const jsonr_value *entry = jsonr_array_at(all, i);
            const char *found = NULL;

            if (strcmp(jsonr_text_at(entry, "name"), env) != 0)
                continue;
            if (jsonr_get(entry, "valueFrom") || !jsonr_get_string(entry, "value", &found) ||
                (*value && strcmp(found, *value) != 0))
                return false;
            *value = found;
        }
    }
    return true;
}

/* Return the value of the variable; NULL: there is none. It is set in all containers, but another webhook may
 * have added a container since. */
static const char *value_in(const jsonr_value *pod, const char *env)
{
    const char *value = NULL;
    bool is_one = read_containers(jsonr_at(pod, "spec.initContainers"), env, &value) &&
                  read_containers(jsonr_at(pod, "spec.containers"), env, &value);

    return is_one ? value : NULL;
}

/* Read the numbers of a port, which workload_value_text() has written: of a block the first one. */
static bool read_numbers(const jsonr_value *pod, const struct workload_port *port, uint16_t *out)
{
    const char *text = value_in(pod, port->env);
    const char *noted = port->annotation ? port_request_annotation(pod, port->annotation) : text;

    if (!text || !noted || strcmp(text, noted) != 0)
        return false;
    for (uint32_t i = 0; i < port->count; i++) {
        size_t n = strcspn(text, ",");
        uint64_t number = 0;

        if (i > 0 && port->is_contiguous) {
            out[i] = (uint16_t) (out[0] + i);
            continue;
        }
        if (!text_number(text, n, DIBS_PORT_MAX - (port->is_contiguous ? port->count - 1 : 0), &number) ||
            number == 0)
            return false;
        out[i] = (uint16_t) number;
        text += n + (text[n] == ',');
    }
    return !*text;
}

/* Return the first number of a reference's value, which may have several; 0: it has none. */
static uint16_t first_number(const char *text)
{
    uint64_t number = 0;

    return text && !text[strspn(text, "0123456789,")] &&
                   text_number(text, strcspn(text, ","), DIBS_PORT_MAX, &number)
               ? (uint16_t) number
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

static bool is_of_rbg(const struct identity *who, const struct port_request *request)
{
    for (size_t i = 0; i < request->config->n_ports; i++)
        if (request->config->ports[i].count > 1) /* RBG knows single ports only */
            return false;
    return strcmp(request->key, WORKLOAD_KEY_RBG) == 0 && is_of_instance(who);
}

/* Read the numbers of all ports. False: a port has none. */
static bool read_ports(const jsonr_value *pod, struct port_request *request, uint16_t *required)
{
    const struct workload_component *config = request->config;

    for (size_t i = 0; i < config->n_ports; i++) {
        if (!read_numbers(pod, &config->ports[i], required))
            return false;
        if (config->ports[i].mode == DIBS_REQUIRED)
            *required = config->ports[i].port;
        required += config->ports[i].count;
    }
    return true;
}

void adopt_numbers(const jsonr_value *pod, const struct identity *who, struct port_request *request)
{
    const struct workload_component *config = request->config;
    bool is_injected = port_request_annotation(pod, IDENTITY_KEY_INJECTED) != NULL;

    if ((!is_injected && !is_of_rbg(who, request)) || port_request_annotation(pod, IDENTITY_KEY_ASSIGNED))
        return;
    uint16_t *required = workload_take(request->group, (port_request_count(request) + 1) * sizeof *required);
    uint16_t *given = workload_take(request->group, (config->n_references + 1) * sizeof *given);
    /* The webhook chooses again and replaces the numbers that it does not adopt. */
    if (!given || !required || !read_ports(pod, request, required))
        return;
    for (size_t i = 0; i < config->n_references; i++) {
        bool is_own = is_injected || is_of_own_role(request, who, i);

        given[i] = is_own ? first_number(value_in(pod, config->references[i].env)) : 0;
        if (is_own && !given[i] && !is_injected)
            return;
    }
    for (size_t i = 0; i < config->n_ports; i++) {
        config->ports[i].port = required[0];
        config->ports[i].mode = DIBS_REQUIRED;
        required += config->ports[i].count;
    }
    request->given = given;
    request->required = required - port_request_count(request);
    request->is_injected = is_injected;
}

dibs_status adopt_explain(const struct port_request *request, dibs_status s, dibs_err *err)
{
    const char *remedy[2][2] = {
        { "RBG's --start-port and --port-range must be those of the pool",
          "delete its RoleInstance, and RBG draws others" },
        { "give `dibs kube inject` the ports of the pool by --range, or remove " IDENTITY_KEY_INJECTED,
          "`dibs kube inject --release FILE` ends its own claims of them, or remove " IDENTITY_KEY_INJECTED },
    };

    return err_wrap(err, s, "%s has given this pod its ports, and dibs claims exactly these (%s)",
                    request->is_injected ? "`dibs kube inject`" : "RBG's allocator",
                    remedy[request->is_injected][s == DIBS_TAKEN]);
}
