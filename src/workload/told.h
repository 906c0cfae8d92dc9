/* SPDX-License-Identifier: MIT */
#ifndef DIBS_WORKLOAD_TOLD_H
#define DIBS_WORKLOAD_TOLD_H
/* What a pod was told when it was started, against what it would be told now. */
#include "workload/workload.h"

/* Finds what is different between its texts `was` and `now`, of workload_told_text(), and cuts them up.
 * False: nothing is, or, and then `all` stays NULL, `was` is no such text, or another process' or pod's. */
bool told_compare(struct workload_restart *restart);
void told_free(struct workload_restart *restart);
#endif
