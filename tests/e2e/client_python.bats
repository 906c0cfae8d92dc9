#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154 # variables come from, and go to, what is loaded below
# The Python client (clients/python), its plugin for pytest and its portpicker: with a daemon, and without one.
# Required ports of this file: 19500-19699.
load ../support/dibs
load ../support/serve
load ../support/python_client

setup() { python_client_setup; }
teardown() { dibs_teardown; }

client=(test_verbs.py test_errors.py test_async.py test_listen.py test_portpicker.py)

@test "the Python client claims, finds and ends through a daemon, and survives what can happen to it" {
    with_daemon
    python_tests "${client[@]}" test_place.py
}

@test "without a daemon the Python client does the same by the program" {
    python_tests "${client[@]}"
}

@test "ports of the pytest plugin are nobody else's, and end with their worker, through a daemon" {
    with_daemon
    python_tests test_plugin.py
}

@test "without a daemon workers have ports of their own, too, and one that is killed leaves nothing" {
    python_tests test_plugin.py -k "workers or killed_worker"
}

@test "every example of the pages about the Python client runs" {
    with_daemon
    python_tests test_pages.py
}
