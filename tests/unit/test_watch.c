/* SPDX-License-Identifier: MIT */
/* Real processes that die, and the reports of it. */
#include "host/process_watch.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "support/child.h"
#include "support/process.h"

enum { CROWD = 1000, TURN_MS = 5000, TURNS_MAX = 200 };

struct scene {
    struct process_view view;
    struct loop *loop;
    struct watch *watch;
    size_t n_reported;
    size_t n_turns;
    size_t n_crowd;
    pid_t child[CROWD];
    dibs_process who[CROWD];
    int reported[CROWD]; /* how often */
};

static void note_death(void *ctx, const dibs_process *who)
{
    struct scene *s = ctx;

    s->n_reported++;
    for (size_t i = 0; i < s->n_crowd; i++)
        if (memcmp(&s->who[i], who, sizeof *who) == 0)
            s->reported[i]++;
}

static dibs_status begin(struct scene *s, size_t budget, dibs_err *err)
{
    dibs_status status = loop_open(&s->loop, err);
    struct watch_options options = {
        .loop = s->loop, .view = &s->view, .budget = budget, .died = note_death, .ctx = s
    };

    return status == DIBS_OK ? watch_open(&options, &s->watch, err) : status;
}

static struct scene *scene(size_t budget)
{
    struct scene *s = calloc(1, sizeof *s);
    dibs_err err = { 0 };

    assert_non_null(s);
    s->view = here();
    ASSERT_OK(begin(s, budget, &err), &err);
    return s;
}

static void end(struct scene *s)
{
    watch_close(s->watch);
    loop_close(s->loop);
    for (size_t i = 0; i < s->n_crowd; i++)
        if (s->child[i] > 0)
            child_end(s->child[i]);
    free(s);
}

static void add(struct scene *s, const dibs_process *who)
{
    dibs_err err = { 0 };

    ASSERT_OK(watch_add(s->watch, who, &err), &err);
}

static int start_some(struct scene *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct process_facts facts = { 0 };

        s->child[i] = child_fork(child_idle, NULL);
        s->n_crowd = i + 1;
        CHECK(process_identify(&s->view, s->child[i], &facts, NULL) == DIBS_OK);
        s->who[i] = facts.process;
    }
    return 0;
}

/* Children that are watched. */
static void crowd(struct scene *s, size_t n)
{
    assert_int_equal(start_some(s, n), 0);
    for (size_t i = 0; i < n; i++)
        add(s, &s->who[i]);
}

static void turns_until_reported(struct scene *s, size_t n)
{
    dibs_err err = { 0 };

    for (s->n_turns = 0; s->n_turns < TURNS_MAX && s->n_reported < n; s->n_turns++)
        ASSERT_OK(loop_turn(s->loop, TURN_MS, &err), &err);
    assert_int_equal(s->n_reported, n);
}

static void nothing_more_is_reported(struct scene *s)
{
    size_t n = s->n_reported;

    for (int i = 0; i < 3; i++)
        assert_int_equal(loop_turn(s->loop, 0, NULL), DIBS_OK);
    assert_int_equal(s->n_reported, n);
}

/* No process is polled: nothing ends the wait early. */
static void is_idle(struct scene *s)
{
    enum { WAIT_MS = 150 };
    int64_t start_ms = clock_monotonic_ms();

    assert_int_equal(loop_turn(s->loop, WAIT_MS, NULL), DIBS_OK);
    assert_true(clock_monotonic_ms() - start_ms >= WAIT_MS - 1);
}

static void a_thousand_deaths_at_once_are_each_reported_once(void **state)
{
    struct scene *s = scene(0);

    (void) state;
    crowd(s, CROWD);
    assert_int_equal(watch_count(s->watch).by_pidfd, CROWD);
    is_idle(s);
    int64_t start_ms = clock_monotonic_ms();
    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(kill(s->child[i], SIGKILL), 0);
    for (size_t i = 0; i < CROWD; i++)
        child_await_end(s->child[i]);
    turns_until_reported(s, CROWD);
    assert_in_range(s->n_turns, 1, 8);
    print_message("%d processes died and were reported within %d ms, in %zu turns\n", CROWD,
                  (int) (clock_monotonic_ms() - start_ms), s->n_turns);
    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(s->reported[i], 1);
    nothing_more_is_reported(s);
    assert_int_equal(watch_count(s->watch).by_pidfd, 0);
    end(s);
}

static void a_process_is_watched_until_its_last_claim_is_dropped(void **state)
{
    struct scene *s = scene(0);

    (void) state;
    crowd(s, 2);
    add(s, &s->who[0]);
    add(s, &s->who[1]);
    assert_int_equal(watch_count(s->watch).by_pidfd, 2);
    watch_drop(s->watch, &s->who[0]);
    watch_drop(s->watch, &s->who[1]);
    assert_int_equal(watch_count(s->watch).by_pidfd, 2);
    watch_drop(s->watch, &s->who[0]);
    assert_int_equal(watch_count(s->watch).by_pidfd, 1);
    watch_drop(s->watch, &s->who[0]); /* not watched: nothing happens */
    assert_int_equal(kill(s->child[0], SIGKILL), 0);
    assert_int_equal(kill(s->child[1], SIGKILL), 0);
    turns_until_reported(s, 1);
    assert_int_equal(s->reported[1], 1);
    nothing_more_is_reported(s);
    end(s);
}

static void a_process_that_was_dead_before_is_reported_in_the_next_turn(void **state)
{
    struct scene *s = scene(0);
    pid_t child = child_fork(child_idle, NULL);
    dibs_process ended = facts_of(&s->view, child).process;

    (void) state;
    child_end(child);
    /* Another one of the same number; a boot that is over. */
    dibs_process earlier = facts_of(&s->view, getpid()).process;
    earlier.start_ticks -= 1000;
    dibs_process before_boot = facts_of(&s->view, getpid()).process;
    before_boot.boot_id[0] = before_boot.boot_id[0] == '0' ? '1' : '0';
    add(s, &ended);
    add(s, &earlier);
    add(s, &before_boot);
    add(s, &before_boot);
    assert_int_equal(s->n_reported, 0); /* not from within watch_add() */
    turns_until_reported(s, 3);
    assert_int_equal(s->n_turns, 1);
    nothing_more_is_reported(s);

    add(s, &ended);
    watch_drop(s->watch, &ended); /* no claim needs it any more */
    nothing_more_is_reported(s);
    end(s);
}

static void a_zombie_counts_as_dead(void **state)
{
    struct scene *s = scene(0);

    (void) state;
    crowd(s, 1);
    assert_int_equal(kill(s->child[0], SIGKILL), 0);
    turns_until_reported(s, 1);
    assert_int_equal(state_of(s->child[0]), 'Z'); /* nobody has waited for it yet */
    add(s, &s->who[0]);
    turns_until_reported(s, 2);
    end(s);
}

/* More processes than the budget: all deaths are reported, and waiting processes move up. */
static void beyond_the_budget_every_death_is_reported_in_turn(void **state)
{
    enum { BUDGET = 8, N = 50 };
    struct scene *s = scene(BUDGET);

    (void) state;
    crowd(s, N);
    assert_int_equal(watch_count(s->watch).by_pidfd, BUDGET);
    assert_int_equal(watch_count(s->watch).in_turn, N - BUDGET);
    add(s, &s->who[N - 1]);

    int64_t start_ms = clock_monotonic_ms();
    for (size_t i = 20; i < N; i++)
        assert_int_equal(kill(s->child[i], SIGKILL), 0);
    turns_until_reported(s, 30);
    print_message("30 deaths beyond the budget reported within %d ms\n",
                  (int) (clock_monotonic_ms() - start_ms));
    assert_int_equal(watch_count(s->watch).in_turn, 12);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(s->reported[i], i >= 20);

    /* There is room for all of them: none is polled any more. */
    for (size_t i = 0; i < 12; i++)
        watch_drop(s->watch, &s->who[i]);
    for (int i = 0; i < TURNS_MAX && watch_count(s->watch).in_turn > 0; i++)
        assert_int_equal(loop_turn(s->loop, TURN_MS, NULL), DIBS_OK);
    assert_int_equal(watch_count(s->watch).by_pidfd, 8);
    is_idle(s);
    for (size_t i = 12; i < 20; i++)
        assert_int_equal(kill(s->child[i], SIGKILL), 0);
    turns_until_reported(s, 38);
    nothing_more_is_reported(s);
    end(s);
}

static void new_processes_do_not_delay_the_check_of_others(void **state)
{
    struct scene *s = scene(1);
    dibs_process me = facts_of(&s->view, getpid()).process;

    (void) state;
    crowd(s, 2);
    assert_int_equal(kill(s->child[1], SIGKILL), 0);
    for (int i = 0; i < 2 * WATCH_ROUND_MS && s->n_reported == 0; i++) {
        add(s, &me);
        assert_int_equal(loop_turn(s->loop, 1, NULL), DIBS_OK);
        watch_drop(s->watch, &me);
    }
    assert_int_equal(s->reported[1], 1);
    end(s);
}

/* `arg` is the descriptor itself: the first thread's stack, where it was, may be gone. */
static void *thread_waits(void *arg)
{
    _exit(read((int) (intptr_t) arg, &(char){ 0 }, 1) == 0 ? 0 : 1);
}

/* Its first thread ends at once; the other lives until the pipe is closed. */
static int leaves_a_thread(void *arg)
{
    int *pipe_fd = arg;
    pthread_t thread = 0;

    (void) close(pipe_fd[1]);
    if (pthread_create(&thread, NULL, thread_waits, (void *) (intptr_t) pipe_fd[0]) != 0)
        return 1;
    pthread_exit(NULL);
}

static void a_process_lives_as_long_as_one_of_its_threads(void **state)
{
    struct scene *s = scene(0);
    struct process_facts facts = { 0 };
    int pipe_fd[2];

    (void) state;
    assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
    s->child[0] = child_fork(leaves_a_thread, pipe_fd);
    s->n_crowd = 1;
    s->who[0] = facts_of(&s->view, s->child[0]).process;
    add(s, &s->who[0]);
    UNTIL(state_of(s->child[0]) == 'Z');
    assert_int_equal(state_of(s->child[0]), 'Z');
    nothing_more_is_reported(s);
    assert_true(watch_knows(s->watch, s->child[0], watch_moment(s->watch), &facts));
    /* One that is added only now, too. */
    watch_drop(s->watch, &s->who[0]);
    add(s, &s->who[0]);
    nothing_more_is_reported(s);
    assert_int_equal(watch_count(s->watch).by_pidfd, 1);
    (void) close(pipe_fd[1]);
    turns_until_reported(s, 1);
    (void) close(pipe_fd[0]);
    end(s);
}

static void *thread_executes(void *arg)
{
    if (read(*(int *) arg, &(char){ 0 }, 1) == 0)
        (void) execlp("sleep", "sleep", "60", (char *) NULL);
    _exit(127);
}

/* The program is replaced by a thread that is not the first, which takes over the first one's number. */
static int executes(void *arg)
{
    int *pipe_fd = arg;
    pthread_t thread = 0;

    (void) close(pipe_fd[1]);
    if (pthread_create(&thread, NULL, thread_executes, &pipe_fd[0]) != 0)
        return 1;
    (void) pthread_join(thread, NULL);
    return 0;
}

static bool runs(struct scene *s, const char *command)
{
    struct process_facts facts = { 0 };

    return process_identify(&s->view, s->child[0], &facts, NULL) == DIBS_OK &&
           !strcmp(facts.command, command);
}

static void another_program_in_the_same_process_is_no_death(void **state)
{
    struct scene *s = scene(0);
    int pipe_fd[2];

    (void) state;
    assert_int_equal(pipe2(pipe_fd, O_CLOEXEC), 0);
    s->child[0] = child_fork(executes, pipe_fd);
    s->n_crowd = 1;
    s->who[0] = facts_of(&s->view, s->child[0]).process;
    add(s, &s->who[0]);
    (void) close(pipe_fd[1]);
    UNTIL(runs(s, "sleep"));
    assert_true(runs(s, "sleep"));
    nothing_more_is_reported(s);
    assert_int_equal(kill(s->child[0], SIGKILL), 0);
    turns_until_reported(s, 1);
    (void) close(pipe_fd[0]);
    end(s);
}

static void a_watched_process_is_known_while_it_lives(void **state)
{
    struct scene *s = scene(1);
    struct process_facts facts = { .uid = 7 };

    (void) state;
    crowd(s, 2);
    struct process_facts seen = facts_of(&s->view, s->child[0]);
    assert_true(watch_knows(s->watch, s->child[0], watch_moment(s->watch), &facts));
    assert_memory_equal(&facts.process, &s->who[0], sizeof facts.process);
    assert_int_equal(facts.uid, seen.uid);
    assert_int_equal(facts.ppid, getpid());
    assert_string_equal(facts.command, seen.command);

    facts = (struct process_facts){ .uid = 7 };
    assert_false(watch_knows(s->watch, s->child[1], watch_moment(s->watch), &facts)); /* has no pidfd */
    assert_false(watch_knows(s->watch, getpid(), watch_moment(s->watch), &facts));    /* is not watched */
    assert_int_equal(kill(s->child[0], SIGKILL), 0);
    child_await_end(s->child[0]);
    assert_false(watch_knows(s->watch, s->child[0], watch_moment(s->watch),
                             &facts)); /* although nothing was reported yet */
    assert_int_equal(facts.uid, 7);
    turns_until_reported(s, 1);
    end(s);
}

static void a_process_added_after_a_moment_was_not_known_then(void **state)
{
    struct scene *s = scene(2);
    struct process_facts facts = { .uid = 7 };

    (void) state;
    crowd(s, 1);
    uint64_t moment = watch_moment(s->watch);
    dibs_process me = facts_of(&s->view, getpid()).process;
    add(s, &me);
    assert_true(watch_knows(s->watch, getpid(), watch_moment(s->watch), &facts));
    assert_true(watch_knows(s->watch, s->child[0], moment, &facts));
    facts = (struct process_facts){ .uid = 7 };
    assert_false(watch_knows(s->watch, getpid(), moment, &facts));
    assert_int_equal(facts.uid, 7);
    assert_true(watch_knows(s->watch, getpid(), watch_moment(s->watch), &facts));
    /* A process that was dropped and is added again is a new one: another may have had its pid meanwhile. */
    moment = watch_moment(s->watch);
    watch_drop(s->watch, &s->who[0]);
    add(s, &s->who[0]);
    assert_false(watch_knows(s->watch, s->child[0], moment, &facts));
    end(s);
}

/* A record that says nothing, and one of a namespace that is not below ours. */
static void a_process_of_unknown_state_stays_watched(void **state)
{
    struct scene *s = scene(0);
    dibs_process nobody = { .pid = 1 };

    (void) state;
    add(s, &nobody);
    add(s, &nobody);
    assert_int_equal(watch_count(s->watch).far, 1);
    nothing_more_is_reported(s);
    assert_int_equal(s->n_reported, 0);
    watch_drop(s->watch, &nobody);
    watch_drop(s->watch, &nobody);
    assert_int_equal(watch_count(s->watch).far, 0);
    end(s);
}

static void a_process_that_could_not_be_searched_is_searched_again(void **state)
{
    struct scene *s = scene(0);
    struct rlimit limit = { 0 };
    dibs_process gone = facts_of(&s->view, getpid()).process;

    (void) state;
    need_the_host();
    gone.pidns = 1; /* no process is in such a namespace: dead, if we may look */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    struct rlimit none = { .rlim_cur = 1, .rlim_max = limit.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    add(s, &gone);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(watch_count(s->watch).far, 1);
    turns_until_reported(s, 1);
    assert_int_equal(watch_count(s->watch).far, 0);
    nothing_more_is_reported(s);
    end(s);
}

static struct watch *watch_of_death;
static dibs_process dead_again;
static int n_again;

static void add_again(void *ctx, const dibs_process *who)
{
    (void) ctx;
    if (n_again++ < 3)
        (void) watch_add(watch_of_death, who, NULL);
}

static void died_may_add_the_dead_process_again(void **state)
{
    struct scene *s = scene(0);
    struct watch_options options = { .loop = s->loop, .view = &s->view, .died = add_again };
    pid_t child = child_fork(child_idle, NULL);

    (void) state;
    dead_again = facts_of(&s->view, child).process;
    assert_int_equal(watch_open(&options, &watch_of_death, NULL), DIBS_OK);
    assert_int_equal(watch_add(watch_of_death, &dead_again, NULL), DIBS_OK);
    child_end(child);
    for (int i = 1; i <= 4; i++) { /* once in a turn, not for ever in one */
        assert_int_equal(loop_turn(s->loop, TURN_MS, NULL), DIBS_OK);
        assert_int_equal(n_again, i);
    }
    watch_close(watch_of_death);
    end(s);
}

/* ---- few descriptors ---- */

static int watches_with_few_descriptors(void *arg)
{
    enum { N = 40 };
    struct scene *s = arg;
    struct rlimit few = { .rlim_cur = 16, .rlim_max = 24 };
    struct rlimit now = { 0 };

    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
    CHECK(begin(s, 0, NULL) == DIBS_OK);
    CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == 24); /* as far up as it may */
    CHECK(start_some(s, N) == 0);
    for (size_t i = 0; i < N; i++)
        CHECK(watch_add(s->watch, &s->who[i], NULL) == DIBS_OK);
    CHECK(watch_count(s->watch).by_pidfd == 12); /* half of a low limit is left to others */
    CHECK(watch_count(s->watch).in_turn == N - 12);
    for (size_t i = 0; i < N; i++)
        CHECK(kill(s->child[i], SIGKILL) == 0);
    for (int i = 0; i < TURNS_MAX && s->n_reported < N; i++)
        CHECK(loop_turn(s->loop, TURN_MS, NULL) == DIBS_OK);
    for (size_t i = 0; i < N; i++)
        CHECK(s->reported[i] == 1);
    return 0;
}

static void the_budget_follows_the_limit_of_descriptors(void **state)
{
    struct scene *s = calloc(1, sizeof *s);

    (void) state;
    assert_non_null(s);
    s->view = here();
    assert_int_equal(child_run(watches_with_few_descriptors, s), 0);
    free(s);
}

static int watches_without_descriptors(void *arg)
{
    enum { N = 3 };
    struct scene *s = arg;
    struct rlimit none = { .rlim_cur = 1, .rlim_max = 64 };

    CHECK(start_some(s, N) == 0);
    /* The kernel refuses every new descriptor, as it would when all are in use. */
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    for (size_t i = 0; i < N; i++)
        CHECK(watch_add(s->watch, &s->who[i], NULL) == DIBS_OK);
    CHECK(watch_count(s->watch).in_turn == N);
    child_end(s->child[0]);
    for (int i = 0; i < TURNS_MAX && s->n_reported < 1; i++)
        CHECK(loop_turn(s->loop, TURN_MS, NULL) == DIBS_OK);
    CHECK(s->reported[0] == 1);

    none.rlim_cur = 64;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    for (int i = 0; i < TURNS_MAX && watch_count(s->watch).by_pidfd < N - 1; i++)
        CHECK(loop_turn(s->loop, TURN_MS, NULL) == DIBS_OK);
    CHECK(watch_count(s->watch).by_pidfd == N - 1);
    CHECK(s->n_reported == 1);
    return 0;
}

static void without_a_free_descriptor_deaths_are_reported_in_turn(void **state)
{
    struct scene *s = scene(0);

    (void) state;
    assert_int_equal(child_run(watches_without_descriptors, s), 0);
    end(s);
}

/* ---- another pid namespace ---- */

static int reports_and_waits(void *arg)
{
    struct process_view view = { 0 };
    struct process_facts me = { 0 };
    int out = *(int *) arg;

    if (process_view_load(&view, NULL) != DIBS_OK ||
        process_identify(&view, getpid(), &me, NULL) != DIBS_OK ||
        write(out, &me.process, sizeof me.process) != (ssize_t) sizeof me.process)
        return 1;
    return child_idle(NULL);
}

static int below(void *arg)
{
    return child_in_new_pidns(reports_and_waits, arg);
}

static void a_process_of_a_pid_namespace_below_is_watched_by_its_pid_here(void **state)
{
    struct scene *s = scene(1);
    struct process_facts facts = { 0 };
    int report[2];

    (void) state;
    need_the_host();
    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    s->child[0] = child_fork(below, &report[1]);
    s->n_crowd = 1;
    assert_int_equal(read(report[0], &s->who[0], sizeof s->who[0]), sizeof s->who[0]);
    assert_int_equal(s->who[0].pid, 1);
    assert_true(s->who[0].pidns != s->view.pidns);
    add(s, &s->who[0]);
    assert_int_equal(watch_count(s->watch).by_pidfd, 1);
    assert_false(
        watch_knows(s->watch, 1, watch_moment(s->watch), &facts)); /* our own pid 1 is somebody else */
    pid_t there = process_pid_here(&s->view, &s->who[0]);
    nothing_more_is_reported(s);

    /* Without a descriptor of its own it is checked in turn, and reported as well. */
    dibs_process me = facts_of(&s->view, getpid()).process;
    watch_drop(s->watch, &s->who[0]);
    add(s, &me);
    add(s, &s->who[0]);
    assert_int_equal(watch_count(s->watch).in_turn, 1);
    assert_int_equal(kill(there, SIGKILL), 0);
    turns_until_reported(s, 1);
    assert_int_equal(s->reported[0], 1);
    add(s, &s->who[0]); /* dead already, and in a namespace without anybody */
    turns_until_reported(s, 2);
    (void) close(report[0]);
    (void) close(report[1]);
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_deaths_at_once_are_each_reported_once),
        cmocka_unit_test(a_process_is_watched_until_its_last_claim_is_dropped),
        cmocka_unit_test(a_process_that_was_dead_before_is_reported_in_the_next_turn),
        cmocka_unit_test(a_zombie_counts_as_dead),
        cmocka_unit_test(beyond_the_budget_every_death_is_reported_in_turn),
        cmocka_unit_test(new_processes_do_not_delay_the_check_of_others),
        cmocka_unit_test(a_process_lives_as_long_as_one_of_its_threads),
        cmocka_unit_test(another_program_in_the_same_process_is_no_death),
        cmocka_unit_test(a_watched_process_is_known_while_it_lives),
        cmocka_unit_test(a_process_added_after_a_moment_was_not_known_then),
        cmocka_unit_test(a_process_of_unknown_state_stays_watched),
        cmocka_unit_test(a_process_that_could_not_be_searched_is_searched_again),
        cmocka_unit_test(died_may_add_the_dead_process_again),
        cmocka_unit_test(the_budget_follows_the_limit_of_descriptors),
        cmocka_unit_test(without_a_free_descriptor_deaths_are_reported_in_turn),
        cmocka_unit_test(a_process_of_a_pid_namespace_below_is_watched_by_its_pid_here),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
