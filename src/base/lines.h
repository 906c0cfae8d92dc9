/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_LINES_H
#define DIBS_BASE_LINES_H
/* Whole lines out of a stream's pieces. */
#include "base/bytes.h"

/* etcd cuts what is larger than a request into parts, and an object of Kubernetes is no larger than that. */
enum { LINE_MAX_BYTES = 8 << 20 };

/* `take` sees every line, without its end; empty ones are passed over. `rest` keeps what has no end yet.
 * NULL, or what is wrong: `take` said so, or a line is too long. */
const char *lines_take(struct bytes *rest, const char *piece, size_t n,
                       const char *(*take)(void *ctx, const char *line, size_t n), void *ctx);
#endif
