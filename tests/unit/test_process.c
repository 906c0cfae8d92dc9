/* SPDX-License-Identifier: MIT */
/* Life and death in our own pid namespace, against the real kernel. Other namespaces:
 * test_owner_namespaces.c. */
#include "host/process.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/child.h"
#include "support/process.h"

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
        struct proc_stat stat = { 0 };

        assert_true(proc_stat_parse(rows[i].text, strlen(rows[i].text), &stat));
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
        struct proc_stat stat = { .state = 'q', .start_ticks = 7 };

        assert_false(proc_stat_parse(bad[i], strlen(bad[i]), &stat));
        assert_int_equal(stat.state, 'q');
        assert_int_equal(stat.start_ticks, 7);
    }
}

static void this_process_is_alive_and_its_facts_are_right(void **state)
{
    struct process_view view = here();
    struct process_facts me = facts_of(&view, getpid());

    (void) state;
    ASSERT_LIFE(&view, &me.process, DIBS_ALIVE, "running");
    assert_int_equal(me.process.pid, getpid());
    assert_true(me.process.pidns == view.pidns);
    assert_string_equal(me.process.boot_id, view.boot_id);
    assert_int_equal(strlen(view.boot_id), DIBS_BOOT_ID_MAX);
    assert_int_equal(me.uid, geteuid());
    assert_int_equal(me.ppid, getppid());
    assert_int_equal(me.session, getsid(0));
    assert_int_equal(process_pid_here(&view, &me.process), getpid());
    assert_int_equal(process_judge(&view, &me.process, NULL), DIBS_ALIVE);
}

static void a_child_is_alive_then_a_zombie_then_gone_and_both_are_dead(void **state)
{
    struct process_view view = here();
    pid_t pid = child_fork(child_idle, NULL);
    struct process_facts child = facts_of(&view, pid);
    struct process_facts untouched = { .uid = 77 };
    siginfo_t info;

    (void) state;
    ASSERT_LIFE(&view, &child.process, DIBS_ALIVE, "running");
    (void) kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0); /* dead, not reaped */
    ASSERT_LIFE(&view, &child.process, DIBS_DEAD, "not yet reaped");
    assert_int_equal(process_identify(&view, pid, &untouched, NULL), DIBS_NOT_FOUND);
    assert_int_equal(untouched.uid, 77);
    assert_int_equal(process_pid_here(&view, &child.process), 0);
    child_end(pid);
    ASSERT_LIFE(&view, &child.process, DIBS_DEAD, "no such process");
    assert_int_equal(process_identify(&view, pid, &untouched, NULL), DIBS_NOT_FOUND);
}

static void *thread_waits(void *arg)
{
    (void) child_idle(arg);
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

static void a_process_whose_first_thread_has_ended_is_alive_while_another_runs(void **state)
{
    struct process_view view = here();
    pid_t pid = child_fork(leader_leaves, NULL);
    siginfo_t info;

    (void) state;
    UNTIL(state_of(pid) == 'Z');
    assert_int_equal(state_of(pid), 'Z'); /* the trap: it looks like a zombie */
    struct process_facts facts = facts_of(&view, pid);
    ASSERT_LIFE(&view, &facts.process, DIBS_ALIVE, "running");
    (void) kill(pid, SIGKILL);
    assert_int_equal(waitid(P_PID, (id_t) pid, &info, WEXITED | WNOWAIT), 0);
    ASSERT_LIFE(&view, &facts.process, DIBS_DEAD, "not yet reaped");
    child_end(pid);
}

static int take_name(void *arg)
{
    int *ready = arg;

    if (prctl(PR_SET_NAME, "a) Z 0\n(\x01\xc3\xa4\xc3") != 0 || write(ready[1], "r", 1) != 1)
        return 1;
    return child_idle(NULL);
}

static void a_name_full_of_tricks_fools_nobody(void **state)
{
    struct process_view view = here();
    int ready[2] = { -1, -1 };
    char c = 0;

    (void) state;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = child_fork(take_name, ready);
    assert_int_equal(read(ready[0], &c, 1), 1);
    struct process_facts facts = facts_of(&view, pid);
    /* Parentheses stay, control characters and half a character become '?'. */
    assert_string_equal(facts.command, "a) Z 0?(?\xc3\xa4?");
    assert_int_equal(facts.ppid, getpid());
    assert_int_equal(facts.uid, geteuid());
    ASSERT_LIFE(&view, &facts.process, DIBS_ALIVE, "running");
    child_end(pid);
    (void) close(ready[0]);
    (void) close(ready[1]);
}

static void *thread_tells_its_id(void *arg)
{
    int *ready = arg;
    pid_t tid = gettid();

    (void) !write(ready[1], &tid, sizeof tid);
    (void) child_idle(NULL);
    return NULL;
}

static int with_a_thread(void *arg)
{
    pthread_t thread = 0;

    return pthread_create(&thread, NULL, thread_tells_its_id, arg) != 0 ? 1 : child_idle(NULL);
}

static void a_thread_is_not_a_process(void **state)
{
    struct process_view view = here();
    struct process_facts facts = { 0 };
    dibs_err err = { 0 };
    int ready[2] = { -1, -1 };
    pid_t tid = 0;

    (void) state;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = child_fork(with_a_thread, ready);
    assert_int_equal(read(ready[0], &tid, sizeof tid), sizeof tid);
    assert_int_equal(process_identify(&view, tid, &facts, &err), DIBS_NOT_FOUND);
    assert_non_null(strstr(err.msg, "thread"));
    /* A pid that is now a thread of somebody: the recorded process is gone. */
    struct process_facts old = facts_of(&view, pid);
    old.process.pid = tid;
    old.process.start_ticks -= 100;
    ASSERT_LIFE(&view, &old.process, DIBS_DEAD, "start time differs");
    child_end(pid);
    (void) close(ready[0]);
    (void) close(ready[1]);
}

static void records_of_another_boot_are_dead_and_damaged_ones_unknown(void **state)
{
    struct process_view view = here();
    struct process_facts me = facts_of(&view, getpid());
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
    struct process_view view = { 0 };

    CHECK(process_view_load(&view, NULL) == DIBS_OK);
    CHECK(process_descends_from(&view, getpid(), getpid()));
    CHECK(process_descends_from(&view, getpid(), getppid()));
    CHECK(process_descends_from(&view, getpid(), *test));
    CHECK(!process_descends_from(&view, *test, getpid()));
    CHECK(!process_descends_from(&view, getpid(), 0));
    CHECK(!process_descends_from(&view, 0, *test));
    CHECK(!process_descends_from(&view, INT32_MAX, *test));
    return 0;
}

static int child_has_a_child(void *arg)
{
    return child_run(grandchild_checks_its_line, arg);
}

static void descent_is_followed_upwards_only(void **state)
{
    pid_t me = getpid();

    (void) state;
    assert_int_equal(child_run(child_has_a_child, &me), 0);
}

/* It is no refusal: later it can. */
static void without_descriptors_nobody_is_looked_at(void **state)
{
    struct process_view view = here();
    struct process_facts facts = { 0 };
    dibs_err err = { 0 };
    struct rlimit was;

    (void) state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    const struct rlimit none = { .rlim_cur = 3, .rlim_max = was.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    dibs_status s = process_identify(&view, getpid(), &facts, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_int_equal(s, DIBS_UNAVAILABLE);
}

static void a_unit_or_container_is_found_in_the_cgroups(void **state)
{
#define ID "4f2a9c1e03b7d5564f2a9c1e03b7d5564f2a9c1e03b7d5564f2a9c1e03b7d556"
    static const struct {
        const char *cgroups, *unit;
    } cases[] = {
        { "", "" },
        { "0::/\n", "" },
        { "0::/system.slice/nginx.service\n", "nginx.service" },
        { "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-7.scope\n", "run-7.scope" },
        { "12:cpu:/\n1:name=systemd:/system.slice/ssh.service\n0::/\n", "ssh.service" },
        { "0::/system.slice/docker-" ID ".scope\n", "container 4f2a9c1e03b7" },
        { "0::/system.slice/docker-" ID ".scope/init.scope\n", "container 4f2a9c1e03b7" },
        { "4:memory:/docker/" ID "\n0::/system.slice/containerd.service\n", "container 4f2a9c1e03b7" },
        { "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID ".scope", "container 4f2a9c1e03b7" },
        { "0::/system.slice/.service\n", "" },
        { "no path\n\n:", "" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char unit[DIBS_UNIT_MAX + 1] = "untouched";

        process_unit_parse(cases[i].cgroups, unit, sizeof unit);
        assert_string_equal(unit, cases[i].unit);
    }
}

static void the_details_of_this_process_are_right(void **state)
{
    struct process_details details;
    char here[DIBS_DIRECTORY_MAX + 1];

    (void) state;
    assert_non_null(getcwd(here, sizeof here));
    process_details(getpid(), true, &details);
    assert_string_equal(details.directory, here);
    assert_non_null(strstr(details.arguments, "test_process"));
    process_details(getpid(), false, &details);
    assert_string_equal(details.directory, "");
    assert_string_equal(details.arguments, "");
    process_details(0, true, &details);
    assert_string_equal(details.unit, "");
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
        cmocka_unit_test(without_descriptors_nobody_is_looked_at),
        cmocka_unit_test(a_unit_or_container_is_found_in_the_cgroups),
        cmocka_unit_test(the_details_of_this_process_are_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
