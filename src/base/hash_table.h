/* SPDX-License-Identifier: MIT */
#ifndef DIBS_BASE_HASH_TABLE_H
#define DIBS_BASE_HASH_TABLE_H
/* A hash table of items that their owner allocates; the caller compares items with equal hashes. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first member of every item. */
struct hash_table_item {
    struct hash_table_item *next;
    uint64_t hash;
};

struct hash_table { /* zero: empty */
    struct hash_table_item **chains;
    size_t n, max; /* max is 0 or a power of two */
};

/* Hash two texts; `second` may be NULL. */
uint64_t hash_table_hash(const char *first, const char *second);
/* False: out of memory. */
bool hash_table_add(struct hash_table *table, struct hash_table_item *item, uint64_t hash);
/* Return the first item with that hash, or the next one after `item`; NULL: none. */
struct hash_table_item *hash_table_first(const struct hash_table *table, uint64_t hash);
struct hash_table_item *hash_table_next(const struct hash_table_item *item);
/* Remove an item; it need not be in the table. */
void hash_table_remove(struct hash_table *table, struct hash_table_item *item);
/* Call `fn` for every item; it may remove that item. */
void hash_table_each(struct hash_table *table, void (*fn)(void *ctx, struct hash_table_item *item),
                     void *ctx);
void hash_table_done(struct hash_table *table); /* the owner frees the items */
#endif
