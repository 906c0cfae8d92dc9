#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# What a person reads: times, users, commands, plurals, and few fields for an agent. Ports of this file: 13490-13499.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "times are local, with --utc in UTC, and in JSON always in UTC" {
    export TZ=UTC-5 # five hours ahead
    ok claim web --port 13490
    ok ls --json
    since=$(value 'd[0]["created"]')
    local_time=$(date -d "$since" '+%Y-%m-%d %H:%M:%S')
    for command in 'ls' 'who web' 'log' 'explain web'; do
        # shellcheck disable=SC2086 # words
        ok $command
        prints "$local_time"
        # shellcheck disable=SC2086 # words
        ok $command --utc
        prints "$since"
    done
    start_sleeper
    ok claim held --port 13491 --pid "$STARTED"
    ok ls held --json
    since=$(value 'd[0]["created"]')
    refused 3 claim other --port 13491
    says "$(date -d "$since" '+%Y-%m-%d %H:%M:%S')"
    refused 3 claim other --port 13491 --utc
    says "$since"
    try claim other --port 13491 --json
    says "$since"
}

@test "a user's name stands beside the uid" {
    user="$(id -un) (uid $(id -u))"
    ok get web --port 13492
    listen 13492
    ok who web
    [ "$(grep -c "$user" <<<"$out")" -eq 2 ]
    ok explain web
    prints "$user"
    ok log
    prints "$user pid "
    refused 3 claim other --port 13492
    says "$user"
    refused 3 claim other --port 13492 --json || true
    says "uid:$(id -u)" # for programs
}

@test "the command of a holder is the one that it runs now" {
    # shellcheck disable=SC2016 # for the shell there
    start "$DIBS" run -p web=13493 -- sh -c 'echo $$ >"$0"; while [ ! -e "$0.go" ]; do sleep 0.05; done; exec sleep 600' "$T/shell"
    wait_until 10 test -s "$T/shell"
    shell=$(cat "$T/shell")
    echo "$shell" >>"$T/started"
    ok ls
    prints "pid $shell (sh)"
    touch "$T/shell.go"
    wait_until 10 grep -qx sleep "/proc/$shell/comm"
    ok ls
    prints "pid $shell (sleep)"
    ok who 13493
    prints "pid $shell (sleep)"
    refused 3 claim other --port 13493
    says "pid $shell (sleep)"
    ok ls --json
    json 'd[0]["command"] == "sleep"'
}

@test "a process that is not visible is not called pid 0" {
    shared_ledger
    listen 13494 # of root
    capture as_nobody "$DIBS" claim --port 13494
    [ "$code" -eq 3 ]
    not says 'pid 0'
    not says '(?)'
    says ' root (uid 0)'
}

@test "one of a thing is no plural" {
    ok claim web
    ok doctor
    prints 'ok    1 claim: '
    not prints '1 claims'
}

@test "--json --brief has the five fields that an agent needs" {
    ok get web --port 13495 --json --brief
    json "d == {'port': 13495, 'name': 'project/web', 'project': '$T/project', 'state': 'kept', 'holder': None}"
    start_sleeper
    ok claim job --port 13496 --pid "$STARTED" --json --brief
    json "d == [{'port': 13496, 'name': 'project/job', 'project': '$T/project', 'state': 'alive', 'holder': 'pid $STARTED (sleep)'}]"
    ok claim --port 13497 --json --brief
    json 'd[0]["name"] is None and d[0]["project"] is None and d[0]["holder"].startswith("lease, ")'
    ok ls --json --brief
    json 'len(d) == 3 and all(sorted(c) == ["holder", "name", "port", "project", "state"] for c in d)'
    ok ls --json --brief --audit
    json 'all(len(c) == 5 for c in d["claims"])'
    ok transfer job --keep --json --brief
    json 'd["state"] == "kept"'
    refused 2 ls --brief
    says '--json'
}

@test "an empty ls says to a person what to do next" {
    needs script
    run script -qec "$DIBS ls" /dev/null </dev/null
    assert_output_has "'dibs get NAME' and 'dibs run COMMAND' make one"
    echo 'roles: {web: {ports: [http]}}' >dibs.yaml
    run script -qec "$DIBS ls" /dev/null </dev/null
    assert_output_has "'dibs up' claims the ports of the manifest"
}

# A daemon waits for the lock itself.
# bats test_tags=unserved
@test "a command that takes long shows its seconds on a terminal, and only there" {
    needs script
    ok get web
    lock_ledger
    TERM=xterm run script -qec "$DIBS repair --timeout 2500ms" /dev/null </dev/null
    assert_output_has 'dibs: repair, 2s'
    try repair --timeout 2500ms
    [ "$code" -eq 6 ]
    not says 'repair, 2s'
    unlock_ledger
    TERM=xterm run script -qec "$DIBS doctor" /dev/null </dev/null
    case $output in *'doctor, '*) return 1 ;; esac
}
