/* SPDX-License-Identifier: MIT */
#ifndef DIBS_SERVER_ENDPOINT_H
#define DIBS_SERVER_ENDPOINT_H
/* The HTTP endpoint of a process without an API: health, readiness, metrics, and its owner's pages. */
#include "server/router.h"

/* A route that is served at once or later, by http_answer(). */
struct page {
    struct route route;
    void (*serve)(void *ctx, struct http_request *r);
};

struct endpoint_options {
    struct http_limits limits;
    const struct page *pages; /* beside those above; borrowed */
    size_t n_pages;
    const char *hint; /* for requests that have no page */
    /* Mandatory. Not OK: answered with 503 and the message. */
    dibs_status (*check_ready)(void *ctx, dibs_err *err);
    /* Mandatory. Everything, in Prometheus' text format. */
    void (*write_metrics)(void *ctx, struct bytes *out);
    /* Optional. The client of a request with a user (http_set_user) went away. */
    void (*abandoned)(void *ctx, void *user);
    void *ctx;
};

struct endpoint;
dibs_status endpoint_open(struct loop *loop, const struct endpoint_options *options, struct endpoint **out,
                          dibs_err *err);
void endpoint_close(struct endpoint *endpoint); /* NULL is fine */
/* "127.0.0.1:9464", "*:8443", or ":8443", which is every address, as Kubernetes' own programs write it. */
dibs_status endpoint_listen(struct endpoint *endpoint, const char *address, bool is_tls, dibs_err *err);
/* For http_run(), http_next_ms(), http_set_tls() and the like. */
struct http_server *endpoint_http(const struct endpoint *endpoint);

/* Answer with a line of text. */
void endpoint_answer_text(struct http_request *r, int status, const char *text);
#endif
