#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# dibs get: a name's port (whose the name is: projects.bats). Ports of this file: 13000-13099.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "get makes a kept claim without holder and gives the same port again" {
    ok get web --json
    json 'd["kept"] and d["holder"] is None and d["name"] == "project/web" and not d["was_there"]'
    port=$(value 'd["port"]')
    ok get web
    [ "$out" = "$port" ]
    ok get web --json
    json 'd["was_there"] and d["kept"] and d["holder"] is None'
    ok reap --stale
    ok get web
    [ "$out" = "$port" ]
    [ "$(held)" -eq 1 ]
}

@test "get of a name that a process holds prints its port and never becomes holder" {
    start_sleeper
    ok claim web --pid "$STARTED"
    port=$out
    ok get web --json
    json "d['port'] == $port and d['holder']['pid'] == $STARTED"
    ok ls --json
    json "d[0]['holder']['pid'] == $STARTED and d[0]['generation'] == 1"
}

@test "get of a name on a lease leaves the lease as it is" {
    ok claim web --ttl 1h
    port=$out
    ok get web
    [ "$out" = "$port" ]
    ok ls --json
    json 'd[0]["holder"]["kind"] == "lease" and d[0]["holder"]["ttl_ms"] == 3600000'
}

@test "get of a token finds that claim from anywhere, and no later one of its name" {
    ok claim web --json
    json 'd[0]["token"]'
    token=$(value 'd[0]["token"]')
    port=$(value 'd[0]["port"]')
    mkdir -p "$T/elsewhere"
    cd "$T/elsewhere"
    ok get --token "$token"
    [ "$out" = "$port" ]
    cd "$T/project"
    ok release web
    ok claim web
    refused 5 get --token "$token"
    refused 2 get --token x
    refused 2 get --token "$token" web
    refused 2 get --token "$token" --proto udp
    refused 2 get
    refused 2 get --proto udp
    [ "$(held)" -eq 1 ]
}

@test "after a release the name comes back to its port" {
    ok get web
    port=$out
    ok release web
    [ "$(held)" -eq 0 ]
    ok get web
    [ "$out" = "$port" ]
}

@test "get takes a port, a preference, a range, a pool, protocols and addresses" {
    ok get a --port 13000
    [ "$out" = 13000 ]
    ok get b --prefer 13000
    [ "$out" != 13000 ]
    ok get c --range 13001-13001
    [ "$out" = 13001 ]
    ok pool set tiny --ranges 13002
    ok get d --pool tiny --proto tcp+udp --address localhost --json
    json 'd["port"] == 13002 and len(d["bindings"]) == 4 and d["pool"] == "tiny"'
    refused 3 get e --port 13000
    refused 4 get e --pool tiny
}

@test "another protocol, address or port than before is refused with the difference" {
    ok get web --port 13010
    refused 3 get web --proto udp
    says 13010
    refused 3 get web --port 13011
    says 13010
    refused 3 get web --address 127.0.0.1
    ok get web
    [ "$out" = 13010 ]
    ok get web --port 13010
}

@test "a range or pool that the name's port is not in is refused with the difference" {
    ok get web --port 13020
    ok pool set other --ranges 13030-13039
    for place in --range=13021-13029 --pool=other; do
        refused 3 get web "$place"
        says "port 13020"
        says "$([ "$place" = --pool=other ] && echo 13030-13039 || echo 13021-13029)"
        refused 3 claim web "$place"
        refused 3 run -p web "$place" -- true
    done
    refused 3 get web --prefer 13021 --range 13021-13029
    for place in --range=13000-13020 --range=13020 --prefer=13020; do
        ok get web "$place"
        [ "$out" = 13020 ]
        [ ! -s "$T/err" ]
    done
    ok claim own --declare 13029 --range 13000-13010
    ok claim own --declare 13029 --range 13000-13010
}

@test "a range or pool of the settings does not make a name fail that is outside of it" {
    ok pool set other --ranges 13030-13039
    ok get web --range 13040-13044
    port=$out
    for setting in DIBS_RANGE=13050-13059 DIBS_POOL=other; do
        export "${setting?}"
        for command in get claim; do
            ok "$command" web
            [ "$out" = "$port" ]
            [ ! -s "$T/err" ]
        done
        ok run -p web -- printenv PORT
        [ "$out" = "$port" ]
        unset "${setting%%=*}"
    done
}

@test "a preference other than the name's port is reported, and the port kept" {
    ok get web --port 13060
    ok get web --prefer 13061
    [ "$out" = 13060 ]
    says "'project/web' keeps its port 13060"
    ok claim web --prefer 13061
    [ "$out" = 13060 ]
    says "'project/web' keeps its port 13060"
    ok get web --prefer 13060
    [ ! -s "$T/err" ]
}
