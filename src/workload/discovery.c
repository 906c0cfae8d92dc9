/* SPDX-License-Identifier: MIT */
#include "workload/discovery.h"

#include <stdio.h>
#include <string.h>

#include "base/banned.h"

/* False when it does not fit. */
static bool pod_name(const struct workload_pod_id *pod, char *out, size_t size)
{
    int n = 0;

    switch (pod->type) {
    case WORKLOAD_COMPONENT_PODS:
        n = snprintf(out, size, "%s-%s-%u", pod->instance, pod->component, pod->id);
        break;
    case WORKLOAD_LEADER_WORKER_PODS: {
        bool is_leader = strcmp(pod->component, "leader") == 0;

        n = snprintf(out, size, "%s-%llu", pod->instance, is_leader ? 0 : pod->id + 1ull);
        break;
    }
    case WORKLOAD_STANDALONE_POD: n = snprintf(out, size, "%s", pod->instance); break;
    }
    return n >= 0 && (size_t) n < size;
}

bool workload_discovery_add(struct workload_group *group, const struct workload_discovery *found,
                            const struct workload_reference *like, struct workload_component *component)
{
    size_t n = component->n_references;
    struct workload_reference *all = workload_take(group, (n + found->n_ports + 1) * sizeof *all);

    if (!all)
        return false;
    if (n > 0)
        memcpy(all, component->references, n * sizeof *all);
    for (size_t i = 0; i < found->n_ports; i++, n++) {
        all[n] = *like;
        all[n].env = found->ports[i].env;
        all[n].component = found->ports[i].component;
        all[n].port = found->ports[i].port;
        all[n].instance = -1;
        all[n].pod = (int32_t) found->ports[i].index;
    }
    component->references = all;
    component->n_references = n;
    return true;
}

bool workload_discovery_address(const struct workload_pod_id *pod, const char *service, const char *ns,
                                char out[WORKLOAD_ADDRESS_MAX])
{
    char name[WORKLOAD_ADDRESS_MAX] = "";

    if (!pod_name(pod, name, sizeof name))
        return false;
    int n = snprintf(out, WORKLOAD_ADDRESS_MAX, "%s.%s.%s.svc.cluster.local", name, service, ns);

    return n >= 0 && n < WORKLOAD_ADDRESS_MAX;
}
