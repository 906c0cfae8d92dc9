#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154 # variables come from, and go to, what is loaded below
# The long form of what client_node.bats shows: 8 workers of Vitest and of Playwright with 100 tests each, each with a real
# server, without a collision, and claims that are aborted at 2,000 random moments (in make test 2 with 3, and 40).
load ../support/dibs
load ../support/serve
load ../support/npm
load ../support/node_client

setup() {
    node_client_setup
    needs_npm
    WORKERS=$(long_or 8 2) TESTS=$(long_or 100 3)
    export WORKERS TESTS NODE_TIMEOUT=1500
}
teardown() { dibs_teardown; }

storm() {
    if [ "${DIBS_TEST_LONG:-}" = 1 ]; then
        node_tests runners.test.mjs abort.test.mjs life.test.mjs
    else
        node_tests abort.test.mjs # client_node.bats has the rest
    fi
}

@test "Node's workers with real servers never collide, and aborted claims leave nothing, through a daemon" {
    with_daemon
    storm
}

@test "Node's workers with real servers never collide, and aborted claims leave nothing, without a daemon" {
    storm
}
