/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_CALL_H
#define DIBS_LEDGER_CALL_H
/* The call context: who asks, when, until when, and in which transaction. Every function of core and ledger
 * that needs one of these gets it as an argument; nothing is set on a handle for what follows. */
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "dibs/dibs.h"

struct ledger_tx;

/* How many claims a user has, and may have. Each decision that is made for the user updates `n`. */
struct ledger_allowance {
    uint32_t n, max;
};

/* All pointers are borrowed for as long as the call lasts. */
struct call {
    /* Who asks. */
    const char *principal; /* whose rights are used: "uid:1000" */
    uint32_t uid;
    int32_t pid;    /* in our pid namespace; 0: unknown, so that it cannot be a holder */
    uint64_t netns; /* its network namespace; 0: ours */
    bool is_admin;  /* may end what belongs to others */
    bool is_guest;  /* the ledger is another user's: its pools cannot be changed */
    /* The ports are used on other hosts: this host's sockets, ranges and lack of IPv6 do not matter. */
    bool is_elsewhere;
    struct ledger_allowance *allowance; /* EXHAUSTED, with nothing changed, beyond it; NULL: any number */
    const dibs_settings *settings;

    struct instant now;   /* recorded with every event */
    int64_t deadline_ms;  /* CLOCK_MONOTONIC; 0: each transaction has the timeout of the ledger */
    struct ledger_tx *tx; /* shared with other calls; NULL: each decision is a transaction of its own */
};
#endif
