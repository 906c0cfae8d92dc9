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
    char command[DIBS_COMMAND_MAX + 1]; /* of handle_speak_for() */
    int pid;                            /* whose it is: SQLite's locks and maps do not survive a fork */
    bool never_forks;                   /* a daemon's: not to be asked for each of its calls */
    bool is_calling_back;               /* a callback of the user may run */
};

/* Who we are to the ledger of `settings`; the principal is kept in `principal`. */
dibs_status handle_who(const dibs_settings *settings, char principal[DIBS_PRINCIPAL_MAX + 1],
                       struct core_caller *out, dibs_err *err);

/* From now on the handle claims, finds and ends as `principal`, an administrator whose ports are used on
 * other hosts: nothing is probed, and this host's own ranges are not left out. `command` is recorded with
 * each claim. Only of a handle on the ledger itself (INVALID: a daemon is behind it). */
dibs_status handle_speak_for(dibs *handle, const char *principal, const char *command, dibs_err *err);
/* dibs_claim_ports() with a command for each request, after handle_speak_for(). */
dibs_status handle_claim_for(dibs *handle, const dibs_batch *batch, const char *const *commands,
                             dibs_claim *out, dibs_err *err);
#endif
