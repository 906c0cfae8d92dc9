/* SPDX-License-Identifier: MIT */
#ifndef DIBS_LEDGER_MEMORY_RECORDS_H
#define DIBS_LEDGER_MEMORY_RECORDS_H
/* What stands in the tables of a memory ledger, and by which key. */
#include "ledger/memory_table.h"
#include "ledger/rows.h"

struct name_record {
    char principal[DIBS_PRINCIPAL_MAX + 1];
    char name[DIBS_NAME_MAX + 1];
    struct row_name row;
    int64_t revision; /* in etcd, when it is everybody's; 0: not there */
    int space;        /* where it stands in etcd: a port's name stays behind when the port changes hands */
};

struct event_record {
    dibs_event event;
    uint64_t cursor;
};

struct sighting_record {
    struct ledger_seen seen;
    uint32_t count;
};

enum memory_table_id { CLAIMS, SLOTS, NAMES, EVENTS, POOLS, SIGHTINGS, ANSWERS, TABLE_COUNT };
extern const struct memory_kind memory_kinds[TABLE_COUNT];

/* Rows that stand in memory: all of a store, or the near copy of one that is far away (rows_etcd.c). */
struct memory_rows {
    struct rows base;
    uint64_t salt;
    bool is_open; /* a transaction */
    bool is_write;
    size_t saved; /* length of the journal at the last save() */
    struct memory_tables tables;
};

/* The tables of a store, inside a transaction (rows_memory.c). */
struct memory_tables *memory_of(struct rows *rows);

/* Rows that are the same wherever the tables come from (rows_memory.c). */
void memory_rows_rollback(struct rows *rows);
dibs_status memory_rows_save(struct rows *rows, dibs_err *err);
dibs_status memory_rows_undo(struct rows *rows, dibs_err *err);
dibs_status memory_rows_forget(struct rows *rows, dibs_err *err);
uint64_t memory_rows_changes(struct rows *rows);
dibs_status memory_rows_claim_get(struct rows *rows, uint64_t id, struct row_claim *out, dibs_err *err);
dibs_status memory_rows_claim_delete(struct rows *rows, uint64_t id, dibs_err *err);
dibs_status memory_rows_claims(struct rows *rows, const struct ledger_filter *filter, row_claim_fn fn,
                               void *ctx, dibs_err *err);
dibs_status memory_rows_slots(struct rows *rows, dibs_proto proto, uint16_t port, ledger_slot_fn fn,
                              void *ctx, dibs_err *err);
dibs_status memory_rows_slot_put(struct rows *rows, const struct ledger_slot *slot, dibs_err *err);
dibs_status memory_rows_slot_delete(struct rows *rows, const struct ledger_slot *slot, dibs_err *err);
dibs_status memory_rows_name_get(struct rows *rows, const char *principal, const char *name,
                                 struct row_name *out, dibs_err *err);
dibs_status memory_rows_name_put(struct rows *rows, const char *principal, const char *name,
                                 const struct row_name *row, dibs_err *err);
dibs_status memory_rows_name_first(struct rows *rows, const struct ledger_names *among,
                                   char out[DIBS_NAME_MAX + 1], dibs_err *err);
dibs_status memory_rows_event_put(struct rows *rows, const dibs_event *event, uint64_t cursor, dibs_err *err);
dibs_status memory_rows_pool_get(struct rows *rows, const char *name, dibs_pool *out, dibs_err *err);
dibs_status memory_rows_pool_put(struct rows *rows, const dibs_pool *pool, dibs_err *err);
dibs_status memory_rows_pool_delete(struct rows *rows, const char *name, dibs_err *err);
dibs_status memory_rows_pools(struct rows *rows, bool (*fn)(void *, const dibs_pool *), void *ctx,
                              dibs_err *err);
dibs_status memory_rows_sighting_get(struct rows *rows, struct ledger_seen seen, uint32_t *count,
                                     dibs_err *err);
dibs_status memory_rows_sighting_put(struct rows *rows, struct ledger_seen seen, uint32_t count,
                                     dibs_err *err);
#define MEMORY_ROWS_OPS                                                                               \
    .save = memory_rows_save, .forget = memory_rows_forget, .changes = memory_rows_changes,           \
    .claim_delete = memory_rows_claim_delete, .slots = memory_rows_slots,                             \
    .slot_delete = memory_rows_slot_delete, .name_get = memory_rows_name_get,                         \
    .name_put = memory_rows_name_put, .name_first = memory_rows_name_first,                           \
    .event_put = memory_rows_event_put, .pool_get = memory_rows_pool_get, .pools = memory_rows_pools, \
    .sighting_get = memory_rows_sighting_get, .sighting_put = memory_rows_sighting_put

/* Rows that live in memory_upkeep.c. */
dibs_status memory_answer_get(struct rows *rows, struct row_answer *answer, dibs_err *err);
dibs_status memory_answer_put(struct rows *rows, const struct row_answer *answer, dibs_err *err);
/* Those at or below that event. */
dibs_status memory_forget_answers(struct rows *rows, uint64_t oldest_seq, dibs_err *err);
dibs_status memory_trim(struct rows *rows, uint64_t oldest_seq, size_t names_kept, int64_t cooled_before_ms,
                        const struct instant *now, dibs_err *err);
#endif
