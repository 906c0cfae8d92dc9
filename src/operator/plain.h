/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_PLAIN_H
#define DIBS_OPERATOR_PLAIN_H
/* /healthz, /readyz and /metrics by plain HTTP, for kubelet and Prometheus. */
#include "base/bytes.h"
#include "base/loop.h"
#include "http/http.h"

struct plain_options {
    /* NULL: all is well; else why not, which is answered with 503. */
    const char *(*healthy)(void *ctx);
    const char *(*ready)(void *ctx);
    void (*metrics)(void *ctx, struct bytes *out);
    void *ctx;
};

struct plain;
/* `address`: "127.0.0.1:9464". */
dibs_status plain_open(struct loop *loop, const char *address, const struct plain_options *options,
                       struct plain **out, dibs_err *err);
void plain_close(struct plain *plain); /* NULL is fine */
void plain_run(struct plain *plain);
int64_t plain_next_ms(const struct plain *plain);
#endif
