/* SPDX-License-Identifier: MIT */
#ifndef DIBS_HOLD_HOLDS_H
#define DIBS_HOLD_HOLDS_H
/* The guards of one process, each for a claim. A handle on the ledger has some until it is closed; the daemon
 * has those of all claims of its host, and follows their changes. */
#include "base/hash_table.h"
#include "hold/guard.h"

struct holds_options {
    size_t budget; /* most descriptors; 0: no limit */
    bool is_brief; /* it may end before its claims: no automatic guard, unless a process holds the claim */
};
struct holds;
/* A service manager that keeps guards while this process is restarted. Names no claim: n 0 ends what it has.
 */
typedef void holds_keep_fn(void *ctx, uint64_t claim_id, const int *fds, size_t n);

dibs_status holds_open(const struct holds_options *options, struct holds **out, dibs_err *err);
void holds_close(struct holds *holds); /* NULL is fine */
/* This process enforces claims from now on: `enforce` is its automatic level. */
void holds_enforce(struct holds *holds);
bool holds_enforces(const struct holds *holds);

struct holds_counts {
    size_t bound;   /* claims with a guard */
    size_t waiting; /* claims whose guard could not be bound yet */
};
struct holds_counts holds_count(const struct holds *holds);

/* Choose the level of a request and write it into *hold: AUTO for none. FAILURE: the level that is asked for
 * cannot be had. An automatic one that cannot be had becomes NONE, and `note` says why. */
dibs_status holds_choose(const struct holds *holds, const dibs_request *request, dibs_hold *hold,
                         char note[DIBS_HOLD_NOTE_MAX + 1], dibs_err *err);

/* Guard the claim, if that is its level and it has no guard yet. FAILURE: the budget is used up; else as
 * guard_open(). The guard is dropped by the next holds_settle(), unless holds_follow() confirms its claim. */
dibs_status holds_arm(struct holds *holds, const dibs_claim *claim, dibs_err *err);
/* Guard the claim or not, as its record says now. A guard that cannot be bound is tried again later. */
void holds_follow(struct holds *holds, const dibs_claim *claim);
void holds_end(struct holds *holds, uint64_t claim_id);
/* Has this process a guard on the port? */
bool holds_port(struct holds *holds, uint16_t port);

/* Pass every guard from now on to the manager. */
void holds_keep(struct holds *holds, holds_keep_fn *keep, void *ctx);
/* Take over a socket that the manager has kept, before holds_follow() confirms its claim. */
void holds_adopt(struct holds *holds, uint64_t claim_id, int fd);

/* Begin to read all claims: holds_settle() then drops the guards that holds_follow() has not confirmed. */
void holds_doubt(struct holds *holds);
void holds_settle(struct holds *holds);
/* Try a bounded number of the guards that could not be bound. */
void holds_retry(struct holds *holds, int64_t now_ms);
/* Return when to call it (CLOCK_MONOTONIC); INT64_MAX: no guard waits. */
int64_t holds_retry_ms(const struct holds *holds);

/* Call `fn` with the claim of each guard. It may end it. */
void holds_each(struct holds *holds, void (*fn)(void *ctx, uint64_t claim_id), void *ctx);
#endif
