/* SPDX-License-Identifier: MIT */
/* The engine's knowledge of all claims follows the ledger's events, whoever wrote them: its own jobs, or
 * other processes that use the ledger beside the daemon. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "daemon/engine_parts.h"
#include "lib/handle.h"

#include "base/banned.h"

/* Another boot's processes are dead, and nobody to be watched. */
static bool is_of_this_boot(const struct engine *e, const dibs_claim *claim)
{
    return strcmp(claim->process.boot_id, e->handle->core->view.boot_id) == 0;
}

static void stop_watching(struct engine *e, const struct held *held)
{
    dibs_process who;

    if (held->holder != DIBS_HELD_BY_PROCESS)
        return;
    held_process(held, e->handle->core->view.boot_id, &who);
    watch_drop(e->watch, &who);
}

static const struct held *know(struct engine *e, const dibs_claim *claim)
{
    struct held was;
    /* Other hosts care for theirs, and no event here tells of them. */
    struct held *held = claim->node[0] ? NULL : held_put(e->held, claim, &was);

    if (!held)
        return NULL; /* no memory: 'dibs reap' still finds it */
    if (claim->holder == DIBS_HELD_BY_PROCESS && is_of_this_boot(e, claim))
        (void) watch_add(e->watch, &claim->process, NULL);
    if (was.id != 0)
        stop_watching(e, &was);
    if (claim->holder != DIBS_HELD_BY_NOBODY && (!is_of_this_boot(e, claim) || claim->node_life == DIBS_DEAD))
        engine_add_due(e, held);
    return held;
}

static bool load_one(void *ctx, const dibs_claim *claim)
{
    struct engine *e = ctx;

    (void) know(e, claim);
    return true;
}

dibs_status engine_load(struct engine *e, dibs_err *err)
{
    struct ledger *ledger = e->handle->core->ledger;
    uint64_t cursor = 0;

    ledger_start_call(ledger);
    /* The number first: what is committed between the two reads is told again, which does no harm. */
    dibs_status s = ledger_tail(ledger, &e->seq, &cursor, err);
    return s == DIBS_OK ? ledger_list(ledger, &(struct ledger_filter){ 0 }, load_one, e, err) : s;
}

void engine_know_again(struct engine *e)
{
    struct ledger *ledger = e->handle->core->ledger;

    ledger_start_call(ledger);
    if (ledger_list(ledger, &(struct ledger_filter){ .held_only = true }, load_one, e, NULL) != DIBS_OK)
        e->needs_reload = true;
}

dibs_status engine_open_tables(struct engine *e, dibs_err *err)
{
    struct watch_options watching = {
        .loop = e->loop, .view = &e->handle->core->view, .budget = e->pidfds, .died = engine_died, .ctx = e
    };
    dibs_status s = held_open(&e->held, err);

    return s == DIBS_OK ? watch_open(&watching, &e->watch, err) : s;
}

void engine_reload(struct engine *e)
{
    struct watch *watch = e->watch;
    struct held_table *held = e->held;

    if (!e->needs_reload || clock_monotonic_ms() < e->reload_ms)
        return;
    e->reload_ms = clock_monotonic_ms() + RELOAD_MS; /* if it fails */
    e->held = NULL;
    e->watch = NULL;
    if (engine_open_tables(e, NULL) != DIBS_OK) {
        held_close(e->held);
        e->held = held;
        e->watch = watch;
        return; /* no memory, no descriptor: later */
    }
    watch_close(watch); /* before others are watched: descriptors are few */
    if (e->was)
        held_close(held); /* of an attempt that failed half way */
    else
        e->was = held;
    e->due.n = e->lingering.n = 0;
    e->handle->core->index.is_loaded = false;
    if (engine_load(e, NULL) != DIBS_OK)
        return;
    e->needs_reload = false;
    e->reload_ms = 0;
    if (e->reset)
        e->reset(e->ctx, e->was);
    held_close(e->was);
    e->was = NULL;
}

/* ---- events ---- */

static bool gather(void *ctx, const dibs_event *event)
{
    struct engine *e = ctx;

    e->events[e->n_events++] = *event;
    return e->n_events < FOLLOW_MAX;
}

/* `claim` as it is after the event; NULL: to be looked up. */
static void note(struct engine *e, const dibs_event *event, const dibs_claim *claim)
{
    struct held *known = held_find(e->held, event->claim_id);
    const struct held *held = known;
    dibs_claim found;

    switch (event->kind) {
    case DIBS_EV_CLAIMED:
    case DIBS_EV_REPAIRED:
    case DIBS_EV_RENEWED:
    case DIBS_EV_TRANSFERRED:
    case DIBS_EV_UNHELD:
        /* What has ended meanwhile is told of by a later event. */
        if (!claim && ledger_find_id(e->handle->core->ledger, event->claim_id, &found, NULL) == DIBS_OK)
            claim = &found;
        held = claim ? know(e, claim) : held;
        break;
    case DIBS_EV_RELEASED:
    case DIBS_EV_REAPED:
    case DIBS_EV_LEAKED: break;
    case DIBS_EV_QUARANTINED:
    case DIBS_EV_POOL: held = known = NULL; break;
    }
    e->trouble.code = DIBS_OK; /* somebody could write it */
    if (e->changed)
        e->changed(e->ctx, event, held);
    bool is_end =
        event->kind == DIBS_EV_RELEASED || event->kind == DIBS_EV_REAPED || event->kind == DIBS_EV_LEAKED;
    if (is_end && known) {
        stop_watching(e, known);
        held_remove(e->held, known);
    }
}

/* Numbers only grow: a ledger that ends before what we have seen is another one, or an older one again. */
static bool is_older(struct engine *e)
{
    uint64_t newest = 0;
    uint64_t cursor = 0;

    return ledger_tail(e->handle->core->ledger, &newest, &cursor, NULL) == DIBS_OK && newest < e->seq;
}

void engine_follow(struct engine *e)
{
    struct ledger *ledger = e->handle->core->ledger;
    uint64_t oldest = 0;

    if (e->needs_reload)
        return; /* that tells everything */
    do {
        e->n_events = 0;
        ledger_start_call(ledger);
        if (ledger_events(ledger, &(dibs_event_query){ .since = e->seq, .limit = FOLLOW_MAX }, &oldest,
                          gather, e, NULL) != DIBS_OK)
            return; /* the next commit, or notice of one, tries again */
        /* Some are gone already: look at everything anew. */
        if (e->n_events > 0 ? oldest > e->seq + 1 : is_older(e)) {
            e->needs_reload = true;
            return;
        }
        for (size_t i = 0; i < e->n_events; i++) {
            note(e, &e->events[i], NULL);
            e->seq = e->events[i].seq;
        }
    } while (e->n_events == FOLLOW_MAX);
}

/* A number that is given again belongs to a change that did not come about before. */
static void wrote(void *ctx, const dibs_event *event, const dibs_claim *claim)
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
        e->needs_reload = true; /* as is_older(), and it has grown since */
    /* Only when they are all there, and nobody else wrote something before. */
    if (e->seq != span->before || n > e->n_written || e->n_written > WRITTEN_MAX ||
        e->written[0].event.seq != e->seq + 1 || e->written[n - 1].event.seq != span->after) {
        engine_follow(e);
        return;
    }
    for (size_t i = 0; i < n; i++)
        note(e, &e->written[i].event, &e->written[i].claim);
    e->seq = span->after;
}

/* ---- notices of other processes' commits ---- */

#define HEEDED (IN_MODIFY | IN_CLOSE_WRITE | IN_MOVED_TO)

/* Our own writes are told of, too, which costs: a busy daemon sees what others did when it begins its next
 * transaction, and looks now and then. */
void engine_heed_writes(struct engine *e, bool is_heeded)
{
    if (e->dir)
        (void) inotify_add_watch(e->notices.fd, e->dir, is_heeded ? HEEDED : HEEDED & ~IN_MODIFY);
}

static void look_at_notice(struct engine *e, const struct inotify_event *notice)
{
    size_t n = strlen(e->file);

    if (notice->mask & IN_Q_OVERFLOW)
        e->needs_reload = true;
    if (notice->len == 0 || strncmp(notice->name, e->file, n) != 0)
        return; /* of another file */
    if (notice->name[n] == '\0' && notice->mask & IN_MOVED_TO)
        e->needs_reload = true; /* 'dibs doctor --fix' */
    e->has_notice = true;
}

static void on_notice(loop_source *source, uint32_t events)
{
    struct engine *e = (struct engine *) ((char *) source - offsetof(struct engine, notices));
    _Alignas(struct inotify_event) char text[4096];
    const struct inotify_event *notice = NULL;
    ssize_t n = read(source->fd, text, sizeof text); /* once a turn: there may be no end of them */

    (void) events;
    for (ssize_t at = 0; at < n; at += (ssize_t) (sizeof *notice + notice->len)) {
        notice = (const void *) (text + at);
        look_at_notice(e, notice);
    }
}

static void on_timer(loop_source *source, uint32_t events)
{
    struct engine *e = (struct engine *) ((char *) source - offsetof(struct engine, timer));
    uint64_t times = 0;

    (void) events;
    if (read(source->fd, &times, sizeof times) > 0)
        e->timer_ms = 0; /* engine_reap() sets it anew */
}

static void on_far_notice(loop_source *source, uint32_t events)
{
    struct engine *e = (struct engine *) ((char *) source - offsetof(struct engine, far));

    uint64_t n_elsewhere = ledger_heed(e->handle->core->ledger);

    (void) events;
    e->has_notice = e->has_notice || n_elsewhere != e->n_elsewhere; /* else it was our own */
    e->n_elsewhere = n_elsewhere;
}

/* A ledger that is not on this machine tells by itself. */
static dibs_status watch_far(struct engine *e, dibs_err *err)
{
    e->far = (loop_source){ ledger_notices(e->handle->core->ledger), on_far_notice };
    return loop_add(e->loop, &e->far, EPOLLIN, err);
}

static dibs_status watch_directory(struct engine *e, dibs_err *err)
{
    static const char scheme[] = "sqlite:";
    char path[PATH_MAX];
    const char *uri = e->handle->settings.ledger;

    if (ledger_notices(e->handle->core->ledger) >= 0)
        return watch_far(e, err);
    if (strncmp(uri, scheme, sizeof scheme - 1) != 0)
        return DIBS_OK;
    /* The log lies beside the file itself, not beside a link to it. */
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
    if (e->notices.fd < 0 || inotify_add_watch(e->notices.fd, e->dir, HEEDED) < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "watching the ledger's directory %s", path);
    return loop_add(e->loop, &e->notices, EPOLLIN, err);
}

dibs_status engine_start_following(struct engine *e, dibs_err *err)
{
    e->events = calloc(FOLLOW_MAX, sizeof *e->events);
    e->written = calloc(WRITTEN_MAX, sizeof *e->written);
    if (!e->events || !e->written)
        return err_set(err, DIBS_FAILURE, "following the ledger: out of memory");
    ledger_tell_writes(e->handle->core->ledger, wrote, e);
    e->timer.ready = on_timer;
    e->timer.fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (e->timer.fd < 0)
        return err_os(err, DIBS_UNAVAILABLE, errno, "making a timer");
    dibs_status s = loop_add(e->loop, &e->timer, EPOLLIN, err);
    return s == DIBS_OK ? watch_directory(e, err) : s;
}

static void stop(struct engine *e, loop_source *source)
{
    if (source->fd < 0)
        return;
    loop_remove(e->loop, source);
    (void) close(source->fd);
}

void engine_stop_following(struct engine *e)
{
    if (e->far.fd > 0) /* the ledger's own */
        loop_remove(e->loop, &e->far);
    stop(e, &e->notices);
    stop(e, &e->timer);
}
