/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_LEDGER_OPEN_H
#define DIBS_SERVER_LEDGER_OPEN_H
/* Open the ledger for a server: directly, never degraded, with maintenance in the background. */
#include "core/core.h"

/* An open ledger with the inner parts of its handle, for servers only. */
struct server_ledger {
    dibs *handle;
    struct core *core;     /* the handle's allocation */
    struct ledger *ledger; /* the ledger below it */
};

/* Open the ledger. `timeout_ms` is for each call. In a cluster the process is a node: the host's daemon
 * (`part` NULL), or HOST/PART. `is_check`: only check that it opens, and write nothing. UNAVAILABLE as
 * dibs_open(). Close the handle with dibs_close(). */
dibs_status server_ledger_open(const dibs_settings *settings, int64_t timeout_ms, const char *part,
                               bool is_check, struct server_ledger *out, dibs_err *err);

enum { SERVER_PART_MAX = 24 };
/* Write KIND-PORT, with the port of "ADDRESS:PORT": processes of one host listen on different ports. */
void server_part(const char *kind, const char *address, char out[SERVER_PART_MAX]);
#endif
