/* SPDX-License-Identifier: MIT */
#include "workload/restarts.h"

#include <string.h>

#include "base/banned.h"

void restarts_note_pod(struct workload_change *change, const dibs_claim *held)
{
    if (change->n_pods++ == 0)
        (void) snprintf(change->pod, sizeof change->pod, "%.*s", (int) present_pod_length(held->name),
                        held->name);
}

/* A pod is told of its own ports, its role's, and those that it refers to. */
static dibs_status note_restart(const struct restarts *r, const struct workload_pod *pod,
                                const dibs_claim *held, dibs_err *err)
{
    AUTO(workload_needs_free) struct workload_needs needs = { 0 };
    dibs_status s = workload_needs_of(r->group, pod, &needs, err);

    for (size_t i = 0; i < needs.n && s == DIBS_OK; i++) {
        size_t at = workload_needs_find(r->needs, r->sorted, needs.all[i].name);
        struct workload_change *change = &r->plan->changes[at];

        if (at == r->needs->n || change->kind == WORKLOAD_KEEP)
            continue;
        if (needs.all[i].is_own && change->claim.holder != DIBS_HELD_BY_NOBODY)
            continue; /* its own again, from before the last move */
        change->needs_restart = true;
        restarts_note_pod(change, held);
    }
    return s;
}

/* Every pod of the instance that runs. */
static dibs_status note_instance(const struct restarts *r, const struct workload_role *role,
                                 uint32_t instance, dibs_err *err)
{
    struct workload_pod pod = { .role = role, .instance = instance };
    dibs_status s = DIBS_OK;

    for (size_t c = 0; c < role->n_components; c++) {
        pod.component = &role->components[c];
        for (pod.id = 0; pod.id < pod.component->size && s == DIBS_OK; pod.id++) {
            char name[DIBS_NAME_MAX + 1];

            workload_sign_name(r->group, &pod, name);
            const dibs_claim *held = present_held(r->present, name, present_pod_length(name) + 1);
            if (held)
                s = note_restart(r, &pod, held, err);
        }
    }
    return s;
}

dibs_status restarts_note(const struct restarts *r, dibs_err *err)
{
    const struct workload_group *group = r->group;
    dibs_status s = DIBS_OK;

    for (size_t i = 0; i < group->n_roles; i++) {
        struct workload_pod first = { .role = &group->roles[i], .component = group->roles[i].components };

        for (; first.instance < first.role->instances && s == DIBS_OK; first.instance++) {
            char name[DIBS_NAME_MAX + 1];

            workload_pod_prefix(group, &first, name);
            size_t len = (size_t) (strrchr(name, '/') + 1 - name);
            if (present_held(r->present, name, len))
                s = note_instance(r, first.role, first.instance, err);
        }
    }
    return s;
}
