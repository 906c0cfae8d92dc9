/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_ARGS_H
#define DIBS_LIB_ARGS_H
/* What callers hand in, looked at before anything is done with it. Each answers OK or INVALID; pointers have
 * been checked before. What the rooms below check themselves is left to them. */
#include "dibs/dibs.h"

dibs_status args_settings(const dibs_settings *settings, dibs_err *err);
dibs_status args_batch(const dibs_batch *batch, dibs_err *err);
dibs_status args_which(const dibs_which *which, dibs_err *err);
dibs_status args_filter(const dibs_filter *filter, dibs_err *err);
dibs_status args_question(const dibs_port_question *question, dibs_err *err);
dibs_status args_repair(const dibs_repair_plan *plan, dibs_err *err);
dibs_status args_snapshot(const dibs_snapshot *snapshot, dibs_err *err);
dibs_status args_hosts(const char *const *hosts, size_t n, dibs_err *err);
/* No bit of `flags` but those of `known`. */
dibs_status args_flags(unsigned flags, unsigned known, dibs_err *err);
#endif
