/* SPDX-License-Identifier: MIT */
#include "daemon/serve.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "daemon/api.h"
#include "daemon/log.h"
#include "daemon/notify.h"
#include "daemon/sockets.h"
#include "lib/doctor.h"
#include "lib/handle.h"
#include "portserver/portserver.h"

#include "base/banned.h"

enum {
    DRAIN_MS = 5000, /* requests under way are answered; who holds a connection longer is cut off */
    TURN_MAX_MS = 60000,
    NODE_TTL_MS = 15000, /* long enough for a new leader, short enough to wait for */
    KEPT_FREE_BYTES = 1 << 20
};

struct serve {
    const struct serve_options *options;
    dibs_settings settings;
    struct loop *loop;
    struct engine *engine;
    struct quota *quota;
    struct metrics *metrics;
    struct api_options door; /* what both doors are told */
    struct api *api;
    struct portserver *portserver; /* NULL: nobody asked for it */
    struct notify notify;
    loop_source signals;
    struct socket_file public, admin, ports;
    bool is_stopping;
    bool is_reload_due;
    int64_t watchdog_ms; /* when it is to be told next; 0: never */
};

dibs_status serve_default_socket(char *out, size_t size, dibs_err *err)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    int n = 0;

    if (geteuid() == 0)
        n = snprintf(out, size, "/run/dibs/dibs.sock");
    else if (runtime && runtime[0] == '/')
        n = snprintf(out, size, "%s/dibs/dibs.sock", runtime);
    else
        return err_set(err, DIBS_INVALID,
                       "there is no place for a socket: set XDG_RUNTIME_DIR, or give --socket");
    if (n < 0 || (size_t) n >= size)
        return err_set(err, DIBS_INVALID, "the path of the socket is too long; give --socket");
    return DIBS_OK;
}

/* ---- what the loop calls ---- */

static void changed(void *ctx, const dibs_event *event, const struct held *held)
{
    struct serve *s = ctx;

    metrics_changed(s->metrics, event, held);
    switch (event->kind) {
    case DIBS_EV_CLAIMED:
    case DIBS_EV_REPAIRED: (void) quota_note(s->quota, event->principal, 1, NULL); break;
    case DIBS_EV_RELEASED:
    case DIBS_EV_REAPED:
    case DIBS_EV_LEAKED: quota_give(s->quota, event->principal, 1); break;
    case DIBS_EV_RENEWED:
    case DIBS_EV_TRANSFERRED:
    case DIBS_EV_UNHELD:
    case DIBS_EV_QUARANTINED:
    case DIBS_EV_POOL: break;
    }
    if (s->api)
        api_changed(s->api, event);
}

static void count_claim(void *ctx, const struct held *held)
{
    (void) quota_note(((struct serve *) ctx)->quota, held->principal, 1, NULL);
}

static void uncount_claim(void *ctx, const struct held *held)
{
    quota_give(((struct serve *) ctx)->quota, held->principal, 1);
}

static void reset(void *ctx, const struct held_table *was)
{
    struct serve *s = ctx;

    LOG(LOG_WARNING, "the ledger was replaced, or has forgotten changes: all claims were read anew");
    held_each(was, uncount_claim, s);
    held_each(engine_held(s->engine), count_claim, s);
    metrics_reset(s->metrics);
    api_reset(s->api);
}

static void on_signal(loop_source *source, uint32_t events)
{
    struct serve *s = (struct serve *) ((char *) source - offsetof(struct serve, signals));
    struct signalfd_siginfo info;

    (void) events;
    while (read(source->fd, &info, sizeof info) == (ssize_t) sizeof info) {
        if (info.ssi_signo == SIGHUP)
            s->is_reload_due = true;
        else
            s->is_stopping = true;
    }
}

/* ---- start ---- */

static dibs_status load_tls(struct serve *s, dibs_err *err)
{
    const struct serve_options *o = s->options;
    AUTO(free_auto) char *cert = NULL;
    AUTO(free_auto) char *key = NULL;
    struct tokens *tokens = NULL;

    if (!o->listen)
        return DIBS_OK;
    dibs_status status = socket_read_pem(o->tls_cert, &cert, err);
    if (status == DIBS_OK)
        status = socket_read_pem(o->tls_key, &key, err);
    if (status == DIBS_OK)
        status = tokens_load(o->tokens, &tokens, err);
    return status == DIBS_OK ? api_set_tls(s->api, cert, key, tokens, err) : status;
}

static dibs_status check_options(const struct serve_options *o, dibs_err *err)
{
    if (o->listen && !(o->tls_cert && o->tls_key && o->tokens))
        return err_set(
            err, DIBS_INVALID,
            "--listen needs --tls-cert, --tls-key and --tokens: over TCP nobody is believed without");
    if (!o->listen && (o->tls_cert || o->tls_key || o->tokens))
        return err_set(err, DIBS_INVALID, "--tls-cert, --tls-key and --tokens are for --listen ADDRESS:PORT");
    dibs_status status = o->listen ? socket_check_tcp(o->listen, false, err) : DIBS_OK;
    if (status == DIBS_OK && o->portserver_http)
        status = socket_check_tcp(o->portserver_http, true, err);
    const char *const paths[] = { o->socket, o->admin_socket, o->portserver };
    for (size_t i = 0; i < sizeof paths / sizeof *paths && status == DIBS_OK; i++)
        status = paths[i] ? socket_check_unix(paths[i], paths[i] == o->portserver, err) : DIBS_OK;
    return status;
}

/* Our own sockets, unless the service manager has opened them for us. */
static dibs_status open_unix(struct serve *s, dibs_err *err)
{
    char path[108];
    char admin[108];
    const char *public_path = s->options->socket;
    const char *admin_path = s->options->admin_socket;
    dibs_status status = DIBS_OK;

    if (!public_path) {
        status = serve_default_socket(path, sizeof path, err);
        public_path = path;
        (void) snprintf(admin, sizeof admin, "%.*s/admin.sock", (int) (strrchr(path, '/') - path), path);
        admin_path = admin_path ? admin_path : admin;
    }
    /* A system's socket is everybody's, a user's own. */
    if (status == DIBS_OK)
        status = socket_open_unix(public_path, geteuid() == 0 ? 0666 : 0600, &s->public, err);
    if (status == DIBS_OK)
        status = api_listen(s->api, s->public.fd, CALLER_PUBLIC, err);
    if (status == DIBS_OK && admin_path)
        status = socket_open_unix(admin_path, 0600, &s->admin, err);
    if (status == DIBS_OK && admin_path)
        status = api_listen(s->api, s->admin.fd, CALLER_ADMIN, err);
    return status;
}

static dibs_status listen_for_ports(struct serve *s, int fd, dibs_err *err)
{
    dibs_status status = s->portserver ? DIBS_OK : portserver_open(&s->door, &s->portserver, err);

    return status == DIBS_OK ? portserver_listen(s->portserver, fd, err) : status;
}

static dibs_status open_ports(struct serve *s, dibs_err *err)
{
    dibs_status status = DIBS_OK;

    if (!s->options->portserver)
        return DIBS_OK;
    status = socket_open_unix(s->options->portserver, geteuid() == 0 ? 0666 : 0600, &s->ports, err);
    return status == DIBS_OK ? listen_for_ports(s, s->ports.fd, err) : status;
}

static dibs_status open_given(struct serve *s, int fd, enum activation_door door, dibs_err *err)
{
    switch (door) {
    case ACTIVATION_PORTSERVER: return listen_for_ports(s, fd, err);
    case ACTIVATION_ADMIN:
        if (socket_check_closed(fd, err) != DIBS_OK)
            return DIBS_INVALID;
        return api_listen(s->api, fd, CALLER_ADMIN, err);
    case ACTIVATION_PUBLIC: break;
    }
    return api_listen(s->api, fd, CALLER_PUBLIC, err);
}

static dibs_status open_tcp(struct serve *s, const char *address, enum caller_door door, dibs_err *err)
{
    int fd = -1;

    if (!address)
        return DIBS_OK;
    dibs_status status = socket_open_tcp(address, door == CALLER_LOOPBACK, &fd, err);
    return status == DIBS_OK ? api_listen(s->api, fd, door, err) : status;
}

static dibs_status open_doors(struct serve *s, dibs_err *err)
{
    struct activation given = { 0 };
    dibs_status status = activation_load(&given, err);

    for (size_t i = 0; i < given.n && status == DIBS_OK; i++)
        status = open_given(s, given.socket[i].fd, given.socket[i].door, err);
    if (status == DIBS_OK && given.n == 0)
        status = open_unix(s, err);
    if (status == DIBS_OK)
        status = open_ports(s, err);
    if (status == DIBS_OK)
        status = load_tls(s, err);
    if (status == DIBS_OK)
        status = open_tcp(s, s->options->listen, CALLER_TCP, err);
    if (status == DIBS_OK)
        status = open_tcp(s, s->options->portserver_http, CALLER_LOOPBACK, err);
    return status;
}

static dibs_status start(struct serve *s, dibs_err *err)
{
    const struct serve_options *o = s->options;
    dibs_status status = check_options(o, err);

    if (status == DIBS_OK)
        status = o->load(o->ctx, &s->settings, err);
    if (status == DIBS_OK)
        status = loop_open(&s->loop, err);
    if (status == DIBS_OK)
        status = loop_add_signals(s->loop, &s->signals, on_signal, err);
    if (status == DIBS_OK)
        status = quota_open(&(struct quota_options){ o->quota, o->rate }, &s->quota, err);
    if (status == DIBS_OK)
        status = engine_open(&(struct engine_options){ .loop = s->loop,
                                                       .settings = &s->settings,
                                                       .node_ttl_ms = o->is_check          ? 0
                                                                      : o->node_ttl_ms > 0 ? o->node_ttl_ms
                                                                                           : NODE_TTL_MS,
                                                       .changed = changed,
                                                       .reset = reset,
                                                       .ctx = s },
                             &s->engine, err);
    if (status == DIBS_OK)
        status = metrics_open(s->engine, o->kube_pool, &s->metrics, err);
    if (status != DIBS_OK)
        return status;
    held_each(engine_held(s->engine), count_claim, s);
    s->door = (struct api_options){ .loop = s->loop,
                                    .settings = dibs_settings_of(engine_handle(s->engine)),
                                    .engine = s->engine,
                                    .quota = s->quota,
                                    .metrics = s->metrics,
                                    .uid = (uint32_t) geteuid() };
    status = api_open(&s->door, &s->api, err);
    if (status == DIBS_OK && !o->is_check)
        status = open_doors(s, err);
    else if (status == DIBS_OK)
        status = load_tls(s, err);
    return status;
}

/* ---- run ---- */

/* Certificates, tokens and settings anew; the ledger and the sockets stay. */
static void reload(struct serve *s)
{
    dibs_err err = { 0 };

    s->is_reload_due = false;
    (void) notify_tell(&s->notify, NOTIFY_RELOADING, NULL, NULL);
    AUTO(free_auto) dibs_settings *fresh = malloc(sizeof *fresh);
    dibs_status status =
        fresh ? s->options->load(s->options->ctx, fresh, &err) : err_set(&err, DIBS_FAILURE, "out of memory");
    if (status == DIBS_OK)
        status = engine_can_reconfigure(s->engine, fresh, &err);
    if (status == DIBS_OK)
        status = load_tls(s, &err);
    if (status == DIBS_OK) {
        engine_reconfigure(s->engine, fresh);
        LOG(LOG_INFO, "reloaded");
    } else
        LOG(LOG_ERROR, "reload refused, everything stays as it was", "why", err.msg);
    (void) notify_tell(&s->notify, NOTIFY_READY, NULL, NULL);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

static int64_t next_ms(struct serve *s)
{
    int64_t wait_ms = sooner(engine_next_ms(s->engine), api_next_ms(s->api));
    int64_t now_ms = clock_monotonic_ms();

    if (s->portserver)
        wait_ms = sooner(wait_ms, portserver_next_ms(s->portserver));
    if (s->watchdog_ms > 0)
        wait_ms = sooner(wait_ms, s->watchdog_ms > now_ms ? s->watchdog_ms - now_ms : 0);
    return sooner(wait_ms, TURN_MAX_MS);
}

static void feed_watchdog(struct serve *s)
{
    int64_t now_ms = clock_monotonic_ms();

    if (s->notify.watchdog_ms == 0 || now_ms < s->watchdog_ms)
        return;
    (void) notify_tell(&s->notify, NOTIFY_WATCHDOG, NULL, NULL);
    s->watchdog_ms = now_ms + s->notify.watchdog_ms / 2;
}

static dibs_status turn(struct serve *s, int64_t wait_ms, dibs_err *err)
{
    dibs_status status = loop_turn(s->loop, wait_ms, err);

    engine_turn(s->engine);
    api_run(s->api);
    if (s->portserver)
        portserver_run(s->portserver);
    feed_watchdog(s);
    return status;
}

static bool drain(struct serve *s)
{
    bool is_open = s->portserver && portserver_drain(s->portserver);

    return api_drain(s->api) || is_open;
}

/* Hosts that share a pool should agree about it. */
static bool tell_overruled(void *ctx, const dibs_pool *pool)
{
    const struct serve *s = ctx;
    char how[256];

    if (pool_is_overruled(engine_handle(s->engine)->core, pool, how, sizeof how))
        LOG(LOG_WARNING, "settings of this host overrule a pool of the cluster", "pool", pool->name, "how",
            how);
    return true;
}

static dibs_status run(struct serve *s, dibs_err *err)
{
    dibs_status status = notify_open(&s->notify, err);

    if (status != DIBS_OK)
        return status;
    LOG(LOG_INFO, "serving", "version", dibs_version(), "socket",
        s->public.path[0] ? s->public.path : "given", "ledger", s->settings.ledger);
    (void) core_pool_list(engine_handle(s->engine)->core, tell_overruled, s, NULL);
    (void) notify_tell(&s->notify, NOTIFY_READY, "serving", NULL);
    while (!s->is_stopping && status == DIBS_OK) {
        status = turn(s, next_ms(s), err);
        if (s->is_reload_due)
            reload(s);
    }
    (void) notify_tell(&s->notify, NOTIFY_STOPPING, NULL, NULL);
    LOG(LOG_INFO, "stopping");
    int64_t until_ms = clock_monotonic_ms() + DRAIN_MS;
    while (status == DIBS_OK && drain(s) && clock_monotonic_ms() < until_ms)
        status = turn(s, sooner(next_ms(s), until_ms - clock_monotonic_ms()), err);
    return status;
}

static void end(struct serve *s)
{
    engine_close(s->engine); /* first: what is still queued is answered by the doors */
    api_close(s->api);
    portserver_close(s->portserver);
    quota_close(s->quota);
    metrics_close(s->metrics);
    notify_close(&s->notify);
    socket_remove(&s->public);
    socket_remove(&s->admin);
    socket_remove(&s->ports);
    if (s->signals.fd >= 0)
        (void) close(s->signals.fd);
    loop_close(s->loop);
}

dibs_status serve_run(const struct serve_options *options, dibs_err *err)
{
    struct serve *s = calloc(1, sizeof *s);

    if (!s)
        return err_set(err, DIBS_FAILURE, "starting the daemon: out of memory");
    /* Every claim needs some 100 KiB for a moment: giving them back to the kernel each time costs more. */
    (void) mallopt(M_TRIM_THRESHOLD, KEPT_FREE_BYTES);
    ledger_have_process();
    s->options = options;
    s->signals.fd = s->notify.fd = s->public.fd = s->admin.fd = s->ports.fd = -1;
    s->public.lock_fd = s->admin.lock_fd = s->ports.lock_fd = -1;
    dibs_status status = start(s, err);
    if (status == DIBS_OK && !options->is_check)
        status = run(s, err);
    end(s);
    free(s);
    return status;
}
