#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Clients of a daemon that is killed again and again. See storm_serve.c.
load ../support/dibs

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "in a storm through a daemon that dies again and again no two conflicting claims live at once and none is lost" {
    run "$BUILD/tests/storm_serve" clients=24 seconds="$(long_or 60 8)"
    printf '%s\n' "$output" | sed 's/^/# /' >&3
    assert_status 0
}
