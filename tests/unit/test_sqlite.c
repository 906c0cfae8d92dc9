/* SPDX-License-Identifier: MIT */
/* What only a SQLite ledger has: a file, its version, its place, its locks, its damage. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "ledger/sqlite.h"
#include "support/ledger.h"

/* ---- reaching into the file ---- */

static void path_of(const struct t_ledger *t, char out[300])
{
    (void) snprintf(out, 300, "%s", t->uri + strlen("sqlite:"));
}

static sqlite3 *open_raw(const char *path)
{
    sqlite3 *db = NULL;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

/* From outside, as a bad disk or a bad program would: without the checks. */
static void vandalise(const struct t_ledger *t, const char *sql)
{
    char path[300];
    char *why = NULL;

    path_of(t, path);
    sqlite3 *db = open_raw(path);
    assert_int_equal(sqlite3_exec(db, "PRAGMA ignore_check_constraints=1", NULL, NULL, NULL), SQLITE_OK);
    if (sqlite3_exec(db, sql, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s: %s", sql, why);
    (void) sqlite3_close(db);
}

static int64_t number(const struct t_ledger *t, const char *sql)
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

static size_t read_whole(const char *path, uint8_t **out)
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

static void assert_same_bytes(const char *path, const uint8_t *before, size_t n)
{
    uint8_t *after = NULL;

    assert_int_equal(read_whole(path, &after), n);
    assert_memory_equal(before, after, n);
    free(after);
}

static void close_ledger(struct t_ledger *t)
{
    ledger_close(t->ledger);
    t->ledger = NULL;
}

static dibs_status reopen(struct t_ledger *t, int64_t timeout_ms)
{
    const struct ledger_options options = { .timeout_ms = timeout_ms };

    close_ledger(t);
    return ledger_open(t->uri, &options, &t->ledger, &t->err);
}

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
    size_t saved = 0;
    char aside[1024] = "";
    assert_int_equal(ledger_rebuild(t->uri, &t->actor, aside, &saved, &t->err), DIBS_UNAVAILABLE);
    assert_int_equal(t->err.trouble, DIBS_TROUBLE_NEWER);
    assert_same_bytes(path, before, n);
    free(before);
}

static void a_newer_minor_is_used(void **state)
{
    static const int minors[] = { 1001, 1500, 1999 };
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
        size_t saved = 0;
        char aside[1024] = "";
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
        assert_int_equal(ledger_rebuild(t->uri, &t->actor, aside, &saved, &t->err), DIBS_INVALID);
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
    assert_in_range(took, 150, 1500);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 0); /* reading goes on */
    (void) sqlite3_close(db);
    (void) t_must(t, &want, 26001);
}

static int64_t sync_level(struct t_ledger *t)
{
    struct sqlite_rows *rows = (struct sqlite_rows *) t->ledger->rows;
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_prepare_v2(rows->db, "PRAGMA synchronous", -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t level = sqlite3_column_int64(stmt, 0);
    (void) sqlite3_finalize(stmt);
    assert_int_equal(rows->is_full, level == 2);
    return level;
}

static void kept_claims_and_pools_survive_power_loss(void **state) /* INV-2 */
{
    enum { NORMAL = 1, FULL = 2 };
    const struct ledger_options always = { .timeout_ms = 1000, .is_sync_full = true };
    struct t_ledger *t = *state;
    struct ledger_want lease = t_want(NULL, "*");
    struct ledger_want kept = t_want("kept", "*");
    dibs_pool pool = { .name = "p", .ranges = { { { 30000, 30010 } }, 1 }, .order = "stride" };

    t_kept(&kept);
    (void) t_must(t, &lease, 26001);
    assert_int_equal(sync_level(t), NORMAL);
    (void) t_must(t, &kept, 26002);
    assert_int_equal(sync_level(t), FULL);
    (void) t_must(t, &lease, 26003);
    assert_int_equal(sync_level(t), NORMAL);
    ASSERT_OK(ledger_pool_put(t->ledger, &pool, &t->actor, &t->err), &t->err);
    assert_int_equal(sync_level(t), FULL);
    close_ledger(t);
    ASSERT_OK(ledger_open(t->uri, &always, &t->ledger, &t->err), &t->err);
    (void) t_must(t, &lease, 26004);
    assert_int_equal(sync_level(t), FULL);
}

static void what_is_restored_or_handed_over_to_be_kept_survives_power_loss(void **state) /* INV-2 */
{
    enum { NORMAL = 1, FULL = 2 };
    struct t_ledger *t = *state;
    struct ledger_want lease = t_want(NULL, "*");
    struct ledger_want kept = t_want("kept", "*");
    dibs_claim out = { 0 };
    size_t n = 0;

    t_kept(&kept);
    kept.claim.port = 26002;
    dibs_claim got = t_must(t, &lease, 26001);
    assert_int_equal(sync_level(t), NORMAL);
    ASSERT_OK(
        ledger_restore(t->ledger, &(dibs_snapshot){ &kept.claim, 1, NULL, 0 }, &t->actor, &n, NULL, &t->err),
        &t->err);
    assert_int_equal(n, 1);
    assert_int_equal(sync_level(t), FULL);
    ASSERT_OK(ledger_transfer(t->ledger, t_seen(&got), &lease.claim, &t->actor, &got, &t->err), &t->err);
    assert_int_equal(sync_level(t), NORMAL); /* nothing of it is kept */
    ASSERT_OK(ledger_transfer(t->ledger, t_seen(&got), &kept.claim, &t->actor, &out, &t->err), &t->err);
    assert_true(out.is_kept);
    assert_int_equal(sync_level(t), FULL);
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
    ledger_start_call(t->ledger);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(t_claim(t, &want, 26001, &got), DIBS_UNAVAILABLE);
        assert_int_equal(t->err.trouble, DIBS_TROUBLE_LOCKED);
    }
    assert_in_range(now_ms() - start, TIMEOUT_MS * 3 / 4, TIMEOUT_MS * 7 / 4);
    start = now_ms(); /* and the next call has its own */
    ledger_start_call(t->ledger);
    assert_int_equal(t_claim(t, &want, 26001, &got), DIBS_UNAVAILABLE);
    assert_true(now_ms() - start >= TIMEOUT_MS * 3 / 4);
    (void) sqlite3_close(db);
}

/* ---- several processes ---- */

static int wait_for(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

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
        assert_int_equal(wait_for(pids[i]), 0);
    ASSERT_OK(reopen(t, 1000), &t->err);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, PROCESSES);
    assert_int_equal(t_tail(t), PROCESSES);
}

static void write_until_killed(struct t_ledger *t)
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

            s = ledger_end(t->ledger, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &t->actor, &n,
                           &t->err);
        }
        if (s != DIBS_OK && s != DIBS_TAKEN)
            _exit(2);
    }
    _exit(3);
}

static void a_killed_writer_leaves_a_sound_ledger(void **state) /* INV-2 */
{
    struct t_ledger *t = *state;
    struct ledger_health health = { 0 };

    for (int round = 0; round < 50; round++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0)
            write_until_killed(t);
        struct timespec pause = { .tv_nsec = (3 + round % 10) * 1000000L };
        (void) nanosleep(&pause, NULL);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(wait_for(pid), 128 + SIGKILL);
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

/* ---- places ---- */

static void in_own_mounts(struct t_ledger *t, int (*fn)(struct t_ledger *t))
{
    close_ledger(t);
    if (geteuid() != 0)
        SKIP_BECAUSE("mounting a file system needs root");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
            _exit(77);
        _exit(fn(t));
    }
    int code = wait_for(pid);
    if (code == 77)
        SKIP_BECAUSE("this machine does not let us mount");
    assert_int_equal(code, 0);
}

static int fill_a_small_disk(struct t_ledger *t)
{
    struct ledger_want want = t_want(NULL, "*");
    char filler[300];
    char block[4096] = { 0 };
    dibs_claim got = { 0 };
    struct ledger_health health = { 0 };
    struct t_ids ids = { 0 };
    size_t n = 0;

    if (mount("none", t->dir, "tmpfs", 0, "size=512k") != 0)
        return 77;
    if (reopen(t, 1000) != DIBS_OK || t_claim(t, &want, 20000, &got) != DIBS_OK)
        return 1;
    (void) snprintf(filler, sizeof filler, "%s/filler", t->dir);
    int fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    for (int i = 0; fd >= 0 && i < 1000 && write(fd, block, sizeof block) == (ssize_t) sizeof block; i++)
        ;
    (void) close(fd);
    dibs_status s = DIBS_OK;
    for (n = 1; n < 5000 && s == DIBS_OK; n++)
        s = t_claim(t, &want, (uint16_t) (20000 + n), &got);
    if (s != DIBS_UNAVAILABLE || t->err.trouble != DIBS_TROUBLE_FULL)
        return 2;
    struct ledger_filter all = { 0 };
    if (ledger_list(t->ledger, &all, t_note_claim, &ids, &t->err) != DIBS_OK || ids.n != n - 1)
        return 3; /* the one that failed left something */
    if (unlink(filler) != 0 || t_claim(t, &want, 30000, &got) != DIBS_OK)
        return 4;
    if (ledger_health(t->ledger, &health, &t->err) != DIBS_OK || !health.is_sound || health.n_claims != n)
        return 5;
    return 0;
}

static void a_full_disk_is_told_and_leaves_nothing_half_written(void **state)
{
    in_own_mounts(*state, fill_a_small_disk);
}

static int open_on_a_full_disk(struct t_ledger *t)
{
    if (mount("none", t->dir, "tmpfs", 0, "size=16k") != 0)
        return 77;
    return reopen(t, 1000) == DIBS_UNAVAILABLE && t->err.trouble == DIBS_TROUBLE_FULL ? 0 : 1;
}

static void a_ledger_that_does_not_fit_is_full(void **state)
{
    in_own_mounts(*state, open_on_a_full_disk);
}

static int open_read_only(struct t_ledger *t)
{
    if (mount("none", t->dir, "tmpfs", 0, "size=64k") != 0 ||
        mount("none", t->dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) != 0)
        return 77;
    return reopen(t, 1000) == DIBS_UNAVAILABLE && t->err.trouble == DIBS_TROUBLE_UNWRITABLE ? 0 : 1;
}

static void a_read_only_place_is_unwritable(void **state)
{
    in_own_mounts(*state, open_read_only);
}

/* The least file system there can be: it says hello, that its root is a directory, and how full it is. */
static void serve_fuse(int fd)
{
    static char request[FUSE_MIN_READ_BUFFER + 4096];

    for (int i = 0; i < 1000; i++) {
        struct fuse_in_header in = { 0 };
        struct {
            struct fuse_out_header head;
            union {
                struct fuse_init_out init;
                struct fuse_attr_out attr;
                struct fuse_statfs_out statfs;
            } body;
        } out = { 0 };
        size_t body = 0;
        ssize_t got = read(fd, request, sizeof request);

        if (got < (ssize_t) sizeof in)
            _exit(0);
        memcpy(&in, request, sizeof in);
        out.head.unique = in.unique;
        switch (in.opcode) {
        case FUSE_INIT:
            out.body.init = (struct fuse_init_out){ .major = 7, .minor = 31, .max_write = 4096 };
            body = sizeof out.body.init;
            break;
        case FUSE_GETATTR:
            out.body.attr.attr = (struct fuse_attr){ .ino = 1, .mode = S_IFDIR | 0700, .nlink = 2 };
            body = sizeof out.body.attr;
            break;
        case FUSE_STATFS:
            out.body.statfs.st = (struct fuse_kstatfs){ .blocks = 1000, .bfree = 1000, .bsize = 4096 };
            body = sizeof out.body.statfs;
            break;
        default: out.head.error = -ENOSYS; break;
        }
        out.head.len = (uint32_t) (sizeof out.head + body);
        (void) !write(fd, &out, out.head.len);
    }
}

static int open_on_fuse(struct t_ledger *t)
{
    char options[128];
    int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

    if (fd < 0)
        return 77;
    (void) snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
    if (mount("dibs-test", t->dir, "fuse.dibs-test", MS_NOSUID | MS_NODEV, options) != 0)
        return 77;
    pid_t server = fork();
    if (server == 0) {
        (void) alarm(20);
        serve_fuse(fd);
        _exit(0);
    }
    (void) close(fd);
    dibs_status s = reopen(t, 1000);
    (void) umount2(t->dir, MNT_DETACH);
    (void) kill(server, SIGKILL);
    (void) waitpid(server, NULL, 0);
    return s == DIBS_UNAVAILABLE && t->err.trouble == DIBS_TROUBLE_REMOTE && strstr(t->err.msg, "FUSE") ? 0
                                                                                                        : 1;
}

static void a_file_system_that_others_may_share_is_refused(void **state)
{
    in_own_mounts(*state, open_on_fuse);
}

/* ---- damaged records ---- */

static void a_damaged_record_harms_itself_alone(void **state) /* INV-6 */
{
    static const char *const damage[] = {
        "port=70000",
        "port=0",
        "generation=-5",
        "kind=9",
        "holder=7",
        "kept=0, holder=0",
        "pid=-3",
        "bindings=x'0102'",
        "bindings=x''",
        "principal=''",
        "secret=x'00'",
        "name='..'",
        "ttl_ms=-1",
        "exclusive=3",
        "boot_id=''",
        "uid=-1",
        "pool=hex(zeroblob(90))",
    };
    struct t_ledger *t = *state;

    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        uint16_t port = (uint16_t) (26000 + 10 * i);
        struct ledger_want want = t_want("shop/x", "*");
        struct ledger_want unnamed = t_want(NULL, "127.0.0.1");
        dibs_claim got = { 0 };
        size_t n = 9;
        char sql[256];

        (void) snprintf(want.claim.name, sizeof want.claim.name, "shop/x%zu", i);
        dibs_claim bad = t_must(t, &want, port);
        dibs_claim good = t_must(t, &unnamed, (uint16_t) (port + 1));
        size_t before = t_list(t, (struct ledger_filter){ 0 }).n;
        (void) snprintf(sql, sizeof sql, "UPDATE claims SET %s WHERE id=%llu", damage[i],
                        (unsigned long long) bad.id);
        vandalise(t, sql);
        if (t_claim(t, &unnamed, port, &got) != DIBS_TAKEN)
            fail_msg("%s: its port was given away", damage[i]);
        assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, before); /* listing goes on */
        (void) t_must(t, &unnamed, (uint16_t) (port + 2));
        assert_int_equal(t_end(t, &good, LEDGER_END_RELEASE), 1);
        uint64_t tail = t_tail(t);
        ASSERT_OK(ledger_upkeep(t->ledger, &t->actor, &n, &t->err), &t->err);
        if (n != 1)
            fail_msg("%s: %zu records set aside", damage[i], n);
        struct t_events events = t_events_since(t, tail);
        assert_int_equal(events.n, 1);
        assert_int_equal(events.item[0].kind, DIBS_EV_QUARANTINED);
        ASSERT_OK(ledger_upkeep(t->ledger, &t->actor, &n, &t->err), &t->err);
        assert_int_equal(n, 0); /* not found again */
        if (t_claim(t, &unnamed, port, &got) != DIBS_TAKEN)
            fail_msg("%s: its port was given away after quarantine", damage[i]);
        assert_string_equal(t->refusal.blockers[0].command, "damaged record");
        assert_int_equal(t_must(t, &want, (uint16_t) (port + 3)).port, port + 3); /* the name is free */
    }
    struct ledger_health health = { 0 };
    ASSERT_OK(ledger_health(t->ledger, &health, &t->err), &t->err);
    assert_true(health.is_sound);
    assert_int_equal(health.n_quarantined, sizeof damage / sizeof damage[0]);
    assert_true(health.bytes > 0);
    assert_int_equal(number(t, "SELECT count(*) FROM quarantine WHERE record LIKE '%secret%'"), 0);
    assert_int_equal(
        number(t, "SELECT count(*) FROM quarantine WHERE source='claims' AND record LIKE '%port=70000%'"), 1);
}

static void a_placeholder_can_be_released_by_an_admin(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim bad = t_must(t, &want, 26001);
    size_t n = 0;

    vandalise(t, "UPDATE claims SET principal='', kind=9");
    ASSERT_OK(ledger_upkeep(t->ledger, &t->actor, &n, &t->err), &t->err);
    struct t_ids left = t_list(t, (struct ledger_filter){ .port = 26001 });
    assert_int_equal(left.n, 1);
    assert_int_equal(left.last.id, bad.id);
    assert_string_equal(left.last.principal, "uid:0");
    struct ledger_seen seen = t_seen(&left.last);
    assert_int_equal(ledger_end(t->ledger, &(struct ledger_ending){ &seen, 1, LEDGER_END_RELEASE }, &t->actor,
                                &n, &t->err),
                     DIBS_DENIED);
    t->actor.is_admin = true;
    assert_int_equal(t_end(t, &left.last, LEDGER_END_RELEASE), 1);
    (void) t_must(t, &want, 26001);
}

static void lost_slots_are_written_again_and_lost_claims_keep_their_port(void **state) /* INV-10 */
{
    static const char *const damage[] = {
        "DELETE FROM slots WHERE port=26001",
        "UPDATE slots SET exclusive=0 WHERE port=26001",
        "UPDATE slots SET exclusive=9 WHERE port=26001",
        "UPDATE slots SET address=x'01' WHERE port=26001",
        "DELETE FROM claims WHERE port=26001",
    };
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim got = { 0 };
    size_t n = 0;

    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        dibs_claim claim = t_must(t, &want, 26001);

        vandalise(t, damage[i]);
        ASSERT_OK(ledger_upkeep(t->ledger, &t->actor, &n, &t->err), &t->err);
        assert_int_equal(n, i >= 2 ? 1 : 0); /* slots that can be made from their claim are no loss */
        ASSERT_OK(ledger_upkeep(t->ledger, &t->actor, &n, &t->err), &t->err);
        assert_int_equal(n, 0);
        if (t_claim(t, &want, 26001, &got) != DIBS_TAKEN)
            fail_msg("%s: the port was given twice", damage[i]);
        struct t_ids left = t_list(t, (struct ledger_filter){ .port = 26001 });
        assert_int_equal(left.n, 1);
        assert_int_equal(left.last.id, claim.id);
        t->actor.is_admin = true;
        assert_int_equal(t_end(t, &left.last, LEDGER_END_RELEASE), 1);
    }
}

static void a_damaged_slot_blocks_its_port_even_before_upkeep(void **state)
{
    static const char *const damage[] = { "exclusive=9", "address=x'01'", "claim=-4" };
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "127.0.0.1");
    dibs_claim got = { 0 };

    for (size_t i = 0; i < 3; i++) {
        char sql[100];
        uint16_t port = (uint16_t) (26001 + i);

        (void) t_must(t, &want, port);
        (void) snprintf(sql, sizeof sql, "UPDATE slots SET %s WHERE port=%u", damage[i], port);
        vandalise(t, sql);
        assert_int_equal(t_claim(t, &want, port, &got), DIBS_TAKEN);
    }
}

/* ---- damaged files ---- */

static dibs_status rebuild(struct t_ledger *t, char aside[1024], size_t *saved)
{
    close_ledger(t);
    return ledger_rebuild(t->uri, &t->actor, aside, saved, &t->err);
}

static void a_sound_ledger_is_not_rebuilt(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    char aside[1024] = "";
    size_t saved = 9;
    dibs_claim found = { 0 };
    dibs_claim got = t_must(t, &want, 26001);

    vandalise(t, "UPDATE claims SET kind=7"); /* a damaged record is no damaged file */
    assert_int_equal(rebuild(t, aside, &saved), DIBS_INVALID);
    assert_non_null(strstr(t->err.msg, "is not damaged"));
    assert_int_equal(saved, 9);
    ASSERT_OK(reopen(t, 500), &t->err);
    ASSERT_OK(ledger_find_id(t->ledger, got.id, &found, &t->err), &t->err);
}

static void garbage_is_damaged_and_set_aside_as_it_is(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    char path[300];
    char aside[1024] = "";
    uint8_t garbage[5000];
    size_t saved = 9;

    path_of(t, path);
    for (size_t i = 0; i < sizeof garbage; i++)
        garbage[i] = (uint8_t) (i * 31 + 7);
    close_ledger(t);
    t_remove_directory(t->dir);
    assert_int_equal(mkdir(t->dir, 0700), 0);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, garbage, sizeof garbage), sizeof garbage);
    (void) close(fd);
    assert_int_equal(reopen(t, 500), DIBS_UNAVAILABLE);
    assert_int_equal(t->err.trouble, DIBS_TROUBLE_DAMAGED);
    ASSERT_OK(rebuild(t, aside, &saved), &t->err);
    assert_int_equal(saved, 0);
    assert_non_null(strstr(aside, ".damaged-"));
    assert_same_bytes(aside, garbage, sizeof garbage);
    ASSERT_OK(reopen(t, 500), &t->err);
    (void) t_must(t, &want, 26001);
}

enum { MANY = 600 };

static void claim_many(struct t_ledger *t, dibs_claim *out)
{
    struct ledger_want want = t_want(NULL, "*");
    dibs_pool pool = { .name = "gpu", .ranges = { { { 30000, 30010 } }, 1 }, .order = "stride" };

    t_kept(&want);
    for (size_t i = 0; i < MANY; i++) {
        (void) snprintf(want.claim.name, sizeof want.claim.name, "shop/n%zu", i);
        (void) snprintf(want.claim.project, sizeof want.claim.project,
                        "/home/somebody/with/a/long/path/%0100zu", i);
        out[i] = t_must(t, &want, (uint16_t) (20000 + i));
    }
    ASSERT_OK(ledger_pool_put(t->ledger, &pool, &t->actor, &t->err), &t->err);
}

static void overwrite(const char *path, int64_t at, size_t n)
{
    uint8_t noise[8192];
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    memset(noise, 0xa5, sizeof noise);
    assert_true(fd >= 0 && n <= sizeof noise);
    assert_int_equal(pwrite(fd, noise, n, at), n);
    (void) close(fd);
}

static void a_bad_page_costs_its_records_and_no_port(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim *claims = calloc(MANY, sizeof *claims);
    char aside[1024] = "";
    char path[300];
    size_t saved = 0;
    size_t found = 0;
    dibs_claim got = { 0 };
    dibs_pool pool = { 0 };

    assert_non_null(claims);
    claim_many(t, claims);
    uint64_t tail = t_tail(t);
    uint64_t salt = ledger_salt(t->ledger);
    close_ledger(t);
    (void) number(t, "PRAGMA wal_checkpoint(TRUNCATE)");
    int64_t size = number(t, "PRAGMA page_size");
    int64_t page = number(
        t,
        "SELECT pageno FROM dbstat WHERE name='claims' AND pagetype='leaf' ORDER BY path LIMIT 1 OFFSET 5");
    path_of(t, path);
    overwrite(path, (page - 1) * size, (size_t) size);
    ASSERT_OK(reopen(t, 500), &t->err);
    struct t_ids ids = { 0 };
    struct ledger_filter all = { 0 };
    assert_int_equal(ledger_list(t->ledger, &all, t_note_claim, &ids, &t->err), DIBS_UNAVAILABLE);
    assert_int_equal(t->err.trouble, DIBS_TROUBLE_DAMAGED);
    ASSERT_OK(rebuild(t, aside, &saved), &t->err);
    assert_in_range(saved, MANY - 40, MANY - 1);
    ASSERT_OK(reopen(t, 500), &t->err);
    assert_int_equal(ledger_salt(t->ledger), salt);
    ASSERT_OK(ledger_pool_get(t->ledger, "gpu", &pool, &t->err), &t->err);
    assert_true(t_tail(t) > tail);
    for (size_t i = 0; i < MANY; i++) {
        found +=
            ledger_find_token(t->ledger, claims[i].token, &got, &t->err) == DIBS_OK; /* tokens stay valid */
        assert_int_equal(t_claim(t, &want, claims[i].port, &got), DIBS_TAKEN);       /* INV-10 */
    }
    assert_int_equal(found, saved);
    struct ledger_health health = { 0 };
    ASSERT_OK(ledger_health(t->ledger, &health, &t->err), &t->err);
    assert_true(health.is_sound);
    assert_int_equal(health.n_claims, MANY);
    dibs_claim fresh = t_must(t, &want, 40000);
    for (size_t i = 0; i < MANY; i++)
        assert_true(fresh.id > claims[i].id); /* no id twice */
    free(claims);
}

static void a_truncated_file_gives_back_what_is_left(void **state)
{
    struct t_ledger *t = *state;
    dibs_claim *claims = calloc(MANY, sizeof *claims);
    char aside[1024] = "";
    char path[300];
    size_t saved = 0;

    assert_non_null(claims);
    claim_many(t, claims);
    close_ledger(t);
    (void) number(t, "PRAGMA wal_checkpoint(TRUNCATE)");
    path_of(t, path);
    struct stat st = { 0 };
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(truncate(path, st.st_size / 2 / 4096 * 4096), 0);
    ASSERT_OK(rebuild(t, aside, &saved), &t->err);
    assert_in_range(saved, 1, MANY - 1);
    ASSERT_OK(reopen(t, 500), &t->err);
    assert_true(t_list(t, (struct ledger_filter){ 0 }).n >= saved);
    assert_int_equal(ledger_rebuild("sqlite:/nonexistent/dibs", &t->actor, aside, &saved, &t->err),
                     DIBS_UNAVAILABLE);
    free(claims);
}

static void no_id_is_used_twice_when_all_events_are_lost(void **state) /* INV-3 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim old[3] = { 0 };
    dibs_claim found = { 0 };

    for (size_t i = 0; i < 3; i++)
        old[i] = t_must(t, &want, (uint16_t) (26001 + i));
    vandalise(t, "DELETE FROM events");
    assert_true(t_must(t, &want, 26010).id > old[2].id);
    for (size_t i = 0; i < 3; i++) {
        ASSERT_OK(ledger_find_token(t->ledger, old[i].token, &found, &t->err), &t->err);
        assert_int_equal(found.port, 26001 + i);
    }
}

static void what_is_only_in_the_wal_is_saved_too(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    char path[300];
    char aside[1024] = "";
    size_t saved = 0;
    dibs_claim found = { 0 };

    (void) number(t, "PRAGMA wal_checkpoint(TRUNCATE)");
    dibs_claim got = t_must(t, &want, 26001);
    close_ledger(t);
    path_of(t, path);
    overwrite(path, 28672, 4096); /* an empty table's root: the claim is not near it */
    ASSERT_OK(rebuild(t, aside, &saved), &t->err);
    assert_int_equal(saved, 1);
    ASSERT_OK(reopen(t, 500), &t->err);
    ASSERT_OK(ledger_find_token(t->ledger, got.token, &found, &t->err), &t->err);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, t_open, t_close)
    const struct CMUnitTest tests[] = {
        CASE(conflicts_are_found_by_an_index_search),
        CASE(a_newer_major_is_refused_untouched),
        CASE(a_newer_minor_is_used),
        CASE(a_database_of_another_program_is_left_alone),
        CASE(the_file_and_its_directory_are_private),
        CASE(a_locked_ledger_fails_within_the_deadline),
        CASE(kept_claims_and_pools_survive_power_loss),
        CASE(what_is_restored_or_handed_over_to_be_kept_survives_power_loss),
        CASE(all_waits_of_one_call_have_one_deadline),
        CASE(twenty_processes_make_one_ledger),
        CASE(a_killed_writer_leaves_a_sound_ledger),
        CASE(a_full_disk_is_told_and_leaves_nothing_half_written),
        CASE(a_ledger_that_does_not_fit_is_full),
        CASE(a_read_only_place_is_unwritable),
        CASE(a_file_system_that_others_may_share_is_refused),
        CASE(a_damaged_record_harms_itself_alone),
        CASE(a_placeholder_can_be_released_by_an_admin),
        CASE(lost_slots_are_written_again_and_lost_claims_keep_their_port),
        CASE(a_damaged_slot_blocks_its_port_even_before_upkeep),
        CASE(a_sound_ledger_is_not_rebuilt),
        CASE(no_id_is_used_twice_when_all_events_are_lost),
        CASE(garbage_is_damaged_and_set_aside_as_it_is),
        CASE(a_bad_page_costs_its_records_and_no_port),
        CASE(a_truncated_file_gives_back_what_is_left),
        CASE(what_is_only_in_the_wal_is_saved_too),
    };

    t_scheme = "sqlite";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
