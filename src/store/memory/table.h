/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_MEMORY_TABLE_H
#define DIBS_STORE_MEMORY_TABLE_H
/* Tables in memory with transactions. Each is an array of pointers, sorted by key. A change swaps the pointer
 * and notes the old one in a journal; a rollback puts the pointers back in reverse. */
#include <stdbool.h>
#include <stddef.h>

#include "store/store.h"

struct memory_kind {
    size_t bytes;                                 /* size of a record */
    size_t max;                                   /* number of records; more fail with FULL */
    int (*compare)(const void *a, const void *b); /* compares keys */
};
extern const struct memory_kind memory_kinds[RECORD_KINDS];

struct memory_table {
    void **item;
    size_t n, cap;
};

/* One change. `before` NULL: the record is new; `after` NULL: it was removed. */
struct memory_change {
    enum record_kind table;
    void *before, *after;
};

struct memory_tables { /* zero is empty */
    struct memory_table table[RECORD_KINDS];
    struct memory_change *journal;
    size_t n_journal, journal_cap;
};

void memory_tables_done(struct memory_tables *tables); /* leaves them empty */

/* Return the index of the first record not below `key`; *is_there (may be NULL): it has that key. */
size_t memory_find(const struct memory_tables *tables, enum record_kind table, const void *key,
                   bool *is_there);
/* Return the record with that key, or NULL; borrowed until the next change. */
const void *memory_get(const struct memory_tables *tables, enum record_kind table, const void *key);

/* Insert a copy, or replace the record of the same key. UNAVAILABLE (FULL) at the bound or without memory. */
dibs_status memory_put(struct memory_tables *tables, enum record_kind table, const void *record,
                       dibs_err *err);
dibs_status memory_erase(struct memory_tables *tables, enum record_kind table, const void *key,
                         dibs_err *err);
/* Remove every record for which `is_over` returns true, in one pass. */
dibs_status memory_sweep(struct memory_tables *tables, enum record_kind table,
                         bool (*is_over)(const void *ctx, const void *record), const void *ctx,
                         dibs_err *err);

/* Commit the changes in the journal, or undo those beyond its first n_journal. Neither can fail. */
void memory_commit(struct memory_tables *tables);
void memory_undo(struct memory_tables *tables, size_t n_journal);

/* ---- the store ---- */

/* A store in memory, or the in-memory copy of a store in etcd. */
struct memory_store {
    struct store base;
    bool is_open; /* a transaction is open */
    bool is_write;
    size_t saved; /* length of the journal at the last save() */
    struct memory_tables tables;
};

/* The members of store_ops that the store in etcd uses unchanged. */
dibs_status memory_rows_save(struct store *store, dibs_err *err);
dibs_status memory_rows_forget(struct store *store, dibs_err *err);
uint64_t memory_rows_changes(struct store *store);
dibs_status memory_rows_slots(struct store *store, dibs_proto proto, uint16_t port, ledger_slot_fn fn,
                              void *ctx, dibs_err *err);
dibs_status memory_rows_name_first(struct store *store, const struct ledger_names *among,
                                   char out[DIBS_NAME_MAX + 1], dibs_err *err);
dibs_status memory_rows_all(struct store *store, enum record_kind kind, record_fn fn, void *ctx,
                            dibs_err *err);
dibs_status memory_rows_count(struct store *store, const char *principal, uint32_t *n, dibs_err *err);
dibs_status memory_rows_writable(struct store *store, dibs_err *err);
dibs_status memory_rows_salvage(const char *rest, const dibs_event *event, struct ledger_salvaged *out,
                                dibs_err *err);
#define MEMORY_ROWS_OPS                                                                       \
    .save = memory_rows_save, .forget = memory_rows_forget, .changes = memory_rows_changes,   \
    .slots = memory_rows_slots, .name_first = memory_rows_name_first, .all = memory_rows_all, \
    .count = memory_rows_count, .writable = memory_rows_writable, .salvage = memory_rows_salvage
#endif
