/* SPDX-License-Identifier: MIT */
/* A salvage that is killed before any of its steps loses nothing that was readable. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "ledger/step.h"
#include "store/sqlite/sqlite_store.h"
#include "support/ledger.h"

enum { CLAIM_COUNT = 5, STEPS_MAX = 500 };

static bool changes_names(uint64_t number)
{
    static const uint64_t numbers[] = {
        SYS_renameat2, SYS_linkat, SYS_unlinkat,  SYS_mkdirat, SYS_ftruncate,
        SYS_truncate,  SYS_fsync,  SYS_fdatasync,
#ifdef SYS_rename
        SYS_rename,    SYS_link,   SYS_unlink,    SYS_mkdir,   SYS_rmdir,
#endif
#ifdef SYS_renameat
        SYS_renameat,
#endif
    };

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i] == number)
            return true;
    return false;
}

static void salvage_in_child(struct t_ledger *t)
{
    struct ledger_salvaged salvaged = { 0 };

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(77);
    (void) raise(SIGSTOP);
    dibs_status s = ledger_salvage(t->uri, &t->call, &salvaged, &t->err);
    if (s != DIBS_OK)
        print_error("%s\n", t->err.msg);
    _exit(s == DIBS_OK ? 0 : 1);
}

/* Killed before its n-th step; false: it had fewer, and came to its end. */
static bool salvage_killed_at(struct t_ledger *t, int n)
{
    int status = 0;
    int seen = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        salvage_in_child(t);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        SKIP_BECAUSE("this machine does not let us trace our own child");
    assert_true(WIFSTOPPED(status));
    assert_int_equal(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL), 0);
    for (;;) {
        struct __ptrace_syscall_info info = { 0 };

        assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status)) {
            assert_int_equal(WEXITSTATUS(status), 0);
            return false;
        }
        if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80))
            continue;
        assert_true(ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) > 0);
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY && changes_names(info.entry.nr) && ++seen == n) {
            (void) kill(pid, SIGKILL);
            assert_int_equal(waitpid(pid, &status, 0), pid);
            return true;
        }
    }
}

static void copy(const char *from, const char *to)
{
    char block[65536];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t n = 0;

    assert_true(in >= 0 && out >= 0);
    while ((n = read(in, block, sizeof block)) > 0)
        assert_int_equal(write(out, block, (size_t) n), n);
    (void) close(in);
    (void) close(out);
}

static void remove_all(const struct t_ledger *t, const char *pattern)
{
    char text[320];
    glob_t found = { 0 };

    (void) snprintf(text, sizeof text, "%s/%s", t->dir, pattern);
    if (glob(text, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            if (unlink(found.gl_pathv[i]) != 0)
                t_remove_directory(found.gl_pathv[i]);
    globfree(&found);
}

/* The claims that the next process finds, or an error that it is damaged; never fewer. */
static bool is_damaged_or_whole(struct t_ledger *t)
{
    const struct ledger_options options = { .timeout_ms = 1000 };
    struct ledger_filter all = { 0 };
    struct t_ids ids = { 0 };

    if (ledger_open(t->uri, &options, &t->ledger, &t->err) != DIBS_OK) {
        assert_int_equal(t->err.trouble, DIBS_TROUBLE_DAMAGED);
        return false;
    }
    ASSERT_OK(ledger_list(t->ledger, &t->call, &all, t_note_claim, &ids, &t->err), &t->err);
    ledger_close(t->ledger);
    t->ledger = NULL;
    assert_int_equal(ids.n, CLAIM_COUNT);
    return true;
}

static void keep_killing(struct t_ledger *t, const char *file, const char *log, int n_least)
{
    char path[2][320];
    int n = 0;
    bool is_killed = true;

    (void) snprintf(path[0], sizeof path[0], "%s/ledger.db", t->dir);
    (void) snprintf(path[1], sizeof path[1], "%s/ledger.db-wal", t->dir);
    for (n = 1; n < STEPS_MAX && is_killed; n++) {
        remove_all(t, "ledger.db*");
        copy(file, path[0]);
        copy(log, path[1]);
        is_killed = salvage_killed_at(t, n);
        if (!is_damaged_or_whole(t))
            assert_false(salvage_killed_at(t, STEPS_MAX));
        if (!is_damaged_or_whole(t))
            fail_msg("killed before step %d it could not be salvaged", n);
    }
    assert_in_range(n, n_least, STEPS_MAX - 1); /* it was killed often, and came to its end at last */
    remove_all(t, "ledger.db*");
}

/* A page that no claim needs, so that every process can read the claims. */
static void spoil(const char *path, int64_t page)
{
    uint8_t noise[4096];
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    memset(noise, 0xa5, sizeof noise);
    assert_int_equal(pwrite(fd, noise, sizeof noise, (page - 1) * 4096), sizeof noise);
    (void) close(fd);
}

static void whenever_a_salvage_is_killed_nothing_is_lost(void **state) /* INV-10 */
{
    enum { QUARANTINE_PAGE = 10 };
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    struct sqlite_store *store = (struct sqlite_store *) t->ledger->store;
    char log[320];
    char kept[3][320];
    const char *path = t->uri + strlen("sqlite:");

    for (uint16_t i = 0; i < CLAIM_COUNT; i++)
        (void) t_must(t, &want, (uint16_t) (26001 + i));
    (void) snprintf(log, sizeof log, "%s-wal", path);
    for (int i = 0; i < 3; i++)
        (void) snprintf(kept[i], sizeof kept[i], "%s/kept.%d", t->dir, i);
    copy(log, kept[0]);
    assert_int_equal(sqlite3_exec(store->db, "PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL, NULL), SQLITE_OK);
    copy(path, kept[1]);
    spoil(kept[1], QUARANTINE_PAGE);
    assert_int_equal(
        t_end(t, &(dibs_claim[]){ t_list(t, (struct ledger_filter){ 0 }).last }[0], LEDGER_END_RELEASE), 1);
    (void) t_must(t, &want, 26000 + CLAIM_COUNT);
    copy(log, kept[2]);
    ledger_close(t->ledger);
    t->ledger = NULL;
    keep_killing(t, "/dev/null", kept[0], 10); /* an emptied file beside a log that has everything */
    keep_killing(t, kept[1], kept[2], 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whenever_a_salvage_is_killed_nothing_is_lost, t_open, t_close),
    };

    t_scheme = "sqlite";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
