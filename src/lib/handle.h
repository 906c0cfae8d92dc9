/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_HANDLE_H
#define DIBS_LIB_HANDLE_H
#include "core/core.h"

struct remote;
struct dibs {
    struct core *core;     /* its ledger is NULL when degraded */
    struct remote *remote; /* the daemon that does it all instead; then there is no core */
    dibs_settings settings;
    dibs_err why_degraded; /* code is DIBS_OK while the ledger is used */
    char principal[DIBS_PRINCIPAL_MAX + 1];
    int pid;              /* whose it is: SQLite's locks and maps do not survive a fork */
    bool never_forks;     /* a daemon's: not to be asked for each of its calls */
    bool is_calling_back; /* a callback of the user may run */
};

/* Who we are to the ledger of `settings`; the principal is kept in `principal`. */
dibs_status handle_who(const dibs_settings *settings, char principal[DIBS_PRINCIPAL_MAX + 1],
                       struct core_caller *out, dibs_err *err);
#endif
