/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_ENGINE_H
#define DIBS_DAEMON_ENGINE_H
/* The ledger's side of the daemon: jobs are committed in groups (server/group_commit.h); claims of dead
 * holders and ended leases are reaped; changes that other processes make in the ledger are followed through
 * its events; upkeep. Each in bounded steps. */
#include "base/loop.h"
#include "core/core.h"
#include "dibs/dibs.h"
#include "net/portbits.h"
#include "server/group_commit.h"

struct engine;
struct watch;

struct engine_options {
    struct loop *loop;
    const dibs_settings *settings; /* copied */
    size_t pidfds;                 /* at most; 0: as the limit of descriptors allows */
    int64_t node_ttl_ms;           /* of the lease of this host, where it shares a ledger; 0: it has none */
    /* Optional: called for every change, in order, after it is durable. `pool` is that of its claim, "" for a
     * port outside of every pool; NULL: it is not known. `change` is 1 for a new claim, -1 for its end. */
    void (*changed)(void *ctx, const dibs_event *event, const char *pool, int change);
    /* Optional: called when changes were missed, or the ledger is another one, and all claims were read
     * again. Not OK: this is repeated later. */
    dibs_status (*reset)(void *ctx, dibs_err *err);
    void *ctx;
};

/* Open the ledger, load the index and begin to watch all holders. UNAVAILABLE as dibs_open(), but never
 * degraded. */
dibs_status engine_open(const struct engine_options *options, struct engine **out, dibs_err *err);
void engine_close(struct engine *engine); /* NULL is fine; queued jobs are answered UNAVAILABLE */

/* Use other settings from now on; those of the ledger itself stay. INVALID: they name another ledger. */
dibs_status engine_can_reconfigure(const struct engine *engine, const dibs_settings *settings, dibs_err *err);
void engine_reconfigure(struct engine *engine, const dibs_settings *settings);

/* For group_commit_queue() and the state of the ledger. */
struct group_commit *engine_group(const struct engine *engine);
/* Do everything that is queued or due; the loop calls it once a turn. */
void engine_turn(struct engine *engine);
/* How long the loop may wait; below 0: for ever. */
int64_t engine_next_ms(const struct engine *engine);

dibs *engine_handle(const struct engine *engine);
struct core *engine_core(const struct engine *engine);
struct ledger *engine_ledger(const struct engine *engine);
/* A call of the daemon itself. */
struct call engine_call(const struct engine *engine);
struct watch *engine_watch(const struct engine *engine); /* of all holders */
/* The ports that some claim of this host has, by the kind of the claim. */
void engine_ports(struct engine *engine, struct portbits out[DIBS_STATIC + 1]);
/* The number of the newest event that was passed on. */
uint64_t engine_seq(const struct engine *engine);

struct engine_counts {
    uint64_t reaped;               /* claims whose holder was found dead */
    uint64_t damaged;              /* records that upkeep found damaged */
    size_t claims;                 /* of this host */
    size_t lingering;              /* dead holders whose socket is still bound, or that cannot be judged */
    size_t by_pidfd, in_turn, far; /* processes watched */
};
const struct engine_counts *engine_count(struct engine *engine);
#endif
