#!/usr/bin/env bats
# shellcheck disable=SC2154 # variables that the support files set
# The tables of docs/HOLD.md: real thieves against each level, and real programs as owners.
load ../support/dibs
load ../support/sandbox

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "each level stops what docs/HOLD.md says, and the programs work that it says; auto breaks none" {
    needs_root
    needs unshare node nginx redis-server
    [ -d /usr/lib/postgresql ] || needs initdb
    # shellcheck disable=SC2016 # the inner shell's words
    timeout -k 5 200 unshare --net bash -c 'ip link set lo up && exec /usr/bin/python3 "$0" "$DIBS" "$1"' \
        "$BATS_TEST_DIRNAME/hold_tables.py" "$BATS_TEST_DIRNAME/../../docs/HOLD.md" >"$T/out"
    not_measured=$(<"$T/out")
    [ -z "$not_measured" ] || skip "$not_measured (this kernel or this container cannot; the other columns are current)"
}
