/* SPDX-License-Identifier: MIT */
#include "support/sqlite.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "ledger/step.h"
#include "store/sqlite/sqlite_store.h"

void path_of(const struct t_ledger *t, char out[300])
{
    (void) snprintf(out, 300, "%s", t->uri + strlen("sqlite:"));
}

sqlite3 *open_raw(const char *path)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

void vandalise(const struct t_ledger *t, const char *sql)
{
    char path[300];
    char *why = NULL;

    path_of(t, path);
    sqlite3 *db = open_raw(path);
    assert_int_equal(sqlite3_exec(db,
                                  "PRAGMA ignore_check_constraints=1; DROP TRIGGER IF EXISTS slots_stay;"
                                  " DROP TRIGGER IF EXISTS slots_stay_as_they_are",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
    (void) sqlite3_close(db);
}

int64_t number(const struct t_ledger *t, const char *sql)
{
    char path[300];
    sqlite3_stmt *stmt = NULL;

    path_of(t, path);
    sqlite3 *db = open_raw(path);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(stmt, 0);
    (void) sqlite3_finalize(stmt);
    (void) sqlite3_close(db);
    return value;
}

size_t read_whole(const char *path, uint8_t **out)
{
    struct stat st = { 0 };
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    *out = malloc((size_t) st.st_size + 1);
    assert_non_null(*out);
    assert_int_equal(read(fd, *out, (size_t) st.st_size), st.st_size);
    (void) close(fd);
    return (size_t) st.st_size;
}

void assert_same_bytes(const char *path, const uint8_t *before, size_t n)
{
    uint8_t *after = NULL;

    assert_int_equal(read_whole(path, &after), n);
    assert_memory_equal(before, after, n);
    free(after);
}

void close_ledger(struct t_ledger *t)
{
    ledger_close(t->ledger);
    t->ledger = NULL;
}

dibs_status reopen(struct t_ledger *t, int64_t timeout_ms)
{
    const struct ledger_options options = { .timeout_ms = timeout_ms };

    close_ledger(t);
    return ledger_open(t->uri, &options, &t->ledger, &t->err);
}
