/* SPDX-License-Identifier: MIT */
/* Parts that only a SQLite ledger has: a file, its version, its locks, its processes. Its place:
 * test_sqlite_places.c; its damage: test_sqlite_damage.c. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>

#include "support/child.h"
#include "support/sqlite.h"

/* ---- the query plan ---- */

static void conflicts_are_found_by_an_index_search(void **state) /* D15, P2 */
{
    struct t_ledger *t = *state;
    char path[300];
    char sql[512];
    sqlite3_stmt *stmt = NULL;

    path_of(t, path);
    sqlite3 *db = open_raw(path);
    (void) snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN %s", sqlite_sql_text[SQL_SLOTS_AT]);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    const char *plan = (const char *) sqlite3_column_text(stmt, 3);
    assert_non_null(plan);
    assert_non_null(strstr(plan, "SEARCH"));
    assert_non_null(strstr(plan, "proto=? AND port=?"));
    assert_int_equal(sqlite3_step(stmt), SQLITE_DONE); /* that one search, no sort, no scan */
    (void) sqlite3_finalize(stmt);
    (void) sqlite3_close(db);
}

/* ---- what it is ---- */

static void a_newer_major_is_refused_untouched(void **state)
{
    struct t_ledger *t = *state;
    char path[300];
    uint8_t *before = NULL;

    close_ledger(t);
    vandalise(t, "PRAGMA user_version=2000; PRAGMA wal_checkpoint(TRUNCATE)");
    path_of(t, path);
    size_t n = read_whole(path, &before);
    assert_int_equal(reopen(t, 500), DIBS_UNAVAILABLE);
    assert_int_equal(t->err.trouble, DIBS_TROUBLE_NEWER);
    struct ledger_salvaged salvaged = { 0 };
    assert_int_equal(ledger_salvage(t->uri, &t->call, &salvaged, &t->err), DIBS_UNAVAILABLE);
    assert_int_equal(t->err.trouble, DIBS_TROUBLE_NEWER);
    assert_same_bytes(path, before, n);
    free(before);
}

static void a_newer_minor_is_used(void **state)
{
    static const int minors[] = { SQLITE_LEDGER_VERSION + 1, 1500, 1999 };
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");

    for (size_t i = 0; i < 3; i++) {
        char sql[64];

        (void) snprintf(sql, sizeof sql, "PRAGMA user_version=%d", minors[i]);
        vandalise(t, sql);
        ASSERT_OK(reopen(t, 500), &t->err);
        (void) t_must(t, &want, (uint16_t) (26001 + i));
        assert_int_equal(number(t, "PRAGMA user_version"), minors[i]);
    }
}

static void a_database_of_another_program_is_left_alone(void **state)
{
    static const char *const marks[] = {
        "PRAGMA application_id=77", "PRAGMA user_version=3", "SELECT 1", /* most programs mark nothing */
    };
    struct t_ledger *t = *state;
    char path[300];

    path_of(t, path);
    for (size_t i = 0; i < 3; i++) {
        uint8_t *before = NULL;
        struct ledger_salvaged salvaged = { 0 };
        char wal[310];

        close_ledger(t);
        (void) snprintf(wal, sizeof wal, "%s-wal", path);
        (void) unlink(wal);
        (void) unlink(path);
        vandalise(t, "CREATE TABLE theirs(x); INSERT INTO theirs VALUES(1)");
        vandalise(t, marks[i]);
        size_t n = read_whole(path, &before);
        assert_int_equal(reopen(t, 500), DIBS_UNAVAILABLE);
        assert_int_equal(t->err.trouble, DIBS_TROUBLE_DAMAGED);
        assert_non_null(strstr(t->err.msg, "another program"));
        assert_int_equal(ledger_salvage(t->uri, &t->call, &salvaged, &t->err), DIBS_INVALID);
        assert_same_bytes(path, before, n);
        free(before);
    }
}

static void the_file_and_its_directory_are_private(void **state)
{
    const struct ledger_options options = { .timeout_ms = 1000 };
    struct t_ledger *t = *state;
    struct ledger *ledger = NULL;
    char uri[400];
    char path[400];
    struct stat st = { 0 };
    mode_t old = umask(0);

    (void) snprintf(uri, sizeof uri, "sqlite:%s/a/b/ledger.db", t->dir);
    ASSERT_OK(ledger_open(uri, &options, &ledger, &t->err), &t->err);
    ledger_close(ledger);
    (void) umask(old);
    assert_int_equal(stat(uri + strlen("sqlite:"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    (void) snprintf(path, sizeof path, "%s/a/b/ledger.db-wal", t->dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    (void) snprintf(path, sizeof path, "%s/a/b", t->dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    t_remove_directory(path);
    (void) snprintf(path, sizeof path, "%s/a", t->dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(rmdir(path), 0);
}

/* ---- locks and sync ---- */

static int64_t now_ms(void)
{
    struct timespec ts = { 0 };

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void a_locked_ledger_fails_within_the_deadline(void **state) /* INV-9 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim got = { 0 };
    char path[300];

    ASSERT_OK(reopen(t, 200), &t->err);
    path_of(t, path);
    sqlite3 *db = open_raw(path);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    int64_t start = now_ms();
    assert_int_equal(t_claim(t, &want, 26001, &got), DIBS_UNAVAILABLE);
    int64_t took = now_ms() - start;
    assert_int_equal(t->err.trouble, DIBS_TROUBLE_LOCKED);
    assert_in_range(took, 150, 200 + STALL_MS);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 0); /* reading goes on */
    (void) sqlite3_close(db);
    (void) t_must(t, &want, 26001);
}

static void all_waits_of_one_call_have_one_deadline(void **state) /* INV-9 */
{
    enum { TIMEOUT_MS = 400 };
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim got = { 0 };
    char path[300];

    ASSERT_OK(reopen(t, TIMEOUT_MS), &t->err);
    path_of(t, path);
    sqlite3 *db = open_raw(path);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    int64_t start = now_ms();
    t->call.deadline_ms = clock_monotonic_ms() + TIMEOUT_MS;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(t_claim(t, &want, 26001, &got), DIBS_UNAVAILABLE);
        assert_int_equal(t->err.trouble, DIBS_TROUBLE_LOCKED);
    }
    assert_in_range(now_ms() - start, TIMEOUT_MS * 3 / 4, TIMEOUT_MS * 7 / 4);
    start = now_ms(); /* and the next call has its own */
    t->call.deadline_ms = clock_monotonic_ms() + TIMEOUT_MS;
    assert_int_equal(t_claim(t, &want, 26001, &got), DIBS_UNAVAILABLE);
    assert_true(now_ms() - start >= TIMEOUT_MS * 3 / 4);
    (void) sqlite3_close(db);
}

/* ---- several processes ---- */

static void twenty_processes_make_one_ledger(void **state)
{
    enum { PROCESSES = 20 };
    struct t_ledger *t = *state;
    pid_t pids[PROCESSES];
    int gate[2];
    char path[300];

    close_ledger(t);
    path_of(t, path);
    t_remove_directory(t->dir);
    assert_int_equal(mkdir(t->dir, 0700), 0);
    assert_int_equal(pipe2(gate, O_CLOEXEC), 0);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            char byte = 0;
            struct ledger_want want = t_want(NULL, "*");
            dibs_claim got = { 0 };

            (void) close(gate[1]);
            (void) !read(gate[0], &byte, 1); /* until the parent closes its end */
            if (reopen(t, 10000) != DIBS_OK)
                _exit(1);
            _exit(t_claim(t, &want, (uint16_t) (26000 + i), &got) == DIBS_OK ? 0 : 2);
        }
    }
    (void) close(gate[0]);
    (void) close(gate[1]);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(child_join(pids[i]), 0);
    ASSERT_OK(reopen(t, 1000), &t->err);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, PROCESSES);
    assert_int_equal(t_tail(t), PROCESSES);
}

static void write_until_killed(struct t_ledger *t, int report)
{
    struct ledger_want want = t_want(NULL, "*");

    want.claim.bindings[want.claim.n_bindings++] = (dibs_binding){ DIBS_UDP, t_address("*") };
    if (reopen(t, 5000) != DIBS_OK)
        _exit(1);
    for (uint32_t i = 0; i < 1000000; i++) {
        dibs_claim got = { 0 };
        uint16_t port = (uint16_t) (20000 + i % 500);
        dibs_status s = t_claim(t, &want, port, &got);

        if (s == DIBS_OK && i % 3 != 0) {
            struct ledger_seen seen = t_seen(&got);
            size_t n = 0;

            s = ledger_end(t->ledger, &t->call, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &n,
                           &t->err);
        }
        if ((s != DIBS_OK && s != DIBS_TAKEN) || write(report, "", 1) != 1)
            _exit(2);
    }
    _exit(3);
}

static void a_killed_writer_leaves_a_sound_ledger(void **state) /* INV-2 */
{
    struct t_ledger *t = *state;
    struct ledger_health health = { 0 };

    for (int round = 0; round < 50; round++) {
        int report[2] = { -1, -1 };
        char done = 0;

        assert_int_equal(pipe2(report, O_CLOEXEC), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            write_until_killed(t, report[1]);
        (void) close(report[1]);
        for (int n = 0; n < 5 + 20 * (round % 10); n++) /* so many changes; it is killed in one of the next */
            assert_int_equal(read(report[0], &done, 1), 1);
        assert_int_equal(kill(pid, SIGKILL), 0);
        (void) close(report[0]);
        assert_int_equal(child_join(pid), 128 + SIGKILL);
        ASSERT_OK(reopen(t, 2000), &t->err);
        ASSERT_OK(ledger_health(t->ledger, &health, &t->err), &t->err);
        assert_true(health.is_sound);
        assert_int_equal(number(t, "SELECT count(*) FROM slots WHERE claim<>0"),
                         2 * (int64_t) health.n_claims);
        assert_int_equal(
            number(t, "SELECT count(*) FROM slots WHERE claim<>0 AND claim NOT IN (SELECT id FROM claims)"),
            0);
        assert_int_equal(number(t, "SELECT count(*)=ifnull(max(seq), 0) FROM events"), 1); /* no gap */
    }
    assert_true(number(t, "SELECT count(*) FROM events") > 50);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, t_open, t_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(conflicts_are_found_by_an_index_search),
        CASE(a_newer_major_is_refused_untouched),
        CASE(a_newer_minor_is_used),
        CASE(a_database_of_another_program_is_left_alone),
        CASE(the_file_and_its_directory_are_private),
        CASE(a_locked_ledger_fails_within_the_deadline),
        CASE(all_waits_of_one_call_have_one_deadline),
        CASE(twenty_processes_make_one_ledger),
        CASE(a_killed_writer_leaves_a_sound_ledger),
    };

    t_scheme = "sqlite";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
