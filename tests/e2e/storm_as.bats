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
    (cd "$OWN" && "${user[@]}" env HOME="$OWN" XDG_STATE_HOME="$OWN" XDG_CONFIG_HOME="$OWN" \
        DIBS_LEDGER="sqlite:$OWN/ledger.db" DIBS_SOCKET=none "$@")
}

@test "copies of a stack of real programs with hard-coded numbers run at once, and each reaches its own" {
    needs node redis-server go
    OWN=$(mktemp -d "${TMPDIR:-/tmp}/dibs-as.XXXXXX")
    GOCACHE=$BUILD/go-cache CGO_ENABLED=0 GO111MODULE=off go build -o "$OWN/other" "$DIBS_TEST_SUPPORT/stack/other.go"
    chmod 0777 "$OWN"
    copies=$(long_or 50 10)
    as_ordinary "$PYTHON" "$BATS_TEST_DIRNAME/storm_as.py" "$DIBS" "$copies" 1000 "$OWN" "$WAY"
}

@test "dibs and its notifier are killed at random moments: nothing hangs, and no port is left" {
    ${CC:-cc} -O1 -D_GNU_SOURCE -pthread -o "$T/calls" "$DIBS_TEST_SUPPORT/as_calls.c"
    "$PYTHON" "$BATS_TEST_DIRNAME/storm_as_kill.py" "$DIBS" "$T/calls" "$(long_or 200 60)" "$WAY"
}
