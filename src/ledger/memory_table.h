/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_MEMORY_TABLE_H
#define DIBS_LEDGER_MEMORY_TABLE_H
/* Sorted tables in memory with transactions: what the memory ledger stands on.
 *
 * Each table is an array of pointers, sorted by key. A change never edits a record in place: it swaps the
 * pointer and notes the old one in a journal, so that rolling back is putting pointers back, in reverse. */
#include <stdbool.h>
#include <stddef.h>

#include "dibs/status.h"

#define MEMORY_TABLES_MAX 8

struct memory_kind {
    size_t bytes; /* of a record */
    size_t max;   /* records: more is FULL */
    int (*compare)(const void *a, const void *b);
};

struct memory_table {
    void **item;
    size_t n, cap;
};

/* before NULL: was not there; after NULL: was removed. */
struct memory_change {
    size_t table;
    void *before, *after;
};

/* Records that came and went, for those to come: a group brings many at once, which is more than the
 * allocator keeps at hand. */
struct memory_spare {
    struct memory_spare *next;
};

struct memory_tables {
    const struct memory_kind *kinds;
    size_t n;
    struct memory_table table[MEMORY_TABLES_MAX];
    struct memory_change *journal;
    size_t n_journal, journal_cap;
    struct memory_spare *spare[MEMORY_TABLES_MAX];
    size_t n_spare[MEMORY_TABLES_MAX];
};

/* `kinds` is borrowed. */
void memory_tables_init(struct memory_tables *tables, const struct memory_kind *kinds, size_t n);
void memory_tables_done(struct memory_tables *tables);

/* The place of the first record that is not below `key`; *is_there (may be NULL) when it has that key. */
size_t memory_find(const struct memory_tables *tables, size_t table, const void *key, bool *is_there);
/* The record with that key, or NULL; borrowed until the next change. */
const void *memory_get(const struct memory_tables *tables, size_t table, const void *key);

/* Insert a copy, or replace the record of the same key. UNAVAILABLE (FULL) at the bound or without memory. */
dibs_status memory_put(struct memory_tables *tables, size_t table, const void *record, dibs_err *err);
dibs_status memory_erase(struct memory_tables *tables, size_t table, const void *key, dibs_err *err);
/* Removes every record of which `is_over` says so, in one pass. */
dibs_status memory_sweep(struct memory_tables *tables, size_t table,
                         bool (*is_over)(const void *ctx, const void *record), const void *ctx,
                         dibs_err *err);

/* Make the changes since the last of these two lasting, or undo them. Neither can fail. */
void memory_commit(struct memory_tables *tables);
void memory_rollback(struct memory_tables *tables);
/* Undo the changes since the journal was this long. */
void memory_undo(struct memory_tables *tables, size_t n_journal);
#endif
