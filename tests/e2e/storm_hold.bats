#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2154 # the inner shell's words; variables come from what is loaded below
# Guards, passed sockets and reserved ports, while the daemon and dibs run are killed.
load ../support/dibs
load ../cli/cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "daemon and dibs run are killed at random moments: no port stays blocked or reserved, and nothing hangs" {
    needs_root
    needs unshare
    unshare --net bash -c 'ip link set lo up && exec "$@"' own "$PYTHON" "$BATS_TEST_DIRNAME/storm_hold.py" "$DIBS" "$(long_or 200 6)" "$T"
}
