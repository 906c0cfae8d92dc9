/* SPDX-License-Identifier: MIT */
/* A controller does not wait for the Lease of a dead process of this machine. */
#include "support/t.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kube/controller/lease_holder.h"

static int setup(void **state)
{
    struct process_view *view = calloc(1, sizeof *view);
    dibs_err err = { 0 };

    assert_non_null(view);
    ASSERT_OK(process_view_load(view, &err), &err);
    *state = view;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static void a_living_process_is_not_dead(void **state)
{
    char name[LEASE_HOLDER_NAME_MAX + 1];

    lease_holder_name(*state, name);
    assert_non_null(strstr(name, ((struct process_view *) *state)->boot_id));
    assert_false(lease_holder_is_dead(*state, name));
}

/* The identity of a process that has ended. */
static void dead_name(const struct process_view *view, char out[LEASE_HOLDER_NAME_MAX + 1])
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        lease_holder_name(view, out);
        _exit(write(ends[1], out, LEASE_HOLDER_NAME_MAX + 1) == LEASE_HOLDER_NAME_MAX + 1 ? 0 : 1);
    }
    assert_int_equal(read(ends[0], out, LEASE_HOLDER_NAME_MAX + 1), LEASE_HOLDER_NAME_MAX + 1);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void) close(ends[0]);
    (void) close(ends[1]);
}

static void a_process_that_ended_on_this_host_is_dead(void **state)
{
    char name[LEASE_HOLDER_NAME_MAX + 1];

    dead_name(*state, name);
    assert_true(lease_holder_is_dead(*state, name));
}

static void processes_of_other_hosts_are_unknown(void **state)
{
    char name[LEASE_HOLDER_NAME_MAX + 1];
    char other[LEASE_HOLDER_NAME_MAX + 8];

    dead_name(*state, name);
    (void) snprintf(other, sizeof other, "x%s", name); /* another host */
    assert_false(lease_holder_is_dead(*state, other));
    (void) snprintf(other, sizeof other, "%s", name);
    other[strlen(other) - 1] ^= 1; /* another boot */
    assert_false(lease_holder_is_dead(*state, other));
    static const char *const foreign[] = {
        "", "_", "____", "stranger", "host_1_0badcafe", "a_0_1_1_0", "a_-1_1_1_0", "a_99999999999_1_1_0"
    };
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        assert_false(lease_holder_is_dead(*state, foreign[i]));
    memset(other, '_', sizeof other - 1);
    other[sizeof other - 1] = '\0';
    assert_false(lease_holder_is_dead(*state, other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_living_process_is_not_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(a_process_that_ended_on_this_host_is_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(processes_of_other_hosts_are_unknown, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
