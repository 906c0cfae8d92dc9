/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_GROUP_COMMIT_H
#define DIBS_SERVER_GROUP_COMMIT_H
/* The one writer of a long-lived process. Requests are queued as jobs; once a turn all that are queued share
 * one ledger transaction, each with its own outcome, and are answered when it is durable (INV-2).
 *
 * The one rule for a commit that fails: while another process committed first, the group is tried again,
 * as often as ledger_try_again() says; then, or if the commit failed otherwise, each half is a group of its
 * own. A job that is alone in its group is tried until the timeout of a call. When the store does not answer,
 * or that time is over, all jobs of the group fail. */
#include <sys/queue.h>

#include "core/core.h"
#include "dibs/dibs.h"

struct job {
    STAILQ_ENTRY(job) link;
    struct call call;    /* of its caller; principal NULL: work() sets that. Borrowed by the job */
    bool is_alone;       /* shares its transaction with no other job: it takes several, or long */
    bool is_kept;        /* makes a kept claim: its group is synced. Without this it is repeated */
    bool needs_fresh;    /* revalidate the cached copy of the ledger before its group */
    uint32_t weight;     /* claims that it is about; 0: one */
    int64_t deadline_ms; /* CLOCK_MONOTONIC; a job that is still queued then fails; 0: never */
    /* Does it with the library's verbs and keeps the answer. Called again from the start when the commit
     * failed and is retried. */
    void (*work)(struct job *self, dibs *handle);
    /* The job is durable (`err` NULL), or nothing was done, or `err` says that its outcome is uncertain. The
     * job belongs to the callee again. */
    void (*done)(struct job *self, const dibs_err *err);
};

enum { GROUP_COMMIT_JOBS_MAX = 512 };

struct group_commit_options {
    dibs *handle;
    size_t max_jobs;       /* of one commit, up to GROUP_COMMIT_JOBS_MAX */
    uint64_t max_weight;   /* of one commit, unless a single job has more */
    bool begins_at_once;   /* jobs read what their commit must be built on (ledger_tx_open()) */
    int64_t gather_ms;     /* of a ledger that hosts share: wait for as many jobs as shared the last commit,
                              until so long after the last of them came; 0: do not wait */
    int64_t rest_max_us;   /* of such a ledger: rest half as long as the last commit took, up to this */
    const char *is_closed; /* the error of jobs that are queued when the process ends */
    /* Optional. Before a group; not OK: all its jobs fail. */
    dibs_status (*admit)(void *ctx, dibs_err *err);
    /* Optional. Before each try. */
    void (*begin)(void *ctx);
    /* Optional. After a commit; NULL: of a job that was alone. */
    void (*committed)(void *ctx, const struct ledger_span *span);
    /* Optional. After that; not OK: the jobs are answered with this error, though their commit succeeded. */
    dibs_status (*confirm)(void *ctx, dibs_err *err);
    void *ctx;
};

struct group_commit;
dibs_status group_commit_open(const struct group_commit_options *options, struct group_commit **out,
                              dibs_err *err);
void group_commit_close(struct group_commit *g); /* NULL is fine; queued jobs fail */

void group_commit_queue(struct group_commit *g, struct job *job);
/* Once a turn of the loop: one group, and one job of those that are alone. */
void group_commit_turn(struct group_commit *g);
/* How long the loop may wait; below 0: without limit. */
int64_t group_commit_next_ms(const struct group_commit *g);
bool group_commit_is_idle(const struct group_commit *g); /* nothing is queued */

/* Readiness: can the ledger be read, and did the last attempt to change it succeed, if that was not long ago?
 * UNAVAILABLE: why not. */
dibs_status group_commit_check(struct group_commit *g, dibs_err *err);
/* An attempt to change the ledger failed, or a change has been seen. Logged when it changes. */
void group_commit_note_failure(struct group_commit *g, const dibs_err *why);
void group_commit_note_success(struct group_commit *g);

#define GROUP_COMMIT_SIZES 10 /* up to GROUP_COMMIT_JOBS_MAX */
struct group_commit_counts {
    uint64_t commits, jobs;               /* commits, and the jobs in them */
    uint64_t by_jobs[GROUP_COMMIT_SIZES]; /* commits by their number of jobs: up to 1, 2, 4, 8, ... */
    uint64_t conflicts;                   /* tries that another process's commit came before */
    uint64_t splits;                      /* groups that were split */
    uint64_t failed;                      /* jobs whose commit failed */
};
const struct group_commit_counts *group_commit_count(const struct group_commit *g);
#endif
