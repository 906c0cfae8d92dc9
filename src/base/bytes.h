/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_BYTES_H
#define DIBS_BASE_BYTES_H
/* A growing byte buffer. The first failure (no memory, or more than DIBS_INPUT_MAX_BYTES) sets is_lost, and
 * nothing is added from then on: the caller checks once, at the end. */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct bytes { /* zero: empty */
    char *at;
    size_t n, capacity;
    bool is_lost;
};

/* Reserve `n` bytes at the end, which the caller fills and adds to b->n; NULL: lost. */
char *bytes_grow(struct bytes *b, size_t n);
void bytes_done(struct bytes *b);

static inline char *bytes_reserve(struct bytes *b, size_t n)
{
    return b->capacity - b->n >= n && b->at ? b->at + b->n : bytes_grow(b, n);
}

static inline void bytes_add(struct bytes *b, const char *from, size_t n)
{
    char *to = bytes_reserve(b, n);

    if (!to)
        return;
    memcpy(to, from, n);
    b->n += n;
}

static inline void bytes_add_text(struct bytes *b, const char *text)
{
    bytes_add(b, text, strlen(text));
}
#endif
