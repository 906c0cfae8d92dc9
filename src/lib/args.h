/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_ARGS_H
#define DIBS_LIB_ARGS_H
/* Check the arguments of callers first: OK or INVALID. Pointers have been checked before. */
#include "dibs/dibs.h"

dibs_status args_settings(const dibs_settings *settings, dibs_err *err);
dibs_status args_batch(const dibs_batch *batch, dibs_err *err);
dibs_status args_bindings(const dibs_binding *bindings, size_t n, dibs_err *err);
/* 0: any. */
dibs_status args_proto(dibs_proto proto, dibs_err *err);
dibs_status args_repair(const dibs_repair_plan *plan, dibs_err *err);
dibs_status args_snapshot(const dibs_snapshot *snapshot, dibs_err *err);
dibs_status args_hosts(const char *const *hosts, size_t n, dibs_err *err);
/* `flags` must have no bit beside those of `known`. */
dibs_status args_flags(unsigned flags, unsigned known, dibs_err *err);
#endif
