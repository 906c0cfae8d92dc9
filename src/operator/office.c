/* SPDX-License-Identifier: MIT */
#include "operator/office.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "daemon/log.h"
#include "lib/handle.h"
#include "operator/identity.h"

#include "base/banned.h"

enum {
    GROUP_MAX = 64,    /* reviews of one commit, */
    GROUP_WEIGHT = 64, /* ... and ports, unless one review has more: each name is a condition of the commit */
    BEATEN_MAX = 4,    /* attempts of a group where others write, too, before its halves are tried */
    /* Twice this is less than the ten seconds that the API server waits: who comes when a call has just begun
     * waits for it and then for his own. */
    CALL_MS = 3000,
    /* A commit to a ledger far away costs as much for one as for many. So it rests half as long as the last
     * one took, up to this: where commits are quick hardly anybody waits, and a ledger that is busy gets
     * fewer and larger ones. */
    REST_US = 4000,
    /* Pods of one object are created at once, in any order: who comes too early waits so long for the others,
     * and is looked at so often. */
    EARLY_MS = 2000,
    EARLY_LOOK_MS = 50,
    TROUBLE_MS = 3000, /* for which an office that could not claim says so without trying */
};

struct office {
    struct office_options options;
    dibs *handle;
    dibs_pool pool;
    loop_source far; /* the ledger's own notices; fd -1: it has none */
    struct office_job *first, **last;
    struct office_job *early; /* in no order: they are few */
    int64_t rests_until_us;   /* when the next commit may begin (CLOCK_MONOTONIC) */
    struct office_counts counts;
    dibs_err trouble; /* of the last commit; code OK: none */
    int64_t trouble_ms;
    bool is_trouble_told;
    bool is_rebuilt; /* a controller has written all into the ledger that pods have */
};

/* ---- jobs ---- */

static void add(struct office *o, struct office_job *job)
{
    job->next = NULL;
    *o->last = job;
    o->last = &job->next;
}

void office_queue(struct office *office, struct office_job *job)
{
    job->early_ms = clock_monotonic_ms() + EARLY_MS;
    add(office, job);
}

/* Those that have waited for long enough, or all of them. */
static void queue_early(struct office *o, bool is_all)
{
    int64_t now_ms = clock_monotonic_ms();
    struct office_job *left = NULL;
    struct office_job *next = NULL;

    for (struct office_job *job = o->early; job; job = next) {
        next = job->next;
        if (is_all || job->again_ms <= now_ms) {
            add(o, job);
            continue;
        }
        job->next = left;
        left = job;
    }
    o->early = left;
}

static struct office_job *take(struct office *o)
{
    struct office_job *job = o->first;

    if (!job)
        return NULL;
    o->first = job->next;
    if (!o->first)
        o->last = &o->first;
    return job;
}

int64_t office_next_ms(const struct office *office)
{
    int64_t rest_us = office->rests_until_us - clock_monotonic_us();
    int64_t now_ms = clock_monotonic_ms();
    int64_t wait_ms = -1;

    if (office->first)
        return rest_us > 0 ? (rest_us + 999) / 1000 : 0;
    for (const struct office_job *job = office->early; job; job = job->next) {
        int64_t left_ms = job->again_ms > now_ms ? job->again_ms - now_ms : 0;

        wait_ms = wait_ms < 0 || left_ms < wait_ms ? left_ms : wait_ms;
    }
    return wait_ms;
}

static void note_trouble(struct office *o, const dibs_err *why)
{
    o->trouble = *why;
    o->trouble_ms = clock_monotonic_ms();
    if (!o->is_trouble_told)
        LOG(LOG_ERROR, "nothing can be claimed", "why", why->msg);
    o->is_trouble_told = true;
}

static void note_success(struct office *o)
{
    o->trouble.code = DIBS_OK;
    if (o->is_trouble_told)
        LOG(LOG_INFO, "claims can be made again");
    o->is_trouble_told = false;
}

/* Decides them in one transaction; false when nothing of it has come about. */
static bool decide_together(struct office *o, struct office_job *const *jobs, size_t n, dibs_err *err)
{
    struct core *core = o->handle->core;
    struct ledger_span span = { 0 };

    /* What another replica has just claimed for it must be known, or it would be claimed anew. */
    for (size_t i = 0; i < n; i++)
        if (asking_annotation(jobs[i]->admission.review.object, IDENTITY_KEY_CLAIM))
            ledger_doubt(core->ledger);
    ledger_group_begin(core->ledger);
    ledger_group_open(core->ledger); /* where references lead is read */
    for (size_t i = 0; i < n; i++)
        admission_work(&jobs[i]->admission, &o->options.admission, o->handle);
    if (ledger_group_commit(core->ledger, &span, err) != DIBS_OK) {
        core->index.is_loaded = false; /* it has noted what did not happen */
        return false;
    }
    o->counts.commits++;
    o->counts.jobs += n;
    if (span.why.code != DIBS_OK)
        note_trouble(o, &span.why);
    else
        note_success(o);
    return true;
}

/* It was decided, and may be decided otherwise in a moment. */
static bool wait_early(struct office *o, struct office_job *job)
{
    job->again_ms = clock_monotonic_ms() + EARLY_LOOK_MS;
    if (!job->admission.is_early || job->again_ms > job->early_ms || job->again_ms > job->deadline_ms)
        return false;
    job->next = o->early;
    o->early = job;
    return true;
}

static void finish(struct office *o, struct office_job *const *jobs, size_t n, const dibs_err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (!err && wait_early(o, jobs[i]))
            continue;
        if (err)
            admission_fail(&jobs[i]->admission, err);
        o->counts.failed += jobs[i]->admission.status == DIBS_UNAVAILABLE;
        jobs[i]->done(jobs[i]);
    }
}

static dibs_status check_rebuilt(struct office *o, dibs_err *err)
{
    dibs_status s = DIBS_OK;

    if (o->options.needs_rebuilt && !o->is_rebuilt)
        s = operator_check_rebuilt(o->handle, o->pool.name, err);
    o->is_rebuilt = s == DIBS_OK;
    return s;
}

/* The more ports a group has, the likelier is it that somebody else changes what it is built on: one that is
 * beaten again and again is decided by halves, and who is alone tries for as long as there is time. */
static void decide(struct office *o, struct office_job *const *jobs, size_t n, int64_t until_ms)
{
    struct ledger *ledger = o->handle->core->ledger;
    dibs_err err = { 0 };
    bool is_done = decide_together(o, jobs, n, &err);

    for (int i = 0; (i < BEATEN_MAX || n == 1) && !is_done && ledger_was_beaten(ledger) &&
                    clock_monotonic_ms() < until_ms;
         i++) {
        o->counts.beaten++;
        is_done = decide_together(o, jobs, n, &err);
    }
    if (is_done || n == 1 || ledger_was_cut(ledger) || clock_monotonic_ms() >= until_ms) {
        if (!is_done)
            note_trouble(o, &err);
        finish(o, jobs, n, is_done ? NULL : &err);
        return;
    }
    decide(o, jobs, n / 2, until_ms);
    decide(o, jobs + n / 2, n - n / 2, until_ms);
}

static bool is_late(struct office_job *job)
{
    dibs_err err = { 0 };

    if (clock_monotonic_ms() < job->deadline_ms)
        return false;
    (void) err_trouble(&err, DIBS_TROUBLE_NONE, "too many reviews are waiting; ask again");
    admission_fail(&job->admission, &err);
    job->done(job);
    return true;
}

static void rest(struct office *o, int64_t began_us)
{
    int64_t now_us = clock_monotonic_us();
    int64_t half_us = (now_us - began_us) / 2;

    if (o->far.fd >= 0)
        o->rests_until_us = now_us + (half_us < REST_US ? half_us : REST_US);
}

void office_turn(struct office *office)
{
    struct office_job *jobs[GROUP_MAX];
    size_t weight = 0;
    size_t n = 0;
    int64_t began_us = clock_monotonic_us();
    dibs_err err = { 0 };

    queue_early(office, false);
    if (office_next_ms(office) > 0)
        return;
    for (struct office_job *job = office->first; job && n < GROUP_MAX; job = office->first) {
        const struct asking *asking = &job->admission.asking;
        size_t more = asking_count(asking) + asking->config->n_references;

        if (n > 0 && weight + more > GROUP_WEIGHT)
            break;
        (void) take(office);
        if (is_late(job))
            continue;
        weight += more;
        jobs[n++] = job;
    }
    if (n > 0 && check_rebuilt(office, &err) != DIBS_OK)
        finish(office, jobs, n, &err);
    else if (n > 0)
        decide(office, jobs, n, clock_monotonic_ms() + CALL_MS);
    if (n > 0)
        rest(office, began_us);
}

/* ---- life ---- */

dibs_status office_check(struct office *office, dibs_err *err)
{
    struct ledger *ledger = office->handle->core->ledger;
    uint64_t seq = 0;
    uint64_t cursor = 0;

    if (office->trouble.code != DIBS_OK && clock_monotonic_ms() - office->trouble_ms < TROUBLE_MS) {
        *err = office->trouble;
        return err->code;
    }
    ledger_start_call(ledger);
    dibs_status s = ledger_tail(ledger, &seq, &cursor, err);
    return s == DIBS_OK ? check_rebuilt(office, err) : s;
}

static void on_notice(loop_source *source, uint32_t events)
{
    struct office *o = (struct office *) ((char *) source - offsetof(struct office, far));

    (void) events;
    (void) ledger_heed(o->handle->core->ledger);
}

static dibs_status open_ledger(struct office *o, dibs_err *err)
{
    AUTO(free_auto) dibs_settings *own = malloc(sizeof *own);

    if (!own)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    *own = *o->options.settings;
    (void) text_copy(own->socket, sizeof own->socket, "none");
    own->ledger_mode = DIBS_LEDGER_STRICT;
    if (own->source[DIBS_SET_TIMEOUT] == DIBS_FROM_DEFAULT || own->timeout_ms > CALL_MS)
        own->timeout_ms = CALL_MS;
    dibs_status s = dibs_open(own, &o->handle, err);
    if (s != DIBS_OK)
        return s;
    o->handle->never_forks = true;
    s = ledger_care_beside(o->handle->core->ledger, err);
    o->far = (loop_source){ s == DIBS_OK ? ledger_notices(o->handle->core->ledger) : -1, on_notice };
    return s == DIBS_OK && o->far.fd >= 0 ? loop_add(o->options.loop, &o->far, EPOLLIN, err) : s;
}

static void tell_other(const struct office *o)
{
    char wanted[DIBS_RANGES_TEXT_MAX + 1];
    char has[DIBS_RANGES_TEXT_MAX + 1];

    dibs_ranges_format(&o->options.pool.ranges, wanted);
    dibs_ranges_format(&o->pool.ranges, has);
    LOG(LOG_WARNING, "the pool is there with other values, which stay: 'dibs pool set' changes them", "pool",
        o->pool.name, "ports", has, "order", o->pool.order, "asked", wanted, "strategy",
        o->options.pool.order);
}

static dibs_status start(struct office *o, dibs_err *err)
{
    bool is_other = false;
    dibs_status s = open_ledger(o, err);

    if (s == DIBS_OK) /* as an administrator, who may make the pool */
        s = handle_speak_for(o->handle, "ns:default", "", err);
    if (s == DIBS_OK)
        s = operator_pool_open(o->handle, &o->options.pool, &o->pool, &is_other, err);
    if (s != DIBS_OK)
        return s;
    if (is_other)
        tell_other(o);
    o->options.admission.pool = o->pool.name;
    core_index_remember(o->handle->core, o->pool.cooldown_ms);
    return core_index_refresh(o->handle->core, err);
}

dibs_status office_open(const struct office_options *options, struct office **out, dibs_err *err)
{
    struct office *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "starting: out of memory");
    self->options = *options;
    self->last = &self->first;
    self->far.fd = -1;
    dibs_status s = start(self, err);
    if (s != DIBS_OK) {
        office_close(self);
        return s;
    }
    *out = self;
    return DIBS_OK;
}

void office_close(struct office *office)
{
    dibs_err err = { 0 };

    if (!office)
        return;
    (void) err_trouble(&err, DIBS_TROUBLE_NONE, "this replica is stopping; ask again");
    queue_early(office, true);
    for (struct office_job *job = take(office); job; job = take(office))
        finish(office, &job, 1, &err);
    if (office->far.fd >= 0)
        loop_remove(office->options.loop, &office->far);
    dibs_close(office->handle);
    free(office);
}

dibs *office_handle(const struct office *office)
{
    return office->handle;
}

const dibs_pool *office_pool(const struct office *office)
{
    return &office->pool;
}

const struct office_counts *office_count(const struct office *office)
{
    return &office->counts;
}
