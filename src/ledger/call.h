/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_CALL_H
#define DIBS_LEDGER_CALL_H
/* The call context: caller, time, deadline and transaction, passed to every function that needs it. */
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "dibs/dibs.h"

struct ledger_tx;

/* How many claims a user has, and may have. Each decision for the user updates `n`. */
struct ledger_allowance {
    uint32_t n, max;
};

/* All pointers are borrowed for the duration of the call. */
struct call {
    /* The caller. */
    const char *principal; /* its rights and its claims: "uid:1000" */
    uint32_t uid;
    int32_t pid;    /* in our pid namespace; 0: unknown, it cannot be a holder */
    uint64_t netns; /* its network namespace; 0: ours */
    bool is_admin;  /* may end claims of others */
    bool is_guest;  /* the ledger belongs to another user: the caller cannot change pools */
    /* The ports are used on other hosts: ignore this host's sockets, ranges and lack of IPv6. */
    bool is_elsewhere;
    struct ledger_allowance *allowance; /* beyond it: EXHAUSTED, nothing changed; NULL: no limit */
    const dibs_settings *settings;

    struct instant now;   /* recorded with every event */
    int64_t deadline_ms;  /* CLOCK_MONOTONIC; 0: each transaction has the ledger's timeout */
    struct ledger_tx *tx; /* shared with other calls; NULL: each decision is its own transaction */
};
#endif
