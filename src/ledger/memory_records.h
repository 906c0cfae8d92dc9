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

/* The tables of a store, inside a transaction (rows_memory.c). */
struct memory_tables *memory_of(struct rows *rows);

/* Rows that live in memory_upkeep.c. */
dibs_status memory_answer_get(struct rows *rows, struct row_answer *answer, dibs_err *err);
dibs_status memory_answer_put(struct rows *rows, const struct row_answer *answer, dibs_err *err);
dibs_status memory_trim(struct rows *rows, uint64_t oldest_seq, size_t names_kept, int64_t cooled_before_ms,
                        const struct instant *now, dibs_err *err);
#endif
