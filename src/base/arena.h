/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_ARENA_H
#define DIBS_BASE_ARENA_H
/* An arena: memory that grows by blocks and is freed at once. For values of many small pieces, such as a
 * parsed document: few calls of malloc instead of one for each piece. */
#include <stddef.h>

struct arena;

/* Allocate `n` zeroed bytes for any type. NULL: out of memory. *arena begins as NULL. */
void *arena_take(struct arena **arena, size_t n);
/* Copy `n` bytes and put a NUL behind them; NULL: out of memory. */
char *arena_text(struct arena **arena, const char *text, size_t n);
void arena_free(struct arena *arena); /* NULL is fine */
#endif
