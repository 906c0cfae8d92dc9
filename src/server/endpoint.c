/* SPDX-License-Identifier: MIT */
#include "server/endpoint.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/auto.h"
#include "base/err.h"
#include "server/listeners.h"

#include "base/banned.h"

struct endpoint {
    struct endpoint_options options;
    struct http_server *http;
    struct http_handler handler;
    bool is_loopback; /* plain HTTP on a loopback address, which a web page can reach by a name of its own */
};

void endpoint_answer_text(struct http_request *r, int status, const char *text)
{
    struct bytes out = { 0 };

    bytes_add_text(&out, text);
    bytes_add_text(&out, "\n");
    http_answer(r, status, "text/plain; charset=utf-8", &out, NULL, 0);
}

static void serve_health(void *ctx, struct http_request *r)
{
    (void) ctx;
    endpoint_answer_text(r, 200, "ok");
}

static void serve_readiness(void *ctx, struct http_request *r)
{
    const struct endpoint *e = ctx;
    dibs_err err = { 0 };
    bool is_ready = e->options.check_ready(e->options.ctx, &err) == DIBS_OK;

    endpoint_answer_text(r, is_ready ? 200 : 503, is_ready ? "ok" : err.msg);
}

static void serve_metrics(void *ctx, struct http_request *r)
{
    const struct endpoint *e = ctx;
    struct bytes out = { 0 };

    e->options.write_metrics(e->options.ctx, &out);
    http_answer(r, 200, "text/plain; version=0.0.4; charset=utf-8", &out, NULL, 0);
}

static const struct page own_pages[] = {
    { { "GET", "/healthz", NULL, 0 }, serve_health },
    { { "GET", "/metrics", NULL, 0 }, serve_metrics },
    { { "GET", "/livez", NULL, 0 }, serve_health },
    { { "GET", "/readyz", NULL, 0 }, serve_readiness },
};
static const struct router own_router = ROUTER_OF(own_pages);
/* Without check_ready: the first two. */
static const struct router scrape_router = { own_pages, 2, sizeof *own_pages };

static void requested(void *ctx, struct http_request *r)
{
    struct endpoint *e = ctx;
    const struct router *own = e->options.check_ready ? &own_router : &scrape_router;
    const struct router owners = { e->options.pages, e->options.n_pages, sizeof *e->options.pages };
    struct route_match match = { 0 };
    dibs_err err = { 0 };
    bool is_owners = router_find(&owners, r, &match);

    if (e->is_loopback && !router_host_is_local(r)) {
        (void) err_set(&err, DIBS_DENIED, "the Host is neither an address nor localhost");
        router_refuse(r, 403, &err, NULL);
        return;
    }
    if (!is_owners && !router_find(own, r, &match)) {
        int status = router_explain(r, &match, e->options.hint, &err);

        router_refuse(r, status, &err, status == 405 ? match.allow : NULL);
        return;
    }
    int status = router_check(r, match.route, &err);
    if (status != 0)
        router_refuse(r, status, &err, NULL);
    else
        ((const struct page *) match.route)->serve(is_owners ? e->options.ctx : e, r);
}

static void abandoned(void *ctx, struct http_request *r)
{
    struct endpoint *e = ctx;

    if (http_user(r) && e->options.abandoned)
        e->options.abandoned(e->options.ctx, http_user(r));
}

dibs_status endpoint_open(struct loop *loop, const struct endpoint_options *options, struct endpoint **out,
                          dibs_err *err)
{
    struct endpoint *self = calloc(1, sizeof *self);

    if (!self)
        return err_set(err, DIBS_FAILURE, "starting an HTTP server: out of memory");
    self->options = *options;
    self->handler = (struct http_handler){ .ctx = self, .requested = requested, .abandoned = abandoned };
    dibs_status s = http_open(loop, &options->limits, &self->handler, &self->http, err);
    if (s != DIBS_OK) {
        free(self);
        return s;
    }
    *out = self;
    return DIBS_OK;
}

void endpoint_close(struct endpoint *endpoint)
{
    if (!endpoint)
        return;
    http_close(endpoint->http);
    free(endpoint);
}

dibs_status endpoint_listen(struct endpoint *endpoint, const char *address, bool is_tls, dibs_err *err)
{
    char any[64];
    AUTO(fd_auto) int fd = -1;

    (void) snprintf(any, sizeof any, "*%s", address);
    dibs_status s = socket_open_tcp(address[0] == ':' ? any : address, false, &fd, err);
    if (s == DIBS_OK)
        s = http_listen(endpoint->http, fd, NULL, is_tls ? HTTP_TLS : 0, err);
    if (s == DIBS_OK)
        (void) fd_take(&fd);
    endpoint->is_loopback = !is_tls && socket_check_tcp(address, true, NULL) == DIBS_OK;
    return s;
}

struct http_server *endpoint_http(const struct endpoint *endpoint)
{
    return endpoint->http;
}
