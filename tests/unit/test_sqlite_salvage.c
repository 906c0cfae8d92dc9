/* SPDX-License-Identifier: MIT */
/* A salvage while other processes use the ledger, and whose file it is afterwards. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "store/sqlite/sqlite_store.h"
#include "support/ledger.h"

static const char *path_of(const struct t_ledger *t)
{
    return t->uri + strlen("sqlite:");
}

static int64_t number(const struct t_ledger *t, const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *stmt = NULL;

    assert_int_equal(sqlite3_open(path_of(t), &db), SQLITE_OK);
    (void) sqlite3_db_config(db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
    int64_t value = sqlite3_column_int64(stmt, 0);
    (void) sqlite3_finalize(stmt);
    (void) sqlite3_close(db);
    return value;
}

/* In a process of its own: a close() of ours would drop the locks of the handles that are open here. */
static void in_child(struct t_ledger *t, void (*fn)(struct t_ledger *t))
{
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        fn(t);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A page that no claim needs, so that all go on working. */
static void damage(struct t_ledger *t)
{
    uint8_t noise[4096];

    (void) number(t, "PRAGMA wal_checkpoint(TRUNCATE)");
    int64_t page = number(t, "SELECT rootpage FROM sqlite_master WHERE name='quarantine'");
    memset(noise, 0xa5, sizeof noise);
    int fd = open(path_of(t), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, noise, sizeof noise, (page - 1) * 4096) != (ssize_t) sizeof noise)
        _exit(1);
    (void) close(fd);
}

static void salvage(struct t_ledger *t)
{
    struct ledger_salvaged salvaged = { 0 };

    if (ledger_salvage(t->uri, &t->call, &salvaged, &t->err) != DIBS_OK) {
        print_error("%s\n", t->err.msg);
        _exit(1);
    }
}

static void an_open_handle_goes_on_with_the_new_ledger(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    const struct ledger_options options = { .timeout_ms = 2000 };
    struct ledger *other = NULL;
    dibs_claim found = { 0 };

    (void) t_must(t, &want, 26001);
    in_child(t, damage);
    (void) t_must(t, &want, 26002); /* in the log only */
    in_child(t, salvage);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 2); /* a reader first */
    in_child(t, damage);
    in_child(t, salvage);
    dibs_claim got = t_must(t, &want, 26003); /* and a writer first */
    ASSERT_OK(ledger_open(t->uri, &options, &other, &t->err), &t->err);
    ASSERT_OK(ledger_find_token(other, &t->call, got.token, &found, &t->err), &t->err);
    ledger_close(other);
    assert_int_equal(number(t, "SELECT count(*) FROM claims"), 3);
}

static void claim_twenty(struct t_ledger *t, uint16_t first)
{
    struct ledger_want want = t_want(NULL, "*");
    const struct ledger_options options = { .timeout_ms = 20000 };
    dibs_claim got = { 0 };

    t_kept(&want);
    for (uint16_t i = 0; i < 20; i++) {
        if (ledger_open(t->uri, &options, &t->ledger, &t->err) != DIBS_OK ||
            t_claim(t, &want, (uint16_t) (first + i), &got) != DIBS_OK) {
            print_error("%u: %s\n", first + i, t->err.msg);
            _exit(1);
        }
        if (i % 5 == 4)
            ledger_close(t->ledger); /* the others stay open, as those of long-lived processes */
    }
    _exit(0);
}

static void no_claim_is_lost_while_others_write(void **state) /* INV-1 */
{
    enum { ROUNDS = 5, WRITERS = 3 };
    struct t_ledger *t = *state;

    ledger_close(t->ledger);
    t->ledger = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        pid_t pids[WRITERS];

        in_child(t, damage);
        for (int i = 0; i < WRITERS; i++) {
            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0)
                claim_twenty(t, (uint16_t) (20000 + (round * WRITERS + i) * 20));
        }
        in_child(t, salvage);
        for (int i = 0; i < WRITERS; i++) {
            int status = 0;

            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_int_equal(status, 0);
        }
        assert_int_equal(number(t, "SELECT count(*) FROM claims"), (round + 1) * WRITERS * 20);
    }
}

static void the_new_file_has_the_group_and_mode_of_the_old(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    struct stat st = { 0 };

    (void) t_must(t, &want, 26001);
    in_child(t, damage);
    assert_int_equal(chmod(path_of(t), 0660), 0);
    if (geteuid() == 0)
        assert_int_equal(chown(path_of(t), (uid_t) -1, 65533), 0);
    in_child(t, salvage);
    assert_int_equal(stat(path_of(t), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0660);
    if (geteuid() == 0)
        assert_int_equal(st.st_gid, 65533);
}

static void a_salvage_removes_the_files_of_a_killed_one(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    char name[400];
    glob_t left = { 0 };

    (void) t_must(t, &want, 26001);
    (void) snprintf(name, sizeof name, "%s.salvage", path_of(t));
    assert_int_equal(mkdir(name, 0700), 0);
    (void) snprintf(name, sizeof name, "%s.salvage/new-wal", path_of(t));
    assert_int_equal(mknod(name, S_IFREG | 0600, 0), 0);
    in_child(t, damage);
    in_child(t, salvage);
    (void) snprintf(name, sizeof name, "%s.salvage*", path_of(t));
    assert_int_equal(glob(name, 0, NULL, &left), GLOB_NOMATCH);
}

static void a_symbolic_link_to_nothing_is_reported(void **state)
{
    struct t_ledger *t = *state;
    const struct ledger_options options = { .timeout_ms = 500 };
    struct ledger *other = NULL;
    char uri[400];

    (void) snprintf(uri, sizeof uri, "%s.link", t->uri);
    assert_int_equal(symlink("nowhere", uri + strlen("sqlite:")), 0);
    assert_int_equal(ledger_open(uri, &options, &other, &t->err), DIBS_UNAVAILABLE);
    assert_int_equal(t->err.trouble, DIBS_TROUBLE_MISSING);
    assert_non_null(strstr(t->err.msg, "symbolic link"));
}

static void a_ledger_behind_a_symbolic_link_is_used_and_salvaged(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    const struct ledger_options options = { .timeout_ms = 500 };
    char real[400];
    struct stat st = { 0 };

    (void) t_must(t, &want, 26001);
    in_child(t, damage);
    ledger_close(t->ledger);
    t->ledger = NULL;
    (void) snprintf(real, sizeof real, "%s.real", path_of(t));
    assert_int_equal(rename(path_of(t), real), 0);
    assert_int_equal(symlink(real, path_of(t)), 0);
    for (uint16_t i = 0; i < 2; i++) {
        ASSERT_OK(ledger_open(t->uri, &options, &t->ledger, &t->err), &t->err);
        (void) t_must(t, &want, (uint16_t) (26002 + i));
        ledger_close(t->ledger);
        t->ledger = NULL;
    }
    in_child(t, salvage);
    assert_int_equal(lstat(path_of(t), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    ASSERT_OK(ledger_open(t->uri, &options, &t->ledger, &t->err), &t->err);
    assert_int_equal(t_list(t, (struct ledger_filter){ 0 }).n, 3);
}

static void open_without_descriptors(struct t_ledger *t)
{
    const struct ledger_options options = { .timeout_ms = 500 };
    struct ledger *other = NULL;
    int n_failed = 0;

    for (rlim_t n = 3; n < 40; n++) {
        const struct rlimit limit = { n, 64 };

        if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
            _exit(1);
        if (ledger_open(t->uri, &options, &other, &t->err) == DIBS_OK) {
            ledger_close(other);
            _exit(n_failed > 0 ? 0 : 2);
        }
        n_failed++;
        if (t->err.trouble != DIBS_TROUBLE_NONE) {
            print_error("%s\n", t->err.msg);
            _exit(3);
        }
    }
    _exit(4);
}

static void too_many_open_files_are_no_trouble_of_the_ledger(void **state)
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");

    (void) t_must(t, &want, 26001);
    in_child(t, open_without_descriptors);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, t_open, t_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_open_handle_goes_on_with_the_new_ledger),
        CASE(no_claim_is_lost_while_others_write),
        CASE(the_new_file_has_the_group_and_mode_of_the_old),
        CASE(a_salvage_removes_the_files_of_a_killed_one),
        CASE(a_symbolic_link_to_nothing_is_reported),
        CASE(a_ledger_behind_a_symbolic_link_is_used_and_salvaged),
        CASE(too_many_open_files_are_no_trouble_of_the_ledger),
    };

    t_scheme = "sqlite";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
