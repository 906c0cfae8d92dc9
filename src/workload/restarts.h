/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_RESTARTS_H
#define DIBS_WORKLOAD_RESTARTS_H
/* Find the pods whose processes have stale variables, because of this sync or an earlier one. */
#include "workload/present.h"

struct restarts {
    const struct workload_group *group;
    const struct workload_needs *needs; /* needs->all[i] belongs to plan->changes[i] */
    const struct present *present;
    struct workload_plan *plan;
};
/* Add these pods to each change unknown to them, and to plan->restarts if they record variables. */
dibs_status restarts_note(const struct restarts *r, dibs_err *err);
/* Add the pod of this held claim to the change. */
void restarts_note_pod(struct workload_change *change, const dibs_claim *held);
/* Split the texts `was` and `now` and list their differences. `all` stays NULL when either is not a text of
 * workload_env_text(), or without memory (values.c). */
void restart_compare(struct workload_restart *restart);
/* Replace checksums in the differences' `now` by the texts of the pod's values. */
void restart_set_texts(struct workload_restart *restart, const struct workload_group *group,
                       const struct workload_pod *pod, const struct workload_value *values);
void restart_free(struct workload_restart *restart);
#endif
