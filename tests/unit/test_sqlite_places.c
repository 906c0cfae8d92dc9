/* SPDX-License-Identifier: MIT */
/* Where a SQLite ledger lies: a full disk, a read-only one, one that others may share. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>

#include "support/child.h"
#include "support/sqlite.h"

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
    int code = child_join(pid);
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
    if (ledger_list(t->ledger, &t->call, &all, t_note_claim, &ids, &t->err) != DIBS_OK || ids.n != n - 1)
        return 3; /* the one that failed left something */
    if (unlink(filler) != 0 || t_claim(t, &want, 30000, &got) != DIBS_OK)
        return 4;
    if (ledger_health(t->ledger, &health, &t->err) != DIBS_OK || !health.is_sound || health.n_claims != n)
        return 5;
    return 0;
}

static void a_full_disk_is_reported_and_leaves_nothing_half_written(void **state)
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

static void replace(const char *path, const char *suffix)
{
    char name[310];

    (void) snprintf(name, sizeof name, "%s%s", path, suffix);
    assert_int_equal(unlink(name), 0);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
}

static void a_log_or_its_index_that_is_replaced_before_the_first_change_is_not_written(void **state)
{
    static const char *const suffixes[] = { "-wal", "-shm" };
    struct t_ledger *t = *state;
    struct ledger_want want = t_want(NULL, "*");
    dibs_claim got = { 0 };
    char path[300];

    path_of(t, path);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        ASSERT_OK(reopen(t, 1000), &t->err);
        replace(path, suffixes[i]); /* as the next process does when it finds none */
        assert_int_equal(t_claim(t, &want, 20000, &got), DIBS_UNAVAILABLE);
        assert_non_null(strstr(t->err.msg, "was removed while it was in use"));
        close_ledger(t);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, t_open, t_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_full_disk_is_reported_and_leaves_nothing_half_written),
        CASE(a_ledger_that_does_not_fit_is_full),
        CASE(a_read_only_place_is_unwritable),
        CASE(a_file_system_that_others_may_share_is_refused),
        CASE(a_log_or_its_index_that_is_replaced_before_the_first_change_is_not_written),
    };

    t_scheme = "sqlite";
    return cmocka_run_group_tests(tests, NULL, NULL);
}
