#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154 # variables come from, and go to, what is loaded below
# 8 workers of pytest-xdist with 200 tests each (in make test 2 with 5), each with a real server: no collision. And 1500
# tasks that are cancelled at any moment (in make test 9): none leaves a claim.
load ../support/dibs
load ../support/serve
load ../support/python_client

setup() {
    python_client_setup
    WORKERS=$(long_or 8 2) TESTS=$(long_or 200 5)
    TASKS=$(long_or 1500 9)
    export WORKERS TESTS TASKS PYTHON_TIMEOUT=1200
}
teardown() { dibs_teardown; }

@test "workers with real servers never collide, through a daemon" {
    with_daemon
    python_tests test_plugin.py::test_workers_with_real_servers_never_collide
}

@test "workers with real servers never collide without a daemon" {
    python_tests test_plugin.py::test_workers_with_real_servers_never_collide
}

@test "tasks that are cancelled at any moment leave no claim, with a daemon and without one" {
    python_tests test_async.py::test_a_task_that_is_cancelled_at_any_moment_and_again_leaves_nothing
    with_daemon
    python_tests test_async.py::test_a_task_that_is_cancelled_at_any_moment_and_again_leaves_nothing
}
