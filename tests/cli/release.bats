#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# dibs release, renew, transfer. Ports of this file: 13100-13199.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

token_of() { # token_of ARGUMENT...: claims, prints the token
    dibs claim --json "$@" >"$T/out"
    value 'd[0]["token"]'
}

has_a_claim() {
    [ "$(held)" = 1 ]
}

@test "a release by name, twice, is fine both times" {
    ok claim web
    ok release web
    [ -z "$out" ]
    [ -z "$errs" ]
    [ "$(held)" -eq 0 ]
    ok release web
    [ -z "$out" ]
    says nothing
    ok release never-there
}

@test "a release by number finds one's own claim" {
    ok claim --port 13100
    ok release 13100 --json
    json 'd == {"released": 1}'
    ok release 13100 --json
    json 'd == {"released": 0}'
}

@test "a number with several claims is exit 2 with a list, and nothing ends" {
    ok claim first --port 13110 --address 127.0.0.1
    ok claim second --port 13110 --address 127.0.0.2
    refused 2 release 13110
    says /first
    says /second
    [ "$(held)" -eq 2 ]
    ok release first
    ok release 13110
    [ "$(held)" -eq 0 ]
}

@test "several targets end together, and a mistyped one is found out first" {
    ok claim a b c
    refused 2 release a 70000 b
    [ "$(held)" -eq 3 ]
    ok release a b never --json
    json 'd == {"released": 2}'
    [ "$(held)" -eq 1 ]
}

@test "one number with several claims among the targets, and nothing at all is released" {
    ok claim a --port 13170 --address 127.0.0.1
    ok claim b --port 13170 --address 127.0.0.2
    ok claim c
    refused 2 release c 13170 never
    says 'project/a'
    says 'project/b'
    [ "$(held)" -eq 3 ]
    ok release c a never --json
    json 'd == {"released": 2}'
}

@test "a token names one claim of one generation" {
    token=$(token_of web)
    ok release --token "$token"
    [ "$(held)" -eq 0 ]
    ok claim web
    ok release --token "$token"
    says nothing
    [ "$(held)" -eq 1 ]
    ok release --token "9$token"
    for wrong in '' x 1.1 "${token}0" "${token%?}" '1.1.zz' '../../x'; do
        refused 2 release --token "$wrong"
        refused 2 renew --token "$wrong"
    done
    [ "$(held)" -eq 1 ]
}

@test "release --all-mine ends every claim of one's own" {
    start_sleeper
    ok claim -n 3
    ok claim held --pid "$STARTED"
    ok get kept
    ok release --all-mine --json
    json 'd == {"released": 5}'
    [ "$(held)" -eq 0 ]
    ok release --all-mine
}

@test "options that exclude each other are refused" {
    refused 2 release
    refused 2 release web --all-mine
    refused 2 release web --token x
    refused 2 release --token x --all-mine
    refused 2 renew
    refused 2 renew a b
    refused 2 renew web --token x
    refused 2 transfer web
    refused 2 transfer web --pid 1 --keep
    refused 2 transfer --keep
}

@test "a claim whose holder lives can be released by its owner" {
    start_sleeper
    ok claim web --pid "$STARTED"
    ok release web
    [ "$(held)" -eq 0 ]
}

# A daemon sees into the namespaces below its own.
# bats test_tags=unserved
@test "a claim of unknown state ends only with --force" {
    needs_root
    needs unshare
    start unshare --pid --fork --kill-child --mount-proc sleep 600
    wait_until 10 pgrep -P "$STARTED"
    start nsenter -t "$(pgrep -P "$STARTED")" -p -m --wd="$PWD" "$DIBS" run -p web=13120 -- sleep 600
    wait_until 10 has_a_claim
    # Seen from a sibling namespace nothing certain is known of the holder.
    run unshare --pid --fork --mount-proc "$DIBS" ls --json
    printf '%s\n' "$output" >"$T/out"
    json 'd[0]["life"] == "unknown"'
    capture unshare --pid --fork --mount-proc "$DIBS" release /project/web
    [ "$code" -eq 3 ] || { cat "$T/err"; echo "exit $code"; return 1; }
    [ "$(held)" -eq 1 ]
    unshare --pid --fork --mount-proc "$DIBS" release --force /project/web
    [ "$(held)" -eq 0 ]
}

@test "renew extends a lease by its own length or a new one" {
    ok claim web --ttl 1m
    port=$out
    ok renew web
    [ "$out" = "$port" ]
    ok renew web --ttl 2h --json
    json 'd["holder"]["ttl_ms"] == 7200000'
    ok renew "$port" --json
    json 'd["holder"]["ttl_ms"] == 7200000'
    ok log --json
    json '[e["what"] for e in d] == ["claimed", "renewed", "renewed", "renewed"]'
}

@test "renew keeps the token, and an old token renews nothing" {
    token=$(token_of web --ttl 1m)
    ok renew --token "$token" --json
    json "d['token'] == '$token'"
    ok release web
    ok claim web
    refused 5 renew --token "$token"
    refused 5 renew nobody
}

@test "a claim without a lease has nothing to renew" {
    ok get kept
    refused 2 renew kept
    start_sleeper
    ok claim held --pid "$STARTED"
    refused 2 renew held
}

@test "transfer hands a claim to a process, to a lease, to nobody" {
    start_sleeper
    token=$(token_of web --port 13130)
    ok transfer web --pid "$STARTED" --json
    json "d['holder']['pid'] == $STARTED and d['port'] == 13130 and d['token'] != '$token'"
    new=$(value 'd["token"]')
    ok release --token "$token"
    [ "$(held)" -eq 1 ]
    ok transfer --token "$new" --ttl 30m --json
    json 'd["holder"]["ttl_ms"] == 1800000'
    ok transfer 13130 --keep --json
    json 'd["holder"] is None and d["kept"]'
    ok transfer web --pid "$STARTED"
    ok log --json
    json '[e["what"] for e in d] == ["claimed"] + ["transferred"] * 4'
}

@test "transfer to a process that is not there, or of what is not there" {
    ok claim web
    refused 5 transfer web --pid 2147483647
    refused 5 transfer nobody --keep
    refused 2 transfer web --ttl 0s
    refused 2 transfer web --pid 0
    ok log --json
    json 'len(d) == 1'
}

@test "the end of a process after a transfer frees the claim" {
    start_sleeper
    ok claim web --port 13140
    ok transfer web --pid "$STARTED"
    refused 3 claim other --port 13140
    end_process "$STARTED"
    ok claim other --port 13140
}

@test "nobody releases another user's claim, and root may" {
    shared_ledger
    token=$(token_of web --port 13150)
    as_nobody "$DIBS" release 13150 # finds nothing of its own
    capture as_nobody "$DIBS" release --token "$token"
    [ "$code" -eq 7 ] || { cat "$T/err"; return 1; }
    for verb in 'renew' 'transfer --keep'; do
        # shellcheck disable=SC2086 # several words
        capture as_nobody "$DIBS" $verb --token "$token"
        [ "$code" -eq 7 ] || { cat "$T/err"; return 1; }
    done
    [ "$(held)" -eq 1 ]
    token=$(as_nobody "$DIBS" claim --json --port 13151 | "$PYTHON" -c 'import json,sys; print(json.load(sys.stdin)[0]["token"])')
    ok release --token "$token"
    [ "$(held)" -eq 1 ]
}

@test "root ends another user's claim by name or number when root has none" {
    shared_ledger
    as_nobody "$DIBS" claim /web --port 13160
    as_nobody "$DIBS" claim /api --port 13161
    ok claim /web --port 13162
    ok release /web # the own claim, although another user has that name, too
    [ "$(sql 'SELECT count(*) FROM claims WHERE port IN (13160, 13161)')" -eq 2 ]
    ok release /web
    ok release 13161
    [ "$(held)" -eq 0 ]
    ok release 13161 # and again: nothing to end
    # Every other user finds only own claims.
    ok claim /web --port 13162
    as_nobody "$DIBS" release /web 13162
    [ "$(held)" -eq 1 ]
}

@test "root gets a list of all the claims that match, and none ends" {
    shared_ledger
    as_nobody "$DIBS" claim --port 13163 --address 127.0.0.1
    as_uid 65533 "$DIBS" claim /theirs --port 13163 --address 127.0.0.2
    refused 2 release 13163
    says "uid 65533"
    says "uid 65534"
    says theirs
    [ "$(held)" -eq 2 ]
    ok claim /mine
    refused 2 release /mine 13163
    [ "$(held)" -eq 3 ]
    ok release /mine
    ok release /theirs
    [ "$(held)" -eq 1 ]
}

@test "a relative name is not the claim of another user's other directory" {
    shared_ledger
    mkdir -p "$T/one/shop" "$T/two/shop"
    chmod -R 0777 "$T/one" "$T/two"
    (cd "$T/one/shop" && as_nobody "$DIBS" claim web --port 13164)
    cd "$T/two/shop"
    ok release web
    [ "$(held)" -eq 1 ]
    cd "$T/one/shop"
    ok release web
    [ "$(held)" -eq 0 ]
}

@test "INV-11: a release that cannot write returns in time: 0 for a held claim, 6 for a kept one" {
    start_sleeper
    ok claim leased --port 13180
    token=$(token_of byhand --port 13183)
    ok claim held --port 13181 --pid "$STARTED"
    ok get kept --port 13182
    for target in leased 13181 "--token $token" 13182; do
        lock_ledger
        before=$SECONDS
        # shellcheck disable=SC2086 # two words
        try release $target --timeout 300ms
        within 2 "$before"
        case $target in
        leased) wanted=0 text='the release of port 13180 is not confirmed, it ends with its lease: ' ;;
        13181) wanted=0 text='the release of port 13181 is not confirmed, it ends with its process: ' ;;
        --token*) wanted=0 text='the release of port 13183 is not confirmed, it ends with its lease: ' ;;
        13182) wanted=6 text='the claim on port 13182 is kept: release it again when the ledger answers' ;;
        esac
        [ "$code" -eq "$wanted" ] || complain "exit $code"
        one_line
        says "$text"
        [ -n "${DIBS_TEST_SERVED:-}" ] || [ "$(held)" -eq 4 ]
        unlock_ledger leased # a daemon may have ended it meanwhile
    done
    ok release leased held kept byhand
    [ "$(held)" -eq 0 ]
}

# The daemon waits for the lock as well, and then answers nothing else.
# bats test_tags=unserved
@test "INV-11: of several claims the kept one is the failure, and nothing is queued" {
    ok claim leased --port 13184
    ok get kept --port 13185
    lock_ledger
    try release leased kept --timeout 300ms
    [ "$code" -eq 6 ] || complain "exit $code"
    says 'the release of port 13184 is not confirmed'
    says 'the claim on port 13185 is kept'
    refused 6 release --all-mine --timeout 300ms
    says 'a kept one stays'
    unlock_ledger leased
    [ "$(held)" -eq 2 ]
}

# bats test_tags=unserved
@test "INV-11: a release of many claims takes no longer than that of one" {
    ok claim -n 6 leased
    ok get kept
    for targets in --all "leased kept"; do
        lock_ledger
        before=$(date +%s%N)
        # shellcheck disable=SC2086 # words
        try release $targets --timeout 1s
        after=$(date +%s%N)
        [ "$code" -eq 6 ] || complain "exit $code"
        [ $(((after - before) / 1000000)) -lt 3500 ]
        [ "$(grep -c 'is not confirmed, it ends with its lease' "$T/err")" -eq 6 ]
        [ "$(grep -c 'release it again when the ledger answers' "$T/err")" -eq 1 ]
        [ "$(grep -o 'release it again' "$T/err" | wc -l)" -eq 1 ]
        unlock_ledger kept
    done
    [ "$(held)" -eq 7 ]
}

@test "INV-11: a release returns after one timeout when the daemon does not answer" {
    local daemon
    is_served || dibs_serve
    ok get web
    ok claim other
    daemon=$(tail -1 "$T/started")
    kill -STOP "$daemon"
    before=$(date +%s%N)
    refused 6 release web other --timeout 1s
    after=$(date +%s%N)
    kill -CONT "$daemon"
    says 'a claim that a process or a lease holds ends with it, a kept one stays'
    [ $(((after - before) / 1000000)) -lt 1700 ]
    ok release web other --json
    json 'd == {"released": 2}'
}
