/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_BLOCKS_H
#define DIBS_BASE_BLOCKS_H
/* Memory that grows by blocks; everything in it lives and ends together. For what consists of many small
 * pieces, as a parsed document does: one call of malloc instead of one for each piece, or none. */
#include <stddef.h>

struct block;

/* Room for `n` bytes, aligned for everything, not zeroed. NULL: memory is short, and *blocks is as it was.
 * *blocks begins as NULL. */
void *blocks_take(struct block **blocks, size_t n);
void blocks_free(struct block *blocks); /* NULL is fine */
#endif
