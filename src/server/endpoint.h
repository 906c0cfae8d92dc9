/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_ENDPOINT_H
#define DIBS_SERVER_ENDPOINT_H
/* The HTTP endpoint of a process without an API: health, readiness, metrics, and its owner's pages. */
#include "server/router.h"

/* A route whose handler answers at once or later, by http_answer(). */
struct page {
    struct route route;
    void (*serve)(void *ctx, struct http_request *r);
};

struct endpoint_options {
    struct http_limits limits;
    const struct page *pages; /* the owner's pages; borrowed */
    size_t n_pages;
    const char *hint; /* shown for requests that match no page */
    /* Optional. An error is answered with 503 and its message. NULL: only /healthz and /metrics are served.
     */
    dibs_status (*check_ready)(void *ctx, dibs_err *err);
    /* Required. Writes all metrics in Prometheus' text format. */
    void (*write_metrics)(void *ctx, struct bytes *out);
    /* Optional. Called when the client of a request with a user (http_set_user) disconnects. */
    void (*abandoned)(void *ctx, void *user);
    void *ctx;
};

struct endpoint;
dibs_status endpoint_open(struct loop *loop, const struct endpoint_options *options, struct endpoint **out,
                          dibs_err *err);
void endpoint_close(struct endpoint *endpoint); /* NULL is fine */
/* Listen on "127.0.0.1:9464", "*:8443" or ":8443" (every address, as Kubernetes' programs write it). */
dibs_status endpoint_listen(struct endpoint *endpoint, const char *address, bool is_tls, dibs_err *err);
/* Return the server, for http_run(), http_next_ms(), http_set_tls() and similar; borrowed. */
struct http_server *endpoint_http(const struct endpoint *endpoint);

/* Answer with a line of text. */
void endpoint_answer_text(struct http_request *r, int status, const char *text);
#endif
