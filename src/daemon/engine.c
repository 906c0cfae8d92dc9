/* SPDX-License-Identifier: MIT */
#include "daemon/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "daemon/engine_parts.h"
#include "daemon/log.h"
#include "lib/handle.h"

#include "base/banned.h"

/* ---- jobs ---- */

static void queue_init(struct job_queue *queue)
{
    queue->first = NULL;
    queue->last = &queue->first;
}

void engine_queue(struct engine *engine, struct job *job)
{
    struct job_queue *queue = job->is_alone ? &engine->alone : &engine->queue;

    job->next = NULL;
    *queue->last = job;
    queue->last = &job->next;
    queue->n++;
}

static struct job *take_job(struct job_queue *queue)
{
    struct job *job = queue->first;

    if (!job)
        return NULL;
    queue->first = job->next;
    if (!queue->first)
        queue->last = &queue->first;
    job->next = NULL;
    queue->n--;
    return job;
}

static void count_batch(struct engine_counts *counts, size_t n)
{
    size_t i = 0;

    while (i + 1 < ENGINE_BATCHES && (size_t) 1 << i < n)
        i++;
    counts->batch[i]++;
    counts->groups++;
    counts->jobs += n;
}

/* Does the jobs in one transaction; false when nothing of it has come about. Who is answered afterwards may
 * count on being watched. */
static bool do_together(struct engine *e, struct job *const *jobs, size_t n, dibs_err *err)
{
    struct core *core = e->handle->core;
    struct ledger_span span = { 0 };
    struct kernel_group *probes = &e->probes;
    size_t n_probed = probes->n_probed < e->n_together ? probes->n_probed : e->n_together;

    core->options.group = jobs[0]->is_alone ? NULL : probes;
    udp_bound_begin(&probes->udp);
    ahead_begin(probes->ahead);
    probes->n_probed = 0;
    e->n_written = 0;
    if (!jobs[0]->is_alone)
        ledger_group_begin(core->ledger);
    for (size_t i = 0; i < n; i++) {
        /* As many of them will claim something as of the last group did. */
        probes->n_left = n_probed > 0 ? (n - i - 1) * n_probed / e->n_together : 0;
        core_act_for(core, &jobs[i]->caller);
        if (!jobs[i]->is_alone)
            core_begin_moment(core);
        jobs[i]->work(jobs[i], e->handle);
    }
    core_end_moment(core);
    core_act_for(core, NULL);
    e->n_together = n;
    ahead_end(probes->ahead);
    bool is_done = jobs[0]->is_alone || ledger_group_commit(core->ledger, &span, err) == DIBS_OK;
    if (!is_done) {
        core->index.is_loaded = false; /* it has noted what did not happen */
        return false;
    }
    count_batch(&e->counts, n);
    if (span.why.code != DIBS_OK)
        engine_note_trouble(e, &span.why);
    if (jobs[0]->is_alone)
        engine_follow(e);
    else if (span.after > span.before)
        engine_follow_group(e, &span);
    return true;
}

static void finish(struct job *const *jobs, size_t n, const dibs_err *err)
{
    for (size_t i = 0; i < n; i++)
        jobs[i]->done(jobs[i], err);
}

/* What was found out before the commit is told after it, and the commit may have taken long: by then others
 * may have what hung on the lease of this host. */
static const dibs_err *is_late(const struct engine *e, bool was_certain, dibs_err *err)
{
    if (!was_certain || engine_is_certain(e))
        return NULL;
    (void) err_trouble(
        err, DIBS_TROUBLE_NONE,
        "this host could not renew its lease in the cluster meanwhile; what was asked may have "
        "been done all the same");
    return err;
}

static void do_group(struct engine *e, struct job *const *jobs, size_t n)
{
    dibs_err err = { 0 };
    bool was_certain = engine_is_certain(e);
    bool is_done = do_together(e, jobs, n, &err);

    for (int i = 0; i < BEATEN_MAX && !is_done && ledger_was_beaten(e->handle->core->ledger); i++)
        is_done = do_together(e, jobs, n, &err);
    if (is_done) {
        finish(jobs, n, is_late(e, was_certain, &err));
        return;
    }
    if (ledger_was_cut(e->handle->core->ledger)) { /* each alone would wait as long again */
        e->counts.failed += n;
        engine_note_trouble(e, &err);
        finish(jobs, n, &err);
        return;
    }
    e->counts.spoilt += n > 1;
    for (size_t i = 0; i < n; i++) {
        is_done = n > 1 && do_together(e, &jobs[i], 1, &err);

        e->counts.failed += !is_done;
        if (!is_done)
            engine_note_trouble(e, &err);
        finish(&jobs[i], 1, is_done ? is_late(e, was_certain, &err) : &err);
    }
}

/* A commit to a ledger far away takes as long for few as for many, and who was answered together comes back
 * together: it waits for them a little. */
static bool is_gathering(struct engine *e)
{
    size_t n = e->queue.n;

    if (e->far.fd <= 0 || n == 0 || n >= e->last_group) {
        e->n_gathered = 0;
        return false;
    }
    int64_t now_us = clock_monotonic_us();
    if (n > e->n_gathered)
        e->gathered_us = now_us;
    e->n_gathered = n;
    if (now_us - e->gathered_us < INT64_C(1000) * GATHER_MS)
        return true;
    e->n_gathered = 0;
    return false;
}

static void do_jobs(struct engine *e)
{
    struct job *jobs[GROUP_MAX];
    uint64_t weight = 0;
    size_t n = 0;

    if (is_gathering(e))
        return;
    /* What they bring about may queue more: that waits for the next turn. */
    while (n < GROUP_MAX && e->queue.first) {
        weight += e->queue.first->weight ? e->queue.first->weight : 1;
        if (n > 0 && weight > GROUP_WEIGHT)
            break;
        jobs[n++] = take_job(&e->queue);
    }
    if (n > 0) {
        e->last_group = n;
        do_group(e, jobs, n);
    }
}

/* A job that takes long makes everybody wait: in between the others have most of the time. */
static void do_alone(struct engine *e)
{
    int64_t began_ms = clock_monotonic_ms();
    struct job *job = began_ms >= e->alone_ms ? take_job(&e->alone) : NULL;

    if (!job)
        return;
    do_group(e, &job, 1);
    int64_t now_ms = clock_monotonic_ms();
    int64_t rest_ms = ALONE_SHARE * (now_ms - began_ms);
    e->alone_ms = now_ms + (rest_ms < ALONE_REST_MS ? rest_ms : ALONE_REST_MS);
}

/* The notice comes with the writing; what was written counts a moment later, of which there is no notice. */
static void look(struct engine *e)
{
    int64_t now_ms = clock_monotonic_ms();

    if (!e->has_notice && now_ms < e->look_ms)
        return;
    if (e->has_notice) {
        e->look_wait_ms = LOOK_FIRST_MS;
        engine_heed_writes(e, false);
    } else if (e->look_wait_ms < LOOK_LAST_MS) {
        e->look_wait_ms *= 2;
    } else if (e->look_wait_ms != LOOK_IDLE_MS) {
        e->look_wait_ms = LOOK_IDLE_MS;
        engine_heed_writes(e, true);
    }
    e->look_ms = now_ms + e->look_wait_ms;
    e->has_notice = false;
    engine_follow(e);
}

void engine_note_trouble(struct engine *e, const dibs_err *why)
{
    e->trouble = *why;
    e->trouble_ms = clock_monotonic_ms();
}

/* The first failure and the first success after it, not each one. */
static void tell_trouble(struct engine *e)
{
    bool is_bad = e->trouble.code != DIBS_OK;
    int64_t now_ms = clock_monotonic_ms();

    if (is_bad == e->is_trouble_told || now_ms < e->tell_ms)
        return;
    if (is_bad)
        LOG(LOG_ERROR, "the ledger cannot be changed", "why", e->trouble.msg);
    else
        LOG(LOG_INFO, "the ledger can be changed again");
    e->is_trouble_told = is_bad;
    e->tell_ms = now_ms + TELL_MS;
}

dibs_status engine_check(struct engine *engine, dibs_err *err)
{
    struct ledger *ledger = engine->handle->core->ledger;
    uint64_t seq = 0;
    uint64_t cursor = 0;

    /* Later the next change will show: who is sent away because we are not ready makes none. */
    if (engine->trouble.code != DIBS_OK && clock_monotonic_ms() - engine->trouble_ms < TROUBLE_MS) {
        *err = engine->trouble;
        return err->code;
    }
    ledger_start_call(ledger);
    return ledger_tail(ledger, &seq, &cursor, err);
}

void engine_turn(struct engine *engine)
{
    engine_reload(engine);
    do_jobs(engine);
    do_alone(engine);
    look(engine);
    engine_mind_node(engine);
    engine_reap(engine);
    tell_trouble(engine);
}

int64_t engine_next_ms(const struct engine *engine)
{
    int64_t now_ms = clock_monotonic_ms();
    int64_t at_ms = engine->upkeep_ms;

    if (engine->due.n > 0)
        return 0;
    if (engine->queue.first)
        return engine->n_gathered > 0 ? GATHER_MS : 0;
    if (engine->alone.first && engine->alone_ms < at_ms)
        at_ms = engine->alone_ms;
    if (engine->is_trouble_told != (engine->trouble.code != DIBS_OK) && engine->tell_ms < at_ms)
        at_ms = engine->tell_ms;
    if (engine->look_ms < at_ms)
        at_ms = engine->look_ms;
    if (engine_node_ms(engine) < at_ms)
        at_ms = engine_node_ms(engine);
    if (engine->needs_reload && engine->reload_ms < at_ms)
        at_ms = engine->reload_ms;
    return at_ms > now_ms ? at_ms - now_ms : 0;
}

/* ---- life ---- */

static bool known(void *ctx, pid_t pid, struct core_self *out)
{
    struct engine *e = ctx;

    return watch_knows(e->watch, pid, &out->facts, &out->netns);
}

static dibs_status open_handle(struct engine *e, const dibs_settings *settings, dibs_err *err)
{
    AUTO(free_auto) dibs_settings *own = malloc(sizeof *own);

    if (!own)
        return err_set(err, DIBS_FAILURE, "opening the ledger: out of memory");
    *own = *settings;
    (void) text_copy(own->socket, sizeof own->socket, "none");
    own->ledger_mode = DIBS_LEDGER_STRICT;
    return dibs_open(own, &e->handle, err);
}

static dibs_status start(struct engine *e, const struct engine_options *options, dibs_err *err)
{
    dibs_status s = open_handle(e, options->settings, err);

    if (s != DIBS_OK || !e->handle)
        return s;
    s = ledger_care_beside(e->handle->core->ledger, err);
    if (s == DIBS_OK && options->node_ttl_ms > 0)
        s = ledger_join(e->handle->core->ledger, options->node_ttl_ms, e->handle->core->view.boot_id, err);
    if (s == DIBS_OK)
        s = engine_open_tables(e, err);
    if (s == DIBS_OK)
        s = engine_start_following(e, err);
    if (s != DIBS_OK)
        return s;
    e->handle->never_forks = true;
    e->handle->core->options.known = known;
    e->handle->core->options.known_ctx = e;
    e->probes.ahead = e->far.fd > 0 ? NULL : ahead_open(kernel_probe_common);
    s = engine_load(e, err);
    /* Otherwise the first claim finds that the index does not know what cools, and all go on without it. */
    core_index_remember(e->handle->core, e->handle->settings.cooldown_ms);
    return s == DIBS_OK ? core_index_refresh(e->handle->core, err) : s;
}

dibs_status engine_open(const struct engine_options *options, struct engine **out, dibs_err *err)
{
    struct engine *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "starting the daemon: out of memory");
    self->loop = options->loop;
    queue_init(&self->queue);
    queue_init(&self->alone);
    self->changed = options->changed;
    self->reset = options->reset;
    self->ctx = options->ctx;
    self->pidfds = options->pidfds;
    self->notices.fd = self->timer.fd = -1;
    self->look_wait_ms = LOOK_IDLE_MS;
    self->look_ms = clock_monotonic_ms() + LOOK_IDLE_MS;
    self->upkeep_ms = clock_monotonic_ms() + UPKEEP_EVERY_MS;
    dibs_status s = start(self, options, err);
    if (s != DIBS_OK) {
        engine_close(self);
        return s;
    }
    *out = self;
    return DIBS_OK;
}

void engine_close(struct engine *engine)
{
    dibs_err err = { 0 };

    if (!engine)
        return;
    (void) err_trouble(&err, DIBS_TROUBLE_NONE, "the daemon is stopping; ask again");
    for (struct job *job = take_job(&engine->queue); job; job = take_job(&engine->queue))
        job->done(job, &err);
    for (struct job *job = take_job(&engine->alone); job; job = take_job(&engine->alone))
        job->done(job, &err);
    engine_stop_following(engine);
    watch_close(engine->watch);
    held_close(engine->held);
    held_close(engine->was);
    dibs_close(engine->handle);
    ahead_close(engine->probes.ahead);
    udp_bound_done(&engine->probes.udp);
    free(engine->due.id);
    free(engine->lingering.id);
    free(engine->events);
    free(engine->written);
    free(engine->dir);
    free(engine);
}

dibs_status engine_can_reconfigure(const struct engine *engine, const dibs_settings *settings, dibs_err *err)
{
    const char *ledger = engine->handle->settings.ledger;

    if (strcmp(settings->ledger, ledger) != 0)
        return err_set(err, DIBS_INVALID, "the ledger is %s now; another one needs a restart", ledger);
    return DIBS_OK;
}

void engine_reconfigure(struct engine *engine, const dibs_settings *settings)
{
    dibs_settings *own = &engine->handle->settings;
    dibs_settings kept = *own;

    *own = *settings;
    memcpy(own->socket, kept.socket, sizeof own->socket);
    own->ledger_mode = kept.ledger_mode;
    own->is_sync_full = kept.is_sync_full;
    own->timeout_ms = kept.timeout_ms;
    engine->handle->core->last_pool.is_loaded = false;
}

dibs *engine_handle(const struct engine *engine)
{
    return engine->handle;
}

const struct owner_view *engine_view(const struct engine *engine)
{
    return &engine->handle->core->view;
}

struct watch *engine_watch(const struct engine *engine)
{
    return engine->watch;
}

const struct held_table *engine_held(const struct engine *engine)
{
    return engine->held;
}

uint64_t engine_seq(const struct engine *engine)
{
    return engine->seq;
}

const struct engine_counts *engine_count(struct engine *engine)
{
    struct watch_counts watched = watch_count(engine->watch);

    engine->counts.lingering = engine->lingering.n;
    engine->counts.by_pidfd = watched.by_pidfd;
    engine->counts.in_turn = watched.in_turn;
    engine->counts.far = watched.far;
    return &engine->counts;
}
