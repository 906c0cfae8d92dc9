/* SPDX-License-Identifier: MIT */
#include "store/memory/table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/grow.h"

#include "base/banned.h"

static int order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* Claims, events and sightings begin with their number. */
static int by_number(const void *a, const void *b)
{
    return order(*(const uint64_t *) a, *(const uint64_t *) b);
}
_Static_assert(offsetof(struct claim_record, claim.id) == 0 &&
                   offsetof(struct event_record, event.seq) == 0 &&
                   offsetof(struct sighting_record, seen.id) == 0,
               "the number comes first");

static int by_slot(const void *a, const void *b)
{
    const struct ledger_slot *x = a;
    const struct ledger_slot *y = b;
    size_t shared = x->address.len < y->address.len ? x->address.len : y->address.len;
    int d = order(x->proto, y->proto);

    if (d == 0)
        d = order(x->port, y->port);
    if (d == 0)
        d = memcmp(x->address.bytes, y->address.bytes, shared);
    if (d == 0)
        d = order(x->address.len, y->address.len);
    return d == 0 ? order(x->claim_id, y->claim_id) : d;
}

static int by_name(const void *a, const void *b)
{
    const struct name_record *x = a;
    const struct name_record *y = b;
    int d = strcmp(x->principal, y->principal);

    return d == 0 ? strcmp(x->name, y->name) : d;
}

static int by_pool(const void *a, const void *b)
{
    return strcmp(((const dibs_pool *) a)->name, ((const dibs_pool *) b)->name);
}

static int by_key(const void *a, const void *b)
{
    const struct answer_record *x = a;
    const struct answer_record *y = b;
    int d = strcmp(x->principal, y->principal);

    if (d == 0)
        d = strcmp(x->key, y->key);
    return d == 0 ? order(x->part, y->part) : d;
}

static int by_subject(const void *a, const void *b)
{
    return strcmp(((const struct fact_record *) a)->subject, ((const struct fact_record *) b)->subject);
}

/* Each port of each protocol once. */
#define PER_HOST ((size_t) 3 * DIBS_PORT_MAX)

/* The limits are far above the needs of one host's ports, and stop a runaway caller. */
const struct memory_kind memory_kinds[RECORD_KINDS] = {
    [CLAIMS] = { sizeof(struct claim_record), PER_HOST, by_number },
    [SLOTS] = { sizeof(struct ledger_slot), PER_HOST * 8, by_slot },
    [NAMES] = { sizeof(struct name_record), (size_t) 16 * DIBS_NAMES_REMEMBERED, by_name },
    [EVENTS] = { sizeof(struct event_record), (size_t) 4 * DIBS_EVENTS_KEPT, by_number },
    [POOLS] = { sizeof(dibs_pool), 4096, by_pool },
    [SIGHTINGS] = { sizeof(struct sighting_record), PER_HOST, by_number },
    [ANSWERS] = { sizeof(struct answer_record), (size_t) 4 * DIBS_EVENTS_KEPT, by_key },
    [FACTS] = { sizeof(struct fact_record), DIBS_PORT_MAX, by_subject },
};

void memory_tables_done(struct memory_tables *tables)
{
    for (size_t id = 0; id < RECORD_KINDS; id++) {
        for (size_t i = 0; i < tables->table[id].n; i++)
            free(tables->table[id].item[i]);
        free(tables->table[id].item);
    }
    free(tables->journal);
    *tables = (struct memory_tables){ 0 };
}

size_t memory_find(const struct memory_tables *tables, enum record_kind table, const void *key,
                   bool *is_there)
{
    const struct memory_table *t = &tables->table[table];
    int (*compare)(const void *, const void *) = memory_kinds[table].compare;
    size_t low = 0;
    size_t high = t->n;

    /* Events and claims mostly arrive in order: compare with the last one first. */
    if (t->n > 0 && compare(t->item[t->n - 1], key) < 0)
        low = t->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare(t->item[middle], key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (is_there)
        *is_there = low < t->n && compare(t->item[low], key) == 0;
    return low;
}

const void *memory_get(const struct memory_tables *tables, enum record_kind table, const void *key)
{
    bool is_there = false;
    size_t at = memory_find(tables, table, key, &is_there);

    return is_there ? tables->table[table].item[at] : NULL;
}

static dibs_status no_memory(dibs_err *err)
{
    return err_trouble(err, DIBS_TROUBLE_FULL, "ledger memory: out of memory");
}

static bool note(struct memory_tables *tables, struct memory_change change)
{
    bool has_room =
        grow((void **) &tables->journal, tables->n_journal, &tables->journal_cap, sizeof *tables->journal);

    if (has_room)
        tables->journal[tables->n_journal++] = change;
    return has_room;
}

/* Insert into the array, which has room: it never shrinks, so that a rollback needs no memory. */
static void put_at(struct memory_table *t, size_t at, void *item)
{
    assert(t->n < t->cap);
    memmove(&t->item[at + 1], &t->item[at], (t->n - at) * sizeof t->item[0]);
    t->item[at] = item;
    t->n++;
}

static void take_out(struct memory_table *t, size_t at)
{
    t->n--;
    memmove(&t->item[at], &t->item[at + 1], (t->n - at) * sizeof t->item[0]);
}

dibs_status memory_put(struct memory_tables *tables, enum record_kind table, const void *record,
                       dibs_err *err)
{
    struct memory_table *t = &tables->table[table];
    const struct memory_kind *kind = &memory_kinds[table];
    bool is_there = false;
    size_t at = memory_find(tables, table, record, &is_there);

    if (!is_there && t->n >= kind->max)
        return err_trouble(err, DIBS_TROUBLE_FULL, "ledger memory: it is full (%zu records of one kind)",
                           t->n);
    if (!grow((void **) &t->item, t->n, &t->cap, sizeof *t->item))
        return no_memory(err);
    void *copy = malloc(kind->bytes);
    if (!copy || !note(tables, (struct memory_change){ table, is_there ? t->item[at] : NULL, copy })) {
        free(copy);
        return no_memory(err);
    }
    memcpy(copy, record, kind->bytes);
    if (is_there)
        t->item[at] = copy;
    else
        put_at(t, at, copy);
    return DIBS_OK;
}

dibs_status memory_erase(struct memory_tables *tables, enum record_kind table, const void *key, dibs_err *err)
{
    struct memory_table *t = &tables->table[table];
    bool is_there = false;
    size_t at = memory_find(tables, table, key, &is_there);

    if (!is_there)
        return DIBS_OK;
    if (!note(tables, (struct memory_change){ table, t->item[at], NULL }))
        return no_memory(err);
    take_out(t, at);
    return DIBS_OK;
}

dibs_status memory_sweep(struct memory_tables *tables, enum record_kind table,
                         bool (*is_over)(const void *ctx, const void *record), const void *ctx, dibs_err *err)
{
    struct memory_table *t = &tables->table[table];
    dibs_status s = DIBS_OK;
    size_t kept = 0;

    for (size_t i = 0; i < t->n; i++) {
        void *item = t->item[i];

        if (s == DIBS_OK && is_over(ctx, item)) {
            if (note(tables, (struct memory_change){ table, item, NULL }))
                continue;
            s = no_memory(err); /* the other records stay, and the caller rolls back */
        }
        t->item[kept++] = item;
    }
    t->n = kept;
    return s;
}

void memory_commit(struct memory_tables *tables)
{
    for (size_t i = 0; i < tables->n_journal; i++)
        free(tables->journal[i].before);
    tables->n_journal = 0;
}

void memory_undo(struct memory_tables *tables, size_t n_journal)
{
    for (size_t i = tables->n_journal; i-- > n_journal;) {
        const struct memory_change *c = &tables->journal[i];
        struct memory_table *t = &tables->table[c->table];
        size_t at = memory_find(tables, c->table, c->after ? c->after : c->before, NULL);

        if (c->before && c->after)
            t->item[at] = c->before;
        else if (c->after)
            take_out(t, at);
        else
            put_at(t, at, c->before);
        free(c->after);
    }
    tables->n_journal = n_journal;
}
