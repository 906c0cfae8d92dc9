/* SPDX-License-Identifier: MIT */
/* What a process was started with, against the real kernel. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "owner/owner.h"
#include "support/child.h"
#include "support/owner.h"

struct started {
    const char *last; /* variable, behind a great many others */
    size_t n_others;
};

static int become_sleep(void *arg)
{
    const struct started *how = arg;
    char **env = calloc(how->n_others + 2, sizeof *env);

    CHECK(env);
    for (size_t i = 0; i < how->n_others; i++)
        CHECK(asprintf(&env[i], "OTHER_%zu=%01000zu", i, i) > 0);
    env[how->n_others] = strdup(how->last);
    (void) execle("/bin/sleep", "sleep", "60", (char *) NULL, env);
    return 1;
}

/* Its program is sleep when this returns. */
static pid_t start_with(const char *last, size_t n_others)
{
    int ready[2] = { -1, -1 };
    char c = 0;

    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    struct started how = { .last = last, .n_others = n_others };
    pid_t pid = child_start(become_sleep, &how);
    (void) close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 0);
    (void) close(ready[0]);
    return pid;
}

static void assert_variable(pid_t pid, const char *name, const char *text)
{
    struct owner_view view = here();
    struct owner_facts facts = facts_of(&view, pid);
    char *found = owner_variable(&view, &facts.process, name);

    if (text) {
        assert_non_null(found);
        assert_string_equal(found, text);
    } else {
        assert_null(found);
    }
    free(found);
}

static void a_variable_is_found_by_its_whole_name(void **state)
{
    pid_t pid = start_with("TOLD=a b=c", 0);

    (void) state;
    assert_variable(pid, "TOLD", "a b=c");
    assert_variable(pid, "TOL", NULL);
    assert_variable(pid, "OLD", NULL);
    assert_variable(pid, "TOLD=a b", "c"); /* whatever is before a '=' */
    assert_variable(pid, "PATH", NULL);
    child_end(pid);
}

static void it_is_found_behind_a_megabyte_of_others(void **state)
{
    pid_t pid = start_with("TOLD=", 1000);

    (void) state;
    assert_variable(pid, "TOLD", "");
    assert_variable(pid, "TOLD_", NULL);
    child_end(pid);
}

static void the_pid_alone_says_nothing_and_who_has_ended_has_none(void **state)
{
    struct owner_view view = here();
    pid_t pid = start_with("TOLD=1", 0);
    struct owner_facts facts = facts_of(&view, pid);
    dibs_process other = facts.process;

    (void) state;
    other.start_ticks -= 2;
    assert_null(owner_variable(&view, &other, "TOLD"));
    other = facts.process;
    other.boot_id[0] = other.boot_id[0] == '0' ? '1' : '0';
    assert_null(owner_variable(&view, &other, "TOLD"));
    other = (dibs_process){ .pid = pid };
    assert_null(owner_variable(&view, &other, "TOLD"));
    (void) kill(pid, SIGKILL);
    child_await_end(pid);
    assert_null(owner_variable(&view, &facts.process, "TOLD")); /* a zombie */
    (void) child_wait(pid);
    assert_null(owner_variable(&view, &facts.process, "TOLD"));
}

/* A parent waits for its child in state D until that has become another program. */
static int wait_in_the_kernel(void *arg)
{
    (void) arg;
    if (syscall(SYS_clone, CLONE_VFORK | SIGCHLD, 0, 0, 0, 0) == 0) { /* with memory of its own */
        (void) prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(child_idle(NULL));
    }
    return 0;
}

static void nobody_waits_for_a_process_that_the_kernel_keeps(void **state)
{
    struct owner_view view = here();
    pid_t pid = child_start(wait_in_the_kernel, NULL);

    (void) state;
    for (int i = 0; i < 5000 && state_of(pid) != 'D'; i++)
        (void) poll(NULL, 0, 1);
    assert_int_equal(state_of(pid), 'D');
    struct owner_facts facts = facts_of(&view, pid);
    assert_null(owner_variable(&view, &facts.process, "PATH"));
    child_end(pid);
}

static int look_at(void *arg)
{
    const dibs_process *who = arg;
    struct owner_view view = { 0 };

    CHECK(setgid(CHILD_NOBODY) == 0 && setuid(CHILD_NOBODY) == 0);
    CHECK(owner_view_load(&view, NULL) == DIBS_OK);
    CHECK(!owner_variable(&view, who, "TOLD"));
    return 0;
}

static void what_may_not_be_read_is_not_there(void **state)
{
    struct owner_view view = here();

    (void) state;
    need_root();
    pid_t pid = start_with("TOLD=1", 0);
    struct owner_facts facts = facts_of(&view, pid);
    assert_int_equal(child_run(look_at, &facts.process), 0);
    child_end(pid);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_variable_is_found_by_its_whole_name),
        cmocka_unit_test(it_is_found_behind_a_megabyte_of_others),
        cmocka_unit_test(the_pid_alone_says_nothing_and_who_has_ended_has_none),
        cmocka_unit_test(nobody_waits_for_a_process_that_the_kernel_keeps),
        cmocka_unit_test(what_may_not_be_read_is_not_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
