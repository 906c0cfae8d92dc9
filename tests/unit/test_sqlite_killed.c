/* SPDX-License-Identifier: MIT */
/* A rebuild that is killed before any of its steps loses nothing that was readable. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "ledger/sqlite.h"
#include "support/ledger.h"

enum { CLAIMS = 5, STEPS_MAX = 500 };

static bool changes_names(uint64_t number)
{
    static const uint64_t numbers[] = {
        SYS_renameat2, SYS_linkat, SYS_unlinkat, SYS_mkdirat, SYS_ftruncate, SYS_fsync, SYS_fdatasync,
#ifdef SYS_rename
        SYS_rename,    SYS_link,   SYS_unlink,   SYS_mkdir,   SYS_rmdir,
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

static void rebuild_in_child(struct t_ledger *t)
{
    struct ledger_rebuilt rebuilt = { 0 };

    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        _exit(77);
    (void) raise(SIGSTOP);
    dibs_status s = ledger_rebuild(t->uri, &t->actor, &rebuilt, &t->err);
    if (s != DIBS_OK)
        print_error("%s\n", t->err.msg);
    _exit(s == DIBS_OK ? 0 : 1);
}

/* Killed before its n-th step; false: it had fewer, and came to its end. */
static bool rebuild_killed_at(struct t_ledger *t, int n)
{
    int status = 0;
    int seen = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        rebuild_in_child(t);
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

/* The claims as whoever comes next finds them, or the word that it is damaged; never fewer. */
static bool is_damaged_or_whole(struct t_ledger *t)
{
    const struct ledger_options options = { .timeout_ms = 1000 };
    struct ledger_filter all = { 0 };
    struct t_ids ids = { 0 };

    if (ledger_open(t->uri, &options, &t->ledger, &t->err) != DIBS_OK) {
        assert_int_equal(t->err.trouble, DIBS_TROUBLE_DAMAGED);
        return false;
    }
    ASSERT_OK(ledger_list(t->ledger, &all, t_note_claim, &ids, &t->err), &t->err);
    ledger_close(t->ledger);
    t->ledger = NULL;
    assert_int_equal(ids.n, CLAIMS);
    return true;
}

/* An emptied file beside a log that has everything: nobody can write to it, and without its log it would be a
 * ledger that has not been made yet. */
static void whenever_a_rebuild_is_killed_nothing_is_lost(void **state) /* INV-10 */
{
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    char log[320];
    char kept[320];
    const char *path = t->uri + strlen("sqlite:");
    int n = 0;
    bool is_killed = true;

    for (uint16_t i = 0; i < CLAIMS; i++)
        (void) t_must(t, &want, (uint16_t) (26001 + i));
    (void) snprintf(log, sizeof log, "%s-wal", path);
    (void) snprintf(kept, sizeof kept, "%s/kept", t->dir);
    copy(log, kept);
    ledger_close(t->ledger);
    t->ledger = NULL;
    for (n = 1; n < STEPS_MAX && is_killed; n++) {
        remove_all(t, "ledger.db*");
        copy("/dev/null", path);
        copy(kept, log);
        is_killed = rebuild_killed_at(t, n);
        if (!is_damaged_or_whole(t))
            assert_false(rebuild_killed_at(t, STEPS_MAX));
        if (!is_damaged_or_whole(t))
            fail_msg("killed before step %d it could not be rebuilt", n);
    }
    assert_in_range(n, 10, STEPS_MAX - 1); /* it was killed often, and came to its end at last */
    remove_all(t, "ledger.db.rebuild-*");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whenever_a_rebuild_is_killed_nothing_is_lost, t_open, t_close),
    };

    t_scheme = "sqlite";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
