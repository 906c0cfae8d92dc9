/* SPDX-License-Identifier: MIT */
#include "kube/webhook/port_request.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"

#include "base/banned.h"

const char *port_request_variable(const jsonr_value *pod, const char *env)
{
    const jsonr_value *first = jsonr_array_at(jsonr_at(pod, "spec.containers"), 0);
    const jsonr_value *all = jsonr_get(first, "env");
    const char *value = NULL;

    for (size_t i = 0; i < jsonr_array_size(all); i++) /* Kubernetes uses the last one */
        if (strcmp(jsonr_text_at(jsonr_array_at(all, i), "name"), env) == 0)
            (void) jsonr_get_string(jsonr_array_at(all, i), "value", &value);
    return value;
}

const char *port_request_annotation(const jsonr_value *pod, const char *key)
{
    const char *text = NULL;

    (void) jsonr_get_string(jsonr_at(pod, "metadata.annotations"), key, &text);
    return text;
}

bool port_request_is_mirror(const jsonr_value *pod)
{
    return port_request_annotation(pod, "kubernetes.io/config.mirror") != NULL;
}

uint16_t port_request_number(const char *text)
{
    uint64_t number = 0;

    return text && text_number(text, strlen(text), DIBS_PORT_MAX, &number) ? (uint16_t) number : 0;
}

void port_request_done(struct port_request *request)
{
    workload_free(request->group);
    *request = (struct port_request){ 0 };
}

bool port_request_is_some(const struct port_request *request)
{
    const struct workload_component *config = request->config;

    return config && config->n_ports + config->n_references + request->discovery.n_addresses > 0;
}

void port_request_field(const struct port_request *request, size_t reference,
                        char out[PORT_REQUEST_FIELD_MAX])
{
    if (reference < request->n_written)
        (void) snprintf(out, PORT_REQUEST_FIELD_MAX, "metadata.annotations[%s]: references[%zu].from",
                        request->key, reference);
    else
        (void) snprintf(out, PORT_REQUEST_FIELD_MAX, "metadata.annotations[%s]: portRefs[%zu]",
                        WORKLOAD_KEY_DISCOVERY, reference - request->n_written);
}

size_t port_request_count(const struct port_request *request)
{
    size_t n = 0;

    for (size_t i = 0; request->config && i < request->config->n_ports; i++)
        n += request->config->ports[i].count;
    return n;
}

/* Check the annotation of one pod as a group with one role. References are resolved later. */
static dibs_status check_alone(struct workload_group *group, struct workload_component *config, dibs_err *err)
{
    struct workload_component ports_only = *config;
    struct workload_role role = {
        .name = "pod", .instances = 1, .components = &ports_only, .n_components = 1
    };

    ports_only.n_references = 0;
    ports_only.size = 1;
    group->roles = &role;
    group->n_roles = 1;
    dibs_status s = workload_check(group, err);
    group->roles = NULL;
    group->n_roles = 0;
    return s;
}

/* Return the i-th variable of ports, references and addresses, in this order. */
static const char *env_at(const struct port_request *request, size_t i)
{
    const struct workload_component *config = request->config;

    if (i < config->n_ports)
        return config->ports[i].env;
    i -= config->n_ports;
    return i < config->n_references ? config->references[i].env
                                    : request->discovery.addresses[i - config->n_references].env;
}

static dibs_status check_env(const struct port_request *request, dibs_err *err)
{
    const struct workload_component *config = request->config;
    size_t n = config->n_ports + config->n_references + request->discovery.n_addresses;

    for (size_t i = config->n_ports; i < n; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(env_at(request, i), env_at(request, k)) == 0)
                return i - config->n_ports < request->n_written
                           ? err_set(err, DIBS_INVALID, "references[%zu].env '%s' is there twice in one pod",
                                     i - config->n_ports, env_at(request, i))
                           : err_set(err, DIBS_INVALID, "env '%s' is there twice in one pod",
                                     env_at(request, i));
    return DIBS_OK;
}

static dibs_status check(const struct port_request *request, dibs_err *err)
{
    const struct workload_component *config = request->config;
    dibs_status s = check_env(request, err);

    if (s != DIBS_OK)
        return s;
    for (size_t i = 0; i < config->n_ports; i++) {
        const char *key = config->ports[i].annotation;

        if (key && identity_is_own_key(key))
            return err_set(err, DIBS_INVALID, "allocations[%zu].annotationKey is one that dibs writes itself",
                           i);
    }
    if (port_request_count(request) > PORT_REQUEST_PORTS_MAX)
        return err_set(err, DIBS_INVALID, "allocations: %zu ports are too many: at most %d",
                       port_request_count(request), PORT_REQUEST_PORTS_MAX);
    return DIBS_OK;
}

/* Add the references that RBG's component discovery asks for. */
static dibs_status add_discovered(struct port_request *request, struct workload_component *config,
                                  const char *text, dibs_err *err)
{
    const struct workload_reference like = { 0 };
    dibs_status s = workload_discovery_parse(request->group, like.place, text, &request->discovery, err);

    request->n_written = config->n_references;
    if (s == DIBS_OK && !workload_discovery_add(request->group, &request->discovery, &like, config))
        s = err_set(err, DIBS_FAILURE, "out of memory");
    return s;
}

/* Check for duplicates first, while the index of each entry is known. */
static dibs_status check_twice(const struct workload_component *config, dibs_err *err)
{
    for (size_t i = 1; i < config->n_ports; i++)
        for (size_t k = 0; k < i; k++) {
            const struct workload_port *a = &config->ports[k];
            const struct workload_port *b = &config->ports[i];

            if (strcmp(a->name, b->name) == 0 || strcmp(a->env, b->env) == 0)
                return err_set(err, DIBS_INVALID, "allocations[%zu].%s is that of allocations[%zu]", i,
                               strcmp(a->name, b->name) == 0 ? "name" : "env", k);
        }
    return DIBS_OK;
}

static dibs_status parse(const char *text, const char *discovery, struct port_request *request, dibs_err *err)
{
    struct workload_component *config = workload_take(request->group, sizeof *config);
    dibs_status s = DIBS_OK;

    if (!config)
        return err_set(err, DIBS_FAILURE, "out of memory");
    *config = (struct workload_component){ 0 };
    if (text)
        s = workload_annotation_parse(request->group, request->dialect, text, config, err);
    if (s == DIBS_OK)
        s = check_twice(config, err);
    if (s == DIBS_OK)
        s = check_alone(request->group, config, err);
    if (s == DIBS_OK) {
        s = add_discovered(request, config, discovery, err);
        request->key = s == DIBS_OK ? request->key : WORKLOAD_KEY_DISCOVERY;
    }
    request->config = config;
    return s == DIBS_OK ? check(request, err) : s;
}

dibs_status port_request_read(const jsonr_value *pod, const char *where, struct port_request *out,
                              dibs_err *err)
{
    const char *rbg = port_request_annotation(pod, WORKLOAD_KEY_RBG);
    const char *own = port_request_annotation(pod, WORKLOAD_KEY_OWN);
    const char *discovery = port_request_annotation(pod, WORKLOAD_KEY_DISCOVERY);
    struct port_request request = { .key = own   ? WORKLOAD_KEY_OWN
                                           : rbg ? WORKLOAD_KEY_RBG
                                                 : WORKLOAD_KEY_DISCOVERY,
                                    .dialect = own ? WORKLOAD_OWN : WORKLOAD_RBG };

    *out = (struct port_request){ 0 };
    if (!rbg && !own && !discovery)
        return DIBS_OK;
    if (rbg && own)
        return err_set(err, DIBS_INVALID, "%smetadata.annotations: both %s and %s are given; one is enough",
                       where, WORKLOAD_KEY_RBG, WORKLOAD_KEY_OWN);
    request.group = workload_new();
    dibs_status s = request.group ? parse(own ? own : rbg, discovery, &request, err)
                                  : err_set(err, DIBS_FAILURE, "out of memory");
    if (s == DIBS_OK) {
        *out = request;
        return DIBS_OK;
    }
    const char *key = request.key;
    port_request_done(&request);
    return s == DIBS_INVALID ? err_wrap(err, s, "%smetadata.annotations[%s]", where, key) : s;
}
