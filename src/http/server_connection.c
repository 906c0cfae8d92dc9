/* SPDX-License-Identifier: MIT */
/* The life of a connection, and the deadlines of its steps. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "http/server_internal.h"

#include "base/banned.h"

enum { BODY_KEPT_BYTES = 16 << 10 }; /* kept for the next request; larger ones are rare */

/* ---- steps: a head, a body, an answer, each within max_step_ms ---- */

void connection_end_step(struct http_request *r)
{
    if (r->is_timed)
        TAILQ_REMOVE(&r->server->steps, r, step);
    r->is_timed = false;
}

void connection_begin_step(struct http_request *r)
{
    connection_end_step(r);
    r->deadline_ms = clock_monotonic_ms() + r->server->limits.max_step_ms;
    TAILQ_INSERT_TAIL(&r->server->steps, r, step);
    r->is_timed = true;
}

void connection_cut(struct http_request *r)
{
    connection_end_step(r);
    accept_end_unknown(r);
    (void) shutdown(r->watch.fd, SHUT_RDWR);
}

void connection_hurry(struct http_request *r)
{
    enum { STOPPING_STEP_MS = 1000 };

    connection_end_step(r);
    r->deadline_ms = clock_monotonic_ms() + STOPPING_STEP_MS;
    TAILQ_INSERT_HEAD(&r->server->steps, r, step); /* before all with later deadlines */
    r->is_timed = true;
}

bool connection_is_idle(const struct http_request *r)
{
    char byte = 0;

    return r->state == HTTP_ARRIVING && r->is_used && !r->method &&
           recv(r->watch.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 1;
}

/* ---- while libmicrohttpd has suspended the connection ---- */

static void unwatch(struct http_request *r)
{
    if (r->is_watched)
        loop_remove(r->server->loop, &r->watch);
    r->is_watched = false;
}

static void client_left(loop_source *source, uint32_t events)
{
    struct http_request *r = (struct http_request *) source;

    (void) events;
    unwatch(r);
    if (r->state != HTTP_PENDING && r->state != HTTP_STREAMING)
        return;
    r->state = HTTP_GONE;
    r->server->handler->abandoned(r->server->handler->ctx, r);
    connection_resume(r);
}

void connection_suspend(struct http_request *r)
{
    MHD_suspend_connection(r->connection);
    r->is_suspended = true;
    /* A client that has only closed its sending side still waits for its answer; TLS has no such state. If
     * the watch fails for lack of memory, the answer finds out that the client is gone. */
    if (!r->is_watched)
        r->is_watched = loop_add(r->server->loop, &r->watch, r->is_tls ? EPOLLRDHUP : 0, NULL) == DIBS_OK;
}

void connection_resume(struct http_request *r)
{
    if (!r->is_suspended)
        return;
    r->is_suspended = false;
    MHD_resume_connection(r->connection);
    r->engine->is_due = true;
}

void connection_add(struct http_server *server, int fd, const struct http_listener *from,
                    struct http_account *account)
{
    const struct http_handler *handler = server->handler;
    struct http_request *r = calloc(1, sizeof *r);
    const struct sockaddr unused = { 0 }; /* libmicrohttpd copies it and never reads it */

    if (r && handler->connected)
        r->peer = handler->connected(handler->ctx, fd, from->user);
    if (!r || (handler->connected && !r->peer)) {
        (void) close(fd);
        accept_leave(server, account);
        free(r);
        return;
    }
    r->watch = (loop_source){ .fd = fd, .ready = client_left };
    r->server = server;
    r->engine = from->is_tls ? server->tls : server->no_tls;
    r->is_tls = from->is_tls;
    r->account = account;
    accept_begin_unknown(r);
    server->n_connections++;
    r->engine->n_connections++;
    TAILQ_INSERT_TAIL(&server->requests, r, link);
    connection_begin_step(r);
    server->adding = r;
    /* libmicrohttpd owns the descriptor from here on, even on failure. */
    (void) MHD_add_connection(r->engine->daemon, fd, &unused, sizeof unused);
    if (server->adding == r) { /* refused before it started */
        server->adding = NULL;
        connection_end(r);
    }
}

void connection_end(struct http_request *r)
{
    struct http_server *server = r->server;

    connection_reset(r);
    connection_end_step(r);
    TAILQ_REMOVE(&server->requests, r, link);
    server->n_connections--;
    r->engine->n_connections--;
    accept_end_unknown(r);
    r->account->n_leaving -= r->is_leaving;
    accept_leave(server, r->account);
    if (server->handler->disconnected)
        server->handler->disconnected(server->handler->ctx, r->peer);
    bytes_done(&r->target_text);
    bytes_done(&r->body);
    free(r);
    accept_resume(server);
}

void connection_count_large(struct http_request *r)
{
    if (!r->is_large)
        r->account->n_large++;
    r->is_large = true;
}

static void uncount_large(struct http_request *r)
{
    if (r->is_large)
        r->account->n_large--;
    r->is_large = false;
}

void connection_reset(struct http_request *r)
{
    bool is_open = r->state == HTTP_PENDING || r->state == HTTP_STREAMING;

    unwatch(r);
    r->state = HTTP_GONE;
    if (is_open)
        r->server->handler->abandoned(r->server->handler->ctx, r);
    if (r->body.capacity > BODY_KEPT_BYTES)
        bytes_done(&r->body);
    r->body.n = 0;
    bytes_done(&r->stream);
    r->stream_at = 0;
    r->is_stream_ended = false;
    r->is_suspended = false;
    r->is_body_too_large = r->is_crowded = false;
    uncount_large(r);
    r->method = NULL;
    r->user = NULL;
    r->state = HTTP_ARRIVING;
    r->is_used = true;
    if (r->server->is_stopping)
        connection_hurry(r);
    else
        connection_begin_step(r);
}
