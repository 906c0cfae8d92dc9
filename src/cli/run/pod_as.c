/* SPDX-License-Identifier: MIT */
/* The `as` numbers of a pod. All pods of a manifest know all of its numbers, and each its own first. */
#include <stdlib.h>

#include "base/err.h"
#include "cli/run/pod.h"

#include "base/banned.h"

/* Does an earlier need have the same number of the same protocol? The pod's own come first. */
static bool is_taken(const struct pod *pod, size_t i)
{
    const struct run_as_port *all = pod->as;

    for (size_t k = 0; k < i; k++)
        if (all[k].inside == all[i].inside &&
            ((all[k].has_tcp && all[i].has_tcp) || (all[k].has_udp && all[i].has_udp)))
            return true;
    return false;
}

dibs_status pod_find_as(struct pod *pod, dibs_err *err)
{
    if (!workload_has_as(pod->group))
        return DIBS_OK;
    pod->as = calloc(pod->needs.n + 1, sizeof *pod->as);
    if (!pod->as)
        return err_set(err, DIBS_FAILURE, "out of memory");
    for (size_t i = 0; i < pod->needs.n; i++) {
        const struct workload_need *need = &pod->needs.all[i];

        pod->as[i] = (struct run_as_port){
            .inside = need->port->as,
            /* A RoleScoped port is that of each pod of its component. */
            .is_own = need->is_own || (need->pod.component == pod->pod.component &&
                                       need->port->scope == WORKLOAD_ROLE_SCOPED),
            .has_tcp = workload_has_proto(need->port, DIBS_TCP),
            .has_udp = workload_has_proto(need->port, DIBS_UDP),
        };
        if (is_taken(pod, i)) /* such as the first instance's, for the second one */
            pod->as[i] = (struct run_as_port){ .inside = 0 };
    }
    return DIBS_OK;
}

void pod_use_as(const struct pod *pod, uint16_t *ports)
{
    for (size_t i = 0; pod->as && i < pod->needs.n; i++)
        if (pod->as[i].inside)
            ports[i] = pod->as[i].inside;
}

dibs_status pods_begin_as(struct cli *cli, const struct pod *pods, size_t n, bool *is_first, dibs_err *err)
{
    bool has_udp = false;
    dibs_status s = DIBS_OK;

    *is_first = false;
    if (!pods[0].as)
        return DIBS_OK;
    for (size_t p = 0; p < n && !s; p++) {
        for (size_t i = 0; i < pods[p].needs.n; i++)
            has_udp = has_udp || (pods[p].as[i].inside && pods[p].as[i].has_udp);
        s = run_as_check(pods[p].argv[0], err);
    }
    return s ? s : run_as_begin(cli, &(struct run_as_options){ .has_udp = has_udp }, is_first, err);
}
