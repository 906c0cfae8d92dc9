#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154 # variables come from, and go to, what is loaded below
# The Node client (clients/node): with a daemon, and without one. storm_client_node.bats has the long form.
# Required ports of this file: 19700-19899.
load ../support/dibs
load ../support/serve
load ../support/npm
load ../support/node_client

setup() { node_client_setup; }
teardown() { dibs_teardown; }

@test "the Node client claims, finds and ends through a daemon, and survives what can happen to it" {
    with_daemon
    node_tests verbs.test.mjs errors.test.mjs life.test.mjs place.test.mjs abort.test.mjs
}

@test "without a daemon the Node client does the same by the program" {
    node_tests verbs.test.mjs errors.test.mjs listen.test.mjs abort.test.mjs
}

@test "the drop-ins do what get-port, portfinder and detect-port document, side by side with them" {
    needs_npm
    with_daemon
    node_tests drop_ins.test.mjs
}

@test "the Vite plugin claims the port of server, preview and hot reload, over restarts and in two worktrees" {
    needs_npm
    needs git
    with_daemon
    node_tests vite.test.mjs
}

@test "helpers for node:test, Vitest and Playwright give each test ports that end with it" {
    needs_npm
    with_daemon
    node_tests runners.test.mjs
}

@test "every example of the pages about the Node client runs" {
    needs_npm
    with_daemon
    node_tests pages.test.mjs
}
