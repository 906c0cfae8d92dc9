/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_RESTARTS_H
#define DIBS_WORKLOAD_RESTARTS_H
/* The pods that run without knowing of what a sync changes, or changed before. */
#include "workload/present.h"

struct restarts {
    const struct workload_group *group;
    const struct workload_needs *needs; /* plan->changes[i] is that of needs->all[i] */
    const struct workload_sorted *sorted;
    const struct present *present;
    struct workload_plan *plan;
};
/* Notes them with each change that they are not told of, and in plan->restarts, as far as can be known. */
dibs_status restarts_note(const struct restarts *r, dibs_err *err);
/* One pod more that the change is about: that of a claim which somebody holds. */
void restarts_note_pod(struct workload_change *change, const dibs_claim *held);
#endif
