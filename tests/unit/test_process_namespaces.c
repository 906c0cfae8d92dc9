/* SPDX-License-Identifier: MIT */
/* Life and death across pid, mount and time namespaces: real ones, made by the test. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include "host/process.h"
#include "support/child.h"
#include "support/process.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static int reuses_a_pid(void *arg)
{
    struct process_view view = { 0 };
    struct process_facts first = { 0 };
    struct process_facts second = { 0 };
    char text[32];
    const char *why = "";

    (void) arg;
    CHECK(process_view_load(&view, NULL) == DIBS_OK);
    CHECK(!view.is_initial_pidns);
    pid_t p = child_fork(child_idle, NULL);
    CHECK(process_identify(&view, p, &first, NULL) == DIBS_OK);
    CHECK(process_judge(&view, &first.process, NULL) == DIBS_ALIVE);
    child_end(p);
    CHECK(process_judge(&view, &first.process, NULL) == DIBS_DEAD);
    UNTIL(ticks_now(&view) > first.process.start_ticks + 1); /* one tick is within the rounding */
    (void) snprintf(text, sizeof text, "%d", p - 1);
    CHECK(child_write_file("/proc/sys/kernel/ns_last_pid", text) == 0);
    pid_t q = child_fork(child_idle, NULL);
    CHECK(q == p); /* the same number again, for real */
    CHECK(process_identify(&view, q, &second, NULL) == DIBS_OK);
    CHECK(process_judge(&view, &first.process, &why) == DIBS_DEAD);
    CHECK(strstr(why, "start time differs"));
    CHECK(process_judge(&view, &second.process, NULL) == DIBS_ALIVE);
    CHECK(process_pid_here(&view, &first.process) == 0);
    CHECK(process_pid_here(&view, &second.process) == q);
    child_end(q);
    return 0;
}

static int reuses_a_pid_elsewhere(void *arg)
{
    return child_in_new_pidns(reuses_a_pid, arg);
}

static void a_reused_pid_does_not_bring_the_first_process_back(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(reuses_a_pid_elsewhere, NULL), 0);
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
    struct process_view view = { 0 };
    struct process_facts me = { 0 };

    if (process_view_load(&view, NULL) != DIBS_OK ||
        process_identify(&view, getpid(), &me, NULL) != DIBS_OK ||
        write(b->report[1], &me.process, sizeof me.process) != (ssize_t) sizeof me.process)
        return 1;
    return child_idle(NULL);
}

static int init_below(void *arg)
{
    struct below *b = arg;
    struct process_view view = { 0 };
    struct process_facts me = { 0 };

    if (process_view_load(&view, NULL) != DIBS_OK || process_identify(&view, getpid(), &me, NULL) != DIBS_OK)
        return 1;
    UNTIL(ticks_now(&view) > me.process.start_ticks + 1); /* so that the two differ for sure */
    (void) child_join(child_fork(report_and_wait, b));
    return report_and_wait(b);
}

static int keeper_of_namespace(void *arg)
{
    return child_in_new_pidns(init_below, arg);
}

/* The second reports first; when it is killed its init reports, too. */
static void below_start(struct below *b)
{
    *b = (struct below){ .report = { -1, -1 } };
    assert_int_equal(pipe(b->report), 0);
    b->keeper = child_fork(keeper_of_namespace, b);
    assert_int_equal(read(b->report[0], &b->second, sizeof b->second), sizeof b->second);
}

static void below_end(struct below *b)
{
    child_end(b->keeper);
    (void) close(b->report[0]);
    (void) close(b->report[1]);
}

static void judged_dead_before_long(const struct process_view *view, const dibs_process *who)
{
    UNTIL(process_judge(view, who, NULL) == DIBS_DEAD);
    assert_int_equal(process_judge(view, who, NULL), DIBS_DEAD);
}

static int judges_unknown(void *arg)
{
    const dibs_process *who = arg;
    struct process_view view = { 0 };
    const char *why = "";

    CHECK(process_view_load(&view, NULL) == DIBS_OK);
    dibs_life life = process_judge(&view, who, &why);
    /* The kernel may have given us the inode of a namespace that has ended: then the process is certainly
     * dead. */
    if (view.pidns == who->pidns) {
        CHECK(life == DIBS_DEAD);
        return 0;
    }
    CHECK(life == DIBS_UNKNOWN);
    CHECK(strstr(why, "cannot be seen from here"));
    CHECK(process_pid_here(&view, who) == 0);
    return 0;
}

static int judges_unknown_from_a_sibling(void *arg)
{
    return child_in_new_pidns(judges_unknown, arg);
}

static void a_process_of_a_namespace_below_is_seen_living_and_dying(void **state)
{
    struct process_view view = here();
    struct below b;
    const char *why = "";

    (void) state;
    need_root();
    if (!view.is_initial_pidns)
        SKIP_BECAUSE("needs the initial pid namespace");
    below_start(&b);
    assert_in_range(b.second.pid, 2, 9); /* a thread of the sanitizer's may have come first */
    ASSERT_LIFE(&view, &b.second, DIBS_ALIVE, "running");
    pid_t second_here = process_pid_here(&view, &b.second);
    assert_true(process_descends_from(&view, second_here, b.keeper));
    assert_int_equal(child_run(judges_unknown_from_a_sibling, &b.second), 0);

    /* Reused inode and pid, other start time: somebody else. */
    dibs_process older = b.second;
    older.start_ticks -= 100;
    assert_int_equal(process_judge(&view, &older, NULL), DIBS_DEAD);
    /* Same namespace and moment, other pid: nobody there. */
    dibs_process nobody = b.second;
    nobody.pid = 30000;
    assert_int_equal(process_judge(&view, &nobody, NULL), DIBS_DEAD);

    assert_int_equal(kill(second_here, SIGKILL), 0);
    assert_int_equal(read(b.report[0], &b.init, sizeof b.init), sizeof b.init);
    assert_int_equal(b.init.pid, 1);
    assert_true(b.init.pidns == b.second.pidns);
    ASSERT_LIFE(&view, &b.second, DIBS_DEAD, "no such process in its pid namespace");
    ASSERT_LIFE(&view, &b.init, DIBS_ALIVE, "running");

    pid_t init_here = process_pid_here(&view, &b.init);
    struct process_facts init = facts_of(&view, init_here);
    assert_int_equal(init.ppid, b.keeper);
    assert_int_equal(kill(b.keeper, SIGSTOP), 0); /* so that its init stays a zombie */
    assert_int_equal(kill(init_here, SIGKILL), 0);
    judged_dead_before_long(&view, &b.init);
    assert_int_equal(kill(b.keeper, SIGCONT), 0);
    assert_int_equal(child_join(b.keeper), 128 + SIGKILL);
    /* Nobody is left in the namespace. */
    assert_int_equal(process_judge(&view, &b.init, &why), DIBS_DEAD);
    assert_int_equal(child_run(judges_unknown_from_a_sibling, &b.init), 0);
    below_end(&b);
}

static int judges_its_own_namespace_below(void *arg)
{
    struct below b = { .report = { -1, -1 } };
    struct process_view view = { 0 };

    (void) arg;
    CHECK(process_view_load(&view, NULL) == DIBS_OK);
    CHECK(!view.is_initial_pidns);
    CHECK(pipe(b.report) == 0);
    b.keeper = child_fork(keeper_of_namespace, &b);
    CHECK(read(b.report[0], &b.second, sizeof b.second) == (ssize_t) sizeof b.second);
    CHECK(process_judge(&view, &b.second, NULL) == DIBS_ALIVE);
    CHECK(kill(process_pid_here(&view, &b.second), SIGKILL) == 0);
    CHECK(read(b.report[0], &b.init, sizeof b.init) == (ssize_t) sizeof b.init);
    /* The namespace is visible, so it is below ours: a pid that is missing there is dead. */
    CHECK(process_judge(&view, &b.second, NULL) == DIBS_DEAD);
    CHECK(process_judge(&view, &b.init, NULL) == DIBS_ALIVE);
    CHECK(kill(process_pid_here(&view, &b.init), SIGKILL) == 0);
    CHECK(child_join(b.keeper) == 128 + SIGKILL);
    /* An empty one looks like one that was never below. */
    CHECK(process_judge(&view, &b.init, NULL) == DIBS_UNKNOWN);
    return 0;
}

static int judges_from_the_middle(void *arg)
{
    return child_in_new_pidns(judges_its_own_namespace_below, arg);
}

static void from_a_namespace_in_the_middle_what_is_below_can_be_judged(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(judges_from_the_middle, NULL), 0);
}

static int looks_into_a_foreign_proc(void *arg)
{
    struct process_view view = { 0 };
    struct process_facts facts = { 0 };

    (void) arg;
    CHECK(process_view_load(&view, NULL) == DIBS_OK);
    CHECK(process_identify(&view, getpid(), &facts, NULL) == DIBS_FAILURE);
    dibs_process me = { .pidns = view.pidns, .pid = getpid(), .start_ticks = 5 };
    memcpy(me.boot_id, view.boot_id, sizeof me.boot_id);
    /* /proc/1 is there, but it is another 1. */
    CHECK(process_judge(&view, &me, NULL) == DIBS_UNKNOWN);
    me.pidns++;
    CHECK(process_judge(&view, &me, NULL) == DIBS_UNKNOWN);
    me.pidns--;
    me.pid = 30000; /* nobody here: that needs no /proc */
    CHECK(process_judge(&view, &me, NULL) == DIBS_DEAD);
    return 0;
}

static int keeps_the_old_proc(void *arg)
{
    CHECK(unshare(CLONE_NEWPID) == 0);
    return child_run(looks_into_a_foreign_proc, arg);
}

static void a_proc_of_another_namespace_proves_no_death(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(keeps_the_old_proc, NULL), 0);
}

/* Our pid, as /proc shows it. */
static int pid_in_proc(void)
{
    char text[32] = "";

    return readlink("/proc/self", text, sizeof text - 1) > 0 ? (int) strtol(text, NULL, 10) : 0;
}

static int reports_its_pid_in_proc(void *arg)
{
    int pid = pid_in_proc();

    return write(*(const int *) arg, &pid, sizeof pid) == (ssize_t) sizeof pid ? 0 : 1;
}

static int looks_with_the_same_number(void *arg)
{
    enum { ANOTHER_NUMBER = 77 };

    return pid_in_proc() == getpid() ? looks_into_a_foreign_proc(arg) : ANOTHER_NUMBER;
}

/* A process takes a number of its own namespace and one of /proc's: try until they are the same. How many
 * numbers are taken between the two depends on the build: a sanitizer has threads. */
static int has_the_same_number_in_both(void *arg)
{
    char text[32];
    int report[2];
    int last = 0;
    int code = 77;

    CHECK(pipe(report) == 0);
    for (int i = 0; i < 100 && code == 77; i++) {
        CHECK(child_run(reports_its_pid_in_proc, &report[1]) == 0);
        CHECK(read(report[0], &last, sizeof last) == (ssize_t) sizeof last);
        (void) snprintf(text, sizeof text, "%d", last + i % 8);
        CHECK(child_write_file("/proc/sys/kernel/ns_last_pid", text) == 0);
        code = child_run(looks_with_the_same_number, arg);
    }
    return code;
}

static int keeps_the_old_proc_and_its_numbers(void *arg)
{
    CHECK(unshare(CLONE_NEWPID) == 0);
    return child_run(has_the_same_number_in_both, arg);
}

/* In it nobody else takes numbers, as the other processes of the machine do. */
static int has_a_proc_of_its_own(void *arg)
{
    CHECK(unshare(CLONE_NEWNS) == 0);
    CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    CHECK(mount("proc", "/proc", "proc", 0, NULL) == 0);
    return keeps_the_old_proc_and_its_numbers(arg);
}

static int is_in_a_quiet_namespace(void *arg)
{
    CHECK(unshare(CLONE_NEWPID) == 0);
    return child_run(has_a_proc_of_its_own, arg);
}

static void the_same_number_in_a_foreign_proc_does_not_make_it_ours(void **state)
{
    (void) state;
    need_root();
    assert_int_equal(child_run(is_in_a_quiet_namespace, NULL), 0);
}

struct others {
    dibs_process alive, gone, below, below_gone;
    const char *proc_options; /* NULL: /proc as it is */
};

static int looks_as_nobody(void *arg)
{
    const struct others *o = arg;
    struct process_view view = { 0 };
    struct process_facts facts = { 0 };

    if (o->proc_options) {
        CHECK(unshare(CLONE_NEWNS) == 0);
        CHECK(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
        CHECK(mount("proc", "/proc", "proc", 0, o->proc_options) == 0);
    }
    CHECK(setresgid(CHILD_NOBODY, CHILD_NOBODY, CHILD_NOBODY) == 0);
    CHECK(setresuid(CHILD_NOBODY, CHILD_NOBODY, CHILD_NOBODY) == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
    CHECK(process_view_load(&view, NULL) == DIBS_OK);
    CHECK(process_judge(&view, &o->gone, NULL) == DIBS_DEAD);
    /* Everything visible fits, but its namespace may not be read. */
    CHECK(process_judge(&view, &o->below, NULL) == DIBS_UNKNOWN);
    if (o->proc_options) {
        CHECK(process_judge(&view, &o->alive, NULL) == DIBS_UNKNOWN);
        CHECK(process_judge(&view, &o->below_gone, NULL) == DIBS_UNKNOWN);
        CHECK(process_identify(&view, o->alive.pid, &facts, NULL) == DIBS_DENIED);
        CHECK(process_identify(&view, o->gone.pid, &facts, NULL) == DIBS_NOT_FOUND);
    } else {
        CHECK(process_judge(&view, &o->alive, NULL) == DIBS_ALIVE);
        CHECK(process_judge(&view, &o->below_gone, NULL) == DIBS_DEAD);
        CHECK(process_identify(&view, o->alive.pid, &facts, NULL) == DIBS_OK);
    }
    return 0;
}

static void a_process_hidden_by_hidepid_is_unknown_and_a_gone_one_is_dead(void **state)
{
    struct process_view view = here();
    struct others o = { 0 };
    struct below b;

    (void) state;
    need_root();
    if (!view.is_initial_pidns)
        SKIP_BECAUSE("needs the initial pid namespace");
    pid_t alive = child_fork(child_idle, NULL);
    pid_t gone = child_fork(child_idle, NULL);
    o.alive = facts_of(&view, alive).process;
    o.gone = facts_of(&view, gone).process;
    child_end(gone);
    below_start(&b);
    o.below = b.second;
    o.below_gone = b.second;
    o.below_gone.start_ticks -= 50;

    static const char *const options[] = { NULL, "hidepid=1", "hidepid=2" };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        o.proc_options = options[i];
        assert_int_equal(child_run(looks_as_nobody, &o), 0);
    }
    child_end(alive);
    child_end(process_pid_here(&view, &b.second));
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
    struct process_view view = { 0 };
    dibs_err err = { 0 };

    CHECK(process_view_load(&view, &err) == DIBS_OK);
    CHECK(view.boot_offset_ns != 0);
    if (s->is_whole) {
        CHECK(process_judge(&view, &s->young, NULL) == DIBS_ALIVE);
    } else {
        CHECK(process_judge(&view, &s->young, NULL) != DIBS_DEAD);
    }
    CHECK(process_judge(&view, &s->old, NULL) != DIBS_DEAD);
    /* Now the file in /proc tells of the clock of children only. */
    CHECK(unshare(CLONE_NEWTIME) == 0);
    CHECK(process_view_load(&view, &err) == DIBS_FAILURE);
    return 0;
}

static int in_new_timens(void *arg)
{
    const struct shifted *s = arg;

    if (unshare(CLONE_NEWTIME) != 0)
        return 77;
    CHECK(child_write_file("/proc/self/timens_offsets", s->offset) == 0);
    struct process_view view = { 0 };
    CHECK(process_view_load(&view, NULL) == DIBS_OK);
    CHECK(view.boot_offset_ns == 0); /* ours is still the old one */
    return child_run(looks_through_another_clock, arg);
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
    struct process_view view = here();

    (void) state;
    need_root();
    if (access("/proc/self/ns/time", F_OK) != 0)
        SKIP_BECAUSE("this kernel has no time namespaces");
    struct timespec up = { 0 };
    (void) clock_gettime(CLOCK_BOOTTIME, &up);
    if (up.tv_sec < 60)
        SKIP_BECAUSE("the machine started a moment ago");
    pid_t pid = child_fork(child_idle, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct shifted s = { .offset = rows[i].offset, .is_whole = rows[i].is_whole };

        s.young = facts_of(&view, pid).process;
        s.old = facts_of(&view, 1).process;
        assert_int_equal(child_run(in_new_timens, &s), 0);
    }
    child_end(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reused_pid_does_not_bring_the_first_process_back),
        cmocka_unit_test(a_process_of_a_namespace_below_is_seen_living_and_dying),
        cmocka_unit_test(from_a_namespace_in_the_middle_what_is_below_can_be_judged),
        cmocka_unit_test(a_proc_of_another_namespace_proves_no_death),
        cmocka_unit_test(the_same_number_in_a_foreign_proc_does_not_make_it_ours),
        cmocka_unit_test(a_process_hidden_by_hidepid_is_unknown_and_a_gone_one_is_dead),
        cmocka_unit_test(a_time_namespace_changes_nobodys_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
