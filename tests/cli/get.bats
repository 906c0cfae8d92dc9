#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# dibs get: a name's port, per project directory and git branch. Ports of this file: 13000-13099.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

git_here() { # git_here DIRECTORY: a repository with one commit
    needs git
    git init -q -b main "$1"
    git -C "$1" -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m first
}

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

@test "get of a name that a process holds tells its port and never becomes holder" {
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

@test "two work trees of one repository have ports of their own" {
    git_here "$T/shop"
    git -C "$T/shop" worktree add -q -b feature "$T/shop-feature"
    cd "$T/shop"
    ok get web --json
    json 'd["name"] == "shop@main/web"'
    main=$(value 'd["port"]')
    cd "$T/shop-feature"
    ok get web --json
    json 'd["name"] == "shop-feature@feature/web"'
    [ "$(value 'd["port"]')" != "$main" ]
    cd "$T/shop"
    ok get web
    [ "$out" = "$main" ]
}

@test "a branch has ports of its own, and the old one its old port" {
    git_here "$T/shop"
    cd "$T/shop"
    ok get web
    main=$out
    git checkout -q -b topic/new
    ok get web --json
    json 'd["name"] == "shop@topic%2Fnew/web"'
    [ "$(value 'd["port"]')" != "$main" ]
    git checkout -q main
    ok get web
    [ "$out" = "$main" ]
    git checkout -q --detach
    ok get web
    [ "$out" != "$main" ]
}

@test "a directory inside a project is the project" {
    git_here "$T/shop"
    mkdir -p "$T/shop/src/deep"
    cd "$T/shop"
    ok get web
    port=$out
    cd src/deep
    ok get web
    [ "$out" = "$port" ]
}

@test "two clones with the same directory name have different ports" {
    git_here "$T/one/shop"
    git_here "$T/two/shop"
    cd "$T/one/shop"
    ok get web
    one=$out
    cd "$T/two/shop"
    ok get web
    [ "$out" != "$one" ]
    two=$out
    ok get web
    [ "$out" = "$two" ]
    ok release web
    cd "$T/one/shop"
    ok get web
    [ "$out" = "$one" ]
    [ "$(held)" -eq 1 ]
}

@test "plain directories with the same name have different ports, too" {
    mkdir -p "$T/x/app" "$T/y/app"
    cd "$T/x/app"
    ok get web
    x=$out
    cd "$T/y/app"
    ok get web
    [ "$out" != "$x" ]
    ok ls --json
    json 'len({c["port"] for c in d}) == 2 and len({c["project"] for c in d}) == 2'
}

@test "directory names that are no names are spelled so that they are" {
    mkdir -p "$T/with space/ü%~x" "$T/$(printf 'l%.0s' {1..200})"
    cd "$T/with space"
    ok get web --json
    json 'd["name"] == "with%20space/web"'
    cd 'ü%~x'
    ok get web --json
    json 'd["name"] == "ü%25%7Ex/web"'
    cd "$T"/lll*
    ok get web --json
    json 'len(d["name"]) <= 68'
    ok get web --json
    json 'd["was_there"]'
}

@test "a group that is named is the same everywhere" {
    DIBS_GROUP=shop ok get web
    port=$out
    cd /
    DIBS_GROUP=shop ok get web
    [ "$out" = "$port" ]
    ok get web --group shop
    [ "$out" = "$port" ]
    ok get /shop/web
    [ "$out" = "$port" ]
}

@test "a working directory that is gone is told, and absolute names still work" {
    mkdir "$T/gone"
    cd "$T/gone"
    rmdir "$T/gone"
    refused 1 get web
    ok get /shop/web
}
