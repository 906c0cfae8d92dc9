/* SPDX-License-Identifier: MIT */
#ifndef DIBS_STORE_SQLITE_SALVAGE_H
#define DIBS_STORE_SQLITE_SALVAGE_H
/* What the two files of the salvage share: salvage.c changes the files, salvage_records.c copies the records.
 */
#include "store/sqlite/sqlite_store.h"

struct salvage {
    struct sqlite_store old;  /* the damaged ledger */
    bool is_held;             /* ... whose write lock is ours, and whose log is empty */
    char dir[1024];           /* that it lies in */
    char work[1024 + 8];      /* a private directory beside it */
    char new_path[1024 + 16]; /* of the new ledger, in that directory */
    struct store *store;      /* the new ledger */
    const dibs_event *event;  /* who salvages, and when */
    enum record_kind kind;    /* of the table that is copied now */
    bool lost_some;           /* not everything could be read */
    struct ledger_salvaged result;
    dibs_err *err;
};

/* Copy everything that is readable in r->old into r->store, in one transaction. */
dibs_status salvage_records(struct salvage *r);
#endif
