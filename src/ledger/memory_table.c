/* SPDX-License-Identifier: MIT */
#include "ledger/memory_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#include "base/banned.h"

enum {
    GROW_FIRST = 64,
    SPARE_MAX = 128, /* of each kind: the claims of a busy moment, some 0.3 MB */
};

void memory_tables_init(struct memory_tables *tables, const struct memory_kind *kinds, size_t n)
{
    assert(n <= MEMORY_TABLES_MAX);
    *tables = (struct memory_tables){ .kinds = kinds, .n = n };
}

void memory_tables_done(struct memory_tables *tables)
{
    for (size_t id = 0; id < tables->n; id++) {
        for (size_t i = 0; i < tables->table[id].n; i++)
            free(tables->table[id].item[i]);
        free(tables->table[id].item);
        for (struct memory_spare *spare = tables->spare[id], *next = NULL; spare; spare = next) {
            next = spare->next;
            free(spare);
        }
    }
    free(tables->journal);
}

static void *take(struct memory_tables *tables, size_t table)
{
    struct memory_spare *spare = tables->spare[table];

    assert(tables->kinds[table].bytes >= sizeof *spare);
    if (!spare)
        return malloc(tables->kinds[table].bytes);
    tables->spare[table] = spare->next;
    tables->n_spare[table]--;
    return spare;
}

static void give(struct memory_tables *tables, size_t table, void *record)
{
    struct memory_spare *spare = record;

    if (!spare || tables->n_spare[table] == SPARE_MAX) {
        free(record);
        return;
    }
    spare->next = tables->spare[table];
    tables->spare[table] = spare;
    tables->n_spare[table]++;
}

size_t memory_find(const struct memory_tables *tables, size_t table, const void *key, bool *is_there)
{
    const struct memory_table *t = &tables->table[table];
    int (*compare)(const void *, const void *) = tables->kinds[table].compare;
    size_t low = 0;
    size_t high = t->n;

    /* Events and claims mostly arrive in order: look at the end first. */
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

const void *memory_get(const struct memory_tables *tables, size_t table, const void *key)
{
    bool is_there = false;
    size_t at = memory_find(tables, table, key, &is_there);

    return is_there ? tables->table[table].item[at] : NULL;
}

static dibs_status no_memory(dibs_err *err)
{
    return err_trouble(err, DIBS_TROUBLE_FULL, "ledger memory: out of memory");
}

static bool has_room(struct memory_table *t)
{
    if (t->n < t->cap)
        return true;
    size_t want = t->cap ? t->cap * 2 : GROW_FIRST;
    void **bigger = reallocarray(t->item, want, sizeof *bigger);
    if (!bigger)
        return false;
    t->item = bigger;
    t->cap = want;
    return true;
}

static bool note(struct memory_tables *tables, struct memory_change change)
{
    if (tables->n_journal == tables->journal_cap) {
        size_t want = tables->journal_cap ? tables->journal_cap * 2 : GROW_FIRST;
        struct memory_change *bigger = reallocarray(tables->journal, want, sizeof *bigger);

        if (!bigger)
            return false;
        tables->journal = bigger;
        tables->journal_cap = want;
    }
    tables->journal[tables->n_journal++] = change;
    return true;
}

/* The array has room: it never shrinks, so that rolling back needs no memory. */
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

dibs_status memory_put(struct memory_tables *tables, size_t table, const void *record, dibs_err *err)
{
    struct memory_table *t = &tables->table[table];
    const struct memory_kind *kind = &tables->kinds[table];
    bool is_there = false;
    size_t at = memory_find(tables, table, record, &is_there);

    if (!is_there && t->n >= kind->max)
        return err_trouble(err, DIBS_TROUBLE_FULL, "ledger memory: it is full (%zu records of one kind)",
                           t->n);
    if (!has_room(t))
        return no_memory(err);
    void *copy = take(tables, table);
    if (!copy || !note(tables, (struct memory_change){ table, is_there ? t->item[at] : NULL, copy })) {
        give(tables, table, copy);
        return no_memory(err);
    }
    memcpy(copy, record, kind->bytes);
    if (is_there)
        t->item[at] = copy;
    else
        put_at(t, at, copy);
    return DIBS_OK;
}

dibs_status memory_erase(struct memory_tables *tables, size_t table, const void *key, dibs_err *err)
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

dibs_status memory_sweep(struct memory_tables *tables, size_t table,
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
            s = no_memory(err); /* the rest stays, and the caller rolls back */
        }
        t->item[kept++] = item;
    }
    t->n = kept;
    return s;
}

void memory_commit(struct memory_tables *tables)
{
    for (size_t i = 0; i < tables->n_journal; i++)
        give(tables, tables->journal[i].table, tables->journal[i].before);
    tables->n_journal = 0;
}

void memory_rollback(struct memory_tables *tables)
{
    memory_undo(tables, 0);
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
        give(tables, c->table, c->after);
    }
    tables->n_journal = n_journal;
}
