/* SPDX-License-Identifier: MIT */
#include "server/group_commit.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/err.h"
#include "lib/connection.h"
#include "server/log.h"

#include "base/banned.h"

enum {
    ALONE_SHARE = 9,      /* pause after a job that runs alone, in multiples of its duration */
    ALONE_REST_MS = 5000, /* longest such pause */
    FAILURE_MS = 5000,    /* time after a failed write during which the process is not ready */
    LOG_MS = 1000,        /* interval between log lines about failures */
};

STAILQ_HEAD(job_queue, job);

struct group_commit {
    struct group_commit_options options;
    struct ledger *ledger;
    struct job_queue queue;
    size_t n_queued;        /* jobs in `queue` */
    struct job_queue alone; /* jobs that run alone, one at a time */
    int64_t alone_ms;       /* when the next of these may run */
    bool is_shared;         /* other hosts write to the ledger, too */
    size_t last_group;      /* jobs in the last commit */
    size_t n_gathered;      /* jobs that have arrived for the next one */
    int64_t gathered_us;    /* when the last of them arrived */
    int64_t rests_until_us; /* when the next commit may begin */
    dibs_err failure;       /* error of the last attempt to change the ledger; code OK: none */
    int64_t failure_ms;     /* when it failed */
    bool is_failure_logged;
    int64_t log_ms; /* earliest time of the next log line about it */
    struct group_commit_counts counts;
};

void group_commit_queue(struct group_commit *g, struct job *job)
{
    if (job->is_alone) {
        STAILQ_INSERT_TAIL(&g->alone, job, link);
        return;
    }
    STAILQ_INSERT_TAIL(&g->queue, job, link);
    g->n_queued++;
}

static struct job *take_job(struct job_queue *queue)
{
    struct job *job = STAILQ_FIRST(queue);

    if (job)
        STAILQ_REMOVE_HEAD(queue, link);
    return job;
}

bool group_commit_is_idle(const struct group_commit *g)
{
    return STAILQ_EMPTY(&g->queue) && STAILQ_EMPTY(&g->alone);
}

static void finish(struct job *const *jobs, size_t n, const dibs_err *err)
{
    for (size_t i = 0; i < n; i++)
        jobs[i]->done(jobs[i], err);
}

/* ---- commit ---- */

static void count_commit(struct group_commit_counts *counts, size_t n)
{
    size_t i = 0;

    while (i + 1 < GROUP_COMMIT_SIZES && (size_t) 1 << i < n)
        i++;
    counts->by_jobs[i]++;
    counts->commits++;
    counts->jobs += n;
}

static void begin(struct group_commit *g, struct job *const *jobs, size_t n)
{
    if (g->options.begin)
        g->options.begin(g->options.ctx);
    for (size_t i = 0; i < n; i++)
        if (jobs[i]->needs_fresh) {
            ledger_revalidate(g->ledger);
            break;
        }
}

/* Return the call of a job in a shared transaction. */
static struct call call_of(const struct group_commit *g, const struct job *job, struct ledger_tx *tx)
{
    struct call call = job->call.principal ? job->call : g->options.handle->call;

    call.now = core_now(handle_core(g->options.handle));
    call.deadline_ms = clock_monotonic_ms() + g->options.handle->to->settings.timeout_ms;
    call.tx = tx;
    return call;
}

static void work(struct group_commit *g, struct job *const *jobs, size_t n, struct ledger_tx *tx)
{
    for (size_t i = 0; i < n; i++) {
        struct call call = call_of(g, jobs[i], tx);

        if (i == 0 && g->options.begins_at_once)
            ledger_tx_open(tx, &call);
        dibs handle = handle_with(g->options.handle, &call);
        jobs[i]->work(jobs[i], &handle);
    }
}

/* Run a job that is alone: it makes its own transactions, with the ledger's own retries. */
static void work_alone(struct group_commit *g, struct job *job)
{
    dibs handle = handle_with(g->options.handle, &job->call);

    job->work(job, &handle);
}

/* Do the jobs in one transaction. Return false when nothing was committed. */
static bool try_group(struct group_commit *g, struct job *const *jobs, size_t n, bool is_synced,
                      dibs_err *err)
{
    struct ledger_span span = { 0 };
    bool is_alone = jobs[0]->is_alone;

    begin(g, jobs, n);
    if (is_alone) {
        work_alone(g, jobs[0]);
    } else {
        struct ledger_tx *tx = ledger_begin(g->ledger, is_synced);

        work(g, jobs, n, tx);
        if (ledger_commit(tx, &span, err) != DIBS_OK) {
            core_index_forget(handle_core(g->options.handle)); /* it has claims that do not exist */
            return false;
        }
    }
    count_commit(&g->counts, n);
    if (span.why.code != DIBS_OK)
        group_commit_note_failure(g, &span.why);
    else if (span.after > span.before)
        group_commit_note_success(g);
    if (g->options.committed)
        g->options.committed(g->options.ctx, is_alone ? NULL : &span);
    return true;
}

/* Retry a group while the only reason for the failure is a conflict, or a sync that was not requested. */
static bool retry_group(struct group_commit *g, struct job *const *jobs, size_t n, int64_t until_ms,
                        dibs_err *err)
{
    const struct call together = { .deadline_ms = until_ms };
    unsigned n_tries = 0;
    bool is_synced = false;
    bool lacked_sync = false;

    for (size_t i = 0; i < n; i++)
        is_synced = is_synced || jobs[i]->is_kept;
    do {
        if (try_group(g, jobs, n, is_synced, err))
            return true;
        lacked_sync = !is_synced && ledger_lacked_sync(g->ledger);
        is_synced = is_synced || lacked_sync;
        g->counts.conflicts += ledger_lost_race(g->ledger);
    } while (lacked_sync || ledger_try_again(g->ledger, &together, n, &n_tries));
    return false;
}

static void commit_group(struct group_commit *g, struct job *const *jobs, size_t n, int64_t until_ms)
{
    dibs_err err = { 0 };

    if (retry_group(g, jobs, n, until_ms, &err)) {
        bool is_certain = !g->options.confirm || g->options.confirm(g->options.ctx, &err) == DIBS_OK;

        finish(jobs, n, is_certain ? NULL : &err);
        return;
    }
    if (n == 1 || ledger_was_unreachable(g->ledger) || clock_monotonic_ms() >= until_ms) {
        g->counts.failed += n;
        group_commit_note_failure(g, &err);
        finish(jobs, n, &err);
        return;
    }
    g->counts.splits++;
    commit_group(g, jobs, n / 2, until_ms);
    commit_group(g, jobs + n / 2, n - n / 2, until_ms);
}

/* From a commit without sync to one that waited for another process's transaction. */
metric_bounds group_commit_us = { 250, 1000, 4000, 16000, 64000, 256000, 1000000 };

static void run_group(struct group_commit *g, struct job *const *jobs, size_t n)
{
    int64_t began_us = clock_monotonic_us();

    commit_group(g, jobs, n, began_us / 1000 + g->options.handle->to->settings.timeout_ms);
    metric_observe(&g->counts.duration, &group_commit_us, clock_monotonic_us() - began_us);
}

/* ---- scheduling ---- */

/* Wait shortly for more jobs: a commit to a shared ledger takes as long for few jobs as for many, and
 * clients that were answered together ask again together. */
static bool is_gathering(struct group_commit *g)
{
    size_t n = g->n_queued;

    if (!g->is_shared || g->options.gather_ms == 0 || n == 0 || n >= g->last_group) {
        g->n_gathered = 0;
        return false;
    }
    int64_t now_us = clock_monotonic_us();
    if (n > g->n_gathered)
        g->gathered_us = now_us;
    g->n_gathered = n;
    if (now_us - g->gathered_us < 1000 * g->options.gather_ms)
        return true;
    g->n_gathered = 0;
    return false;
}

/* Pause half as long as the commit took: a busy ledger gets fewer and larger commits. */
static void pause_commits(struct group_commit *g, int64_t began_us)
{
    int64_t now_us = clock_monotonic_us();
    int64_t half_us = (now_us - began_us) / 2;

    if (g->is_shared)
        g->rests_until_us = now_us + (half_us < g->options.rest_max_us ? half_us : g->options.rest_max_us);
}

/* Fail a job whose deadline has passed. */
static bool is_late(struct job *job)
{
    dibs_err err = { 0 };

    if (job->deadline_ms == 0 || clock_monotonic_ms() < job->deadline_ms)
        return false;
    (void) err_trouble(&err, DIBS_TROUBLE_NONE, "too many requests are waiting; ask again");
    job->done(job, &err);
    return true;
}

static void run_queue(struct group_commit *g)
{
    struct job *jobs[GROUP_COMMIT_JOBS_MAX];
    int64_t began_us = clock_monotonic_us();
    uint64_t weight = 0;
    size_t n = 0;

    if (began_us < g->rests_until_us || is_gathering(g))
        return;
    /* Jobs that these jobs queue wait for the next turn. */
    while (n < g->options.max_jobs && !STAILQ_EMPTY(&g->queue)) {
        uint32_t more = STAILQ_FIRST(&g->queue)->weight;

        more = more ? more : 1;

        if (n > 0 && weight + more > g->options.max_weight)
            break;
        struct job *job = take_job(&g->queue);
        g->n_queued--;
        if (is_late(job))
            continue;
        weight += more;
        jobs[n++] = job;
    }
    if (n == 0)
        return;
    g->last_group = n;
    run_group(g, jobs, n);
    pause_commits(g, began_us);
}

/* Run one job alone, then pause: a long job makes all others wait, so they get most of the time. */
static void run_alone(struct group_commit *g)
{
    int64_t began_ms = clock_monotonic_ms();
    struct job *job = began_ms >= g->alone_ms ? take_job(&g->alone) : NULL;

    if (!job)
        return;
    run_group(g, &job, 1);
    int64_t now_ms = clock_monotonic_ms();
    int64_t rest_ms = ALONE_SHARE * (now_ms - began_ms);
    g->alone_ms = now_ms + (rest_ms < ALONE_REST_MS ? rest_ms : ALONE_REST_MS);
}

/* ---- readiness ---- */

void group_commit_note_failure(struct group_commit *g, const dibs_err *why)
{
    g->failure = *why;
    g->failure_ms = clock_monotonic_ms();
}

void group_commit_note_success(struct group_commit *g)
{
    g->failure.code = DIBS_OK;
}

/* Log the first failure and the first success after it, not each one. */
static void log_change(struct group_commit *g)
{
    bool is_failing = g->failure.code != DIBS_OK;

    if (is_failing == g->is_failure_logged || clock_monotonic_ms() < g->log_ms)
        return;
    if (is_failing)
        LOG(LOG_ERROR, "the ledger cannot be changed", "why", g->failure.msg);
    else
        LOG(LOG_INFO, "the ledger can be changed again");
    g->is_failure_logged = is_failing;
    g->log_ms = clock_monotonic_ms() + LOG_MS;
}

dibs_status group_commit_check(struct group_commit *g, dibs_err *err)
{
    const struct call call = handle_call(g->options.handle);
    uint64_t seq = 0;
    uint64_t cursor = 0;

    /* An old failure does not count: without clients no change would ever show success. */
    if (g->failure.code != DIBS_OK && clock_monotonic_ms() - g->failure_ms < FAILURE_MS) {
        *err = g->failure;
        return err->code;
    }
    dibs_status s = ledger_tail(g->ledger, &call, &seq, &cursor, err);
    return s == DIBS_OK ? ledger_writable(g->ledger, err) : s;
}

void group_commit_turn(struct group_commit *g)
{
    run_queue(g);
    run_alone(g);
    log_change(g);
}

int64_t group_commit_next_ms(const struct group_commit *g)
{
    int64_t rest_us = g->rests_until_us - clock_monotonic_us();
    int64_t at_ms = INT64_MAX;

    if (!STAILQ_EMPTY(&g->queue))
        return rest_us > 0 ? (rest_us + 999) / 1000 : g->n_gathered > 0 ? g->options.gather_ms : 0;
    if (!STAILQ_EMPTY(&g->alone))
        at_ms = g->alone_ms;
    if (g->is_failure_logged != (g->failure.code != DIBS_OK) && g->log_ms < at_ms)
        at_ms = g->log_ms;
    return clock_until_ms(at_ms);
}

/* ---- open and close ---- */

dibs_status group_commit_open(const struct group_commit_options *options, struct group_commit **out,
                              dibs_err *err)
{
    struct group_commit *self = calloc(1, sizeof *self);

    assert(options->max_jobs <= GROUP_COMMIT_JOBS_MAX);
    if (!self)
        return err_set(err, DIBS_FAILURE, "starting: out of memory");
    self->options = *options;
    self->ledger = handle_ledger(options->handle);
    self->is_shared = ledger_is_shared(self->ledger);
    STAILQ_INIT(&self->queue);
    STAILQ_INIT(&self->alone);
    *out = self;
    return DIBS_OK;
}

void group_commit_close(struct group_commit *g)
{
    dibs_err err = { 0 };

    if (!g)
        return;
    (void) err_trouble(&err, DIBS_TROUBLE_NONE, "%s", g->options.is_closed);
    STAILQ_CONCAT(&g->queue, &g->alone);
    for (struct job *job = take_job(&g->queue); job; job = take_job(&g->queue))
        job->done(job, &err);
    free(g);
}

const struct group_commit_counts *group_commit_count(const struct group_commit *g)
{
    return &g->counts;
}
