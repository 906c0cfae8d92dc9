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

enum memory_table_id { CLAIMS, SLOTS, NAMES, EVENTS, POOLS, SIGHTINGS, TABLE_COUNT };
extern const struct memory_kind memory_kinds[TABLE_COUNT];
#endif
