/* SPDX-License-Identifier: MIT */
#ifndef DIBS_OPERATOR_TABLE_H
#define DIBS_OPERATOR_TABLE_H
/* Things found by a number that is a hash of what they are called. Two that have the same number are both
 * there: whoever looks compares. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first member of what is in a table. */
struct table_item {
    struct table_item *next;
    uint64_t hash;
};

struct table { /* zero: empty */
    struct table_item **chains;
    size_t n, max; /* max is 0 or a power of two */
};

/* Of two texts; `second` may be NULL. */
uint64_t table_hash(const char *first, const char *second);
/* False without memory. */
bool table_add(struct table *table, struct table_item *item, uint64_t hash);
/* The first with that hash, and the next after one; NULL: there is none. */
struct table_item *table_first(const struct table *table, uint64_t hash);
struct table_item *table_next(const struct table_item *item);
void table_remove(struct table *table, struct table_item *item);
/* All of them; `fn` may remove the one that it is told of. */
void table_each(struct table *table, void (*fn)(void *ctx, struct table_item *item), void *ctx);
void table_done(struct table *table); /* the items are their owner's */
#endif
