/* SPDX-License-Identifier: MIT */
/* Keep the engine's copy of all claims up to date by the ledger's events, its own and other processes'. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "daemon/engine_internal.h"
#include "hold/holds.h"

#include "base/banned.h"

static struct held *find(const struct engine *e, uint64_t id)
{
    return (struct held *) hash_table_first(&e->claims, id);
}

static void forget(struct engine *e, struct held *held)
{
    dibs_process who = { .pid = held->pid, .pidns = held->pidns, .start_ticks = held->start_ticks };

    (void) text_copy(who.boot_id, sizeof who.boot_id, e->core->view.boot_id);
    if (held->is_watched)
        watch_drop(e->watch, &who);
    engine_note_reserved(e, held->port);
    hash_table_remove(&e->claims, &held->item);
    free(held);
}

/* Watch the holder of a claim. A holder of another boot is dead. */
static void follow_holder(struct engine *e, struct held *held, const dibs_claim *claim)
{
    bool is_of_this_boot = strcmp(claim->process.boot_id, e->core->view.boot_id) == 0;

    held->judge_ms = INT64_MAX;
    if (claim->holder == DIBS_HELD_BY_NOBODY)
        return;
    if (claim->holder == DIBS_HELD_BY_PROCESS && is_of_this_boot)
        held->is_watched = watch_add(e->watch, &claim->process, NULL) == DIBS_OK;
    if (!is_of_this_boot || claim->node_life == DIBS_DEAD)
        engine_judge_at(e, held, 0);
    else if (claim->holder == DIBS_HELD_BY_LEASE)
        engine_judge_at(e, held, claim->lease_until_ms);
}

/* Store the copy of a claim, replacing an earlier one. */
static const struct held *store_copy(struct engine *e, const dibs_claim *claim)
{
    struct held *was = find(e, claim->id);
    size_t pool_bytes = strlen(claim->pool) + 1;

    if (claim->node[0])
        return NULL; /* other hosts watch their own holders, and have no events here */
    if (!e->options.only_looks)
        holds_follow(e->holds, claim);
    struct held *held = calloc(1, sizeof *held + pool_bytes);
    if (!held || !hash_table_add(&e->claims, &held->item, claim->id)) {
        free(held);
        return NULL; /* out of memory: 'dibs reap' still finds it */
    }
    held->generation = claim->generation;
    held->pid = claim->process.pid;
    held->pidns = claim->process.pidns;
    held->start_ticks = claim->process.start_ticks;
    held->uid = claim->uid;
    held->port = claim->port;
    held->holder = (uint8_t) claim->holder;
    for (size_t i = 0; i < claim->n_bindings; i++) {
        const dibs_binding *b = &claim->bindings[i];
        bool is_anywhere =
            b->address.len == 16 && !b->address.v6only && dibs_address_is_wildcard(&b->address);

        held->protos |= (uint8_t) (1u << b->proto);
        held->protos_anywhere |= (uint8_t) ((unsigned) is_anywhere << b->proto);
    }
    held->is_static = claim->kind == DIBS_STATIC;
    held->is_here = claim->netns == 0 || claim->netns == e->netns;
    engine_note_reserved(e, claim->port);
    memcpy(held->pool, claim->pool, pool_bytes);
    follow_holder(e, held, claim);
    if (was)
        forget(e, was);
    return held;
}

static void forget_item(void *ctx, struct hash_table_item *item)
{
    forget(ctx, (struct held *) item);
}

void engine_forget_claims(struct engine *e)
{
    hash_table_each(&e->claims, forget_item, e);
    e->n_died = 0;
    e->judge_ms = INT64_MAX;
}

static bool load_one(void *ctx, const dibs_claim *claim)
{
    struct engine *e = ctx;

    (void) store_copy(e, claim);
    engine_enforce_claim(e, claim);
    return true;
}

dibs_status engine_load(struct engine *e, dibs_err *err)
{
    const struct call call = handle_call(e->handle);
    uint64_t cursor = 0;

    /* Read the number first: a change between the two reads is then seen twice, which is harmless. */
    dibs_status s = ledger_tail(e->ledger, &call, &e->seq, &cursor, err);
    holds_doubt(e->holds);
    if (s == DIBS_OK && e->enforce)
        enforce_forget(e->enforce);
    if (s == DIBS_OK)
        s = ledger_list(e->ledger, &call, &(struct ledger_filter){ 0 }, load_one, e, err);
    if (s == DIBS_OK && e->enforce)
        enforce_sweep(e->enforce);
    return s;
}

void engine_reload_held(struct engine *e)
{
    const struct call call = handle_call(e->handle);

    if (ledger_list(e->ledger, &call, &(struct ledger_filter){ .held_only = true }, load_one, e, NULL) !=
        DIBS_OK)
        e->needs_reload = true;
}

void engine_reload(struct engine *e)
{
    if (!e->needs_reload || clock_monotonic_ms() < e->reload_ms)
        return;
    e->reload_ms = clock_monotonic_ms() + RELOAD_MS; /* the next attempt if this one fails */
    engine_forget_claims(e);
    core_index_forget(e->core);
    if (engine_load(e, NULL) != DIBS_OK ||
        (e->options.reset && e->options.reset(e->options.ctx, NULL) != DIBS_OK))
        return;
    e->needs_reload = false;
    e->reload_ms = 0;
}

/* ---- events ---- */

static bool gather(void *ctx, const dibs_event *event)
{
    struct engine *e = ctx;

    e->events[e->n_events++] = *event;
    return e->n_events < FOLLOW_MAX;
}

/* Apply an event. `claim` is the state after the event; NULL: look it up. */
static void apply_event(struct engine *e, const dibs_event *event, const dibs_claim *claim)
{
    struct held *known = find(e, event->claim_id);
    const struct held *held = known;
    dibs_claim found;
    int change = event->kind == DIBS_EV_CLAIMED || event->kind == DIBS_EV_REPAIRED;

    switch (event->kind) {
    case DIBS_EV_CLAIMED:
    case DIBS_EV_REPAIRED:
    case DIBS_EV_RENEWED:
    case DIBS_EV_TRANSFERRED:
    case DIBS_EV_UNHELD:
        /* A claim that has ended since then has a later event. */
        if (!claim) {
            const struct call call = handle_call(e->handle);

            claim =
                ledger_find_id(e->ledger, &call, event->claim_id, &found, NULL) == DIBS_OK ? &found : NULL;
        }
        held = claim ? store_copy(e, claim) : held;
        if (claim)
            engine_enforce_claim(e, claim);
        break;
    case DIBS_EV_RELEASED:
    case DIBS_EV_REAPED:
    case DIBS_EV_LEAKED:
        change = -1;
        if (e->enforce)
            enforce_drop(e->enforce, event->claim_id);
        break;
    case DIBS_EV_QUARANTINED:
    case DIBS_EV_POOL: held = known = NULL; break;
    }
    group_commit_note_success(e->group); /* a process could write to the ledger */
    if (e->options.changed)
        e->options.changed(e->options.ctx, event, held ? held->pool : NULL, change);
    if (change < 0)
        holds_end(e->holds, event->claim_id);
    if (change < 0 && known)
        forget(e, known);
}

/* Is this another ledger or an older copy? Event numbers only grow. */
static bool is_older(const struct engine *e, const struct call *call)
{
    uint64_t newest = 0;
    uint64_t cursor = 0;

    return ledger_tail(e->ledger, call, &newest, &cursor, NULL) == DIBS_OK && newest < e->seq;
}

void engine_follow(struct engine *e)
{
    uint64_t oldest = 0;

    if (e->needs_reload)
        return; /* the reload reads everything */
    do {
        const struct call call = handle_call(e->handle);

        e->n_events = 0;
        if (ledger_events(e->ledger, &call,
                          &(struct ledger_feed){ { .since = e->seq, .limit = FOLLOW_MAX }, &oldest }, gather,
                          e, NULL) != DIBS_OK)
            return; /* the next commit or notice tries again */
        /* Reload everything when the ledger has trimmed events that we have not seen. */
        if (e->n_events > 0 ? oldest > e->seq + 1 : is_older(e, &call)) {
            e->needs_reload = true;
            return;
        }
        for (size_t i = 0; i < e->n_events; i++) {
            apply_event(e, &e->events[i], NULL);
            e->seq = e->events[i].seq;
        }
    } while (e->n_events == FOLLOW_MAX);
}

/* Record a change of the current transaction. A repeated number replaces that of a failed attempt. */
static void record_change(void *ctx, const dibs_event *event, const dibs_claim *claim)
{
    struct engine *e = ctx;

    while (e->n_written > 0 && e->n_written <= WRITTEN_MAX &&
           e->written[e->n_written - 1].event.seq >= event->seq)
        e->n_written--;
    if (e->n_written < WRITTEN_MAX)
        e->written[e->n_written] = (struct written){ *event, *claim };
    if (e->n_written <= WRITTEN_MAX)
        e->n_written++;
}

void engine_follow_group(struct engine *e, const struct ledger_span *span)
{
    size_t n = span->after - span->before;

    if (span->before < e->seq)
        e->needs_reload = true; /* an older copy, as in is_older(), that has grown since */
    /* Use the recorded changes only when all are there and no other process wrote before them. */
    if (e->seq != span->before || n > e->n_written || e->n_written > WRITTEN_MAX ||
        e->written[0].event.seq != e->seq + 1 || e->written[n - 1].event.seq != span->after) {
        engine_follow(e);
        return;
    }
    for (size_t i = 0; i < n; i++)
        apply_event(e, &e->written[i].event, &e->written[i].claim);
    e->seq = span->after;
}

/* ---- notices of other processes' commits ---- */

#define NOTICED (IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO)

/* Choose which notices to get. Our own writes cause notices too, which cost time: a busy daemon sees other
 * processes' changes when it begins its next transaction, and polls at intervals. */
void engine_notice_writes(struct engine *e, bool is_noticed)
{
    if (e->dir)
        (void) inotify_add_watch(e->notices.fd, e->dir, is_noticed ? NOTICED : NOTICED & ~IN_MODIFY);
}

static void look_at_notice(struct engine *e, const struct inotify_event *notice)
{
    size_t n = strlen(e->file);

    if (notice->mask & IN_Q_OVERFLOW)
        e->needs_reload = true;
    if (notice->len == 0 || strncmp(notice->name, e->file, n) != 0)
        return; /* another file */
    if (notice->name[n] == '\0' && notice->mask & IN_MOVED_TO)
        e->needs_reload = true; /* written by 'dibs doctor --fix' */
    e->has_notice = true;
}

static void on_notice(loop_source *source, uint32_t events)
{
    struct engine *e = (struct engine *) ((char *) source - offsetof(struct engine, notices));
    _Alignas(struct inotify_event) char text[4096];
    const struct inotify_event *notice = NULL;
    ssize_t n = read(source->fd, text, sizeof text); /* once per turn: the events may never end */

    (void) events;
    for (ssize_t at = 0; at < n; at += (ssize_t) (sizeof *notice + notice->len)) {
        notice = (const void *) (text + at);
        look_at_notice(e, notice);
    }
}

static void on_far_notice(loop_source *source, uint32_t events)
{
    struct engine *e = (struct engine *) ((char *) source - offsetof(struct engine, far));

    uint64_t n_elsewhere = ledger_take_notices(e->ledger);

    (void) events;
    e->has_notice = e->has_notice || n_elsewhere != e->n_elsewhere; /* otherwise our own commit */
    e->n_elsewhere = n_elsewhere;
}

/* Subscribe to the ledger's own notices, or watch its directory. */
static dibs_status watch_ledger(struct engine *e, dibs_err *err)
{
    static const char scheme[] = "sqlite:";
    char path[PATH_MAX];
    const char *uri = dibs_settings_of(e->handle)->ledger;

    if (ledger_notices(e->ledger) >= 0) {
        e->far = (loop_source){ ledger_notices(e->ledger), on_far_notice };
        return loop_add(e->options.loop, &e->far, EPOLLIN, err);
    }
    if (strncmp(uri, scheme, sizeof scheme - 1) != 0)
        return DIBS_OK;
    /* The write-ahead log is beside the file itself, not beside a link to it. */
    char *name = realpath(uri + sizeof scheme - 1, path) ? strrchr(path, '/') : NULL;
    if (!name)
        return err_os(err, DIBS_UNAVAILABLE, errno, "looking for %s", uri);
    (void) text_copy(e->file, sizeof e->file, name + 1);
    name[name == path] = '\0';
    e->notices.ready = on_notice;
    e->notices.fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    e->dir = strdup(path);
    if (!e->dir)
        return err_set(err, DIBS_FAILURE, "following the ledger: out of memory");
    if (e->notices.fd < 0 || inotify_add_watch(e->notices.fd, e->dir, NOTICED) < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "watching the ledger's directory %s", path);
    return loop_add(e->options.loop, &e->notices, EPOLLIN, err);
}

dibs_status engine_start_following(struct engine *e, dibs_err *err)
{
    e->events = calloc(FOLLOW_MAX, sizeof *e->events);
    e->written = calloc(WRITTEN_MAX, sizeof *e->written);
    if (!e->events || !e->written)
        return err_set(err, DIBS_FAILURE, "following the ledger: out of memory");
    ledger_tell_writes(e->ledger, record_change, e);
    return watch_ledger(e, err);
}

void engine_stop_following(struct engine *e)
{
    if (e->far.fd > 0) /* the ledger owns the descriptor */
        loop_remove(e->options.loop, &e->far);
    if (e->notices.fd >= 0)
        loop_remove(e->options.loop, &e->notices);
    fd_auto(&e->notices.fd);
}
