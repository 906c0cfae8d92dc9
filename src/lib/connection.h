/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_CONNECTION_H
#define DIBS_LIB_CONNECTION_H
/* The connection behind a handle: a ledger or a daemon. Only lib and server include this file. */
#include "core/core.h"
#include "lib/handle.h"

struct holds;
struct remote;

struct connection {
    struct core *core;     /* its ledger is NULL when degraded */
    struct remote *remote; /* the daemon's connection, instead of a core */
    struct holds *holds;   /* guards of the claims of this handle; NULL: none yet. A server's are borrowed */
    dibs_settings settings;
    dibs_err why_degraded; /* code is DIBS_OK while the ledger is used */
    char principal[DIBS_PRINCIPAL_MAX + 1];
    int pid;              /* the process that opened it: SQLite's locks and maps do not survive a fork */
    bool is_check;        /* only check that the ledger opens, see struct ledger_options */
    bool is_server;       /* opened by handle_open(): never forks, so calls do not check `pid` */
    bool is_calling_back; /* a callback of the user may run */
};

/* Return the engine of a handle on the ledger itself. */
struct core *handle_core(const dibs *handle);
struct ledger *handle_ledger(const dibs *handle);
#endif
