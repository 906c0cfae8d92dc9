/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_GROW_H
#define DIBS_BASE_GROW_H
#include <stdbool.h>
#include <stdlib.h>

/* Make room for one more item of `size` bytes in an array of `n`; false: out of memory. */
static inline bool grow(void **items, size_t n, size_t *max, size_t size)
{
    enum { FIRST = 16 };

    if (n < *max)
        return true;
    size_t wanted = *max ? 2 * *max : FIRST;
    void *larger = realloc(*items, wanted * size);

    if (!larger)
        return false;
    *items = larger;
    *max = wanted;
    return true;
}
#endif
