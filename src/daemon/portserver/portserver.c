/* SPDX-License-Identifier: MIT */
#include "daemon/portserver/portserver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "codec/wire.h"

#include "base/banned.h"

enum {
    NO_DESCRIPTOR_MS = 100, /* delay before the next accept */
    LISTENERS_MAX = 16,     /* as many as a service manager passes */
    READ_BYTES = 4096,      /* more than a valid request: unread bytes would reset the connection */
};

struct listener {
    loop_source source; /* first */
    struct portserver *server;
    uint64_t moment; /* watch_moment() before the clients accepted from now on connected */
};

struct client {
    struct job job; /* first */
    loop_source source;
    struct portserver *server;
    TAILQ_ENTRY(client) link; /* in `silent` */
    uint64_t moment;          /* the listener's moment when this client was accepted */
    int64_t silent_until_ms;
    int64_t began_us;
    int32_t pid; /* in our pid namespace */
    uint16_t port;
    bool is_undone; /* the answer could not be sent: release its claim */
    struct quota_use use;
    dibs_status outcome;
    char principal[DIBS_PRINCIPAL_MAX + 1];
    char token[DIBS_TOKEN_MAX + 1];
};
TAILQ_HEAD(client_list, client);

struct portserver {
    struct api_options options;
    struct caller_view view;
    struct listener listeners[LISTENERS_MAX];
    size_t n_listeners;
    struct client_list silent;
    size_t n_open;
    int64_t accept_again_ms; /* 0: accepts now */
};

static void disconnect(struct client *a)
{
    (void) close(a->source.fd);
    a->server->n_open--;
    free(a);
}

/* Send the answer. Every failure is the same to the client: no text, and the connection ends. */
static bool answer(struct client *a)
{
    char text[8];
    bool is_sent = true;

    metrics_request(a->server->options.metrics, &metrics_portserver,
                    wire_http_status(&(dibs_err){ .code = a->outcome }), clock_monotonic_us() - a->began_us);
    if (a->outcome == DIBS_OK) {
        int n = snprintf(text, sizeof text, "%u\n", (unsigned) a->port);

        is_sent = send(a->source.fd, text, (size_t) n, MSG_NOSIGNAL | MSG_DONTWAIT) == n;
    }
    return is_sent;
}

static void refuse(struct client *a, dibs_status why)
{
    a->outcome = why;
    (void) answer(a);
    disconnect(a);
}

/* ---- jobs ---- */

static void claim(struct client *a, dibs *handle)
{
    dibs_request request = { .mode = DIBS_RANDOM,
                             .holder = DIBS_HELD_BY_PROCESS,
                             .pid = a->pid,
                             .bindings = { { DIBS_TCP, { .len = 16 } }, { DIBS_UDP, { .len = 16 } } },
                             .n_bindings = 2 };
    dibs_batch batch = { .requests = &request, .n = 1 };
    dibs_claim got;

    quota_begin(a->server->options.quota, a->principal, &a->use);
    a->outcome = dibs_claim_ports(handle, &batch, &got, NULL);
    quota_made(a->server->options.quota, a->principal, &a->use);
    if (a->outcome != DIBS_OK) {
        metrics_refused(a->server->options.metrics, &batch, dibs_settings_of(handle), a->outcome);
        return;
    }
    a->port = got.port;
    (void) text_copy(a->token, sizeof a->token, got.token);
}

static void work(struct job *job, dibs *handle)
{
    struct client *a = (struct client *) job;

    if (a->is_undone)
        (void) dibs_claim_release(handle, &(dibs_which){ .token = a->token }, 0, NULL, NULL);
    else
        claim(a, handle);
}

static void done(struct job *job, const dibs_err *err)
{
    struct client *a = (struct client *) job;

    if (a->is_undone) {
        disconnect(a);
        return;
    }
    quota_end(a->server->options.quota, a->principal, &a->use);
    if (err)
        a->outcome = err->code;
    if (answer(a)) {
        disconnect(a);
        return;
    }
    a->is_undone = true; /* the client has disconnected: no process would ever use the port (INV-4) */
    group_commit_queue(a->server->options.engine->group, &a->job);
}

/* ---- requests ---- */

/* Is it ASCII white space, as in Python? isspace() would depend on the locale. */
static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool portserver_pid_parse(const char *text, size_t n, int64_t *out)
{
    const char *end = text + n;
    int64_t value = 0;

    if (n > PORTSERVER_REQUEST_MAX)
        return false;
    while (text < end && is_space(*text))
        text++;
    while (end > text && is_space(end[-1]))
        end--;
    bool is_negative = text < end && *text == '-';
    if (text < end && (*text == '-' || *text == '+'))
        text++;
    if (text == end || !is_digit(*text) || !is_digit(end[-1]))
        return false;
    for (; text < end; text++) {
        if (*text == '_' && is_digit(text[-1]))
            continue;
        if (!is_digit(*text))
            return false;
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *text - '0', &value))
            value = INT64_MAX;
    }
    *out = is_negative ? -value : value;
    return true;
}

/* Identify the caller and the process that it asks for. */
static dibs_status identify(struct client *a, int64_t pid)
{
    struct portserver *server = a->server;
    struct caller caller;
    dibs_status s = DIBS_OK;

    if (pid <= 0 || pid > INT32_MAX)
        return DIBS_NOT_FOUND;
    a->pid = (int32_t) pid;
    if (!caller_load_watched(&server->view, server->options.engine->watch, a->moment, a->source.fd, &caller))
        s = caller_load(&server->view, a->source.fd, CALLER_PUBLIC, &caller);
    if (s != DIBS_OK)
        return s;
    if (quota_request(server->options.quota, caller.call.uid, clock_monotonic_ms()) != 0)
        s = DIBS_UNAVAILABLE;
    if (s == DIBS_OK)
        s = caller_translate(&server->view, &caller, DIBS_HELD_BY_PROCESS, &a->pid, NULL);
    peer_done(&caller.peer);
    if (a->pid == 1) /* init of this host, which never ends: no request is for it */
        s = DIBS_NOT_FOUND;
    (void) text_copy(a->principal, sizeof a->principal, caller.principal);
    a->job.call = caller.call;
    a->job.call.principal = a->principal;
    a->job.call.allowance = &a->use.allowance;
    return s;
}

static void take(struct client *a, const char *bytes, size_t n)
{
    int64_t pid = 0;
    dibs_status s = portserver_pid_parse(bytes, n, &pid) ? identify(a, pid) : DIBS_INVALID;

    if (s == DIBS_OK)
        group_commit_queue(a->server->options.engine->group, &a->job);
    else
        refuse(a, s);
}

/* Read the request in one read, as Google's server does: a client need not send a newline, so nothing else
 * marks its end. Return false when nothing has come yet. */
static bool read_request(struct client *a)
{
    char bytes[READ_BYTES];
    ssize_t n = recv(a->source.fd, bytes, sizeof bytes, MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    a->began_us = clock_monotonic_us();
    take(a, bytes, n < 0 ? 0 : (size_t) n);
    return true;
}

static void end_silence(struct client *a)
{
    loop_remove(a->server->options.loop, &a->source);
    TAILQ_REMOVE(&a->server->silent, a, link);
}

static void on_request(loop_source *source, uint32_t events)
{
    struct client *a = (struct client *) ((char *) source - offsetof(struct client, source));

    (void) events;
    end_silence(a);
    if (!read_request(a))
        disconnect(a); /* the loop had reported input */
}

static void cut_off(struct client *a)
{
    end_silence(a);
    disconnect(a);
}

/* ---- connections ---- */

/* Do all clients wait for the engine, which answers in this turn or the next? */
static bool is_full(const struct portserver *server)
{
    return server->n_open == PORTSERVER_CONNECTIONS_MAX && TAILQ_EMPTY(&server->silent);
}

static void accept_client(struct listener *listener, int fd)
{
    struct portserver *server = listener->server;

    if (server->n_open == PORTSERVER_CONNECTIONS_MAX)
        cut_off(TAILQ_FIRST(&server->silent));
    struct client *a = malloc(sizeof *a);
    if (!a) {
        (void) close(fd);
        return;
    }
    *a = (struct client){ .job = { .work = work, .done = done },
                          .source = { fd, on_request },
                          .server = server,
                          .moment = listener->moment };
    server->n_open++;
    if (read_request(a))
        return;
    a->silent_until_ms = clock_monotonic_ms() + PORTSERVER_SILENT_MS;
    TAILQ_INSERT_TAIL(&server->silent, a, link);
    if (loop_add(server->options.loop, &a->source, EPOLLIN, NULL) != DIBS_OK)
        cut_off(a);
}

static void set_accepting(struct portserver *server, uint32_t events, int64_t again_ms)
{
    server->accept_again_ms = again_ms;
    for (size_t i = 0; i < server->n_listeners; i++)
        loop_change(server->options.loop, &server->listeners[i].source, events);
}

static void on_connection(loop_source *source, uint32_t events)
{
    struct listener *listener = (struct listener *) source;
    struct portserver *server = listener->server;

    (void) events;
    /* Accept until no client is waiting, so that the moment is known; bounded in each turn. */
    for (int i = 0; i < PORTSERVER_CONNECTIONS_MAX && !is_full(server); i++) {
        int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            accept_client(listener, fd);
            continue;
        }
        if (errno == EAGAIN) {
            listener->moment = watch_moment(server->options.engine->watch);
            return;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            set_accepting(server, 0, clock_monotonic_ms() + NO_DESCRIPTOR_MS);
            return;
        }
    }
}

dibs_status portserver_listen(struct portserver *server, int fd, dibs_err *err)
{
    struct listener *listener = &server->listeners[server->n_listeners];

    if (server->n_listeners == LISTENERS_MAX)
        return err_set(err, DIBS_INVALID, "at most %d portserver addresses can be served", LISTENERS_MAX);
    *listener = (struct listener){ .source = { fd, on_connection }, .server = server };
    dibs_status s = loop_add(server->options.loop, &listener->source, EPOLLIN, err);
    server->n_listeners += s == DIBS_OK;
    return s;
}

/* ---- open and close ---- */

dibs_status portserver_open(const struct api_options *options, struct portserver **out, dibs_err *err)
{
    struct portserver *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "starting the portserver: out of memory");
    self->options = *options;
    self->view = (struct caller_view){ &options->engine->core->view, options->settings, options->uid };
    TAILQ_INIT(&self->silent);
    *out = self;
    return DIBS_OK;
}

static void stop_listening(struct portserver *server)
{
    for (size_t i = 0; i < server->n_listeners; i++) {
        loop_remove(server->options.loop, &server->listeners[i].source);
        (void) close(server->listeners[i].source.fd);
    }
    server->n_listeners = 0;
    while (!TAILQ_EMPTY(&server->silent))
        cut_off(TAILQ_FIRST(&server->silent));
}

void portserver_close(struct portserver *server)
{
    if (!server)
        return;
    stop_listening(server);
    free(server);
}

void portserver_run(struct portserver *server)
{
    int64_t now_ms = clock_monotonic_ms();
    struct client *first = TAILQ_FIRST(&server->silent);

    if (server->accept_again_ms != 0 && now_ms >= server->accept_again_ms)
        set_accepting(server, EPOLLIN, 0);
    while (first && now_ms >= first->silent_until_ms) {
        cut_off(first);
        first = TAILQ_FIRST(&server->silent);
    }
}

int64_t portserver_next_ms(const struct portserver *server)
{
    const struct client *first = TAILQ_FIRST(&server->silent);
    int64_t at_ms = first ? first->silent_until_ms : INT64_MAX;

    if (server->accept_again_ms != 0 && server->accept_again_ms < at_ms)
        at_ms = server->accept_again_ms;
    return clock_until_ms(at_ms);
}

bool portserver_drain(struct portserver *server)
{
    stop_listening(server);
    return portserver_connections(server) > 0;
}

size_t portserver_connections(const struct portserver *server)
{
    return server->n_open;
}
