#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154 # variables come from what is loaded below
# dibs run --as with real programs, many at once, and with processes that are killed.
load ../support/dibs
load ../cli/cli
load ../support/serve

setup() { dibs_setup; }
teardown() {
    [ -z "${DAEMON:-}" ] || serve_stop
    dibs_teardown
    [ -z "${OWN:-}" ] || rm -rf "$OWN"
}

# as_ordinary COMMAND...: as a user without privileges, in a folder of its own, $OWN; PostgreSQL refuses root. On a
# busy machine fifty that claim at once on two processors wait longer than usual for the ledger.
as_ordinary() {
    local user=()
    [ "$(id -u)" -ne 0 ] || user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    (cd "$OWN" && "${NETWORK[@]}" "${user[@]}" env HOME="$OWN" XDG_STATE_HOME="$OWN" XDG_CONFIG_HOME="$OWN" \
        DIBS_TIMEOUT=60s DIBS_LEDGER="sqlite:$OWN/ledger.db" DIBS_SOCKET="${SOCKET:-none}" "$@")
}

NETWORK=()
run_stack() { # run_stack COPIES WAY [any]
    as_ordinary "$PYTHON" "$BATS_TEST_DIRNAME/storm_as.py" "$DIBS" "$1" 1000 "$OWN" "${@:2}"
}
prepare_stack() {
    needs node redis-server go
    OWN=$(mktemp -d "${TMPDIR:-/tmp}/dibs-as.XXXXXX")
    GOCACHE=$BUILD/go-cache CGO_ENABLED=0 GO111MODULE=off go build -o "$OWN/other" "$DIBS_TEST_SUPPORT/stack/other.go"
    chmod 0777 "$OWN"
}

@test "copies of a stack of real programs with hard-coded numbers run at once, and each reaches its own" {
    prepare_stack
    run_stack "$(long_or 50 10)" seccomp
}

@test "the same stack runs with the numbers of a daemon that enforces claims" {
    needs_root
    needs curl
    prepare_stack
    SOCKET_DIR=$OWN serve_start --enforce
    run_stack "$(long_or 50 10)" bpf
}

@test "the same stack runs without a manifest: every number that it binds gets a port" {
    prepare_stack
    NETWORK=("$DIBS_TEST_SUPPORT/own-network") # the host may have servers with the stack's numbers
    run_stack "$(long_or 50 5)" seccomp any
}

@test "dibs and its notifier are killed at random moments: nothing hangs, and no port is left" {
    ${CC:-cc} -O1 -D_GNU_SOURCE -pthread -o "$T/calls" "$DIBS_TEST_SUPPORT/as_calls.c"
    "$PYTHON" "$BATS_TEST_DIRNAME/storm_as_kill.py" "$DIBS" "$T/calls" "$(long_or 200 60)" seccomp
}
