/* SPDX-License-Identifier: MIT */
#ifndef DIBS_TESTS_SQLITE_H
#define DIBS_TESTS_SQLITE_H
/* Reaching into the file of a SQLite ledger, past the ledger. */
#include <fcntl.h>
#include <sys/stat.h>

#include "ledger/step.h"
#include "store/sqlite/sqlite_store.h"
#include "support/ledger.h"

void path_of(const struct t_ledger *t, char out[300]);
sqlite3 *open_raw(const char *path);

/* From outside, as a bad disk or a bad program would: without the checks. */
void vandalise(const struct t_ledger *t, const char *sql);
int64_t number(const struct t_ledger *t, const char *sql);
size_t read_whole(const char *path, uint8_t **out);
void assert_same_bytes(const char *path, const uint8_t *before, size_t n);
void close_ledger(struct t_ledger *t);
dibs_status reopen(struct t_ledger *t, int64_t timeout_ms);
#endif
