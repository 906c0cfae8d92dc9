/* SPDX-License-Identifier: MIT */
#ifndef DIBS_DAEMON_ENGINE_H
#define DIBS_DAEMON_ENGINE_H
/* The one writer of a daemon. Doors queue jobs; once a turn all that are queued share one ledger transaction,
 * each with its own outcome, and are answered when it is durable (INV-2). Beside that: whose process has died
 * and whose lease has ended loses its claims, changes that others make in the ledger are followed through its
 * events, and upkeep is done, each in bounded steps. */
#include "base/loop.h"
#include "core/core.h"
#include "daemon/held.h"
#include "dibs/dibs.h"

struct engine;
struct watch;

struct job {
    struct job *next;
    struct core_caller caller; /* what it points to lives as long as the job */
    bool is_alone;             /* shares its transaction with nobody: it takes several, or long */
    uint32_t weight;           /* claims that it is about; 0: one */
    /* Does it with the library's verbs and keeps the answer. Called again from the start, alone, when
     * another's failure has spoilt the common transaction. */
    void (*work)(struct job *self, dibs *handle);
    /* What was done is durable (`err` NULL), or nothing was done, or `err` says that nobody can count on it.
     * The job is the callee's to free. */
    void (*done)(struct job *self, const dibs_err *err);
};

struct engine_options {
    struct loop *loop;
    const dibs_settings *settings; /* copied */
    size_t pidfds;                 /* at most; 0: as the limit of descriptors allows */
    int64_t node_ttl_ms;           /* of the lease of this host, where it shares a ledger; 0: it has none */
    /* Optional: every change, in its order, after it is durable. `held` is what is known of its claim: after
     * the change, or before its end; NULL: nothing. */
    void (*changed)(void *ctx, const dibs_event *event, const struct held *held);
    /* Optional: some changes were missed, or the ledger is another one. `was` is all that was known before,
     * engine_held() what is there now. */
    void (*reset)(void *ctx, const struct held_table *was);
    void *ctx;
};

/* Opens the ledger, loads the index and begins to watch all holders. UNAVAILABLE as dibs_open(), but never
 * degraded. */
dibs_status engine_open(const struct engine_options *options, struct engine **out, dibs_err *err);
void engine_close(struct engine *engine); /* NULL is fine; queued jobs are answered UNAVAILABLE */

/* Other settings from now on; those of the ledger itself stay. INVALID: they name another one. */
dibs_status engine_can_reconfigure(const struct engine *engine, const dibs_settings *settings, dibs_err *err);
void engine_reconfigure(struct engine *engine, const dibs_settings *settings);

void engine_queue(struct engine *engine, struct job *job);
/* Once a turn: everything that is queued or due. */
void engine_turn(struct engine *engine);
/* How long the loop may wait; below 0: for ever. */
int64_t engine_next_ms(const struct engine *engine);

/* Can the ledger be read, and did the last attempt to change it succeed, if that was not long ago?
 * UNAVAILABLE: why not. */
dibs_status engine_check(struct engine *engine, dibs_err *err);

dibs *engine_handle(const struct engine *engine);
const struct owner_view *engine_view(const struct engine *engine);
struct watch *engine_watch(const struct engine *engine); /* of all holders */
const struct held_table *engine_held(const struct engine *engine);
/* The number of the newest event that was told. */
uint64_t engine_seq(const struct engine *engine);

#define ENGINE_BATCHES 10 /* up to 512 jobs, which is the most that a group has */
struct engine_counts {
    uint64_t groups, jobs;         /* commits, and the jobs in them */
    uint64_t spoilt;               /* groups that were done again one by one */
    uint64_t failed;               /* commits that failed */
    uint64_t reaped;               /* claims whose holder was found dead */
    uint64_t damaged;              /* records that upkeep set aside */
    size_t lingering;              /* dead holders whose socket is still bound, or that cannot be judged */
    size_t batch[ENGINE_BATCHES];  /* commits by their number of jobs: 1, 2, 4, 8, ... */
    size_t by_pidfd, in_turn, far; /* processes watched */
};
const struct engine_counts *engine_count(struct engine *engine);
#endif
