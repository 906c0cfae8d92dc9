#!/usr/bin/env bats
# `dibs up`, `down` and `plan` against what is there already, and against what runs.

load ../support/dibs
load cli

setup() {
    dibs_setup
}

teardown() {
    dibs_teardown
}

manifest() { # manifest YAML: the project's
    printf '%s\n' "$1" >dibs.yaml
}

@test "a group that was renamed leaves nothing behind, also when its new name was used before up" {
    manifest 'group: first
roles: {a: {ports: [{name: d, env: D}, {name: e, env: E}]}}'
    ok up
    manifest 'group: second
roles: {a: {ports: [{name: d, env: D}, {name: e, env: E}]}}'
    ok get a/0/d
    ok plan
    prints 'drop a/0/d'
    ok up
    says '1 kept, 1 added, 0 moved, 2 dropped'
    ok ls --all --json
    json 'sorted(c["name"] for c in d) == ["second/a/0/-/d", "second/a/0/-/e"]'
}

@test "a person's own names stay, however many parts they have" {
    manifest 'group: shop
roles: {a: {ports: [{name: d, env: D}]}}'
    ok get x/y/z/t
    own=$out
    ok get mine
    ok up
    says '0 kept, 1 added, 0 moved, 0 dropped'
    ok down
    says '0 kept, 0 added, 0 moved, 1 dropped'
    ok ls --all --json
    json 'sorted(c["name"] for c in d) == ["shop/mine", "shop/x/y/z/t"]'
    ok get x/y/z/t
    [ "$out" = "$own" ]
}
