/* SPDX-License-Identifier: MIT */
#include "base/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

enum {
    FIRST_BYTES = 2048 - 32, /* fits a request's document, or etcd's answer to a group of them */
    GROWTH_MAX = 256 << 10,  /* largest block: at most this much of the last one is unused */
};

struct arena {
    struct arena *next;
    size_t used, capacity;
    max_align_t bytes[];
};

/* Add a block twice as large as the one before, so that a large document needs few. */
static struct arena *add_block(struct arena *last, size_t n)
{
    size_t capacity = !last ? FIRST_BYTES : last->capacity < GROWTH_MAX ? last->capacity * 2 : GROWTH_MAX;

    capacity = capacity < n ? n : capacity;
    struct arena *block = capacity <= SIZE_MAX - sizeof *block ? calloc(1, sizeof *block + capacity) : NULL;
    if (block) {
        block->capacity = capacity;
        block->next = last;
    }
    return block;
}

void *arena_take(struct arena **arena, size_t n)
{
    struct arena *block = *arena;

    if (n > SIZE_MAX - _Alignof(max_align_t))
        return NULL;
    n = (n + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
    if (!block || block->capacity - block->used < n) {
        block = add_block(*arena, n);
        if (!block)
            return NULL;
        *arena = block;
    }
    void *at = (char *) block->bytes + block->used;
    block->used += n;
    return at;
}

char *arena_text(struct arena **arena, const char *text, size_t n)
{
    char *copy = arena_take(arena, n + 1);

    if (copy)
        memcpy(copy, text, n);
    return copy;
}

void arena_free(struct arena *arena)
{
    while (arena) {
        struct arena *next = arena->next;

        free(arena);
        arena = next;
    }
}
