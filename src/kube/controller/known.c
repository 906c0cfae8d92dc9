/* SPDX-License-Identifier: MIT */
#include "kube/controller/known.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/grow.h"

#include "base/banned.h"

struct known *known_find(const struct hash_table *all, const char *principal, const char *name)
{
    return (struct known *) hash_table_first(all, hash_table_hash(principal, name));
}

struct known *known_of(const struct hash_table *all, const char *principal, const char *name, uint16_t port)
{
    struct known *k = known_find(all, principal, name);
    char moved[DIBS_NAME_MAX + 8] = "";

    if (k && k->port == port)
        return k;
    (void) snprintf(moved, sizeof moved, "%s/%u", name, port);
    return known_find(all, principal, moved);
}

struct known *known_note(struct hash_table *all, const dibs_claim *claim, uint64_t pass, int64_t now_ms,
                         bool *is_new)
{
    struct known *k = known_find(all, claim->principal, claim->name);
    bool is_first = !k;

    if (is_first) {
        k = calloc(1, sizeof *k);
        if (!k || !hash_table_add(all, &k->item, hash_table_hash(claim->principal, claim->name))) {
            free(k);
            return NULL;
        }
    }
    *is_new = k->id != claim->id;
    if (is_first || *is_new || k->generation != claim->generation ||
        k->lease_until_ms != claim->lease_until_ms) {
        k->over_ms = claim->holder == DIBS_HELD_BY_LEASE ? now_ms + claim->lease_ttl_ms : 0;
        k->unneeded_ms = 0;
    }
    k->id = claim->id;
    k->generation = claim->generation;
    k->lease_until_ms = claim->lease_until_ms;
    k->port = claim->port;
    k->pass = pass;
    k->is_confirmed = false;
    return k;
}

struct forgetting {
    struct hash_table *all;
    uint64_t pass;
};

static void forget(void *ctx, struct hash_table_item *item)
{
    const struct forgetting *f = ctx;
    struct known *k = (struct known *) item;

    if (k->pass == f->pass)
        return;
    hash_table_remove(f->all, item);
    free(k);
}

void known_forget(struct hash_table *all, uint64_t pass)
{
    hash_table_each(all, forget, &(struct forgetting){ all, pass });
}

void known_list_add(struct known_list *list, const struct known *k)
{
    if (grow((void **) &list->all, list->n, &list->max, sizeof *list->all))
        list->all[list->n++] = (struct ledger_seen){ .id = k->id,
                                                     .generation = k->generation,
                                                     .lease_until_ms = k->lease_until_ms };
}
