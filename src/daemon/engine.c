/* SPDX-License-Identifier: MIT */
#include "daemon/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/err.h"
#include "core/cooldown.h"
#include "daemon/engine_internal.h"
#include "hold/holds.h"
#include "server/ledger_open.h"
#include "server/runtime.h"

#include "base/banned.h"

static void begin_group(void *ctx)
{
    struct engine *e = ctx;

    e->n_written = 0;
    e->began_with = engine_certain_lease(e);
}

/* Apply the changes of a commit, so that holders of new claims are watched before the claims are answered. */
static void follow_commit(void *ctx, const struct ledger_span *span)
{
    struct engine *e = ctx;

    if (!span)
        engine_follow(e);
    else if (span->after > span->before)
        engine_follow_group(e, span);
    engine_publish(e); /* before the claims are answered */
}

/* Check this host's lease again before the jobs of a commit are answered: the lease may have expired during
 * a long commit, and other hosts may have claimed its ports. */
static dibs_status confirm_group(void *ctx, dibs_err *err)
{
    const struct engine *e = ctx;

    if (e->began_with == 0 || e->began_with == engine_certain_lease(e))
        return DIBS_OK;
    return err_trouble(
        err, DIBS_TROUBLE_NONE,
        "this host could not renew its lease in the cluster meanwhile; what was asked may have "
        "been done all the same");
}

static dibs_status open_group(struct engine *e, dibs_err *err)
{
    const struct group_commit_options options = {
        .handle = e->handle,
        .max_jobs = GROUP_MAX,
        .max_weight = GROUP_WEIGHT,
        .gather_ms = GATHER_MS,
        .is_closed = "the daemon is stopping; ask again",
        .begin = begin_group,
        .committed = follow_commit,
        .confirm = confirm_group,
        .ctx = e,
    };

    return group_commit_open(&options, &e->group, err);
}

/* Read new events after a notice, and again after pauses: inotify reports the write, and the commit becomes
 * visible a moment later without another notice. */
static void poll_ledger(struct engine *e)
{
    int64_t now_ms = clock_monotonic_ms();

    if (!e->has_notice && now_ms < e->look_ms)
        return;
    if (e->has_notice) {
        e->look_wait_ms = LOOK_FIRST_MS;
        engine_notice_writes(e, false);
    } else if (e->look_wait_ms < LOOK_LAST_MS) {
        e->look_wait_ms *= 2;
    } else if (e->look_wait_ms != LOOK_IDLE_MS) {
        e->look_wait_ms = LOOK_IDLE_MS;
        engine_notice_writes(e, true);
    }
    e->look_ms = now_ms + e->look_wait_ms;
    e->has_notice = false;
    engine_follow(e);
}

void engine_turn(struct engine *engine)
{
    engine_reload(engine);
    group_commit_turn(engine->group);
    poll_ledger(engine);
    engine_follow_node(engine);
    engine_reap(engine);
    engine_publish(engine);
    if (!engine->needs_reload)
        holds_settle(engine->holds); /* guards of jobs that were not committed */
    holds_retry(engine->holds, clock_monotonic_ms());
}

int64_t engine_next_ms(const struct engine *engine)
{
    int64_t at_ms = engine->upkeep_ms;

    if (engine->look_ms < at_ms)
        at_ms = engine->look_ms;
    if (engine_node_ms(engine) < at_ms)
        at_ms = engine_node_ms(engine);
    if (engine->needs_reload && engine->reload_ms < at_ms)
        at_ms = engine->reload_ms;
    if (engine->reserve && engine->reserve_ms < at_ms)
        at_ms = engine->reserve_ms;
    if (holds_retry_ms(engine->holds) < at_ms)
        at_ms = holds_retry_ms(engine->holds);
    int64_t wait_ms = runtime_sooner(clock_until_ms(at_ms), engine_reap_ms(engine));
    return runtime_sooner(wait_ms, group_commit_next_ms(engine->group));
}

/* ---- open and close ---- */

static bool known(void *ctx, pid_t pid, struct core_self *out)
{
    struct engine *e = ctx;

    return watch_knows(e->watch, pid, watch_moment(e->watch), &out->facts);
}

/* A quarter of the descriptors: connections and watched processes need the others. */
static size_t guard_budget(void)
{
    struct rlimit limit = { .rlim_cur = 0 };

    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (size_t) (limit.rlim_max / 4) : 0;
}

static void keep_guard(void *ctx, uint64_t claim_id, const int *fds, size_t n)
{
    const struct engine *e = ctx;
    char name[32];

    (void) snprintf(name, sizeof name, ACTIVATION_KEPT "%llu", (unsigned long long) claim_id);
    (void) notify_keep(e->notify, &(struct notify_kept){ name, fds, n });
}

static dibs_status open_holds(struct engine *e, dibs_err *err)
{
    const struct holds_options options = { .budget = guard_budget() };
    dibs_status s = holds_open(&options, &e->holds, err);

    if (s != DIBS_OK)
        return s;
    handle_guard(e->handle, e->holds);
    e->notify = e->options.notify;
    if (e->notify && e->notify->fd >= 0)
        holds_keep(e->holds, keep_guard, e);
    for (size_t i = 0; e->options.given && i < e->options.given->n_kept; i++)
        holds_adopt(e->holds, e->options.given->kept[i].id, e->options.given->kept[i].fd);
    return DIBS_OK;
}

static dibs_status start(struct engine *e, const struct engine_options *options, dibs_err *err)
{
    struct server_ledger opened = { 0 };
    dibs_status s = server_ledger_open(options->settings, options->settings->timeout_ms, NULL,
                                       options->is_check, &opened, err);

    if (s != DIBS_OK)
        return s;
    e->handle = opened.handle;
    e->core = opened.core;
    e->ledger = opened.ledger;
    const struct watch_options watching = { .loop = e->options.loop,
                                            .view = &e->core->view,
                                            .budget = options->pidfds,
                                            .reserve = guard_budget(),
                                            .died = engine_died,
                                            .ctx = e };
    if (options->node_ttl_ms > 0)
        s = ledger_join(e->ledger, options->node_ttl_ms, e->core->view.boot_id, err);
    if (s == DIBS_OK)
        s = open_holds(e, err);
    if (s == DIBS_OK)
        s = open_group(e, err);
    if (s == DIBS_OK)
        s = watch_open(&watching, &e->watch, err);
    if (s == DIBS_OK)
        s = engine_start_following(e, err);
    if (s != DIBS_OK)
        return s;
    e->core->options.known = known;
    e->core->options.known_ctx = e;
    s = engine_load(e, err);
    /* Without this no claim would use the index, which would not know which ports are cooling down. */
    cooldown_remember(e->core, dibs_settings_of(e->handle)->cooldown_ms);
    const struct call call = handle_call(e->handle);
    return s == DIBS_OK ? core_index_refresh(e->core, &call, err) : s;
}

dibs_status engine_open(const struct engine_options *options, struct engine **out, dibs_err *err)
{
    struct engine *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "starting the daemon: out of memory");
    self->options = *options;
    self->notices.fd = -1;
    self->netns = kernel_netns();
    (void) kernel_ephemeral(&self->ephemeral);
    self->judge_ms = INT64_MAX;
    self->look_wait_ms = LOOK_IDLE_MS;
    self->look_ms = clock_monotonic_ms() + LOOK_IDLE_MS;
    self->upkeep_ms = options->only_looks ? INT64_MAX : clock_monotonic_ms() + UPKEEP_EVERY_MS;
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
    if (!engine)
        return;
    group_commit_close(engine->group);
    engine_stop_following(engine);
    engine_forget_claims(engine);
    hash_table_done(&engine->claims);
    watch_close(engine->watch);
    dibs_close(engine->handle);
    holds_close(engine->holds);
    free(engine->died);
    free(engine->events);
    free(engine->written);
    free(engine->dir);
    free(engine);
}

static void add_port(void *ctx, struct hash_table_item *item)
{
    const struct held *held = (const struct held *) item;
    struct portbits *ports = ctx;

    portbits_add(&ports[held->is_static ? DIBS_STATIC : DIBS_DYNAMIC], held->port);
}

void engine_ports(struct engine *engine, struct portbits out[DIBS_STATIC + 1])
{
    memset(out, 0, (DIBS_STATIC + 1) * sizeof *out);
    hash_table_each(&engine->claims, add_port, out);
}

struct engine_each {
    void (*fn)(void *ctx, const struct engine_claim *claim);
    void *ctx;
};

static void show_claim(void *ctx, struct hash_table_item *item)
{
    const struct held *held = (const struct held *) item;
    const struct engine_each *each = ctx;

    each->fn(each->ctx, &(struct engine_claim){ .id = held->item.hash,
                                                .pidns = held->pidns,
                                                .start_ticks = held->start_ticks,
                                                .pid = held->pid,
                                                .uid = held->uid,
                                                .port = held->port,
                                                .holder = held->holder,
                                                .protos = held->protos,
                                                .protos_anywhere = held->protos_anywhere });
}

void engine_each_claim(struct engine *engine, void (*fn)(void *ctx, const struct engine_claim *claim),
                       void *ctx)
{
    hash_table_each(&engine->claims, show_claim, &(struct engine_each){ fn, ctx });
}

static void count_lingering(void *ctx, struct hash_table_item *item)
{
    *(size_t *) ctx += ((const struct held *) item)->is_lingering;
}

const struct engine_counts *engine_count(struct engine *engine)
{
    struct watch_counts watched = watch_count(engine->watch);

    engine->counts.claims = engine->claims.n;
    engine->counts.lingering = 0;
    hash_table_each(&engine->claims, count_lingering, &engine->counts.lingering);
    engine->counts.by_pidfd = watched.by_pidfd;
    engine->counts.in_turn = watched.in_turn;
    engine->counts.far = watched.far;
    return &engine->counts;
}
