/* SPDX-License-Identifier: MIT */
#include "operator/table.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#include "base/banned.h"

enum { FIRST_MAX = 64 };

uint64_t table_hash(const char *first, const char *second)
{
    uint64_t hash = hash_fnv1a(HASH_FNV_BASIS, first, strlen(first) + 1);

    return second ? hash_fnv1a(hash, second, strlen(second)) : hash;
}

static struct table_item **chain_of(const struct table *table, uint64_t hash)
{
    /* FNV's low bits are weak for short texts. */
    return &table->chains[(hash ^ hash >> 32) & (table->max - 1)];
}

static bool grow(struct table *table)
{
    struct table bigger = { .max = table->max ? table->max * 2 : FIRST_MAX };

    bigger.chains = calloc(bigger.max, sizeof(void *));
    if (!bigger.chains)
        return false;
    for (size_t i = 0; i < table->max; i++) {
        for (struct table_item *item = table->chains[i]; item;) {
            struct table_item *next = item->next;
            struct table_item **to = chain_of(&bigger, item->hash);

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

bool table_add(struct table *table, struct table_item *item, uint64_t hash)
{
    if (table->n >= table->max && !grow(table) && table->max == 0)
        return false; /* a full one without memory only gets slower */
    struct table_item **to = chain_of(table, hash);
    item->hash = hash;
    item->next = *to;
    *to = item;
    table->n++;
    return true;
}

static struct table_item *match(struct table_item *item, uint64_t hash)
{
    while (item && item->hash != hash)
        item = item->next;
    return item;
}

struct table_item *table_first(const struct table *table, uint64_t hash)
{
    return table->max ? match(*chain_of(table, hash), hash) : NULL;
}

struct table_item *table_next(const struct table_item *item)
{
    return match(item->next, item->hash);
}

void table_remove(struct table *table, struct table_item *item)
{
    for (struct table_item **at = chain_of(table, item->hash); *at; at = &(*at)->next) {
        if (*at == item) {
            *at = item->next;
            table->n--;
            return;
        }
    }
}

void table_each(struct table *table, void (*fn)(void *ctx, struct table_item *item), void *ctx)
{
    for (size_t i = 0; i < table->max; i++) {
        for (struct table_item *item = table->chains[i]; item;) {
            struct table_item *next = item->next;

            fn(ctx, item);
            item = next;
        }
    }
}

void table_done(struct table *table)
{
    free(table->chains);
    *table = (struct table){ 0 };
}
