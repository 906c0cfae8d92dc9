#!/usr/bin/env bats
# Claims, releases, hand-overs, renewals and deaths, judged by the clients' own histories. See storm_mix.c.
load ../support/dibs

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "in a storm of claims and deaths no two conflicting claims live at once, none is lost, none leaks" {
    run "$BUILD/tests/storm_mix" clients=64 seconds="$(long_or 60 8)"
    printf '%s\n' "$output" | sed 's/^/# /' >&3
    assert_status 0
}
