/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_MEMORY_TABLE_H
#define DIBS_STORE_MEMORY_TABLE_H
/* Tables in memory with transactions. Each is an array of pointers, sorted by key. A change swaps the pointer
 * and notes the old one in a journal; a rollback puts the pointers back in reverse. */
#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

struct memory_kind {
    size_t bytes;                                 /* of a record */
    size_t max;                                   /* records: more is FULL */
    int (*compare)(const void *a, const void *b); /* by its key */
};
extern const struct memory_kind memory_kinds[RECORD_KINDS];

struct memory_table {
    void **item;
    size_t n, cap;
};

/* before NULL: was not there; after NULL: was removed. */
struct memory_change {
    enum record_kind table;
    void *before, *after;
};

struct memory_tables { /* zero is empty */
    struct memory_table table[RECORD_KINDS];
    struct memory_change *journal;
    size_t n_journal, journal_cap;
};

void memory_tables_done(struct memory_tables *tables); /* they are empty then */

/* The place of the first record that is not below `key`; *is_there (may be NULL) when it has that key. */
size_t memory_find(const struct memory_tables *tables, enum record_kind table, const void *key,
                   bool *is_there);
/* The record with that key, or NULL; borrowed until the next change. */
const void *memory_get(const struct memory_tables *tables, enum record_kind table, const void *key);

/* Insert a copy, or replace the record of the same key. UNAVAILABLE (FULL) at the bound or without memory. */
dibs_status memory_put(struct memory_tables *tables, enum record_kind table, const void *record,
                       dibs_err *err);
dibs_status memory_erase(struct memory_tables *tables, enum record_kind table, const void *key,
                         dibs_err *err);
/* Removes every record of which `is_over` says so, in one pass. */
dibs_status memory_sweep(struct memory_tables *tables, enum record_kind table,
                         bool (*is_over)(const void *ctx, const void *record), const void *ctx,
                         dibs_err *err);

/* Make the changes in the journal lasting, or undo those since it was this long. Neither can fail. */
void memory_commit(struct memory_tables *tables);
void memory_undo(struct memory_tables *tables, size_t n_journal);

/* ---- the store ---- */

/* A store in memory, or the copy of one in etcd. */
struct memory_store {
    struct store base;
    bool is_open; /* a transaction */
    bool is_write;
    size_t saved; /* length of the journal at the last save() */
    struct memory_tables tables;
};

/* The members of store_ops that the store in etcd has unchanged. */
dibs_status memory_rows_save(struct store *store, dibs_err *err);
dibs_status memory_rows_forget(struct store *store, dibs_err *err);
uint64_t memory_rows_changes(struct store *store);
dibs_status memory_rows_slots(struct store *store, dibs_proto proto, uint16_t port, ledger_slot_fn fn,
                              void *ctx, dibs_err *err);
dibs_status memory_rows_name_first(struct store *store, const struct ledger_names *among,
                                   char out[DIBS_NAME_MAX + 1], dibs_err *err);
dibs_status memory_rows_pools(struct store *store, bool (*fn)(void *, const dibs_pool *), void *ctx,
                              dibs_err *err);
dibs_status memory_rows_salvage(const char *rest, const dibs_event *event, struct ledger_salvaged *out,
                                dibs_err *err);
#define MEMORY_ROWS_OPS                                                                           \
    .save = memory_rows_save, .forget = memory_rows_forget, .changes = memory_rows_changes,       \
    .slots = memory_rows_slots, .name_first = memory_rows_name_first, .pools = memory_rows_pools, \
    .salvage = memory_rows_salvage
#endif
