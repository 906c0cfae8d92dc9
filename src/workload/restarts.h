/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_RESTARTS_H
#define DIBS_WORKLOAD_RESTARTS_H
/* The pods whose processes have outdated variables: because of what a sync changes, or changed before. */
#include "workload/present.h"

struct restarts {
    const struct workload_group *group;
    const struct workload_needs *needs; /* plan->changes[i] is that of needs->all[i] */
    const struct present *present;
    struct workload_plan *plan;
};
/* Note them in each change that they do not know of, and in plan->restarts where their variables are known.
 */
dibs_status restarts_note(const struct restarts *r, dibs_err *err);
/* Add the pod of this held claim to those that the change is about. */
void restarts_note_pod(struct workload_change *change, const dibs_claim *held);
/* Find what differs between its texts `was` and `now`, and cut them up. `all` stays NULL when one of them is
 * no text of workload_env_text(), or without memory (values.c). */
void restart_compare(struct workload_restart *restart);
void restart_free(struct workload_restart *restart);
#endif
