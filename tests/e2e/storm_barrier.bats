#!/usr/bin/env bats
# A thousand processes that ask at the same moment, some of them killed. See storm_barrier.c.
load ../support/dibs

setup() {
    dibs_setup
    export DIBS_TIMEOUT=20s # a loaded machine is no violation; the waits are printed
}
teardown() { dibs_teardown; }

storm() {
    run "$BUILD/tests/storm_barrier" "$@"
    printf '%s\n' "$output" | sed 's/^/# /' >&3
    assert_status 0
}

@test "every process behind the barrier gets a port of its own and binds it" {
    storm workers="$(long_or 1000 200)" killed=0 rounds="$(long_or 10 1)"
}

@test "ports of processes that were killed while claiming, binding or listening are claimed again" {
    storm workers="$(long_or 1000 200)" killed="$(long_or 200 40)" rounds="$(long_or 10 3)"
}

@test "library clients behind the barrier get distinct ports, also after deaths" {
    storm workers="$(long_or 1000 200)" killed="$(long_or 200 40)" rounds="$(long_or 10 3)" library=1
}
