#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154 # variables come from what is loaded below
# dibs run --as with real programs, many at once, and with processes that are killed. DIBS_TEST_AS as in as.bats.
load ../support/dibs
load ../cli/cli

WAY=${DIBS_TEST_AS:-seccomp}

setup() { dibs_setup; }
teardown() {
    dibs_teardown
    [ -z "${OWN:-}" ] || rm -rf "$OWN"
}

# as_ordinary COMMAND...: as a user without privileges, in a folder of its own, $OWN; PostgreSQL refuses root.
as_ordinary() {
    local user=()
    [ "$(id -u)" -ne 0 ] || user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    # A network of its own: the host may have servers with the stack's numbers.
    (cd "$OWN" && "$DIBS_TEST_SUPPORT/own-network" "${user[@]}" env HOME="$OWN" XDG_STATE_HOME="$OWN" XDG_CONFIG_HOME="$OWN" \
        DIBS_LEDGER="sqlite:$OWN/ledger.db" DIBS_SOCKET=none "$@")
}

prepare_stack() {
    needs node redis-server go
    OWN=$(mktemp -d "${TMPDIR:-/tmp}/dibs-as.XXXXXX")
    GOCACHE=$BUILD/go-cache CGO_ENABLED=0 GO111MODULE=off go build -o "$OWN/other" "$DIBS_TEST_SUPPORT/stack/other.go"
    chmod 0777 "$OWN"
}

@test "copies of a stack of real programs with hard-coded numbers run at once, and each reaches its own" {
    prepare_stack
    as_ordinary "$PYTHON" "$BATS_TEST_DIRNAME/storm_as.py" "$DIBS" "$(long_or 50 10)" 1000 "$OWN" "$WAY"
}

@test "the same stack runs without a manifest: every number that it binds gets a port" {
    [ "$WAY" = seccomp ] || skip "a hook of the kernel cannot wait for the ledger"
    prepare_stack
    as_ordinary "$PYTHON" "$BATS_TEST_DIRNAME/storm_as.py" "$DIBS" "$(long_or 50 5)" 1000 "$OWN" "$WAY" any
}

@test "dibs and its notifier are killed at random moments: nothing hangs, and no port is left" {
    ${CC:-cc} -O1 -D_GNU_SOURCE -pthread -o "$T/calls" "$DIBS_TEST_SUPPORT/as_calls.c"
    "$PYTHON" "$BATS_TEST_DIRNAME/storm_as_kill.py" "$DIBS" "$T/calls" "$(long_or 200 60)" "$WAY"
}
