/* SPDX-License-Identifier: MIT */
#include "base/hash_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#include "base/banned.h"

enum { FIRST_MAX = 64 };

uint64_t hash_table_hash(const char *first, const char *second)
{
    uint64_t hash = hash_fnv1a(HASH_FNV_BASIS, first, strlen(first) + 1);

    return second ? hash_fnv1a(hash, second, strlen(second)) : hash;
}

static struct hash_table_item **chain_of(const struct hash_table *table, uint64_t hash)
{
    /* FNV's low bits are weak for short texts. */
    return &table->chains[(hash ^ hash >> 32) & (table->max - 1)];
}

static bool grow(struct hash_table *table)
{
    struct hash_table bigger = { .max = table->max ? table->max * 2 : FIRST_MAX };

    bigger.chains = calloc(bigger.max, sizeof(void *));
    if (!bigger.chains)
        return false;
    for (size_t i = 0; i < table->max; i++) {
        for (struct hash_table_item *item = table->chains[i]; item;) {
            struct hash_table_item *next = item->next;
            struct hash_table_item **to = chain_of(&bigger, item->hash);

            item->next = *to;
            *to = item;
            item = next;
        }
    }
    bigger.n = table->n;
    free(table->chains);
    *table = bigger;
    return true;
}

bool hash_table_add(struct hash_table *table, struct hash_table_item *item, uint64_t hash)
{
    if (table->n >= table->max && !grow(table) && table->max == 0)
        return false; /* a full table without memory only gets slower */
    struct hash_table_item **to = chain_of(table, hash);
    item->hash = hash;
    item->next = *to;
    *to = item;
    table->n++;
    return true;
}

static struct hash_table_item *match(struct hash_table_item *item, uint64_t hash)
{
    while (item && item->hash != hash)
        item = item->next;
    return item;
}

struct hash_table_item *hash_table_first(const struct hash_table *table, uint64_t hash)
{
    return table->max ? match(*chain_of(table, hash), hash) : NULL;
}

struct hash_table_item *hash_table_next(const struct hash_table_item *item)
{
    return match(item->next, item->hash);
}

void hash_table_remove(struct hash_table *table, struct hash_table_item *item)
{
    for (struct hash_table_item **at = table->max ? chain_of(table, item->hash) : NULL; at && *at;
         at = &(*at)->next) {
        if (*at == item) {
            *at = item->next;
            table->n--;
            return;
        }
    }
}

void hash_table_each(struct hash_table *table, void (*fn)(void *ctx, struct hash_table_item *item), void *ctx)
{
    for (size_t i = 0; i < table->max; i++) {
        for (struct hash_table_item *item = table->chains[i]; item;) {
            struct hash_table_item *next = item->next;

            fn(ctx, item);
            item = next;
        }
    }
}

void hash_table_done(struct hash_table *table)
{
    free(table->chains);
    *table = (struct hash_table){ 0 };
}
