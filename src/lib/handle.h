/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LIB_HANDLE_H
#define DIBS_LIB_HANDLE_H
/* Functions of a handle that servers use beside the public ones. Only lib and server see its members. */
#include "ledger/call.h"

struct connection; /* lib/connection.h */

/* A connection, and for whom it is used. */
struct dibs {
    struct connection *to;
    /* The caller. The time, the deadline and the transaction are set only in a handle of handle_with();
     * otherwise each function begins a call of its own. */
    struct call call;
};

/* Open the ledger itself, whatever ledger it is, without a daemon: with the mode STRICT for a long-lived
 * process, with MRU a handle whose engine has no ledger. */
dibs_status handle_open(const dibs_settings *settings, dibs_ledger_mode mode, dibs **out, dibs_err *err);
/* As dibs_doctor(), for a process that has the ledger open. */
dibs_status handle_doctor(dibs *handle, bool fix, dibs_finding_fn fn, void *ctx, dibs_err *err);

/* The call that a function of this handle makes now. */
struct call handle_call(const dibs *handle);
/* A handle on the same connection whose functions are parts of `call`; borrowed from both, not closed. */
dibs handle_with(const dibs *handle, const struct call *call);
/* A handle that acts as `principal` (borrowed), an administrator whose ports are used on other hosts: nothing
 * is probed, this host's own ranges count. INVALID: a daemon is behind it, or the text is too long. */
dibs_status handle_for(const dibs *handle, const char *principal, dibs *out, dibs_err *err);
/* Record the port that a name of the caller, which has no claim, will try first (INV-7). */
dibs_status handle_remember(const dibs *handle, const char *name, uint16_t port, dibs_err *err);
/* *out is the port that is recorded for the name; 0: none, or the name has a claim. */
dibs_status handle_remembered(const dibs *handle, const char *name, uint16_t *out, dibs_err *err);

/* Use other settings from now on; those of the ledger itself stay. */
void handle_reconfigure(dibs *handle, const dibs_settings *settings);
#endif
