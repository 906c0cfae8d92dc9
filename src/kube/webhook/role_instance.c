/* SPDX-License-Identifier: MIT */
#include "kube/webhook/role_instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"

#include "base/banned.h"

enum { KEY_MAX_BYTES = WORKLOAD_ADDRESS_MAX + DIBS_NAME_PART_MAX + 2 };

struct reading {
    const struct review *review;
    struct role_instance *out;
    struct port_request *request;
    struct review_warnings *warnings;
    size_t n;     /* numbers so far */
    bool is_left; /* the instance is left as it is */
    dibs_err *err;
};

void role_instance_done(struct role_instance *instance)
{
    free(instance->ports);
    free(instance->whos);
    free(instance->aliases);
    *instance = (struct role_instance){ 0 };
}

static dibs_status no_memory(dibs_err *err)
{
    return err_set(err, DIBS_FAILURE, "reading a RoleInstance: out of memory");
}

/* ---- reading ---- */

/* Leave an instance that cannot have its annotations: pods that reach the webhook get their ports there. */
static void leave(struct reading *r, const char *why, const char *key)
{
    if (!r->is_left)
        review_warn(r->warnings, "the RoleInstance gets no numbers for RBG: %s%.80s", why, key);
    r->is_left = true;
}

/* Compare the annotation with the instance's and its former one. *missing: it is to be written. */
static dibs_status look_at(struct reading *r, const char *key, bool *missing)
{
    const char *was = port_request_annotation(r->review->old, key);
    const char *is = port_request_annotation(r->review->object, key);

    if (!workload_is_annotation_key(key))
        leave(r, "Kubernetes allows no annotation as long as ", key);
    if (was && is && strcmp(was, is) != 0)
        return err_set(r->err, DIBS_INVALID,
                       "metadata.annotations[%.200s] cannot be changed: pods of the instance may have %.16s",
                       key, was);
    *missing = !was || !is;
    return DIBS_OK;
}

static dibs_status add_alias(struct reading *r, const char *key, size_t port)
{
    struct role_instance *out = r->out;

    if (!key || !grow((void **) &out->aliases, out->n_aliases, &out->max_aliases, sizeof *out->aliases))
        return no_memory(r->err);
    out->aliases[out->n_aliases++] = (struct role_instance_alias){ key, port };
    return DIBS_OK;
}

/* Add the port; a number that the instance has already is preferred. */
static dibs_status add_port(struct reading *r, const struct workload_port *port, const struct identity *who,
                            const char *key)
{
    struct role_instance *out = r->out;
    struct workload_port copy = *port;
    uint16_t has =
        port->count == 1 ? port_request_number(port_request_annotation(r->review->object, key)) : 0;

    if (port->mode == DIBS_REQUIRED && port->scope != WORKLOAD_ROLE_SCOPED && who->component_id > 0)
        return err_set(r->err, DIBS_INVALID,
                       "allocations '%s': port %u cannot be that of several pods; choose 'prefer', or the "
                       "scope RoleScoped",
                       port->name, port->port);
    r->n += port->count;
    if (r->n > PORT_REQUEST_PORTS_MAX) {
        leave(r, "too many ports", "");
        return DIBS_OK;
    }
    copy.name = workload_text(r->request->group, port->name);
    copy.env = copy.name; /* not used: an instance has no variables */
    copy.annotation = workload_text(r->request->group, key);
    if (has && copy.mode == DIBS_RANDOM) {
        copy.mode = DIBS_PREFERRED;
        copy.port = has;
    }
    if (!copy.name || !copy.annotation ||
        !grow((void **) &out->whos, out->n_ports, &out->max_whos, sizeof *out->whos) ||
        !grow((void **) &out->ports, out->n_ports, &out->max_ports, sizeof *out->ports))
        return no_memory(r->err);
    out->whos[out->n_ports] = *who;
    out->ports[out->n_ports++] = copy;
    return DIBS_OK;
}

/* Read one port of one pod. A RoleScoped port belongs to all, and is read with the first. */
static dibs_status read_port(struct reading *r, const struct workload_port *port, const struct identity *who,
                             const char *pod, const char *component)
{
    bool is_shared = port->scope == WORKLOAD_ROLE_SCOPED;
    char own[KEY_MAX_BYTES];
    char key[KEY_MAX_BYTES];
    bool is_missing = false;

    if (is_shared && who->component_id > 0)
        return DIBS_OK;
    (void) snprintf(own, sizeof own, "%s.%s", pod, port->name);
    (void) snprintf(key, sizeof key, "%s.%s", is_shared ? component : pod, port->name);
    dibs_status s = look_at(r, own, &is_missing);
    if (s == DIBS_OK)
        s = look_at(r, key, &is_missing);
    if (s != DIBS_OK || r->is_left || !is_missing)
        return s;
    size_t at = r->out->n_ports;
    s = add_port(r, port, who, key);
    return s == DIBS_OK && is_shared && !r->is_left ? add_alias(r, workload_text(r->request->group, own), at)
                                                    : s;
}

/* Return how many pods of a component have to be read: of shared ports only the first. */
static int64_t pods_to_read(const struct workload_component *config, int64_t size)
{
    for (size_t i = 0; config && i < config->n_ports; i++)
        if (config->ports[i].scope != WORKLOAD_ROLE_SCOPED)
            return size;
    return size > 1 ? 1 : size;
}

static dibs_status read_component(struct reading *r, size_t i)
{
    const jsonr_value *component = jsonr_array_at(jsonr_at(r->review->object, "spec.components"), i);
    struct identity_component of = { r->review->object, component, r->review->ns, 0 };
    struct port_request asks = { 0 };
    char where[64];
    int64_t size = 1; /* RBG's default */

    (void) jsonr_get_int(component, "size", &size);
    (void) snprintf(where, sizeof where, "spec.components[%zu].template.", i);
    dibs_status s = port_request_read(jsonr_get(component, "template"), where, &asks, r->err);
    size = pods_to_read(asks.config, size);
    for (; asks.config && asks.config->n_ports > 0 && of.id < size && s == DIBS_OK && !r->is_left; of.id++) {
        char pod[WORKLOAD_ADDRESS_MAX];
        struct identity who = { 0 };

        if (!identity_of_component(&of, &who, pod))
            break;
        for (size_t p = 0; p < asks.config->n_ports && s == DIBS_OK; p++)
            s = read_port(r, &asks.config->ports[p], &who, pod, jsonr_text_at(component, "name"));
    }
    port_request_done(&asks);
    return s;
}

dibs_status role_instance_read(const struct review *review, struct role_instance *out,
                               struct port_request *request, struct review_warnings *warnings, dibs_err *err)
{
    struct reading r = { .review = review, .out = out, .request = request, .warnings = warnings, .err = err };
    size_t n = jsonr_array_size(jsonr_at(review->object, "spec.components"));
    dibs_status s = DIBS_OK;

    *request = (struct port_request){ .group = workload_new(), .key = WORKLOAD_KEY_RBG };
    struct workload_component *config = request->group ? workload_take(request->group, sizeof *config) : NULL;
    if (!config)
        return no_memory(err);
    for (size_t i = 0; i < n && s == DIBS_OK; i++)
        s = read_component(&r, i);
    *config = (struct workload_component){ .size = 1,
                                           .ports = out->ports,
                                           .n_ports = r.is_left ? 0 : out->n_ports };
    request->config = config;
    return s;
}

/* ---- claiming ---- */

/* Return whether the port's number is what the instance says, not what the request prefers. */
static bool is_of_rbg(const struct allocation *allocation, const struct workload_port *port)
{
    return port->port && port->count == 1 &&
           port_request_number(port_request_annotation(allocation->pod, port->annotation)) == port->port;
}

/* A number of RBG that is outside of the pool cannot be preferred. */
static dibs_status drop_outside(dibs *handle, const struct role_instance *instance,
                                const struct allocation *allocation, dibs_err *err)
{
    dibs_pool pool = { 0 };
    dibs_status s = dibs_pool_get(handle, allocation->pool, &pool, err);

    for (size_t i = 0; i < instance->n_ports && s == DIBS_OK; i++) {
        struct workload_port *port = &instance->ports[i];

        if (port->mode == DIBS_PREFERRED && is_of_rbg(allocation, port) &&
            !dibs_ranges_contain(&pool.ranges, port->port))
            port->mode = DIBS_RANDOM;
    }
    return s;
}

dibs_status role_instance_claim(dibs *handle, const struct role_instance *instance,
                                struct allocation *allocation, struct pod_edit *out, dibs_err *err)
{
    dibs_status s = drop_outside(handle, instance, allocation, err);

    allocation->whos = instance->whos;
    if (s == DIBS_OK)
        s = allocation_make(handle, allocation, out, err);
    if (s != DIBS_OK)
        return s;
    /* The edit has one annotation for each port, in order. */
    for (size_t i = 0; i < instance->n_ports; i++) {
        const struct workload_port *port = &instance->ports[i];
        const char *value = out->annotations[i].value;

        if (is_of_rbg(allocation, port) && port_request_number(value) != port->port)
            review_warn(allocation->warnings, "%.120s: port %u cannot be had; its pods get %.16s",
                        port->annotation, port->port, value);
    }
    for (size_t i = 0; i < instance->n_aliases && !out->is_lost; i++)
        pod_edit_annotation(out, instance->aliases[i].key, out->annotations[instance->aliases[i].port].value);
    return out->is_lost ? no_memory(err) : DIBS_OK;
}
