/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_ARENA_H
#define DIBS_BASE_ARENA_H
/* An arena: memory in growing blocks, freed at once, to save malloc calls for many small pieces. */
#include <stddef.h>

struct arena;

/* Allocate `n` zeroed bytes for any type. NULL: out of memory. *arena begins as NULL. */
void *arena_take(struct arena **arena, size_t n);
/* Copy `n` bytes and append a NUL; NULL: out of memory. */
char *arena_text(struct arena **arena, const char *text, size_t n);
void arena_free(struct arena *arena); /* NULL is fine */
#endif
