/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_HANDLE_H
#define DIBS_LIB_HANDLE_H
/* Functions of a handle for servers, in addition to the public ones. Only lib and server see its members. */
#include "ledger/call.h"

struct connection; /* lib/connection.h */

/* A connection, and the caller it is used for. */
struct dibs {
    struct connection *to;
    /* The caller. Time, deadline and transaction are set only in a handle of handle_with(). */
    struct call call;
};

/* Open the ledger itself, without a daemon; mode MRU: an engine without a ledger. `is_check`: as in struct
 * ledger_options. */
dibs_status handle_open(const dibs_settings *settings, dibs_ledger_mode mode, bool is_check, dibs **out,
                        dibs_err *err);
/* As dibs_doctor(), for a process that has the ledger open. */
dibs_status handle_doctor(dibs *handle, bool fix, dibs_finding_fn fn, void *ctx, dibs_err *err);

/* Return the call context for a function of this handle, starting now. */
struct call handle_call(const dibs *handle);
/* Return a handle on the same connection for functions that are parts of `call`; do not close it. */
dibs handle_with(const dibs *handle, const struct call *call);
/* Make a handle that acts as `principal` (borrowed), an administrator whose ports are used on other hosts:
 * the sockets and ranges of this host are ignored. INVALID: a client of a daemon, or the text is too long. */
dibs_status handle_for(const dibs *handle, const char *principal, dibs *out, dibs_err *err);
/* Record the port that a name of the caller without a claim tries first (INV-7). */
dibs_status handle_remember(const dibs *handle, const char *name, uint16_t port, dibs_err *err);
/* Get the port that is recorded for the name; 0: none, or the name has a claim. */
dibs_status handle_remembered(const dibs *handle, const char *name, uint16_t *out, dibs_err *err);
/* As ledger_fact(). */
struct fact_record;
dibs_status handle_fact(const dibs *handle, struct fact_record *fact, dibs_err *err);
/* Let the caller make claims until it has `max` of them. The allowance is filled, and used by later calls. */
dibs_status handle_allow(dibs *handle, uint32_t max, struct ledger_allowance *allowance, dibs_err *err);

/* Guard the claims of this server with `holds`, which must outlive the handle. */
struct holds;
void handle_guard(dibs *handle, struct holds *holds);

/* Use other settings from now on, except those of the ledger itself. */
void handle_reconfigure(dibs *handle, const dibs_settings *settings);
#endif
