/* SPDX-License-Identifier: MIT */
#include "base/bytes.h"

#include <stdlib.h>

#include "dibs/limits.h"

#include "base/banned.h"

enum { CAPACITY_FIRST = 1024 }; /* fits the answer to a claim */

char *bytes_grow(struct bytes *b, size_t n)
{
    size_t capacity = b->capacity ? b->capacity : CAPACITY_FIRST;

    if (b->is_lost || n > DIBS_INPUT_MAX_BYTES - b->n) {
        b->is_lost = true;
        return NULL;
    }
    while (capacity - b->n < n)
        capacity *= 2;
    char *at = realloc(b->at, capacity);
    if (!at) {
        b->is_lost = true;
        return NULL;
    }
    b->at = at;
    b->capacity = capacity;
    return at + b->n;
}

void bytes_done(struct bytes *b)
{
    free(b->at);
    *b = (struct bytes){ 0 };
}
