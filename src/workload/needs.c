/* SPDX-License-Identifier: MIT */
/* List the claims that a workload, or one pod of it, needs. */
#include <string.h>

#include "base/err.h"
#include "base/grow.h"
#include "workload/workload.h"

#include "base/banned.h"

void workload_needs_free(struct workload_needs *needs)
{
    free(needs->all);
    *needs = (struct workload_needs){ 0 };
}

/* Add every number of one port of one pod. */
static dibs_status add_port(const struct workload_group *group, const struct workload_pod *pod,
                            const struct workload_port *port, bool is_own, struct workload_needs *out,
                            dibs_err *err)
{
    for (uint32_t number = 0; number < port->count; number++) {
        if (!grow((void **) &out->all, out->n, &out->max, sizeof *out->all))
            return err_set(err, DIBS_FAILURE, "workload: out of memory");
        if (out->n == DIBS_BATCH_MAX)
            return err_set(err, DIBS_INVALID, "the group needs more than %d ports", DIBS_BATCH_MAX);
        struct workload_need need = {
            .pod = *pod,
            .port = port,
            .number = number,
            .is_own = is_own && port->scope == WORKLOAD_POD_SCOPED,
        };
        workload_claim_name(group, pod, port, number, need.name);
        out->all[out->n++] = need;
    }
    return DIBS_OK;
}

static dibs_status add_component(const struct workload_group *group, const struct workload_role *role,
                                 const struct workload_component *component, struct workload_needs *out,
                                 dibs_err *err)
{
    struct workload_pod pod = { .role = role, .component = component };
    dibs_status s = DIBS_OK;

    for (size_t p = 0; p < component->n_ports && s == DIBS_OK; p++)
        if (component->ports[p].scope == WORKLOAD_ROLE_SCOPED)
            s = add_port(group, &pod, &component->ports[p], false, out, err);
    for (pod.instance = 0; pod.instance < role->instances; pod.instance++)
        for (pod.id = 0; pod.id < component->size; pod.id++)
            for (size_t p = 0; p < component->n_ports && s == DIBS_OK; p++)
                if (component->ports[p].scope == WORKLOAD_POD_SCOPED)
                    s = add_port(group, &pod, &component->ports[p], false, out, err);
    return s;
}

dibs_status workload_needs_all(const struct workload_group *group, struct workload_needs *out, dibs_err *err)
{
    AUTO(workload_needs_free) struct workload_needs needs = { 0 };
    dibs_status s = DIBS_OK;

    for (size_t r = 0; r < group->n_roles; r++)
        for (size_t c = 0; c < group->roles[r].n_components && s == DIBS_OK; c++)
            s = add_component(group, &group->roles[r], &group->roles[r].components[c], &needs, err);
    if (s == DIBS_OK) {
        *out = needs;
        needs.all = NULL;
    }
    return s;
}

/* Find the pod and port that a reference of `pod` means. */
static dibs_status find_target(const struct workload_group *group, const struct workload_pod *pod,
                               const struct workload_reference *reference, struct workload_pod *out,
                               const struct workload_port **port, dibs_err *err)
{
    if (!reference->role) {
        *out = *pod;
        *port = workload_port(pod->component, reference->port);
        return *port ? DIBS_OK : err_set(err, DIBS_FAILURE, "workload: no port '%s'", reference->port);
    }
    bool is_same_role = strcmp(reference->role, pod->role->name) == 0;

    out->role = workload_role(group, reference->role);
    out->component = out->role ? workload_component(out->role, reference->component) : NULL;
    *port = out->component ? workload_port(out->component, reference->port) : NULL;
    if (!*port)
        return workload_error(group, reference->place, err, "the reference of %s has no target",
                              reference->env ? reference->env : "a variable");
    out->instance = reference->instance >= 0 ? (uint32_t) reference->instance
                    : is_same_role           ? pod->instance
                                             : 0;
    out->id = reference->pod >= 0 ? (uint32_t) reference->pod : 0;
    return DIBS_OK;
}

static bool is_there(const struct workload_needs *needs, const char *name)
{
    for (size_t i = 0; i < needs->n; i++)
        if (strcmp(needs->all[i].name, name) == 0)
            return true;
    return false;
}

/* Add the claims of a reference's target, unless they are there. */
static dibs_status add_target(const struct workload_group *group, const struct workload_pod *pod,
                              const struct workload_reference *reference, struct workload_needs *out,
                              dibs_err *err)
{
    struct workload_pod target = { 0 };
    const struct workload_port *port = NULL;
    char name[DIBS_NAME_MAX + 1];
    dibs_status s = find_target(group, pod, reference, &target, &port, err);

    if (s != DIBS_OK || !port)
        return s;
    workload_claim_name(group, &target, port, 0, name);
    return is_there(out, name) ? DIBS_OK : add_port(group, &target, port, false, out, err);
}

bool workload_has_as(const struct workload_group *group)
{
    for (size_t r = 0; r < group->n_roles; r++)
        for (size_t c = 0; c < group->roles[r].n_components; c++)
            for (size_t p = 0; p < group->roles[r].components[c].n_ports; p++)
                if (group->roles[r].components[c].ports[p].as)
                    return true;
    return false;
}

bool workload_has_proto(const struct workload_port *port, dibs_proto proto)
{
    size_t n = 0;
    const dibs_binding *bindings = workload_bindings(port, &n);

    for (size_t i = 0; i < n; i++)
        if (bindings[i].proto == proto)
            return true;
    return false;
}

/* Add the ports of a component that the pod uses under their `as` numbers: of its own instance in its own
 * role, else of the first one. */
static dibs_status add_as(const struct workload_group *group, const struct workload_pod *pod,
                          const struct workload_role *role, const struct workload_component *component,
                          struct workload_needs *out, dibs_err *err)
{
    struct workload_pod target = { .role = role,
                                   .component = component,
                                   .instance = role == pod->role ? pod->instance : 0 };
    dibs_status s = DIBS_OK;

    for (size_t p = 0; p < component->n_ports && s == DIBS_OK; p++) {
        const struct workload_port *port = &component->ports[p];
        char name[DIBS_NAME_MAX + 1];

        if (!port->as ||
            (port->scope == WORKLOAD_POD_SCOPED && (target.instance >= role->instances || !component->size)))
            continue;
        workload_claim_name(group, &target, port, 0, name);
        if (!is_there(out, name))
            s = add_port(group, &target, port, false, out, err);
    }
    return s;
}

dibs_status workload_needs_of(const struct workload_group *group, const struct workload_pod *pod,
                              struct workload_needs *out, dibs_err *err)
{
    const struct workload_component *component = pod->component;
    AUTO(workload_needs_free) struct workload_needs needs = { 0 };
    dibs_status s = DIBS_OK;

    for (size_t p = 0; p < component->n_ports && s == DIBS_OK; p++)
        s = add_port(group, pod, &component->ports[p], true, &needs, err);
    for (size_t r = 0; r < component->n_references && s == DIBS_OK; r++)
        s = add_target(group, pod, &component->references[r], &needs, err);
    for (size_t v = 0; v < component->n_variables && s == DIBS_OK; v++)
        for (size_t i = 0; i < component->variables[v].n_pieces && s == DIBS_OK; i++)
            if (!component->variables[v].pieces[i].text)
                s = add_target(group, pod, &component->variables[v].pieces[i].to, &needs, err);
    for (size_t r = 0; r < group->n_roles; r++)
        for (size_t c = 0; c < group->roles[r].n_components && s == DIBS_OK; c++)
            if (&group->roles[r].components[c] != component)
                s = add_as(group, pod, &group->roles[r], &group->roles[r].components[c], &needs, err);
    if (s == DIBS_OK) {
        *out = needs;
        needs.all = NULL;
    }
    return s;
}

dibs_request workload_request(const struct workload_group *group, const struct workload_need *need)
{
    const struct workload_port *port = need->port;
    dibs_request request = {
        .name = need->name,
        .project = group->project,
        .pool = group->pool,
        .mode = port->mode,
        .port = port->port,
        .keep = true,
        .is_lookup = true,
        .is_adopted = true,
        .is_reuser = port->is_reuser,
        .as_port = port->as,
        .run = port->is_contiguous && need->number == 0 ? port->count : 0,
        .n_bindings = port->n_bindings,
    };

    memcpy(request.bindings, port->bindings, sizeof request.bindings);
    return request;
}

dibs_status workload_reference_name(const struct workload_group *group, const struct workload_pod *pod,
                                    const struct workload_reference *reference, char out[DIBS_NAME_MAX + 1],
                                    const struct workload_port **port, dibs_err *err)
{
    struct workload_pod target = { 0 };
    dibs_status s = find_target(group, pod, reference, &target, port, err);

    if (s == DIBS_OK)
        workload_claim_name(group, &target, *port, 0, out);
    return s;
}
