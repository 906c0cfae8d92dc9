#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Idempotency keys, and a daemon that is killed again and again. See storm_keys.c.
load ../support/dibs

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "a key that is asked for twice makes one claim, whenever the daemon dies" {
    run "$BUILD/tests/storm_keys" clients=8 seconds="$(long_or 60 5)"
    printf '%s\n' "$output" | sed 's/^/# /' >&3
    assert_status 0
}
