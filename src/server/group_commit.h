/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_GROUP_COMMIT_H
#define DIBS_SERVER_GROUP_COMMIT_H
/* The only writer of a long-lived process. Requests are queued as jobs; once per turn all queued jobs share
 * one ledger transaction, each with its own outcome, and are answered when it is durable (INV-2).
 *
 * After a conflict the group is retried as often as ledger_try_again() says. Then, or after another error,
 * the group is split into halves. A group of one job is retried until the timeout of a call. When the store
 * does not answer, or that time is over, all jobs of the group fail. */
#include <sys/queue.h>

#include "core/core.h"
#include "dibs/dibs.h"
#include "server/metric_registry.h"

struct job {
    STAILQ_ENTRY(job) link;
    struct call call;    /* the caller's; borrowed; principal NULL: work() sets it */
    bool is_alone;       /* makes its own transactions, because it needs several or takes long */
    bool is_kept;        /* makes a kept claim, so its group is synced; if not set, the group is retried */
    bool needs_fresh;    /* revalidate the cached copy of the ledger before its group */
    uint32_t weight;     /* number of its claims; 0: one */
    int64_t deadline_ms; /* CLOCK_MONOTONIC; a job still queued then fails; 0: none */
    /* Do the work and keep the answer. Called again from the start for each retry. */
    void (*work)(struct job *self, dibs *handle);
    /* Called when the job is durable (`err` NULL), not done, or uncertain. The callee owns it again. */
    void (*done)(struct job *self, const dibs_err *err);
};

enum { GROUP_COMMIT_JOBS_MAX = 512 };

struct group_commit_options {
    dibs *handle;
    size_t max_jobs;     /* jobs in one commit, up to GROUP_COMMIT_JOBS_MAX */
    uint64_t max_weight; /* weight of one commit, unless a single job has more */
    bool begins_at_once; /* jobs read what their commit depends on (ledger_tx_open()) */
    int64_t gather_ms;   /* on a shared ledger: wait for as many jobs as the last commit had, until so long
                            after the last arrival; 0: do not wait */
    int64_t rest_max_us; /* on a shared ledger: longest pause after a commit, which is half of its duration */
    const char *is_closed; /* error message of jobs still queued at the end */
    /* Optional. Called before each attempt. */
    void (*begin)(void *ctx);
    /* Optional. Called after a commit; `span` is NULL for a job that ran alone. */
    void (*committed)(void *ctx, const struct ledger_span *span);
    /* Optional. Called after `committed`; an error becomes the jobs' answer, though they are committed. */
    dibs_status (*confirm)(void *ctx, dibs_err *err);
    void *ctx;
};

struct group_commit;
dibs_status group_commit_open(const struct group_commit_options *options, struct group_commit **out,
                              dibs_err *err);
void group_commit_close(struct group_commit *g); /* NULL is fine; queued jobs fail */

void group_commit_queue(struct group_commit *g, struct job *job);
/* Run one group, and one of the jobs that run alone; called once per loop turn. */
void group_commit_turn(struct group_commit *g);
/* Return how long the loop may wait; below 0: without limit. */
int64_t group_commit_next_ms(const struct group_commit *g);
bool group_commit_is_idle(const struct group_commit *g); /* nothing is queued */

/* Check readiness: the ledger can be read and written, and no recent write failed. UNAVAILABLE: why not. */
dibs_status group_commit_check(struct group_commit *g, dibs_err *err);
/* Record a failed or a successful change of the ledger. The first of each is logged. */
void group_commit_note_failure(struct group_commit *g, const dibs_err *why);
void group_commit_note_success(struct group_commit *g);

#define GROUP_COMMIT_SIZES 10 /* up to GROUP_COMMIT_JOBS_MAX */
struct group_commit_counts {
    uint64_t commits, jobs;               /* commits, and the jobs in them */
    uint64_t by_jobs[GROUP_COMMIT_SIZES]; /* commits by their number of jobs: up to 1, 2, 4, 8, ... */
    uint64_t conflicts;                   /* attempts that lost to another process's commit */
    uint64_t splits;
    uint64_t failed;                /* jobs whose commit failed */
    struct metric_latency duration; /* of a group, with its retries; bounds: group_commit_us */
};
extern metric_bounds group_commit_us;
const struct group_commit_counts *group_commit_count(const struct group_commit *g);
#endif
