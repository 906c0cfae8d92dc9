/* SPDX-License-Identifier: MIT */
#include "base/lines.h"

#include <string.h>

#include "base/banned.h"

static const char *take_line(const char *line, size_t n,
                             const char *(*take)(void *ctx, const char *line, size_t n), void *ctx)
{
    if (n > 0 && line[n - 1] == '\r')
        n--;
    return n > 0 ? take(ctx, line, n) : NULL;
}

const char *lines_take(struct bytes *rest, const char *piece, size_t n,
                       const char *(*take)(void *ctx, const char *line, size_t n), void *ctx)
{
    const char *wrong = NULL;

    while (n > 0 && !wrong) {
        const char *end = memchr(piece, '\n', n);
        size_t part = end ? (size_t) (end - piece) : n;

        if (part > LINE_MAX_BYTES - rest->n)
            return "a message is too large";
        if (end && rest->n == 0) { /* the piece has the whole line */
            wrong = take_line(piece, part, take, ctx);
        } else {
            bytes_add(rest, piece, part);
            if (rest->is_lost)
                return "out of memory";
            if (end) {
                wrong = take_line(rest->at, rest->n, take, ctx);
                rest->n = 0;
            }
        }
        part += end ? 1 : 0;
        piece += part;
        n -= part;
    }
    return wrong;
}
