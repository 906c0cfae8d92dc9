#!/usr/bin/env bats
# Servers that rebind their own ports in a crowd. See storm_rebind.c.
load ../support/dibs

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "no rightful bind fails while others claim, look, reap and audit" {
    run "$BUILD/tests/storm_rebind" servers="$(long_or 200 60)" seconds="$(long_or 20 5)"
    printf '%s\n' "$output" | sed 's/^/# /' >&3
    assert_status 0
}
