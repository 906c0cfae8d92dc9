#!/usr/bin/env bats
# Claims that are killed or stopped in their middle. See storm_kill.c.
load ../support/dibs

setup() { dibs_setup; }
teardown() { dibs_teardown; }

storm() {
    run "$BUILD/tests/storm_kill" "$@"
    printf '%s\n' "$output" | sed 's/^/# /' >&3
    assert_status 0
}

@test "a claim killed at any moment leaves a sound ledger and all of its batch or nothing" {
    storm kills="$(long_or 2000 150)" stops=0
}

@test "while a writer is stopped the others exit 6 within their deadline, and afterwards all goes on" {
    storm kills=0 stops="$(long_or 400 200)"
}
