/* SPDX-License-Identifier: MIT */
/* Does a pod run? Its claims show it, also those that its group has dropped or moved since. */
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "workload/present.h"

#include "base/banned.h"

/* In a directory under any group name: the group may have been renamed since the pod was started. */
static bool is_of(const dibs_claim *claim, const struct workload_group *group, const struct workload_pod *pod)
{
    char name[DIBS_NAME_MAX + 1];

    workload_pod_prefix(group, pod, name);
    size_t ours = group->project ? strcspn(name, "/") : 0;
    size_t theirs = group->project ? strcspn(claim->name, "/") : 0;
    size_t len = strlen(name) - ours;
    return len == present_pod_length(claim->name) - theirs &&
           strncmp(name + ours, claim->name + theirs, len) == 0;
}

static dibs_status refuse(const dibs_claim *claim, dibs_err *err)
{

    (void) err_set(err, DIBS_TAKEN, "it runs already: pid %d (%s) holds '%s' (port %u)%s; wait for its end",
                   claim->process.pid, claim->command[0] ? claim->command : "?", claim->name, claim->port,
                   claim->is_orphan ? ", or a process that inherited its socket ('dibs who' names it)"
                   : claim->life == DIBS_UNKNOWN ? ", and it is unknown whether it is alive"
                                                 : "");
    if (err) {
        err->blocker = (dibs_blocker){ .relation = DIBS_REL_SAME_NAME,
                                       .port = claim->port,
                                       .pid = claim->process.pid,
                                       .uid = claim->uid,
                                       .since_ms = claim->created_ms };
        (void) text_copy(err->blocker.name, sizeof err->blocker.name, claim->name);
        (void) text_copy(err->blocker.command, sizeof err->blocker.command, claim->command);
    }
    return DIBS_TAKEN;
}

dibs_status workload_check_idle(dibs *handle, const struct workload_group *group,
                                const struct workload_pod *const *pods, size_t n, dibs_err *err)
{
    AUTO(present_free) struct present present = { 0 };
    dibs_status s = present_list(handle, group, &present, err);

    for (size_t i = 0; i < present.n && s == DIBS_OK; i++) {
        const dibs_claim *claim = &present.claims[i];

        if (!present_is_run_with(claim))
            continue; /* a user may give the port of a lease to a process */
        for (size_t k = 0; k < n && s == DIBS_OK; k++)
            if (is_of(claim, group, pods[k]))
                s = refuse(claim, err);
    }
    return s;
}
