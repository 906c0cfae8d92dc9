/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_CONNECTION_H
#define DIBS_LIB_CONNECTION_H
/* The connection behind a handle: a ledger or a daemon. Only lib and server include this file. */
#include "core/core.h"
#include "lib/handle.h"

struct remote;

/* The connection of one process. */
struct connection {
    struct core *core;     /* its ledger is NULL when degraded */
    struct remote *remote; /* the daemon that does it all instead; then there is no core */
    dibs_settings settings;
    dibs_err why_degraded; /* code is DIBS_OK while the ledger is used */
    char principal[DIBS_PRINCIPAL_MAX + 1];
    int pid;              /* whose it is: SQLite's locks and maps do not survive a fork */
    bool is_server;       /* of handle_open(): it does not fork, which is not asked for each call */
    bool is_calling_back; /* a callback of the user may run */
};

/* Of a handle on the ledger itself. */
struct core *handle_core(const dibs *handle);
struct ledger *handle_ledger(const dibs *handle);
#endif
