/* SPDX-License-Identifier: MIT */
/* What a commit has written is in the log when it returns, for whoever reads it with SQLite's own means. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "ledger/sqlite.h"
#include "support/ledger.h"

struct pair {
    char dir[256];
    sqlite3 *ours;
    sqlite3 *plain; /* through SQLite's own way to the system */
};

static void run(sqlite3 *db, const char *sql)
{
    char *why = NULL;

    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
}

static int64_t number(sqlite3 *db, const char *sql)
{
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(stmt, 0);
    (void) sqlite3_finalize(stmt);
    return value;
}

static int setup(void **state)
{
    struct pair *p = calloc(1, sizeof *p);
    char path[300];

    assert_non_null(p);
    t_make_directory(p->dir);
    (void) snprintf(path, sizeof path, "%s/log.db", p->dir);
    assert_int_equal(
        sqlite3_open_v2(path, &p->ours, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, sqlite_vfs()), SQLITE_OK);
    run(p->ours, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0; PRAGMA "
                 "cache_size=10;"
                 "CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB)");
    assert_int_equal(sqlite3_open_v2(path, &p->plain, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    run(p->plain, "PRAGMA wal_autocheckpoint=0");
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    struct pair *p = *state;

    (void) sqlite3_close(p->plain);
    (void) sqlite3_close(p->ours);
    t_remove_directory(p->dir);
    free(p);
    return 0;
}

/* From the 20th commit on all of them end with a sync, or are spared it. */
static void set_sync(struct pair *p, int i)
{
    if (i == 20) {
        run(p->ours, "PRAGMA synchronous=FULL");
        sqlite_log_set_synced(p->ours);
    }
    sqlite_log_spare_sync(p->ours, i % 3 != 0);
}

static void every_commit_can_be_read_by_others_at_once(void **state)
{
    struct pair *p = *state;
    char sql[200];
    int64_t n = 0;

    for (int i = 0; i < 150; i++) {
        int rows = 1 + i % 40;

        set_sync(p, i);
        /* Pages that do not fit into the cache are written, read and written again before the commit. */
        (void) snprintf(
            sql, sizeof sql,
            "BEGIN IMMEDIATE; WITH RECURSIVE c(k) AS (SELECT 1 UNION ALL SELECT k+1 FROM c WHERE k<%d)"
            " INSERT INTO t(v) SELECT randomblob(900) FROM c; UPDATE t SET v=randomblob(901)"
            " WHERE id%%7=%d; COMMIT",
            rows, i % 7);
        run(p->ours, sql);
        n += rows;
        assert_int_equal(number(p->plain, "SELECT count(*) FROM t"), n);
        if (i % 11 == 0)
            run(p->plain, "INSERT INTO t(v) VALUES(randomblob(100))"); /* the log grows without us, too */
        n += i % 11 == 0;
        if (i % 13 == 0)
            run(p->ours, "BEGIN IMMEDIATE; UPDATE t SET v=randomblob(2000); ROLLBACK");
        if (i % 17 == 0)
            run(p->ours, "PRAGMA wal_checkpoint(RESTART)");
        if (i % 59 == 0)
            run(p->ours, "PRAGMA wal_checkpoint(TRUNCATE)");
    }
    assert_int_equal(number(p->ours, "SELECT count(*) FROM t"), n);
    assert_int_equal(
        number(p->plain, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check='ok'"), 1);
}

static void what_a_reader_recovers_is_what_was_committed(void **state)
{
    struct pair *p = *state;
    char copy[600];
    char sql[100];
    sqlite3 *again = NULL;

    for (int i = 0; i < 40; i++) {
        set_sync(p, i);
        (void) snprintf(sql, sizeof sql, "INSERT INTO t(v) VALUES(randomblob(%d))", 100 + 400 * (i % 20));
        run(p->ours, sql);
        /* File and log as they are now, without the log's index: as after the death of everybody. */
        (void) snprintf(copy, sizeof copy,
                        "cp '%s/log.db' '%s/c.db' && cp '%s/log.db-wal' '%s/c.db-wal' && rm -f '%s/c.db-shm'",
                        p->dir, p->dir, p->dir, p->dir, p->dir);
        FILE *shell = popen(copy, "r");
        assert_non_null(shell);
        assert_int_equal(pclose(shell), 0);
        (void) snprintf(copy, sizeof copy, "%s/c.db", p->dir);
        assert_int_equal(sqlite3_open_v2(copy, &again, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
        assert_int_equal(number(again, "SELECT count(*) FROM t"), i + 1);
        (void) sqlite3_close(again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_commit_can_be_read_by_others_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(what_a_reader_recovers_is_what_was_committed, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
