#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Clients that misbehave, and one that does not. See storm_abuse.py.
load ../support/dibs
load ../support/sandbox
load ../support/serve

setup() {
    dibs_setup
    needs_root
    public_folder # several users come to the socket
}
teardown() { sandbox_teardown; }

@test "whatever clients send, good ones are served, memory stays bounded and the daemon lives" {
    SOCKET_DIR=$PUBLIC serve_start
    run "$BATS_TEST_DIRNAME/storm_abuse.py" "$SOCKET" "$DAEMON" "$(long_or 120 6)" 2000
    printf '%s\n' "$output" | sed 's/^/# /' >&3
    assert_status 0
    serve_stop
    assert_status 0
}
