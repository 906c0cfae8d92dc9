/* SPDX-License-Identifier: MIT */
#include "support/http.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "http/server.h"

/* ---- the handler ---- */

static void w_forget(struct http_request **list, size_t *n, struct http_request *r)
{
    for (size_t i = 0; i < *n; i++)
        if (list[i] == r)
            list[i--] = list[--*n];
}

void w_answer(struct http_request *r, int status, const char *text)
{
    struct bytes body = { 0 };

    bytes_add_text(&body, text);
    http_answer(r, status, "text/plain", &body, NULL, 0);
}

/* "METHOD PATH key=value... [body]" */
static void w_echo(struct http_request *r)
{
    char *text = NULL;
    size_t size = 0;
    size_t n = 0;
    const char *key = NULL;
    const char *value = NULL;
    const char *bytes = http_body(r, &n);
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    (void) fprintf(out, "%s %s", http_method(r), http_path(r));
    for (size_t i = 0; http_query_at(r, i, &key, &value); i++)
        (void) fprintf(out, " %s=%s", key, value);
    (void) fprintf(out, " [%.*s]", (int) (n < 100 ? n : 100), bytes);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(bytes[n], '\0');
    http_answer(r, 200, "text/plain", &(struct bytes){ .at = text, .n = size, .capacity = size }, NULL, 0);
}

static void *w_connected(void *ctx, int fd, void *listener)
{
    struct world *w = ctx;

    (void) fd;
    assert_ptr_equal(listener, w);
    w->n_connected += !w->refuses;
    return w->refuses ? NULL : w;
}

static void w_disconnected(void *ctx, void *peer)
{
    struct world *w = ctx;

    assert_ptr_equal(peer, w);
    w->n_disconnected++;
}

static void w_requested(void *ctx, struct http_request *r)
{
    struct world *w = ctx;

    w->n_requested++;
    assert_ptr_equal(http_peer(r), w);
    if (strcmp(http_path(r), "/now") == 0)
        w_echo(r);
    else if (strcmp(http_path(r), "/later") == 0)
        w->held[w->n_held++] = r;
    else
        w->turn[w->n_turn++] = r;
    assert_true(w->n_turn < W_HELD_MAX && w->n_held < W_HELD_MAX);
}

static void w_abandoned(void *ctx, struct http_request *r)
{
    struct world *w = ctx;

    w->n_abandoned++;
    w->last_abandoned = http_user(r);
    w_forget(w->turn, &w->n_turn, r);
    w_forget(w->held, &w->n_held, r);
}

/* ---- the server ---- */

void w_turn(struct world *w, int64_t wait_ms)
{
    int64_t next = http_next_ms(w->server);

    w->n_turns++;
    ASSERT_OK(loop_turn(w->loop, next >= 0 && next < wait_ms ? next : wait_ms, &w->err), &w->err);
    for (size_t i = 0; i < w->n_turn; i++)
        w_echo(w->turn[i]);
    w->n_turn = 0;
    http_run(w->server);
}

struct world *w_open(const struct http_limits *limits)
{
    struct world *w = calloc(1, sizeof *w);

    assert_non_null(w);
    w->handler = (struct http_handler){ .ctx = w,
                                        .connected = w_connected,
                                        .disconnected = w_disconnected,
                                        .requested = w_requested,
                                        .abandoned = w_abandoned };
    w->listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    w->address.sun_family = AF_UNIX;
    w->address_size = sizeof w->address;
    assert_int_equal(bind(w->listening, (struct sockaddr *) &w->address, sizeof w->address.sun_family), 0);
    assert_int_equal(listen(w->listening, 4096), 0);
    assert_int_equal(getsockname(w->listening, (struct sockaddr *) &w->address, &w->address_size), 0);
    ASSERT_OK(loop_open(&w->loop, &w->err), &w->err);
    ASSERT_OK(http_open(w->loop, limits, &w->handler, &w->server, &w->err), &w->err);
    ASSERT_OK(http_listen(w->server, w->listening, w, false, &w->err), &w->err);
    return w;
}

void w_close(struct world *w)
{
    http_close(w->server);
    loop_close(w->loop);
    assert_int_equal(w->n_connected, w->n_disconnected);
    assert_int_equal(w->n_held, 0);
    free(w);
}

/* ---- clients ---- */

struct client *c_open(const struct world *w)
{
    struct client *c = calloc(1, sizeof *c);

    assert_non_null(c);
    c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(connect(c->fd, (const struct sockaddr *) &w->address, w->address_size), 0);
    return c;
}

void c_close(struct client *c)
{
    (void) close(c->fd);
    free(c);
}

void c_send_bytes(struct world *w, const struct client *c, const char *bytes, size_t n)
{
    int64_t until = clock_monotonic_ms() + W_WAIT_MS;

    while (n > 0) {
        ssize_t sent = send(c->fd, bytes, n, MSG_NOSIGNAL);

        if (sent < 0 && errno != EAGAIN)
            return;
        bytes += sent > 0 ? sent : 0;
        n -= sent > 0 ? (size_t) sent : 0;
        if (sent < 0)
            w_turn(w, 5);
        assert_true(clock_monotonic_ms() < until);
    }
}

void c_send(struct world *w, const struct client *c, const char *text)
{
    c_send_bytes(w, c, text, strlen(text));
}

void c_read(struct client *c)
{
    while (!c->is_over && c->n < sizeof c->got - 1) {
        ssize_t n = recv(c->fd, c->got + c->n, sizeof c->got - 1 - c->n, 0);

        if (n < 0 && errno == EAGAIN)
            break;
        c->is_over = n <= 0;
        c->n += n > 0 ? (size_t) n : 0;
    }
    c->got[c->n] = '\0';
}

bool c_has(struct client *c, const char *text)
{
    c_read(c);
    return strstr(c->got, text) != NULL;
}

bool c_is_over(struct client *c)
{
    c_read(c);
    return c->is_over;
}

void c_expect(struct world *w, struct client *c, const char *request, const char *expected)
{
    c_send(w, c, request);
    int64_t until = clock_monotonic_ms() + W_WAIT_MS;

    while (!c_has(c, expected) && !c->is_over && clock_monotonic_ms() < until)
        w_turn(w, 5);
    if (!c_has(c, expected))
        fail_msg("asked: %.300s\nexpected: %s\ngot%s: %s", request, expected, c->is_over ? " (and end)" : "",
                 c->got);
    c->n = 0;
    c->got[0] = '\0';
}
