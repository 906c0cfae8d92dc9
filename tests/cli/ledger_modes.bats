#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# strict, fallback and mru: what happens without a ledger. Ports of this file: 14100-14199.
# A daemon without its ledger does not start.
# bats file_tags=unserved
bats_require_minimum_version 1.5.0
load ../support/dibs
load cli

setup() {
    dibs_setup
    export DIBS_MRU_FILE=$T/runtime/dibs/mru
}
teardown() { dibs_teardown; }

# no_ledger: a place where none can be made, also for root.
no_ledger() {
    : >"$T/file"
    export DIBS_LEDGER=sqlite:$T/file/ledger.db
}

degraded() { # the last try was answered, and said so
    [ "$code" -eq 0 ] || complain "failed"
    says warning
    says degraded
    [ "$(wc -l <"$T/err")" -eq 1 ] || complain "more than one line"
}

@test "strict: without a ledger exit 6 and no port" {
    no_ledger
    refused 6 claim
    says "$T/file"
    refused 6 claim --ledger-mode strict
    refused 6 run touch "$T/ran"
    [ ! -e "$T/ran" ]
    [ ! -e "$DIBS_MRU_FILE" ]
}

@test "fallback: an unnamed random port, with a warning, the field, and exit 0" {
    no_ledger
    export DIBS_LEDGER_MODE=fallback
    try claim
    degraded
    [ "$out" -ge 20000 ]
    [ "$out" -le 32767 ]
    try claim --json
    degraded
    json 'd[0]["degraded"] is True and "token" not in d[0]'
    try claim -q
    degraded
    [ -s "$DIBS_MRU_FILE" ]
}

@test "fallback: what the MRU file gave is not given again at once" {
    no_ledger
    export DIBS_LEDGER_MODE=fallback
    try claim -n 3 --range 14100-14105
    degraded
    cp "$T/out" "$T/first"
    try claim -n 3 --range 14100-14105
    degraded
    [ "$(sort -u "$T/first" "$T/out" | wc -l)" -eq 6 ]
    try claim --range 14100-14105
    [ "$code" -eq 4 ]
}

@test "fallback: a port in use is not handed out" {
    no_ledger
    export DIBS_LEDGER_MODE=fallback
    listen 14110
    try claim --range 14110-14111
    degraded
    [ "$out" = 14111 ]
}

@test "fallback: named, required, preferred, kept, pooled and contiguous requests need the ledger" {
    no_ledger
    export DIBS_LEDGER_MODE=fallback
    for options in web '--port 14120' '--prefer 14120' '--declare 14120' --keep '--pool default' '-n 2 --contiguous' \
        '--dry-run' '-n 2 web'; do
        # shellcheck disable=SC2086 # several words
        refused 6 claim $options
    done
    for command in 'get web' ls log 'renew web' 'transfer web --keep' 'who 14120' 'explain 14120' \
        'assert web' pool 'snapshot export' reap repair 'run -p web true'; do
        # shellcheck disable=SC2086 # several words
        refused 6 $command
    done
    [ ! -e "$DIBS_MRU_FILE" ]
}

@test "a port from the fallback is released by its number, and a second release ends nothing" {
    for mode in fallback mru; do
        no_ledger
        export DIBS_LEDGER_MODE=$mode
        try claim --range 14140-14140
        degraded
        try claim --range 14140-14140
        [ "$code" -eq 4 ]
        try release 14140 --json
        degraded
        says 'claims in the ledger stay as they are'
        json 'd == {"released": 1}'
        try claim --range 14140-14140
        degraded
        try release --all-mine --json
        degraded
        json 'd == {"released": 1}'
        for target in 14140 web '--token 1.1.00000000000000000000000000000000'; do
            # shellcheck disable=SC2086 # several words
            try release $target
            [ "$code" -eq 0 ] || complain "exit $code"
            says 'nothing of yours to release'
            says 'degraded'
        done
    done
}

@test "fallback: a port that the MRU file gave is released although the ledger is there again" {
    no_ledger
    export DIBS_LEDGER_MODE=fallback
    try claim --range 14141-14141
    degraded
    DIBS_LEDGER=sqlite:$T/ledger.db ok release 14141 --json
    json 'd == {"released": 1}'
    try claim --range 14141-14141
    degraded
    DIBS_LEDGER=sqlite:$T/ledger.db ok release --all-mine --json
    json 'd == {"released": 1}'
}

@test "a release from a ledger that cannot be read is exit 6 and says what stays" {
    no_ledger
    refused 6 release web
    says 'a claim that a process or a lease holds ends with it, a kept one stays'
    export DIBS_LEDGER=sqlite:$T/ledger.db
    ok get web
    rm -f "$T"/ledger.db-*
    head -c 4096 /dev/urandom >"$T/ledger.db"
    refused 6 release web --ledger-mode fallback
    says 'a kept one stays'
}

@test "fallback: run works with a port that has no name" {
    no_ledger
    export DIBS_LEDGER_MODE=fallback
    try run printenv PORT
    degraded
    [[ $out =~ ^[0-9]+$ ]]
}

@test "fallback with a ledger is not degraded" {
    export DIBS_LEDGER_MODE=fallback
    ok claim --json
    json 'd[0]["degraded"] is False'
    [ ! -e "$DIBS_MRU_FILE" ]
}

@test "mru: the ledger is left alone" {
    export DIBS_LEDGER_MODE=mru
    try claim
    degraded
    [ ! -e "$T/ledger.db" ]
    refused 6 claim web
    refused 6 ls
}

@test "an error of the MRU file names that file, not the ledger's setting" {
    no_ledger
    (umask 077 && mkdir -p "$DIBS_MRU_FILE")
    refused 6 claim --ledger-mode fallback
    says "recently used ports $DIBS_MRU_FILE: ledger $DIBS_MRU_FILE: it is not a regular file"
    case $errs in *DIBS_LEDGER*) complain "advises to change another setting" ;; esac
    rmdir "$DIBS_MRU_FILE"
    try claim --ledger-mode fallback --range 14190-14190
    degraded
    refused 4 claim --ledger-mode fallback --range 14190-14190
    says "recently used ports $DIBS_MRU_FILE: no free port left"
}

@test "an MRU file that is none is made again" {
    export DIBS_LEDGER_MODE=mru
    mkdir -p "${DIBS_MRU_FILE%/*}"
    chmod 700 "${DIBS_MRU_FILE%/*}"
    printf 'v1 tcp * 14130 5000000 boot 1\n%s\n' "$(printf 'x%.0s' {1..5000})" >"$DIBS_MRU_FILE"
    try claim --range 14130-14131
    degraded
    first=$out
    try claim --range 14130-14131
    [ "$code" -eq 0 ]
    [ "$out" != "$first" ]
}

@test "a locked ledger is exit 6 within the timeout, also in fallback mode" {
    ok claim
    lock_ledger
    for mode in strict fallback; do
        before=$SECONDS
        refused 6 claim --ledger-mode $mode --timeout 300ms
        within 1 "$before"
    done
    [ ! -e "$DIBS_MRU_FILE" ]
    for fix in '' --fix; do
        try doctor $fix --timeout 300ms
        [ "$code" -eq 1 ]
        prints 'another process holds it'
        case $out in *rebuilt*) complain 'rebuilt' ;; esac
    done
    unlock_ledger
}

@test "a damaged ledger is exit 6, also in fallback mode" {
    ok claim
    rm -f "$T"/ledger.db-*
    head -c 4096 /dev/urandom >"$T/ledger.db"
    refused 6 claim
    refused 6 claim --ledger-mode fallback
    says doctor
    [ ! -e "$DIBS_MRU_FILE" ]
}

@test "a read-only ledger serves readers, and writers by the mode" {
    needs_root
    unshare -m true 2>/dev/null || skip "no mount namespace here"
    ok get web
    port=$out
    # shellcheck disable=SC2016 # for the inner shell
    inside='mount --bind "$T" "$T" && mount -o remount,ro,bind "$T" && exec "$@"'
    run --separate-stderr unshare -m sh -c "$inside" sh "$DIBS" claim
    [ "$status" -eq 6 ]
    DIBS_MRU_FILE=/dev/shm/dibs-test-$$/mru run --separate-stderr unshare -m sh -c "$inside" sh "$DIBS" claim --ledger-mode fallback
    rm -rf "/dev/shm/dibs-test-$$"
    [ "$status" -eq 0 ]
    [[ $stderr = *degraded* ]]
    [ "$port" -gt 0 ]
}

@test "the memory ledger lasts as long as the call" {
    export DIBS_LEDGER=memory:
    ok claim web
    says 'forgotten when this command ends'
    [ "$(wc -l <"$T/err")" -eq 1 ]
    ok claim web --quiet
    [ -z "$errs" ]
    ok ls --json
    [ -z "$errs" ]
    json 'd == []'
}
