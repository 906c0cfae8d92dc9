#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# Each exit code, by a real situation. Ports of this file: 14600-14699.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "0: a port was claimed" {
    ok claim --port 14600
}

@test "1: something outside of dibs failed" {
    refused 1 snapshot import "$T/not-there"
    refused 1 claim --address 192.0.2.77
    ok ls --json
    json 'd == []'
}

@test "2: the request is malformed" {
    refused 2 claim --port 0
    refused 2 claim --count 0
}

@test "3: somebody else has it" {
    start_sleeper
    ok claim web --pid "$STARTED" --port 14610
    refused 3 claim other --port 14610
    says project/web
    says "$STARTED"
    says sleep
    says since
    refused 3 claim web
    listen 14611
    refused 3 claim other --port 14611 --address 127.0.0.1
    refused 3 assert web
}

@test "3: the error names the relation to the holder" {
    start_sleeper
    ok claim web --pid "$STARTED" --port 14620
    ok claim mine --port 14621
    listen 14622
    ok claim wide --port 14623
    while read -r relation args; do
        # shellcheck disable=SC2086 # several words
        try claim $args --json
        [ "$code" -eq 3 ]
        cp "$T/err" "$T/out"
        json "d['error']['blocker']['relation'] == '$relation'"
    done <<'END'
same_name web
same_holder new --port 14621
foreign new --port 14622
own_wildcard new --port 14623 --address 127.0.0.1
END
}

@test "3: another user's claim is another holder" {
    shared_ledger
    as_nobody "$DIBS" claim --port 14630 >/dev/null
    try claim --port 14630 --json
    [ "$code" -eq 3 ]
    cp "$T/err" "$T/out"
    json 'd["error"]["blocker"]["relation"] == "other_holder" and d["error"]["blocker"]["uid"] == 65534'
}

@test "4: no free port is left" {
    ok claim -n 2 --range 14640-14641
    refused 4 claim --range 14640-14641
    says 14640-14641
}

@test "5: not found" {
    refused 5 assert nobody
    refused 5 renew nobody
    refused 5 transfer nobody --keep
    refused 5 pool show nowhere
    refused 5 who 14650
    refused 5 claim --pid 2147483647
}

@test "6: the ledger is unavailable" {
    refused 6 ls --ledger sqlite:/dev/null/ledger.db
    refused 6 ls --socket "$T/nobody-there"
}

@test "7: not allowed" {
    shared_ledger
    dibs claim --json --port 14660 >"$T/out"
    token=$(value 'd[0]["token"]')
    start_sleeper
    for args in "release --token $token" "renew --token $token" "transfer --keep --token $token" "claim --pid $STARTED" \
        "claim --pid 1"; do
        # shellcheck disable=SC2086 # several words
        capture as_nobody "$DIBS" $args
        [ "$code" -eq 7 ] || complain "$args"
        one_line
    done
    [ "$(held)" -eq 1 ]
}

@test "74: the answer could not be written" {
    [ -c /dev/full ] || skip "no /dev/full"
    code=0
    dibs claim >/dev/full 2>"$T/err" || code=$?
    [ "$code" -eq 74 ]
    [ "$(held)" -eq 0 ]
}

@test "the help lists exactly these codes" {
    ok --help
    [ "$(sed -n '/^Exit codes:/,/^$/s/^  \([0-9]*\) .*/\1/p' "$T/out" | tr '\n' ' ')" = '0 1 2 3 4 5 6 7 74 ' ]
}
