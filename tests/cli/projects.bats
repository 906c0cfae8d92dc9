#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# Whose a name is: directories, clones, work trees and branches, with a real git. Ports of this file: the default pool.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

# ports NAME DIRECTORY...: what `dibs get NAME` says in each, a line each.
ports() {
    local name=$1 directory
    shift
    for directory; do (cd "$directory" && dibs get "$name") || return 1; done
}

@test "ten work trees of one repository have ten disjoint sets of ports, and keep them" {
    repository "$T/shop"
    ten_trees "$T/shop"
    ports web "${trees[@]}" >"$T/web"
    ports api "${trees[@]}" >"$T/api"
    [ "$(sort -u "$T/web" "$T/api" | wc -l)" -eq 20 ]
    ports web "${trees[@]}" | cmp "$T/web"
    # After a release, too, and asked for in another order.
    for tree in "${trees[@]}"; do (cd "$tree" && dibs release web api); done
    [ "$(held)" -eq 0 ]
    for ((i = 9; i >= 0; i--)); do ports web "${trees[i]}"; done | tac | cmp "$T/web"
    ports api "${trees[@]}" | cmp "$T/api"
}

# A daemon whose ledger is removed refuses.
# bats test_tags=unserved
@test "a lost ledger costs a name its port only where two names prefer one" {
    repository "$T/shop"
    ten_trees "$T/shop"
    ports web "${trees[@]}" >"$T/before"
    rm "$T"/ledger.db*
    ports web "${trees[@]}" >"$T/after"
    [ "$(comm -12 <(sort "$T/before") <(sort "$T/after") | wc -l)" -ge 8 ]
}

# A daemon whose ledger is removed refuses.
# bats test_tags=unserved
@test "two clones of one name have their ports back after a lost ledger, in whatever order and on whatever branch" {
    repository "$T/one/shop"
    git clone -q "$T/one/shop" "$T/two/shop"
    for name in a b c d e; do ports $name "$T/one/shop" "$T/two/shop"; done >"$T/before"
    rm "$T"/ledger.db*
    git -C "$T/one/shop" switch -q -c other
    for name in a b c d e; do ports $name "$T/two/shop" "$T/one/shop" | tac; done >"$T/after"
    [ "$(paste "$T/before" "$T/after" | awk '$1 == $2' | wc -l)" -ge 8 ] # of ten: two names may prefer one port
}

@test "a moved directory has other ports, and a note says which directory has its group" {
    mkdir "$T/old"
    cd "$T/old"
    printf 'group: shop\nroles: {web: {ports: [http]}}\n' >dibs.yaml
    ok up
    mkdir "$T/beside" # one that is there is nobody's to end
    cp dibs.yaml "$T/beside"
    cd "$T/beside"
    ok up
    not says 'not there any more'
    mv "$T/old" "$T/new"
    cd "$T/new"
    for command in plan up; do
        ok "$command"
        says "'shop' is the group of $T/old, which is not there any more; 'dibs reap --stale' ends what it left"
    done
    ok up # the existing claim is kept, and reported
    not says 'not there any more'
    ok reap --stale
    [ "$(held)" -eq 2 ]
}

@test "a group is the directory and its branch; a detached head has no branch" {
    repository "$T/shop"
    git -C "$T/shop" worktree add -q -b topic/new "$T/shop-new"
    git -C "$T/shop" worktree add -q --detach "$T/shop-old"
    cd "$T/shop"
    ok get web --json
    json 'd["name"] == "shop@main/web"'
    cd "$T/shop-new"
    ok get web --json
    json 'd["name"] == "shop-new@topic%2Fnew/web"'
    cd "$T/shop-old"
    ok get web --json
    json 'd["name"] == "shop-old/web"'
}

@test "a work tree keeps its ports whatever branch is checked out in it" {
    repository "$T/shop"
    git -C "$T/shop" worktree add -q -b topic "$T/x/shop"
    cd "$T/shop"
    ok get web
    main=$out
    git switch -q -c other
    ok get web
    [ "$out" = "$main" ]
    git switch -q --detach
    ok get web --json
    json "d['port'] == $main and d['name'] == 'shop@main/web'"
    refused 3 assert web # found, though nobody listens
    ok ls web --names
    [ "$out" = shop@main/web ]
    # Another work tree that comes to the branch of the first does not come to its ports.
    cd "$T/x/shop"
    git switch -q main
    ok get web
    [ "$out" != "$main" ]
    cd "$T/shop"
    ok release web
    [ "$(held)" -eq 1 ]
    ok get web
    [ "$out" = "$main" ]
}

@test "git files that lie lead nowhere and hold nobody up" {
    mkdir -p "$T/a/.git" "$T/b" "$T/c" "$T/d"
    mkfifo "$T/a/.git/HEAD"
    echo "gitdir: $T/none" >"$T/b/.git"
    head -c 100000 /dev/zero | tr '\0' x >"$T/c/.git"
    mkfifo "$T/d/.git"
    for name in a b c d; do
        cd "$T/$name"
        DIBS_TEST_TIMEOUT=5 ok get web --json
        json "d['name'] == '$name/web'"
    done
    printf 'ref: refs/heads/a\033[31m b\n' >"$T/head"
    rm "$T/a/.git/HEAD"
    mv "$T/head" "$T/a/.git/HEAD"
    cd "$T/a"
    ok get api --group other # a named group does not look
    ok release web
    sql 'DELETE FROM names'
    ok get web --json
    json 'd["name"] == "a@a%1B[31m%20b/web"'
}

@test "a repository that a stranger put above is not mine" {
    needs_root
    mkdir -p "$T/mine"
    repository "$T/theirs"
    cp -r "$T/theirs/.git" "$T/.git"
    cd "$T/mine"
    ok get web --json
    json 'd["name"].endswith("@main/web")'
    chown -R 65534 "$T/.git"
    ok get /x # the ledger is not git's
    ok get api --json
    json 'd["name"] == "mine/api"'
}

@test "a directory inside a project is the project" {
    repository "$T/shop"
    mkdir -p "$T/shop/src/deep"
    cd "$T/shop"
    ok get web
    port=$out
    cd src/deep
    ok get web
    [ "$out" = "$port" ]
}

@test "two clones with the same directory name have different ports, and each gets its own back" {
    repository "$T/one/shop"
    git clone -q "$T/one/shop" "$T/two/shop"
    cd "$T/one/shop"
    ok get web
    one=$out
    ok release web
    cd "$T/two/shop"
    ok get web
    two=$out
    [ "$two" != "$one" ] # the first is remembered as the first clone's
    ok release web
    ok get web
    [ "$out" = "$two" ]
    cd "$T/one/shop"
    ok get web
    [ "$out" = "$one" ]
    [ "$(held)" -eq 2 ]
}

@test "ls and log follow a name to the clone that one is in" {
    repository "$T/one/shop"
    git clone -q "$T/one/shop" "$T/two/shop"
    cd "$T/one/shop"
    ok claim -n 2 web --keep
    one=$out
    cd "$T/two/shop"
    ok ls web --json
    json 'd == []'
    ok log --name web --json
    json 'd == []'
    ok claim -n 2 web --keep
    two=$out
    ok ls web --json
    json "[c['port'] for c in d] == [int(p) for p in '''$two'''.split()]"
    ok log --name web --json
    json "[e['port'] for e in d] == [int(p) for p in '''$two'''.split()]"
    ok log --name web/0 --json
    json 'len(d) == 1 and d[0]["name"].startswith("shop@main~")'
    ok ls /shop@main/web --json # an absolute name is meant as it is
    json "[c['port'] for c in d] == [int(p) for p in '''$one'''.split()]"
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
    mkdir -p "$T/with space/ü%~@x" "$T/$(printf 'l%.0s' {1..200})"
    cd "$T/with space"
    ok get web --json
    json 'd["name"] == "with%20space/web"'
    cd 'ü%~@x'
    ok get web --json
    json 'd["name"] == "ü%25%7E%40x/web"'
    cd "$T"/lll*
    ok get web --json
    json 'len(d["name"]) <= 68'
    ok get web --json
    json 'd["was_there"]'
}

@test "a directory whose path is too long needs a group" {
    cd "$T"
    for i in 1 2 3 4 5; do
        directory=$(printf 'x%.0s' {1..240})
        mkdir "$directory"
        cd "$directory"
    done
    refused 2 get web
    says group
    ok get web --group deep
}

@test "a group that is named is the same everywhere, and shared with no directory of that name" {
    DIBS_GROUP=shop ok get web
    port=$out
    cd /
    DIBS_GROUP=shop ok get web
    [ "$out" = "$port" ]
    ok get web --group shop
    [ "$out" = "$port" ]
    ok get /shop/web
    [ "$out" = "$port" ]
    mkdir -p "$T/a/shop" "$T/b/shop"
    [ "$(printf '%s\n' "$port" "$(ports web "$T/a/shop" "$T/b/shop")" | sort -u | wc -l)" -eq 3 ]
}

@test "a missing working directory is reported, and absolute names and named groups still work" {
    mkdir "$T/gone"
    cd "$T/gone"
    rmdir "$T/gone"
    for command in 'get web' 'claim web' 'release web' up down plan env 'run --all'; do
        # shellcheck disable=SC2086 # words
        refused 1 $command
        says 'working directory'
    done
    ok get /shop/web
    ok get web --group shop
}
