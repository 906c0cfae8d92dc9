/* SPDX-License-Identifier: MIT */
#include "daemon/serve.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "daemon/api/api.h"
#include "daemon/portserver/portserver.h"
#include "daemon/scrape.h"
#include "hold/enforced_mark.h"
#include "hold/reserve.h"
#include "lib/doctor.h"
#include "server/certificate.h"
#include "server/listeners.h"
#include "server/log.h"
#include "server/runtime.h"

#include "base/banned.h"

enum {
    DRAIN_MS = 5000,     /* time for pending requests after SIGTERM; then connections are closed */
    NODE_TTL_MS = 15000, /* longer than a leader election, short enough to wait for */
    LOOK_MS = 1000,      /* interval at which files are checked for a change, in a turn that happens anyway */
};

struct serve {
    const struct serve_options *options;
    dibs_settings settings;
    struct runtime runtime;
    struct engine *engine;
    struct activation given; /* sockets of the service manager */
    struct reserve *reserve; /* NULL: claimed ports are not published */
    struct enforce *enforce; /* NULL: the kernel enforces nothing */
    int enforced_mark;       /* enforced_mark_take(); -1: none */
    struct quota *quota;
    struct metrics *metrics;
    struct api_options api_options; /* shared by the API and the portserver */
    struct ui *ui;
    struct api *api;
    struct portserver *portserver; /* NULL: none */
    struct scrape *scrape;         /* NULL: metrics only on the API's sockets */
    struct socket_file public, admin, ports;
    struct certificate certificate;
    int64_t look_ms; /* when to check files next */
};

/* "/run/dibs/dibs.sock" for root, "$XDG_RUNTIME_DIR/dibs/dibs.sock" for others. */
static dibs_status default_socket(char *out, size_t size, dibs_err *err)
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

static void changed(void *ctx, const dibs_event *event, const char *pool, int change)
{
    struct serve *s = ctx;

    metrics_changed(s->metrics, event, pool);
    if (change > 0)
        quota_note(s->quota, event->principal, 1);
    if (change < 0)
        quota_give(s->quota, event->principal, 1);
    if (s->api)
        api_changed(s->api, event);
}

static bool count_claim(void *ctx, const dibs_claim *claim)
{
    if (!claim->node[0])
        quota_note(ctx, claim->principal, 1);
    return true;
}

/* Count the existing claims of every user. */
static dibs_status count_claims(struct serve *s, dibs_err *err)
{
    const struct call call = handle_call(s->engine->handle);

    /* The file speaks of the host's uids. */
    if (s->engine->core->view.users.is_initial)
        (void) quota_follow_owners(s->quota, SUBUID_FILE);
    quota_clear(s->quota);
    return ledger_list(s->engine->ledger, &call, &(struct ledger_filter){ 0 }, count_claim, s->quota, err);
}

static dibs_status reset(void *ctx, dibs_err *err)
{
    struct serve *s = ctx;
    dibs_status status = count_claims(s, err);

    if (status != DIBS_OK)
        return status;
    LOG(LOG_WARNING, "the ledger was replaced, or has trimmed events: all claims were read again");
    metrics_reset(s->metrics);
    api_reset(s->api);
    return DIBS_OK;
}

/* Load the certificate and the tokens for TCP; called again at a reload. */
static dibs_status load_tls(struct serve *s, dibs_err *err)
{
    struct tokens *tokens = NULL;

    if (!s->options->listen)
        return DIBS_OK;
    dibs_status status = tokens_load(s->options->tokens, &tokens, err);
    if (status == DIBS_OK)
        status = certificate_load(&s->certificate, api_http(s->api), err);
    if (status == DIBS_OK)
        api_set_tokens(s->api, tokens);
    else
        tokens_free(tokens);
    return status;
}

static dibs_status check_options(const struct serve_options *o, dibs_err *err)
{
    if (o->listen && !(o->tls_cert && o->tls_key && o->tokens))
        return err_set(
            err, DIBS_INVALID,
            "--listen needs --tls-cert, --tls-key and --tokens: callers over TCP are identified by them");
    if (!o->listen && (o->tls_cert || o->tls_key || o->tokens))
        return err_set(err, DIBS_INVALID, "--tls-cert, --tls-key and --tokens are for --listen ADDRESS:PORT");
    dibs_status status = o->listen ? socket_check_tcp(o->listen, false, err) : DIBS_OK;
    if (status == DIBS_OK && o->portserver_http)
        status = socket_check_tcp(o->portserver_http, true, err);
    if (status == DIBS_OK && o->metrics && socket_check_tcp(o->metrics, true, err) != DIBS_OK)
        status = err_wrap(err, DIBS_INVALID, "--metrics (other addresses: --listen, with TLS and tokens)");
    const char *const paths[] = { o->socket, o->admin_socket, o->portserver };
    for (size_t i = 0; i < sizeof paths / sizeof *paths && status == DIBS_OK; i++)
        status = paths[i] ? socket_check_unix(paths[i], paths[i] == o->portserver, err) : DIBS_OK;
    return status;
}

static dibs_status serve_on(struct serve *s, int fd, enum activation_role role, dibs_err *err)
{
    dibs_status status = DIBS_OK;

    if (role != ACTIVATION_PORTSERVER)
        return api_listen(s->api, fd, role == ACTIVATION_ADMIN ? CALLER_ADMIN : CALLER_PUBLIC, err);
    if (!s->portserver)
        status = portserver_open(&s->api_options, &s->portserver, err);
    return status == DIBS_OK ? portserver_listen(s->portserver, fd, err) : status;
}

/* Open a Unix socket. The system daemon's socket is open to all users, a user's own only to that user. */
static dibs_status open_unix(struct serve *s, const char *path, enum activation_role role,
                             struct socket_file *file, dibs_err *err)
{
    mode_t mode = role != ACTIVATION_ADMIN && geteuid() == 0 ? 0666 : 0600;
    dibs_status status = path ? socket_open_unix(path, mode, file, err) : DIBS_OK;

    return status == DIBS_OK && path ? serve_on(s, file->fd, role, err) : status;
}

static dibs_status open_api(struct serve *s, dibs_err *err)
{
    char path[108];
    char admin[108];
    const char *public_path = s->options->socket;
    const char *admin_path = s->options->admin_socket;
    dibs_status status = DIBS_OK;

    if (!public_path) {
        status = default_socket(path, sizeof path, err);
        if (status != DIBS_OK)
            return status;
        public_path = path;
        (void) snprintf(admin, sizeof admin, "%.*s/admin.sock", (int) (strrchr(path, '/') - path), path);
        admin_path = admin_path ? admin_path : admin;
    }
    status = open_unix(s, public_path, ACTIVATION_PUBLIC, &s->public, err);
    return status == DIBS_OK ? open_unix(s, admin_path, ACTIVATION_ADMIN, &s->admin, err) : status;
}

static dibs_status open_tcp(struct serve *s, const char *address, enum caller_listener listener,
                            dibs_err *err)
{
    int fd = -1;

    if (!address)
        return DIBS_OK;
    dibs_status status = socket_open_tcp(address, listener == CALLER_LOOPBACK, &fd, err);
    return status == DIBS_OK ? api_listen(s->api, fd, listener, err) : status;
}

/* Let the open pages of an earlier daemon reach this one. */
static void wait_for_pages(struct serve *s)
{
    dibs_err err = { 0 };

    if (ui_is_awaited(s->ui) && api_listen_for_pages(s->api, &err) != DIBS_OK)
        LOG(LOG_WARNING, "the dashboard is closed until the next 'dibs ui'", "why", err.msg);
}

/* Open the dashboard for the user who started this process. */
static dibs_status open_page(struct serve *s, dibs_err *err)
{
    char url[UI_URL_BYTES];
    int64_t expires_ms = 0;
    dibs_status status = api_listen_for_pages(s->api, err);

    if (status == DIBS_OK)
        status = ui_offer(s->ui, s->api_options.uid, url, &expires_ms, err);
    if (status == DIBS_OK)
        status = s->options->page->opened(s->options->ctx, url, expires_ms, err);
    return status;
}

static dibs_status open_listeners(struct serve *s, dibs_err *err)
{
    const struct activation *given = &s->given;
    dibs_status status = DIBS_OK;

    if (s->options->page)
        return open_page(s, err);

    for (size_t i = 0; i < given->n && status == DIBS_OK; i++) {
        if (given->socket[i].role == ACTIVATION_ADMIN)
            status = socket_check_closed(given->socket[i].fd, err);
        if (status == DIBS_OK)
            status = serve_on(s, given->socket[i].fd, given->socket[i].role, err);
    }
    if (status == DIBS_OK && given->n == 0)
        status = open_api(s, err);
    if (status == DIBS_OK)
        status = open_unix(s, s->options->portserver, ACTIVATION_PORTSERVER, &s->ports, err);
    if (status == DIBS_OK)
        status = load_tls(s, err);
    if (status == DIBS_OK)
        status = open_tcp(s, s->options->listen, CALLER_TCP, err);
    if (status == DIBS_OK)
        status = open_tcp(s, s->options->portserver_http, CALLER_LOOPBACK, err);
    if (status == DIBS_OK)
        wait_for_pages(s);
    if (status == DIBS_OK && s->options->metrics)
        status = scrape_open(s->runtime.loop, s->options->metrics, s->metrics, s->api, &s->scrape, err);
    return status;
}

/* For --check-config: use a ledger in memory if the daemon would make the file or fill an empty one. Anything
 * in its way is left to the store to report. */
static void make_no_file(dibs_settings *settings)
{
    static const char scheme[] = "sqlite:";
    char path[sizeof settings->ledger];
    char log[sizeof path + 4];
    struct stat st = { 0 };

    (void) text_copy(path, sizeof path, settings->ledger + sizeof scheme - 1);
    if (strncmp(settings->ledger, scheme, sizeof scheme - 1) != 0)
        return;
    if (lstat(path, &st) == 0) {
        (void) snprintf(log, sizeof log, "%s-wal", path);
        if (S_ISREG(st.st_mode) && st.st_size == 0 && access(path, R_OK | W_OK) == 0 &&
            access(log, F_OK) != 0)
            (void) text_copy(settings->ledger, sizeof settings->ledger, "memory:");
        return;
    }
    for (char *slash = strrchr(path, '/'); slash && errno == ENOENT; slash = strrchr(path, '/')) {
        slash[slash == path] = '\0';
        if (access(path, W_OK | X_OK) == 0) {
            (void) text_copy(settings->ledger, sizeof settings->ledger, "memory:");
            return;
        }
    }
}

/* Let the kernel enforce the claims, if that was asked for. */
static dibs_status enforce(struct serve *s, dibs_err *err)
{
    const struct serve_options *o = s->options;
    const struct enforce_options options = { .program = o->enforce_program,
                                             .view = &s->engine->core->view,
                                             .is_persistent = o->is_persistent };

    if (!o->enforce_program || o->is_check)
        return DIBS_OK;
    dibs_status status = enforced_mark_take(s->settings.ledger, o->is_persistent, &s->enforced_mark, err);
    if (status == DIBS_OK)
        status = enforce_open(&options, &s->enforce, err);
    return status == DIBS_OK ? engine_enforce(s->engine, s->enforce, err) : status;
}

/* Find the file that names our reserved ports: beside the ledger, or where root's daemons have their sockets.
 */
static dibs_status reserve(struct serve *s, dibs_err *err)
{
    static const char scheme[] = "sqlite:";
    const char *ledger = s->settings.ledger;
    bool is_file = strncmp(ledger, scheme, sizeof scheme - 1) == 0;
    char path[sizeof s->settings.ledger + 16];

    if (s->options->is_check)
        return DIBS_OK;
    (void) snprintf(path, sizeof path, "%s-reserved",
                    is_file ? ledger + sizeof scheme - 1 : "/run/dibs/ports");
    if (!s->options->reserves) { /* one that was killed may have done so */
        reserve_remove(path, s->engine->core->view.boot_id);
        return DIBS_OK;
    }
    dibs_status status = reserve_open(path, s->engine->core->view.boot_id, &s->reserve, err);
    if (status == DIBS_OK)
        engine_reserve(s->engine, s->reserve);
    return status;
}

static dibs_status start(struct serve *s, dibs_err *err)
{
    const struct serve_options *o = s->options;
    dibs_status status = check_options(o, err);

    if (status == DIBS_OK)
        status = o->load(o->ctx, &s->settings, err);
    if (o->is_check)
        make_no_file(&s->settings);
    if (status == DIBS_OK)
        status = runtime_open(&s->runtime, err);
    if (status == DIBS_OK && !o->is_check && !o->page)
        status = activation_load(&s->given, err);
    if (status == DIBS_OK)
        status = quota_open(&(struct quota_options){ o->quota, o->rate }, &s->quota, err);
    if (status == DIBS_OK)
        status = engine_open(&(struct engine_options){ .loop = s->runtime.loop,
                                                       .settings = &s->settings,
                                                       .is_check = o->is_check,
                                                       .only_looks = o->page != NULL,
                                                       .given = &s->given,
                                                       .notify = &s->runtime.notify,
                                                       .node_ttl_ms = o->is_check || o->page ? 0
                                                                      : o->node_ttl_ms > 0   ? o->node_ttl_ms
                                                                                             : NODE_TTL_MS,
                                                       .changed = changed,
                                                       .reset = reset,
                                                       .ctx = s },
                             &s->engine, err);
    if (status == DIBS_OK)
        status = reserve(s, err);
    if (status == DIBS_OK)
        status = enforce(s, err);
    if (status == DIBS_OK)
        status = metrics_open(s->engine, o->kube_pool, &s->metrics, err);
    if (status == DIBS_OK)
        status = count_claims(s, err);
    if (status == DIBS_OK)
        status = ui_open(&(struct ui_options){ s->engine, o->page != NULL }, &s->ui, err);
    if (status != DIBS_OK)
        return status;
    s->api_options = (struct api_options){ .loop = s->runtime.loop,
                                           .settings = dibs_settings_of(s->engine->handle),
                                           .engine = s->engine,
                                           .quota = s->quota,
                                           .metrics = s->metrics,
                                           .ui = s->ui,
                                           .uid = (uint32_t) geteuid() };
    status = api_open(&s->api_options, &s->api, err);
    if (status == DIBS_OK && !o->is_check)
        status = open_listeners(s, err);
    else if (status == DIBS_OK)
        status = load_tls(s, err);
    return status == DIBS_OK && o->is_check && o->listen ? certificate_check(&s->certificate, err) : status;
}

/* Reload certificates, tokens and settings; the ledger and the sockets stay. */
static void reload(void *ctx)
{
    struct serve *s = ctx;
    dibs_err err = { 0 };
    const char *ledger = s->api_options.settings->ledger;
    AUTO(free_auto) dibs_settings *fresh = malloc(sizeof *fresh);
    dibs_status status =
        fresh ? s->options->load(s->options->ctx, fresh, &err) : err_set(&err, DIBS_FAILURE, "out of memory");
    if (fresh && status == DIBS_OK && strcmp(fresh->ledger, ledger) != 0)
        status = err_set(&err, DIBS_INVALID, "the ledger is %s now; another one needs a restart", ledger);
    if (status == DIBS_OK)
        status = load_tls(s, &err);
    if (status == DIBS_OK) {
        handle_reconfigure(s->engine->handle, fresh);
        LOG(LOG_INFO, "reloaded");
    } else
        LOG(LOG_ERROR, "reload refused, everything stays as it was", "why", err.msg);
}

/* Log statistics as one line, as Google's portserver does for the same signal. */
static void report(void *ctx)
{
    const struct serve *s = ctx;
    const struct engine_counts *counts = engine_count(s->engine);
    const uint64_t numbers[] = { counts->claims, counts->by_pidfd + counts->in_turn + counts->far,
                                 counts->reaped, api_connections(s->api) };
    char text[sizeof numbers / sizeof *numbers][24];

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void) snprintf(text[i], sizeof text[i], "%llu", (unsigned long long) numbers[i]);
    LOG(LOG_INFO, "statistics", "claims", text[0], "processes", text[1], "reaped", text[2], "connections",
        text[3]);
}

static int64_t next_ms(void *ctx)
{
    const struct serve *s = ctx;
    int64_t wait_ms = runtime_sooner(engine_next_ms(s->engine), api_next_ms(s->api));

    wait_ms = runtime_sooner(wait_ms, scrape_next_ms(s->scrape));
    if (s->options->page)
        wait_ms = runtime_sooner(wait_ms, LOOK_MS);
    /* The end of a cgroup's last process is no event. */
    if (s->enforce && enforce_has_cgroups(s->enforce)) {
        int64_t left_ms = s->look_ms - clock_monotonic_ms();

        wait_ms = runtime_sooner(wait_ms, left_ms > 0 ? left_ms : 0);
    }
    return s->portserver ? runtime_sooner(wait_ms, portserver_next_ms(s->portserver)) : wait_ms;
}

/* Notice changes of files that belong to the host. */
static void look(struct serve *s, int64_t now_ms)
{
    dibs_err err = { 0 };

    s->look_ms = now_ms + LOOK_MS;
    certificate_log_end(&s->certificate);
    if (s->enforce)
        enforce_clean(s->enforce);
    if (s->engine->core->view.users.is_initial && quota_follow_owners(s->quota, SUBUID_FILE) &&
        count_claims(s, &err) != DIBS_OK)
        LOG(LOG_ERROR, "the claims of each user cannot be counted", "why", err.msg);
}

static void turn(void *ctx)
{
    struct serve *s = ctx;
    int64_t now_ms = clock_monotonic_ms();

    if (now_ms >= s->look_ms)
        look(s, now_ms);
    engine_turn(s->engine);
    api_run(s->api);
    scrape_run(s->scrape);
    if (s->portserver)
        portserver_run(s->portserver);
    if (s->options->page && ui_is_idle(s->ui, s->options->page->idle_ms, api_has_pages(s->api)))
        s->runtime.is_stopping = true;
}

static bool drain(void *ctx)
{
    const struct serve *s = ctx;
    bool is_open = s->portserver && portserver_drain(s->portserver);

    is_open = scrape_drain(s->scrape) || is_open;
    return api_drain(s->api) || is_open;
}

/* Log a pool that this host's settings override: hosts that share a pool should agree about it. */
static bool log_overruled(void *ctx, const dibs_pool *pool)
{
    const struct serve *s = ctx;
    const struct call call = handle_call(s->engine->handle);
    char how[256];

    if (pool_is_overruled(s->engine->core, &call, pool, how, sizeof how))
        LOG(LOG_WARNING, "settings of this host overrule a pool of the cluster", "pool", pool->name, "how",
            how);
    return true;
}

/* The terminal has gone, or the shell on it. */
static void hang_up(void *ctx)
{
    struct serve *s = ctx;

    s->runtime.is_stopping = true;
}

static dibs_status run(struct serve *s, dibs_err *err)
{
    const struct runtime_hooks hooks = { .ctx = s,
                                         .turn = turn,
                                         .next_ms = next_ms,
                                         .reload = s->options->page ? hang_up : reload,
                                         .report = report,
                                         .drain = drain,
                                         .drain_ms = DRAIN_MS };

    LOG(LOG_INFO, "serving", "version", dibs_version(), "socket",
        s->public.path[0] ? s->public.path : "given", "ledger", s->settings.ledger);
    dibs_status listed = dibs_pool_list(s->engine->handle, log_overruled, s, err);
    return listed == DIBS_OK ? runtime_run(&s->runtime, &hooks, err) : listed;
}

static void end(struct serve *s)
{
    ui_release(s->ui);
    api_stop(s->api);
    engine_close(s->engine); /* early: it fails queued jobs, which the API and the portserver answer */
    scrape_close(s->scrape);
    api_close(s->api);
    ui_close(s->ui);
    portserver_close(s->portserver);
    quota_close(s->quota);
    metrics_close(s->metrics);
    socket_remove(&s->public);
    socket_remove(&s->admin);
    socket_remove(&s->ports);
    enforce_close(s->enforce);
    fd_auto(&s->enforced_mark);
    reserve_close(s->reserve);
    free(s->given.kept);
    runtime_close(&s->runtime);
}

dibs_status serve_run(const struct serve_options *options, dibs_err *err)
{
    struct serve *s = calloc(1, sizeof *s);

    if (!s)
        return err_set(err, DIBS_FAILURE, "starting the daemon: out of memory");
    ledger_have_process();
    if (options->page)
        log_from(LOG_WARNING); /* the terminal is a person's */
    s->options = options;
    s->enforced_mark = -1;
    s->certificate = (struct certificate){ .cert = options->tls_cert, .key = options->tls_key };
    s->public.fd = s->admin.fd = s->ports.fd = -1;
    s->public.lock_fd = s->admin.lock_fd = s->ports.lock_fd = -1;
    dibs_status status = start(s, err);
    if (status == DIBS_OK && !options->is_check)
        status = run(s, err);
    end(s);
    free(s);
    return status;
}
