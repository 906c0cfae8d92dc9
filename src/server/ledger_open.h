/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_LEDGER_OPEN_H
#define DIBS_SERVER_LEDGER_OPEN_H
/* The ledger as a server opens it: itself, never degraded, with its upkeep in the background. */
#include "core/core.h"

/* One open ledger. Servers use the parts as they need them; nobody else looks inside of a handle. */
struct server_ledger {
    dibs *handle;
    struct core *core;     /* the allocation that the handle uses, */
    struct ledger *ledger; /* and the ledger below it */
};

/* `timeout_ms` of a call. In a cluster the process is a node: the host (`part` NULL, its daemon), or
 * HOST/PART. UNAVAILABLE as dibs_open(). Close the handle with dibs_close(). */
dibs_status server_ledger_open(const dibs_settings *settings, int64_t timeout_ms, const char *part,
                               struct server_ledger *out, dibs_err *err);

enum { SERVER_PART_MAX = 24 };
/* KIND-PORT, by the port of "ADDRESS:PORT": processes of one host listen on different ones. */
void server_part(const char *kind, const char *address, char out[SERVER_PART_MAX]);
#endif
