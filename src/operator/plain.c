/* SPDX-License-Identifier: MIT */
#include "operator/plain.h"

#include <stdlib.h>
#include <string.h>

#include "base/auto.h"
#include "base/err.h"
#include "daemon/sockets.h"

#include "base/banned.h"

enum { BODY_MAX_BYTES = 1024, CONNECTIONS_MAX = 64 };

struct plain {
    struct plain_options options;
    struct http_server *server;
    struct http_handler handler;
};

static void *on_connected(void *ctx, int fd, const struct http_door *door)
{
    (void) fd;
    (void) door;
    return ctx;
}

static void on_disconnected(void *ctx, void *peer)
{
    (void) ctx;
    (void) peer;
}

static void on_abandoned(void *ctx, struct http_request *r)
{
    (void) ctx;
    (void) r;
}

static void answer_text(struct http_request *r, int status, const char *text)
{
    char *copy = strdup(text);

    http_answer(r, status, "text/plain; charset=utf-8",
                (struct http_body){ copy ? copy : "", copy ? strlen(copy) : 0, copy ? free : NULL }, NULL, 0);
}

static void answer_health(struct http_request *r, const char *why)
{
    answer_text(r, why ? 503 : 200, why ? why : "ok\n");
}

static void answer_metrics(const struct plain *p, struct http_request *r)
{
    struct bytes text = { 0 };

    p->options.metrics(p->options.ctx, &text);
    if (text.is_lost) {
        bytes_done(&text);
        answer_text(r, 503, "out of memory\n");
        return;
    }
    http_answer(r, 200, "text/plain; version=0.0.4; charset=utf-8",
                (struct http_body){ text.at, text.n, text.at ? free : NULL }, NULL, 0);
}

static void on_requested(void *ctx, struct http_request *r)
{
    const struct plain *p = ctx;
    const char *path = http_path(r);
    const struct http_field allow = { "Allow", "GET, HEAD" };
    bool is_health = strcmp(path, "/healthz") == 0 || strcmp(path, "/livez") == 0;
    bool is_ready = strcmp(path, "/readyz") == 0;
    bool is_metrics = strcmp(path, "/metrics") == 0;

    if (!is_health && !is_ready && !is_metrics)
        answer_text(r, 404, "there are /healthz, /readyz and /metrics\n");
    else if (strcmp(http_method(r), "GET") != 0)
        http_answer(r, 405, NULL, (struct http_body){ "", 0, NULL }, &allow, 1);
    else if (is_metrics)
        answer_metrics(p, r);
    else if (is_ready)
        answer_health(r, p->options.ready(p->options.ctx));
    else
        answer_health(r, p->options.healthy(p->options.ctx));
}

DEFINE_AUTO(struct plain, plain_close)

dibs_status plain_open(struct loop *loop, const char *address, const struct plain_options *options,
                       struct plain **out, dibs_err *err)
{
    AUTO(plain_close_auto) struct plain *p = calloc(1, sizeof *p);
    struct http_limits limits = { .max_connections = CONNECTIONS_MAX,
                                  .max_per_user = CONNECTIONS_MAX,
                                  .max_body_bytes = BODY_MAX_BYTES };
    AUTO(fd_auto) int fd = -1;

    if (!p)
        return err_set(err, DIBS_FAILURE, "serving metrics: out of memory");
    p->options = *options;
    p->handler = (struct http_handler){ .ctx = p,
                                        .connected = on_connected,
                                        .disconnected = on_disconnected,
                                        .requested = on_requested,
                                        .abandoned = on_abandoned };
    dibs_status s = socket_open_tcp(address, false, &fd, err);
    if (s == DIBS_OK)
        s = http_open(loop, &limits, &p->handler, &p->server, err);
    if (s == DIBS_OK)
        s = http_listen(p->server, fd, NULL, false, err);
    if (s != DIBS_OK)
        return s;
    (void) fd_take(&fd);
    *out = TAKE(p);
    return DIBS_OK;
}

void plain_close(struct plain *p)
{
    if (!p)
        return;
    http_close(p->server);
    free(p);
}

void plain_run(struct plain *p)
{
    http_run(p->server);
}

int64_t plain_next_ms(const struct plain *p)
{
    return http_next_ms(p->server);
}
