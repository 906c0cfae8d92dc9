/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_LINES_H
#define DIBS_BASE_LINES_H
/* Split a stream that arrives in pieces into lines. */
#include "base/bytes.h"

/* etcd splits messages larger than a request, and a Kubernetes object is no larger than that. */
enum { LINE_MAX_BYTES = 8 << 20 };

/* Call `take` for each line, without its newline; empty lines are skipped. `rest` keeps an incomplete line.
 * Returns NULL, or the error of `take` or of a line that is too long. */
const char *lines_take(struct bytes *rest, const char *piece, size_t n,
                       const char *(*take)(void *ctx, const char *line, size_t n), void *ctx);
#endif
