/* SPDX-License-Identifier: MIT */
/* A part of a transaction that can be undone by itself, and what batches with a key were answered with. */
#include "base/auto.h"
#include "ledger/sqlite.h"

#include "base/banned.h"

static struct sqlite_rows *of(struct rows *rows)
{
    return (struct sqlite_rows *) rows;
}

static dibs_status run(struct rows *rows, enum sqlite_sql which, dibs_err *err)
{
    sqlite3_stmt *stmt = sqlite_stmt(of(rows), which, err);

    return stmt ? sqlite_run(of(rows), stmt, "dividing a transaction", err) : DIBS_UNAVAILABLE;
}

dibs_status sqlite_rows_save(struct rows *rows, dibs_err *err)
{
    return run(rows, SQL_SAVE, err);
}

dibs_status sqlite_rows_undo(struct rows *rows, dibs_err *err)
{
    /* A failure may have ended the whole transaction already: then there is nothing to go back to. */
    dibs_status s = run(rows, SQL_UNDO, err);

    return s == DIBS_OK ? run(rows, SQL_FORGET, err) : s;
}

dibs_status sqlite_rows_forget(struct rows *rows, dibs_err *err)
{
    return run(rows, SQL_FORGET, err);
}

uint64_t sqlite_rows_changes(struct rows *rows)
{
    /* A failed statement may have rolled everything back, which no counter of changes tells. */
    return sqlite3_get_autocommit(of(rows)->db) ? UINT64_MAX
                                                : (uint64_t) sqlite3_total_changes64(of(rows)->db);
}

static void bind_key(sqlite3_stmt *stmt, const struct row_answer *answer)
{
    sqlite_bind_string(stmt, 1, answer->principal);
    sqlite_bind_string(stmt, 2, answer->key);
    sqlite_bind_number(stmt, 3, answer->part);
}

dibs_status sqlite_rows_answer_get(struct rows *rows, struct row_answer *answer, dibs_err *err)
{
    struct sqlite_rows *self = of(rows);
    AUTO(sqlite_reset_auto) sqlite3_stmt *stmt = sqlite_stmt(self, SQL_ANSWER_GET, err);
    struct sqlite_reader r = { .stmt = stmt, .is_ok = true };

    if (!stmt)
        return DIBS_UNAVAILABLE;
    bind_key(stmt, answer);
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_DONE)
        return DIBS_NOT_FOUND;
    if (rc != SQLITE_ROW)
        return sqlite_error(self, rc, "reading an answer", err);
    answer->n = (uint32_t) sqlite_read_number(&r, 0, 0, DIBS_BATCH_MAX);
    answer->seq = (uint64_t) sqlite_read_number(&r, 1, 0, INT64_MAX);
    answer->digest = (uint64_t) sqlite_read_number(&r, 2, INT64_MIN, INT64_MAX);
    answer->claim_id = (uint64_t) sqlite_read_number(&r, 3, 0, INT64_MAX);
    answer->generation = (uint64_t) sqlite_read_number(&r, 4, 0, INT64_MAX);
    return r.is_ok ? DIBS_OK : DIBS_NOT_FOUND; /* a damaged one is no answer (INV-6) */
}

dibs_status sqlite_rows_answer_put(struct rows *rows, const struct row_answer *answer, dibs_err *err)
{
    sqlite3_stmt *stmt = sqlite_stmt(of(rows), SQL_ANSWER_PUT, err);

    if (!stmt)
        return DIBS_UNAVAILABLE;
    bind_key(stmt, answer);
    sqlite_bind_number(stmt, 4, answer->n);
    sqlite_bind_number(stmt, 5, (int64_t) answer->seq);
    sqlite_bind_number(stmt, 6, (int64_t) answer->digest);
    sqlite_bind_number(stmt, 7, (int64_t) answer->claim_id);
    sqlite_bind_number(stmt, 8, (int64_t) answer->generation);
    return sqlite_run(of(rows), stmt, "writing an answer", err);
}
