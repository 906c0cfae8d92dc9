/* SPDX-License-Identifier: MIT */
/* The server: its engines, turns and end. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "http/server_internal.h"

#include "base/banned.h"

/* Memory of one connection in libmicrohttpd: twice the request's head, and the head of the answer. */
enum { CONNECTION_BYTES = 8 << 10 };

/* Older versions have known weaknesses. */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2"

static void listener_close(struct http_listener *listener);

/* ---- engines ---- */

static void engine_ready(loop_source *source, uint32_t events)
{
    struct http_engine *engine = (struct http_engine *) source;

    (void) events;
    (void) MHD_run(engine->daemon);
}

/* Keep libmicrohttpd's message about a certificate that it refuses. */
static void keep_trouble(void *cls, const char *format, va_list arguments) DIBS_PRINTF(2, 0);
static void keep_trouble(void *cls, const char *format, va_list arguments)
{
    struct http_server *server = cls;
    char said[sizeof server->trouble] = "";

    (void) vsnprintf(said, sizeof said, format, arguments);
    said[strcspn(said, "\n")] = '\0';
    (void) text_safe(said, server->trouble, sizeof server->trouble);
}

/* Leave escapes to request_target.c. */
static size_t leave_escapes(void *cls, struct MHD_Connection *connection, char *text)
{
    (void) cls;
    (void) connection;
    return strlen(text);
}

/* MHD_add_connection() calls it at the start, the cleanup of MHD_run() at the end. */
static void connection_changed(void *cls, struct MHD_Connection *connection, void **context,
                               enum MHD_ConnectionNotificationCode what)
{
    struct http_engine *engine = cls;

    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        struct http_request *r = TAKE(engine->server->adding);

        r->connection = connection;
        *context = r;
    } else {
        connection_end(*context);
    }
}

#define CALLBACK(function, cls) (intptr_t)(function), (cls)

static struct MHD_Daemon *start(struct http_engine *engine, const char *cert_pem, const char *key_pem)
{
    struct http_server *server = engine->server;
    /* Log only for certificates: on Unix sockets it logs missing TCP options three times per answer. */
    unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | MHD_ALLOW_SUSPEND_RESUME |
                     (cert_pem ? MHD_USE_TLS | MHD_USE_ERROR_LOG : 0);
    struct MHD_OptionItem options[] = {
        { MHD_OPTION_NOTIFY_CONNECTION, CALLBACK(connection_changed, engine) },
        { MHD_OPTION_URI_LOG_CALLBACK, CALLBACK(request_head_begins, engine) },
        { MHD_OPTION_UNESCAPE_CALLBACK, CALLBACK(leave_escapes, engine) },
        { MHD_OPTION_NOTIFY_COMPLETED, CALLBACK(request_completed, engine) },
        { MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, NULL },
        { MHD_OPTION_CONNECTION_LIMIT, (intptr_t) (server->limits.max_connections + HTTP_RESERVED_MAX),
          NULL },
        { MHD_OPTION_STRICT_FOR_CLIENT, 1, NULL },
        { MHD_OPTION_END, 0, NULL },
    };

    /* Nothing after the end marker is read. */
    return MHD_start_daemon(
        flags, 0, NULL, NULL, request_arrives, engine, MHD_OPTION_EXTERNAL_LOGGER, keep_trouble, server,
        MHD_OPTION_ARRAY, options, cert_pem ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, cert_pem,
        MHD_OPTION_HTTPS_MEM_KEY, key_pem, MHD_OPTION_HTTPS_PRIORITIES, TLS_PRIORITIES, MHD_OPTION_END);
}

/* Its connections must not be suspended. */
static void engine_close(struct http_engine *engine)
{
    if (!engine)
        return;
    if (engine->source.fd >= 0)
        loop_remove(engine->server->loop, &engine->source);
    if (engine->daemon)
        MHD_stop_daemon(engine->daemon);
    free(engine);
}
DEFINE_AUTO(struct http_engine, engine_close)

/* Open an engine, without TLS when there is no certificate. */
static dibs_status engine_open(struct http_server *server, const char *cert_pem, const char *key_pem,
                               struct http_engine **out, dibs_err *err)
{
    AUTO(engine_close_auto) struct http_engine *engine = calloc(1, sizeof *engine);

    if (!engine)
        return err_set(err, DIBS_FAILURE, "HTTP server: out of memory");
    engine->server = server;
    engine->source = (loop_source){ .fd = -1, .ready = engine_ready };
    server->trouble[0] = '\0';
    engine->daemon = start(engine, cert_pem, key_pem);
    if (!engine->daemon && cert_pem)
        return err_set(err, DIBS_INVALID, "cannot use the certificate and its key: %s", server->trouble);
    if (!engine->daemon)
        return err_os(err, DIBS_UNAVAILABLE, errno, "cannot start an HTTP server");
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(engine->daemon, MHD_DAEMON_INFO_EPOLL_FD);

    engine->source.fd = info ? info->epoll_fd : -1;
    dibs_status s = loop_add(server->loop, &engine->source, EPOLLIN, err);
    if (s != DIBS_OK) {
        engine->source.fd = -1;
        return s;
    }
    TAILQ_INSERT_TAIL(&server->engines, engine, link);
    *out = TAKE(engine);
    return DIBS_OK;
}

dibs_status http_set_tls(struct http_server *server, const char *cert_pem, const char *key_pem, dibs_err *err)
{
    struct http_engine *old = server->tls;
    dibs_status s = engine_open(server, cert_pem, key_pem, &server->tls, err);

    if (s == DIBS_OK && old)
        old->is_retired = true;
    return s;
}

/* ---- open and close ---- */

static size_t or_default(size_t value, size_t otherwise)
{
    return value ? value : otherwise;
}

dibs_status http_open(struct loop *loop, const struct http_limits *limits, const struct http_handler *handler,
                      struct http_server **out, dibs_err *err)
{
    struct http_server *server = calloc(1, sizeof *server);

    if (!server)
        return err_set(err, DIBS_FAILURE, "HTTP server: out of memory");
    server->loop = loop;
    server->handler = handler;
    server->limits = (struct http_limits){
        .max_connections = or_default(limits->max_connections, HTTP_CONNECTIONS_DEFAULT),
        .max_per_user = or_default(limits->max_per_user, HTTP_PER_USER_DEFAULT),
        .max_unknown = limits->max_unknown,
        .max_unknown_ms = limits->max_unknown_ms,
        .max_large = or_default(limits->max_large, HTTP_LARGE_DEFAULT),
        .max_body_bytes = or_default(limits->max_body_bytes, HTTP_BODY_DEFAULT),
        .max_stream_bytes = or_default(limits->max_stream_bytes, HTTP_STREAM_DEFAULT),
        .max_step_ms = limits->max_step_ms ? limits->max_step_ms : HTTP_STEP_DEFAULT_MS,
    };
    server->accept_again_ms = INT64_MAX;
    TAILQ_INIT(&server->engines);
    TAILQ_INIT(&server->listeners);
    TAILQ_INIT(&server->requests);
    TAILQ_INIT(&server->steps);
    TAILQ_INIT(&server->unknown);
    TAILQ_INIT(&server->accounts);
    dibs_status s = engine_open(server, NULL, NULL, &server->no_tls, err);
    if (s != DIBS_OK) {
        http_close(server);
        return s;
    }
    *out = server;
    return DIBS_OK;
}

void http_close(struct http_server *server)
{
    if (!server)
        return;
    while (!TAILQ_EMPTY(&server->listeners))
        listener_close(TAILQ_FIRST(&server->listeners));
    /* libmicrohttpd cannot stop while one of its connections is suspended. */
    for (struct http_request *r = TAILQ_FIRST(&server->requests); r; r = TAILQ_NEXT(r, link)) {
        bool is_open = r->state == HTTP_PENDING || r->state == HTTP_STREAMING;

        r->state = HTTP_GONE;
        if (is_open)
            server->handler->abandoned(server->handler->ctx, r);
        connection_resume(r);
    }
    while (!TAILQ_EMPTY(&server->engines)) {
        struct http_engine *engine = TAILQ_FIRST(&server->engines);

        TAILQ_REMOVE(&server->engines, engine, link);
        engine_close(engine);
    }
    free(server);
}

static void listener_close(struct http_listener *listener)
{
    struct http_server *server = listener->server;

    TAILQ_REMOVE(&server->listeners, listener, link);
    loop_remove(server->loop, &listener->source);
    (void) close(listener->source.fd);
    free(listener);
}

dibs_status http_listen(struct http_server *server, int fd, void *user, unsigned flags, dibs_err *err)
{
    if ((flags & HTTP_TLS) && !server->tls)
        return err_set(err, DIBS_INVALID, "TLS needs a certificate");
    AUTO(free_auto) struct http_listener *listener = calloc(1, sizeof *listener);
    int modes = fcntl(fd, F_GETFL);

    if (!listener)
        return err_set(err, DIBS_FAILURE, "HTTP server: out of memory");
    /* Nonblocking: the client may be gone before accept(). */
    if (modes < 0 || fcntl(fd, F_SETFL, modes | O_NONBLOCK) != 0)
        return err_set(err, DIBS_FAILURE, "descriptor %d is no listening socket", fd);
    *listener = (struct http_listener){
        .source = { .fd = fd, .ready = listener_ready },
        .server = server,
        .user = user,
        .is_tls = (flags & HTTP_TLS) != 0,
        .is_reserved = (flags & HTTP_RESERVED) != 0,
    };
    dibs_status s = loop_add(server->loop, &listener->source, server->is_paused ? 0 : EPOLLIN, err);

    if (s != DIBS_OK)
        return s;
    TAILQ_INSERT_TAIL(&server->listeners, listener, link);
    listener = NULL;
    return DIBS_OK;
}

void http_stop_accepting(struct http_server *server)
{
    if (server->is_stopping)
        return;
    while (!TAILQ_EMPTY(&server->listeners))
        listener_close(TAILQ_FIRST(&server->listeners));
    server->is_stopping = true;
    /* A client that has just connected is about to send a request, and needs an answer. */
    for (struct http_request *r = TAILQ_FIRST(&server->requests); r; r = TAILQ_NEXT(r, link)) {
        if (connection_is_idle(r))
            connection_cut(r);
        else if (r->state == HTTP_ARRIVING)
            connection_hurry(r);
    }
}

static bool is_busy(const struct http_engine *engine)
{
    MHD_UNSIGNED_LONG_LONG ms = 1;

    /* Only timeouts of 0 occur: the others are in server->steps. */
    return engine->is_due || (MHD_get_timeout(engine->daemon, &ms) == MHD_YES && ms == 0);
}

static void engine_run(struct http_engine *engine)
{
    /* Run twice: libmicrohttpd builds the answer to a suspended request first, and then sends it. */
    for (int i = 0; i < 2 && is_busy(engine); i++) {
        engine->is_due = false;
        (void) MHD_run(engine->daemon);
    }
}

void http_run(struct http_server *server)
{
    int64_t now_ms = clock_monotonic_ms();
    struct http_engine *next = NULL;
    struct http_request *late = NULL;

    server->turn++;
    if (now_ms >= server->accept_again_ms)
        accept_resume(server);
    while ((late = TAILQ_FIRST(&server->steps)) && late->deadline_ms <= now_ms)
        connection_cut(late);
    while ((late = TAILQ_FIRST(&server->unknown)) && late->known_by_ms <= now_ms)
        connection_cut(late);
    for (struct http_engine *engine = TAILQ_FIRST(&server->engines); engine; engine = next) {
        next = TAILQ_NEXT(engine, link);
        engine_run(engine);
        if (engine->is_retired && engine->n_connections == 0) {
            TAILQ_REMOVE(&server->engines, engine, link);
            engine_close(engine);
        }
    }
}

int64_t http_next_ms(const struct http_server *server)
{
    const struct http_request *first = TAILQ_FIRST(&server->steps);
    const struct http_request *unknown = TAILQ_FIRST(&server->unknown);
    int64_t at =
        first && first->deadline_ms < server->accept_again_ms ? first->deadline_ms : server->accept_again_ms;

    if (unknown && unknown->known_by_ms < at)
        at = unknown->known_by_ms;
    for (const struct http_engine *engine = TAILQ_FIRST(&server->engines); engine;
         engine = TAILQ_NEXT(engine, link))
        if (is_busy(engine))
            return 0;
    return clock_until_ms(at);
}

size_t http_connections(const struct http_server *server)
{
    return server->n_connections;
}
