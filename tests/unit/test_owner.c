/* SPDX-License-Identifier: MIT */
/* Life and death against the real kernel: real zombies, real pid reuse, real namespaces. */
#include "owner/owner.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/t.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#define NOBODY 65534
#define TICK_US 10000

/* Checks in a forked child, where cmocka's own would jump into its parent's frames. */
#define CHECK(cond)                                                                   \
    do {                                                                              \
        if (!(cond)) {                                                                \
            (void) fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #cond); \
            return 1;                                                                 \
        }                                                                             \
    } while (0)

static int run_and_leave(int (*fn)(void *), void *arg)
{
    (void) prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nobody behind */
    return fn(arg);
}

static pid_t start(int (*fn)(void *), void *arg)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(run_and_leave(fn, arg));
    return pid;
}

static int wait_for(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            return -1;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int end(pid_t pid)
{
    (void) kill(pid, SIGKILL);
    return wait_for(pid);
}

static int in_child(int (*fn)(void *), void *arg)
{
    return wait_for(start(fn, arg));
}

static int just_wait(void *arg)
{
    (void) arg;
    for (int i = 0; i < 60; i++)
        (void) sleep(1);
    return 0;
}

/* Fork into a fresh pid namespace with its own /proc; the child there is pid 1. */
static int in_new_pidns(int (*fn)(void *), void *arg)
{
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        return 2;
    pid_t init = fork();
    if (init == 0) {
        if (mount("proc", "/proc", "proc", 0, NULL) != 0)
            _exit(3);
        _exit(run_and_leave(fn, arg));
    }
    return init < 0 ? 4 : wait_for(init);
}

static struct owner_view here(void)
{
    struct owner_view view = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(owner_view_load(&view, &err), &err);
    return view;
}

static struct owner_facts facts_of(const struct owner_view *view, pid_t pid)
{
    struct owner_facts facts = { 0 };
    dibs_err err = { 0 };

    ASSERT_OK(owner_identify(view, pid, &facts, &err), &err);
    return facts;
}

#define ASSERT_LIFE(view, who, life, text)                                       \
    do {                                                                         \
        char why_[128] = "";                                                     \
        assert_int_equal(owner_judge((view), (who), why_, sizeof why_), (life)); \
        if (!strstr(why_, (text)))                                               \
            fail_msg("the reason is \"%s\", not \"%s\"", why_, (text));          \
    } while (0)

static void need_root(void)
{
    if (geteuid() != 0)
        SKIP_BECAUSE("needs root to make pid namespaces");
}

#define REST20 "S 7 3 5 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 9 0 4242"

static void a_stat_line_is_read_after_its_last_parenthesis(void **state)
{
    static const struct {
        const char *text;
        char state;
        int32_t ppid, session;
        int64_t threads;
        uint64_t ticks;
    } rows[] = {
        { "12 (sh) " REST20, 'S', 7, 5, 9, 4242 },
        { "12 (sh) " REST20 " 1 2 3\n", 'S', 7, 5, 9, 4242 },
        { "12 (a) Z 1 2) " REST20 "\n", 'S', 7, 5, 9, 4242 },
        { "12 (a\n) R) " REST20 "\n", 'S', 7, 5, 9, 4242 },
        { "12 () " REST20, 'S', 7, 5, 9, 4242 },
        { "1 (x) Z 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 1 0 0 0", 'Z', 0, 0, 1, 0 },
        { "1 (x) R 2147483647 0 -1 0 0 0 0 0 0 0 0 0 0 0 0 0 9223372036854775807 0 18446744073709551615", 'R',
          INT32_MAX, -1, INT64_MAX, UINT64_MAX },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct owner_stat stat = { 0 };

        assert_true(owner_stat_parse(rows[i].text, strlen(rows[i].text), &stat));
        assert_int_equal(stat.state, rows[i].state);
        assert_int_equal(stat.ppid, rows[i].ppid);
        assert_int_equal(stat.session, rows[i].session);
        assert_true(stat.num_threads == rows[i].threads);
        assert_true(stat.start_ticks == rows[i].ticks);
    }
}

static void a_stat_line_that_is_not_one_is_refused_and_the_output_left_alone(void **state)
{
    static const char *const bad[] = {
        "",
        "12",
        "12 (sh",
        "12 (sh)",
        "12 (sh) \n",
        "12 (sh) S 7 3 5 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 9 0",         /* 19 tokens */
        "12 (sh) S 7 3 5 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 9 0 \n",      /* 19 and a blank */
        "12 (sh) SS 7 3 5 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 9 0 4242",   /* state of two letters */
        "12 (sh) S x 3 5 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 9 0 4242",    /* parent is no number */
        "12 (sh) S 2147483648 3 5 0 -1 4 1 2 3 4 5 6 7 8 20 0 9 0 4242", /* parent over 31 bits */
        "12 (sh) S 7 3 5 0 -1 4 1 2 3 4 5 6 7 8 20 0 9 0 -1",            /* start below zero */
        "12 (sh) S 7 3 5 0 -1 4 1 2 3 4 5 6 7 8 20 0 9 0 18446744073709551616",
        "12 (sh) S 7 3 5 0 -1 4 1 2 3 4 5 6 7 8 20 0 9223372036854775808 0 1",
        "12 (sh) S 7 3 5 0 -1 4 1 2 3 4 5 6 7 8 20 0 9 0 42x",
        "12 (sh) S - 3 5 0 -1 4 1 2 3 4 5 6 7 8 20 0 9 0 42",
    };

    (void) state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct owner_stat stat = { .state = 'q', .start_ticks = 7 };

        assert_false(owner_stat_parse(bad[i], strlen(bad[i]), &stat));
        assert_int_equal(stat.state, 'q');
        assert_int_equal(stat.start_ticks, 7);
    }
}

static void this_process_is_alive_and_its_facts_are_right(void **state)
{
    struct owner_view view = here();
    struct owner_facts me = facts_of(&view, getpid());

    (void) state;
    ASSERT_LIFE(&view, &me.process, DIBS_ALIVE, "running");
    assert_int_equal(me.process.pid, getpid());
    assert_true(me.process.pidns == view.pidns);
    assert_string_equal(me.process.boot_id, view.boot_id);
    assert_int_equal(strlen(view.boot_id), DIBS_BOOT_ID_MAX);
    assert_int_equal(me.uid, geteuid());
    assert_int_equal(me.ppid, getppid());
    assert_int_equal(me.session, getsid(0));
    assert_int_equal(owner_pid_here(&view, &me.process), getpid());
    assert_int_equal(owner_judge(&view, &me.process, NULL, 0), DIBS_ALIVE);
}

static void a_child_is_alive_then_a_zombie_then_gone_and_both_are_dead(void **state)
{
    struct owner_view view = here();
    pid_t pid = start(just_wait, NULL);
    struct owner_facts child = facts_of(&view, pid);
    struct owner_facts untouched = { .uid = 77 };
    siginfo_t info;

    (void) state;
    ASSERT_LIFE(&view, &child.process, DIBS_ALIVE, "running");
    (void) kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0); /* dead, not reaped */
    ASSERT_LIFE(&view, &child.process, DIBS_DEAD, "not yet reaped");
    assert_int_equal(owner_identify(&view, pid, &untouched, NULL), DIBS_NOT_FOUND);
    assert_int_equal(untouched.uid, 77);
    assert_int_equal(owner_pid_here(&view, &child.process), 0);
    (void) end(pid);
    ASSERT_LIFE(&view, &child.process, DIBS_DEAD, "no such process");
    assert_int_equal(owner_identify(&view, pid, &untouched, NULL), DIBS_NOT_FOUND);
}

static void *thread_waits(void *arg)
{
    (void) just_wait(arg);
    return NULL;
}

static int leader_leaves(void *arg)
{
    pthread_t thread = 0;

    (void) arg;
    if (pthread_create(&thread, NULL, thread_waits, NULL) != 0)
        return 1;
    pthread_exit(NULL);
}

static char state_of(pid_t pid)
{
    char path[64];
    char text[2048] = "";
    struct owner_stat stat = { 0 };

    (void) snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0)
        (void) close(fd);
    return n > 0 && owner_stat_parse(text, (size_t) n, &stat) ? stat.state : '?';
}

static void a_process_whose_first_thread_has_ended_is_alive_while_another_runs(void **state)
{
    struct owner_view view = here();
    pid_t pid = start(leader_leaves, NULL);
    siginfo_t info;

    (void) state;
    for (int i = 0; i < 500 && state_of(pid) != 'Z'; i++)
        (void) usleep(TICK_US);
    assert_int_equal(state_of(pid), 'Z'); /* the trap: it looks like a zombie */
    struct owner_facts facts = facts_of(&view, pid);
    ASSERT_LIFE(&view, &facts.process, DIBS_ALIVE, "running");
    (void) kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0);
    ASSERT_LIFE(&view, &facts.process, DIBS_DEAD, "not yet reaped");
    (void) end(pid);
}

static int take_name(void *arg)
{
    int *ready = arg;

    if (prctl(PR_SET_NAME, "a) Z 0\n(\x01\xc3\xa4\xc3") != 0 || write(ready[1], "r", 1) != 1)
        return 1;
    return just_wait(NULL);
}

static void a_name_full_of_tricks_fools_nobody(void **state)
{
    struct owner_view view = here();
    int ready[2] = { -1, -1 };
    char c = 0;

    (void) state;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = start(take_name, ready);
    assert_int_equal(read(ready[0], &c, 1), 1);
    struct owner_facts facts = facts_of(&view, pid);
    /* Parentheses stay, control characters and half a character become '?'. */
    assert_string_equal(facts.command, "a) Z 0?(?\xc3\xa4?");
    assert_int_equal(facts.ppid, getpid());
    assert_int_equal(facts.uid, geteuid());
    ASSERT_LIFE(&view, &facts.process, DIBS_ALIVE, "running");
    (void) end(pid);
    (void) close(ready[0]);
    (void) close(ready[1]);
}

static void *thread_tells_its_id(void *arg)
{
    int *ready = arg;
    pid_t tid = gettid();

    (void) !write(ready[1], &tid, sizeof tid);
    (void) just_wait(NULL);
    return NULL;
}

static int with_a_thread(void *arg)
{
    pthread_t thread = 0;

    return pthread_create(&thread, NULL, thread_tells_its_id, arg) != 0 ? 1 : just_wait(NULL);
}

static void a_thread_is_not_a_process(void **state)
{
    struct owner_view view = here();
    struct owner_facts facts = { 0 };
    dibs_err err = { 0 };
    int ready[2] = { -1, -1 };
    pid_t tid = 0;

    (void) state;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = start(with_a_thread, ready);
    assert_int_equal(read(ready[0], &tid, sizeof tid), sizeof tid);
    assert_int_equal(owner_identify(&view, tid, &facts, &err), DIBS_NOT_FOUND);
    assert_non_null(strstr(err.msg, "thread"));
    /* A pid that is now a thread of somebody: the recorded process is gone. */
    struct owner_facts old = facts_of(&view, pid);
    old.process.pid = tid;
    old.process.start_ticks -= 100;
    ASSERT_LIFE(&view, &old.process, DIBS_DEAD, "start time differs");
    (void) end(pid);
    (void) close(ready[0]);
    (void) close(ready[1]);
}

static void records_of_another_boot_are_dead_and_damaged_ones_unknown(void **state)
{
    struct owner_view view = here();
    struct owner_facts me = facts_of(&view, getpid());
    dibs_process p = me.process;

    (void) state;
    p.boot_id[0] = p.boot_id[0] == '0' ? '1' : '0';
    ASSERT_LIFE(&view, &p, DIBS_DEAD, "another boot");
    p = me.process;
    p.start_ticks += 2;
    ASSERT_LIFE(&view, &p, DIBS_DEAD, "start time differs");
    p = me.process;
    p.start_ticks += 1;
    ASSERT_LIFE(&view, &p, DIBS_UNKNOWN, "one clock tick");
    static const int32_t no_pids[] = { 0, -1, INT32_MIN };
    for (size_t i = 0; i < sizeof no_pids / sizeof no_pids[0]; i++) {
        p = me.process;
        p.pid = no_pids[i];
        ASSERT_LIFE(&view, &p, DIBS_UNKNOWN, "does not say which");
    }
    p = me.process;
    p.boot_id[0] = '\0';
    ASSERT_LIFE(&view, &p, DIBS_UNKNOWN, "does not say which");
    p = me.process;
    p.pidns = 0;
    ASSERT_LIFE(&view, &p, DIBS_UNKNOWN, "does not say which");
    p = me.process;
    p.pid = INT32_MAX; /* over any pid_max */
    ASSERT_LIFE(&view, &p, DIBS_DEAD, "no such process");
}

static int grandchild_checks_its_line(void *arg)
{
    const pid_t *test = arg;
    struct owner_view view = { 0 };

    CHECK(owner_view_load(&view, NULL) == DIBS_OK);
    CHECK(owner_descends_from(&view, getpid(), getpid()));
    CHECK(owner_descends_from(&view, getpid(), getppid()));
    CHECK(owner_descends_from(&view, getpid(), *test));
    CHECK(!owner_descends_from(&view, *test, getpid()));
    CHECK(!owner_descends_from(&view, getpid(), 0));
    CHECK(!owner_descends_from(&view, 0, *test));
    CHECK(!owner_descends_from(&view, INT32_MAX, *test));
    return 0;
}

static int child_has_a_child(void *arg)
{
    return in_child(grandchild_checks_its_line, arg);
}

static void descent_is_followed_upwards_only(void **state)
{
    pid_t me = getpid();

    (void) state;
    assert_int_equal(in_child(child_has_a_child, &me), 0);
}

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    size_t len = strlen(text);
    int rc = fd >= 0 && write(fd, text, len) == (ssize_t) len ? 0 : -1;

    if (fd >= 0)
        (void) close(fd);
    return rc;
}

static int reuses_a_pid(void *arg)
{
    struct owner_view view = { 0 };
    struct owner_facts first = { 0 };
    struct owner_facts second = { 0 };
    char text[32];
    char why[64];

    (void) arg;
    CHECK(owner_view_load(&view, NULL) == DIBS_OK);
    CHECK(!view.is_initial_pidns);
    pid_t p = start(just_wait, NULL);
    CHECK(owner_identify(&view, p, &first, NULL) == DIBS_OK);
    CHECK(owner_judge(&view, &first.process, NULL, 0) == DIBS_ALIVE);
    (void) end(p);
    CHECK(owner_judge(&view, &first.process, NULL, 0) == DIBS_DEAD);
    (void) usleep(5 * TICK_US);
    (void) snprintf(text, sizeof text, "%d", p - 1);
    CHECK(write_text("/proc/sys/kernel/ns_last_pid", text) == 0);
    pid_t q = start(just_wait, NULL);
    CHECK(q == p); /* the same number again, for real */
    CHECK(owner_identify(&view, q, &second, NULL) == DIBS_OK);
    CHECK(owner_judge(&view, &first.process, why, sizeof why) == DIBS_DEAD);
    CHECK(strstr(why, "start time differs"));
    CHECK(owner_judge(&view, &second.process, NULL, 0) == DIBS_ALIVE);
    CHECK(owner_pid_here(&view, &first.process) == 0);
    CHECK(owner_pid_here(&view, &second.process) == q);
    (void) end(q);
    return 0;
}

static int reuses_a_pid_elsewhere(void *arg)
{
    return in_new_pidns(reuses_a_pid, arg);
}

static void a_reused_pid_does_not_bring_the_first_process_back(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(in_child(reuses_a_pid_elsewhere, NULL), 0);
}

/* A pid namespace with two processes that report who they are, for as long as it is needed. */
struct below {
    int report[2];
    pid_t keeper; /* our child; its child is the namespace's init */
    dibs_process init, second;
};

static int report_and_wait(void *arg)
{
    struct below *b = arg;
    struct owner_view view = { 0 };
    struct owner_facts me = { 0 };

    if (owner_view_load(&view, NULL) != DIBS_OK || owner_identify(&view, getpid(), &me, NULL) != DIBS_OK ||
        write(b->report[1], &me.process, sizeof me.process) != (ssize_t) sizeof me.process)
        return 1;
    return just_wait(NULL);
}

static int init_below(void *arg)
{
    struct below *b = arg;
    pid_t second = 0;

    (void) usleep(3 * TICK_US); /* so that the two differ in start time */
    second = start(report_and_wait, b);
    (void) usleep(3 * TICK_US);
    (void) wait_for(second);
    return report_and_wait(b);
}

static int keeper_of_namespace(void *arg)
{
    return in_new_pidns(init_below, arg);
}

/* The second reports first; when it is killed its init reports, too. */
static void below_start(struct below *b)
{
    *b = (struct below){ .report = { -1, -1 } };
    assert_int_equal(pipe(b->report), 0);
    b->keeper = start(keeper_of_namespace, b);
    assert_int_equal(read(b->report[0], &b->second, sizeof b->second), sizeof b->second);
}

static void below_end(struct below *b)
{
    (void) end(b->keeper);
    (void) close(b->report[0]);
    (void) close(b->report[1]);
}

static void judged_dead_before_long(const struct owner_view *view, const dibs_process *who)
{
    for (int i = 0; i < 500 && owner_judge(view, who, NULL, 0) != DIBS_DEAD; i++)
        (void) usleep(TICK_US);
    assert_int_equal(owner_judge(view, who, NULL, 0), DIBS_DEAD);
}

static int judges_unknown(void *arg)
{
    const dibs_process *who = arg;
    struct owner_view view = { 0 };
    char why[128] = "";

    CHECK(owner_view_load(&view, NULL) == DIBS_OK);
    CHECK(view.pidns != who->pidns);
    CHECK(owner_judge(&view, who, why, sizeof why) == DIBS_UNKNOWN);
    CHECK(strstr(why, "cannot be seen from here"));
    CHECK(owner_pid_here(&view, who) == 0);
    return 0;
}

static int judges_unknown_from_a_sibling(void *arg)
{
    return in_new_pidns(judges_unknown, arg);
}

static void a_process_of_a_namespace_below_is_seen_living_and_dying(void **state)
{
    struct owner_view view = here();
    struct below b;
    char why[128] = "";

    (void) state;
    need_root();
    if (!view.is_initial_pidns)
        SKIP_BECAUSE("needs the initial pid namespace");
    below_start(&b);
    assert_int_equal(b.second.pid, 2);
    ASSERT_LIFE(&view, &b.second, DIBS_ALIVE, "running");
    pid_t second_here = owner_pid_here(&view, &b.second);
    assert_true(owner_descends_from(&view, second_here, b.keeper));
    assert_int_equal(in_child(judges_unknown_from_a_sibling, &b.second), 0);

    /* Reused inode and pid, other start time: somebody else. */
    dibs_process older = b.second;
    older.start_ticks -= 100;
    assert_int_equal(owner_judge(&view, &older, NULL, 0), DIBS_DEAD);

    assert_int_equal(kill(second_here, SIGKILL), 0);
    assert_int_equal(read(b.report[0], &b.init, sizeof b.init), sizeof b.init);
    assert_int_equal(b.init.pid, 1);
    assert_true(b.init.pidns == b.second.pidns);
    ASSERT_LIFE(&view, &b.second, DIBS_DEAD, "no such process in its pid namespace");
    ASSERT_LIFE(&view, &b.init, DIBS_ALIVE, "running");

    pid_t init_here = owner_pid_here(&view, &b.init);
    struct owner_facts init = facts_of(&view, init_here);
    assert_int_equal(init.ppid, b.keeper);
    assert_int_equal(kill(b.keeper, SIGSTOP), 0); /* so that its init stays a zombie */
    assert_int_equal(kill(init_here, SIGKILL), 0);
    judged_dead_before_long(&view, &b.init);
    assert_int_equal(kill(b.keeper, SIGCONT), 0);
    assert_int_equal(wait_for(b.keeper), 128 + SIGKILL);
    /* Nobody is left in the namespace. */
    assert_int_equal(owner_judge(&view, &b.init, why, sizeof why), DIBS_DEAD);
    assert_int_equal(in_child(judges_unknown_from_a_sibling, &b.init), 0);
    below_end(&b);
}

static int judges_its_own_namespace_below(void *arg)
{
    struct below b = { .report = { -1, -1 } };
    struct owner_view view = { 0 };

    (void) arg;
    CHECK(owner_view_load(&view, NULL) == DIBS_OK);
    CHECK(!view.is_initial_pidns);
    CHECK(pipe(b.report) == 0);
    b.keeper = start(keeper_of_namespace, &b);
    CHECK(read(b.report[0], &b.second, sizeof b.second) == (ssize_t) sizeof b.second);
    CHECK(owner_judge(&view, &b.second, NULL, 0) == DIBS_ALIVE);
    CHECK(kill(owner_pid_here(&view, &b.second), SIGKILL) == 0);
    CHECK(read(b.report[0], &b.init, sizeof b.init) == (ssize_t) sizeof b.init);
    /* The namespace is visible, so it is below ours: a pid that is missing there is dead. */
    CHECK(owner_judge(&view, &b.second, NULL, 0) == DIBS_DEAD);
    CHECK(owner_judge(&view, &b.init, NULL, 0) == DIBS_ALIVE);
    CHECK(kill(owner_pid_here(&view, &b.init), SIGKILL) == 0);
    CHECK(wait_for(b.keeper) == 128 + SIGKILL);
    /* An empty one can no longer be told from one that was never below. */
    CHECK(owner_judge(&view, &b.init, NULL, 0) == DIBS_UNKNOWN);
    return 0;
}

static int judges_from_the_middle(void *arg)
{
    return in_new_pidns(judges_its_own_namespace_below, arg);
}

static void from_a_namespace_in_the_middle_what_is_below_can_be_judged(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(in_child(judges_from_the_middle, NULL), 0);
}

static int looks_into_a_foreign_proc(void *arg)
{
    struct owner_view view = { 0 };
    struct owner_facts facts = { 0 };

    (void) arg;
    CHECK(owner_view_load(&view, NULL) == DIBS_OK);
    CHECK(owner_identify(&view, getpid(), &facts, NULL) == DIBS_FAILURE);
    dibs_process me = { .pidns = view.pidns, .pid = getpid(), .start_ticks = 5 };
    memcpy(me.boot_id, view.boot_id, sizeof me.boot_id);
    /* /proc/1 is there, but it is another 1. */
    CHECK(owner_judge(&view, &me, NULL, 0) == DIBS_UNKNOWN);
    me.pidns++;
    CHECK(owner_judge(&view, &me, NULL, 0) == DIBS_UNKNOWN);
    me.pidns--;
    me.pid = 30000; /* nobody here: that needs no /proc */
    CHECK(owner_judge(&view, &me, NULL, 0) == DIBS_DEAD);
    return 0;
}

static int keeps_the_old_proc(void *arg)
{
    CHECK(unshare(CLONE_NEWPID) == 0);
    return in_child(looks_into_a_foreign_proc, arg);
}

static void a_proc_of_another_namespace_proves_no_death(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(in_child(keeps_the_old_proc, NULL), 0);
}

struct others {
    dibs_process alive, gone, below, below_gone;
    const char *proc_options; /* NULL: /proc as it is */
};

static int looks_as_nobody(void *arg)
{
    const struct others *o = arg;
    struct owner_view view = { 0 };
    struct owner_facts facts = { 0 };

    if (o->proc_options) {
        CHECK(unshare(CLONE_NEWNS) == 0);
        CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
        CHECK(mount("proc", "/proc", "proc", 0, o->proc_options) == 0);
    }
    CHECK(setresgid(NOBODY, NOBODY, NOBODY) == 0);
    CHECK(setresuid(NOBODY, NOBODY, NOBODY) == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
    CHECK(owner_view_load(&view, NULL) == DIBS_OK);
    CHECK(owner_judge(&view, &o->gone, NULL, 0) == DIBS_DEAD);
    /* He fits in all that is visible, but whether he is in that namespace may not be seen. */
    CHECK(owner_judge(&view, &o->below, NULL, 0) == DIBS_UNKNOWN);
    if (o->proc_options) {
        CHECK(owner_judge(&view, &o->alive, NULL, 0) == DIBS_UNKNOWN);
        CHECK(owner_judge(&view, &o->below_gone, NULL, 0) == DIBS_UNKNOWN);
        CHECK(owner_identify(&view, o->alive.pid, &facts, NULL) == DIBS_DENIED);
        CHECK(owner_identify(&view, o->gone.pid, &facts, NULL) == DIBS_NOT_FOUND);
    } else {
        CHECK(owner_judge(&view, &o->alive, NULL, 0) == DIBS_ALIVE);
        CHECK(owner_judge(&view, &o->below_gone, NULL, 0) == DIBS_DEAD);
        CHECK(owner_identify(&view, o->alive.pid, &facts, NULL) == DIBS_OK);
    }
    return 0;
}

static void what_hidepid_hides_is_unknown_and_what_is_gone_is_dead(void **state)
{
    struct owner_view view = here();
    struct others o = { 0 };
    struct below b;

    (void) state;
    need_root();
    if (!view.is_initial_pidns)
        SKIP_BECAUSE("needs the initial pid namespace");
    pid_t alive = start(just_wait, NULL);
    pid_t gone = start(just_wait, NULL);
    o.alive = facts_of(&view, alive).process;
    o.gone = facts_of(&view, gone).process;
    (void) end(gone);
    below_start(&b);
    o.below = b.second;
    o.below_gone = b.second;
    o.below_gone.start_ticks -= 50;

    static const char *const options[] = { NULL, "hidepid=1", "hidepid=2" };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        o.proc_options = options[i];
        assert_int_equal(in_child(looks_as_nobody, &o), 0);
    }
    (void) end(alive);
    (void) end(owner_pid_here(&view, &b.second));
    below_end(&b);
}

struct shifted {
    const char *offset;
    dibs_process young, old;
    bool is_whole; /* a whole number of ticks */
};

static int looks_through_another_clock(void *arg)
{
    const struct shifted *s = arg;
    struct owner_view view = { 0 };
    dibs_err err = { 0 };

    CHECK(owner_view_load(&view, &err) == DIBS_OK);
    CHECK(view.boot_offset_ns != 0);
    if (s->is_whole) {
        CHECK(owner_judge(&view, &s->young, NULL, 0) == DIBS_ALIVE);
    } else {
        CHECK(owner_judge(&view, &s->young, NULL, 0) != DIBS_DEAD);
    }
    CHECK(owner_judge(&view, &s->old, NULL, 0) != DIBS_DEAD);
    /* Now the file in /proc tells of the clock of children only. */
    CHECK(unshare(CLONE_NEWTIME) == 0);
    CHECK(owner_view_load(&view, &err) == DIBS_FAILURE);
    return 0;
}

static int in_new_timens(void *arg)
{
    const struct shifted *s = arg;

    if (unshare(CLONE_NEWTIME) != 0)
        return 77;
    CHECK(write_text("/proc/self/timens_offsets", s->offset) == 0);
    struct owner_view view = { 0 };
    CHECK(owner_view_load(&view, NULL) == DIBS_OK);
    CHECK(view.boot_offset_ns == 0); /* ours is still the old one */
    return in_child(looks_through_another_clock, arg);
}

static void a_time_namespace_changes_nobodys_identity(void **state)
{
    static const struct {
        const char *offset;
        bool is_whole;
    } rows[] = { { "boottime 1000 0", true },
                 { "boottime 100000 50000000", true },
                 { "boottime -20 0", true }, /* the oldest processes start before this clock's zero */
                 { "boottime 77 7654321", false },
                 { "boottime -21 4999999", false } };
    struct owner_view view = here();

    (void) state;
    need_root();
    if (access("/proc/self/ns/time", F_OK) != 0)
        SKIP_BECAUSE("this kernel has no time namespaces");
    struct timespec up = { 0 };
    (void) clock_gettime(CLOCK_BOOTTIME, &up);
    if (up.tv_sec < 60)
        SKIP_BECAUSE("the machine started a moment ago");
    pid_t pid = start(just_wait, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct shifted s = { .offset = rows[i].offset, .is_whole = rows[i].is_whole };

        s.young = facts_of(&view, pid).process;
        s.old = facts_of(&view, 1).process;
        assert_int_equal(in_child(in_new_timens, &s), 0);
    }
    (void) end(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stat_line_is_read_after_its_last_parenthesis),
        cmocka_unit_test(a_stat_line_that_is_not_one_is_refused_and_the_output_left_alone),
        cmocka_unit_test(this_process_is_alive_and_its_facts_are_right),
        cmocka_unit_test(a_child_is_alive_then_a_zombie_then_gone_and_both_are_dead),
        cmocka_unit_test(a_process_whose_first_thread_has_ended_is_alive_while_another_runs),
        cmocka_unit_test(a_name_full_of_tricks_fools_nobody),
        cmocka_unit_test(a_thread_is_not_a_process),
        cmocka_unit_test(records_of_another_boot_are_dead_and_damaged_ones_unknown),
        cmocka_unit_test(descent_is_followed_upwards_only),
        cmocka_unit_test(a_reused_pid_does_not_bring_the_first_process_back),
        cmocka_unit_test(a_process_of_a_namespace_below_is_seen_living_and_dying),
        cmocka_unit_test(from_a_namespace_in_the_middle_what_is_below_can_be_judged),
        cmocka_unit_test(a_proc_of_another_namespace_proves_no_death),
        cmocka_unit_test(what_hidepid_hides_is_unknown_and_what_is_gone_is_dead),
        cmocka_unit_test(a_time_namespace_changes_nobodys_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
