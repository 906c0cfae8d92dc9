/* SPDX-License-Identifier: MIT */
#include "base/blocks.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/banned.h"

enum {
    FIRST_BYTES = 2048 - 32, /* a request's document, or an answer of etcd to a group of them */
    GROWTH_MAX = 256 << 10, /* from there on blocks grow no more: at most so much of the last one is unused */
    IDLE_MAX = 128          /* first blocks that wait for the next: as many as are used at once under load */
};

struct block {
    struct block *next;
    size_t used, room;
    max_align_t bytes[];
};

static struct {
    pthread_mutex_t lock;
    struct block *first;
    size_t n;
} idle = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct block *take_idle(void)
{
    (void) pthread_mutex_lock(&idle.lock);
    struct block *block = idle.first;
    if (block) {
        idle.first = block->next;
        idle.n--;
    }
    (void) pthread_mutex_unlock(&idle.lock);
    return block;
}

/* The next one is twice as large, so that a large document is not made of many. */
static struct block *add_block(const struct block *last, size_t n)
{
    size_t room = !last ? FIRST_BYTES : last->room < GROWTH_MAX ? last->room * 2 : GROWTH_MAX;
    struct block *block = !last && n <= FIRST_BYTES ? take_idle() : NULL;

    if (block)
        return block;
    room = room < n ? n : room;
    block = room <= SIZE_MAX - sizeof *block ? malloc(sizeof *block + room) : NULL;
    if (block)
        block->room = room;
    return block;
}

void *blocks_take(struct block **blocks, size_t n)
{
    struct block *block = *blocks;

    if (n > SIZE_MAX - _Alignof(max_align_t))
        return NULL;
    n = (n + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
    if (!block || block->room - block->used < n) {
        block = add_block(*blocks, n);
        if (!block)
            return NULL;
        block->next = *blocks;
        block->used = 0;
        *blocks = block;
    }
    void *at = (char *) block->bytes + block->used;
    block->used += n;
    return at;
}

static bool make_idle(struct block *block)
{
    (void) pthread_mutex_lock(&idle.lock);
    bool is_kept = block->room == FIRST_BYTES && idle.n < IDLE_MAX;
    if (is_kept) {
        block->next = idle.first;
        idle.first = block;
        idle.n++;
    }
    (void) pthread_mutex_unlock(&idle.lock);
    return is_kept;
}

void blocks_free(struct block *blocks)
{
    while (blocks) {
        struct block *next = blocks->next;

        if (!make_idle(blocks))
            free(blocks);
        blocks = next;
    }
}
