#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# A command finds the claims of its own project, by every name that dibs shows. Ports of this file: the default pool.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

# two_trees: work trees $T/shop (main) and $T/shop-new (new), each with a kept claim `web`.
two_trees() {
    repository "$T/shop"
    git -C "$T/shop" worktree add -q -b new "$T/shop-new"
    cd "$T/shop-new" && ok get web && theirs=$out
    cd "$T/shop" && ok get web && ours=$out
}

@test "a number of another work tree is exit 3 with its project, and its claim stays" {
    two_trees
    for command in "release $theirs" "renew $theirs" "transfer $theirs --keep" "get $theirs" \
        "release shop-new@new/web" "release /shop-new@new/web" "get shop-new@new/web" "claim shop-new@new/web" \
        "release web $theirs"; do
        # shellcheck disable=SC2086 # words
        refused 3 $command
        says "'shop-new@new/web'"
        says "$T/shop-new"
    done
    try release "$theirs" --json
    [ "$code" -eq 3 ]
    says '"blocker":{"relation":"other_holder"'
    [ "$(held)" -eq 2 ]
    cd "$T/shop-new"
    ok get "$theirs"
    [ "$out" = "$theirs" ]
}

@test "--project and --force reach the claim of another project" {
    two_trees
    ok get --project "$T/shop-new" web
    [ "$out" = "$theirs" ]
    ok get "$theirs" --force
    [ "$out" = "$theirs" ]
    ok release --project "$T/shop-new" "$theirs" --json
    json 'd == {"released": 1}'
    cd "$T/shop-new"
    ok get web
    cd "$T/shop"
    ok transfer --project ../shop-new web --ttl 1h
    ok renew shop-new@new/web --force
    [ "$out" = "$theirs" ]
    ok release "$theirs" --force
    [ "$(held)" -eq 1 ]
    refused 2 release --project "$T/nowhere" web
    refused 3 release "$theirs" --project "$T/shop-new" --port 1 || refused 2 release "$theirs" --port 1
}

@test "tokens, and claims without a project, work from anywhere" {
    two_trees
    cd "$T/shop-new"
    ok claim job --json
    token=$(value 'd[0]["token"]')
    ok claim --port 13080
    ok claim /shared
    cd "$T/shop"
    ok renew --token "$token"
    ok release --token "$token"
    ok release 13080 /shared --json
    json 'd == {"released": 2}'
    [ "$(held)" -eq 2 ]
}

@test "of several claims on one number the project's own is meant" {
    mkdir -p "$T/one/.git" "$T/two/.git"
    (cd "$T/one" && dibs get a --port 13081 --address 127.0.0.1)
    cd "$T/two"
    ok get b --port 13081 --address 127.0.0.2
    ok get 13081 --json
    json 'd["name"] == "two/b"'
    ok release 13081
    refused 3 release 13081
    says "'one/a'"
    [ "$(held)" -eq 1 ]
}

@test "release --all ends the claims of this project, with a list and a count" {
    two_trees
    ok get api
    ok claim
    ok release --all
    says "$ours shop@main/web"
    says "shop@main/api"
    says "2 claims of $T/shop ended"
    [ -z "$out" ]
    [ "$(held)" -eq 2 ]
    ok get web
    ok release --all --every-project --json
    json 'd == {"released": 3}'
    says "shop-new@new/web"
    says '3 claims of all projects ended'
    refused 2 release --every-project
    refused 2 release web --all
    refused 2 release --all --all-mine
}

@test "release --all asks on a terminal, and --yes answers" {
    needs script
    two_trees
    run script -qec "$DIBS release --all" /dev/null <<<n
    assert_output_has "$ours shop@main/web"
    assert_output_has "end 1 claim of $T/shop? [y/N]"
    assert_output_has 'nothing was released'
    [ "$(held)" -eq 2 ]
    run script -qec "$DIBS release --all --yes" /dev/null </dev/null
    assert_output_has "1 claim of $T/shop ended"
    run script -qec "$DIBS release --all --project $T/shop-new" /dev/null <<<y
    assert_output_has "1 claim of $T/shop-new ended"
    [ "$(held)" -eq 0 ]
}

@test "release of a name ends its batch, and nothing that only begins like it" {
    ok claim -n 3 web --keep
    ok get webby
    ok get web/0/x
    ok release web --json
    json 'd == {"released": 3}'
    ok claim web
    ok claim -n 2 web
    ok release web --json
    json 'd == {"released": 3}'
    ok claim -n 2 web --keep
    ok get web --port 13083
    ok release 13083 --json # a number is one claim
    json 'd == {"released": 1}'
    ok release web --json
    json 'd == {"released": 2}'
    ok ls --names
    [ "$out" = 'project/webby
project/web/0/x' ]
}

@test "a batch of another project is exit 3 with its project" {
    repository "$T/proj"
    git -C "$T/proj" worktree add -q -b topic "$T/other"
    cd "$T/proj"
    ok claim -n 2 shard --keep
    ports=$out
    cd "$T/other"
    refused 3 release proj@main/shard
    says "proj@main/shard/0"
    says "$T/proj"
    refused 3 release shard proj@main/shard
    ok release shard --json
    json 'd == {"released": 0}'
    ok release --force proj@main/shard --json
    json 'd == {"released": 2}'
    cd "$T/proj"
    ok claim -n 2 shard --keep
    [ "$out" = "$ports" ]
}

@test "behind the group stands whatever stands without it: a role with one port, a role to run" {
    mkdir "$T/proj"
    cat >"$T/proj/dibs.yaml" <<'END'
roles: { pg: { ports: [sql], command: [printenv, SQL_PORT] }, web: { ports: [http, admin] } }
END
    repository "$T/proj"
    cd "$T/proj"
    ok get proj@main/pg
    port=$out
    for command in "get pg" "get proj@main/pg" "get proj@main/pg --existing" "transfer proj@main/pg --keep" "run proj@main/pg"; do
        # shellcheck disable=SC2086 # words
        ok $command
        [ "$out" = "$port" ]
    done
    refused 3 assert proj@main/pg # found, though nobody listens
    ok env proj@main/pg
    [ "$out" = "SQL_PORT=$port" ]
    refused 5 get proj@main/web
    ok release proj@main/pg --json
    json 'd == {"released": 1}'
}

@test "the name that ls shows means that claim in every command, and makes no second one" {
    repository "$T/proj"
    cd "$T/proj"
    ok get cache
    port=$out
    ok ls --names
    name=$out
    [ "$name" = proj@main/cache ]
    git switch -q -c topic # the claim keeps its group
    for command in "get $name" "claim $name" "get $name --existing" "renew $name" "transfer $name --keep"; do
        # shellcheck disable=SC2086 # words
        ok $command
        [ "$out" = "$port" ]
    done
    ok run -p "$name" -- printenv CACHE_PORT
    [ "$out" = "$port" ]
    ok ls "$name" --json
    json "[c['port'] for c in d] == [$port]"
    ok log --name "$name" --json
    json 'len(d) > 1'
    refused 3 assert "$name" # found, though nobody listens
    for directory in . "$T"; do
        cd "$directory"
        for group in proj@main /proj@main; do
            ok ls "$group" --names
            prints cache
        done
    done
    cd "$T/proj"
    ok get proj@main/other --json
    json 'd["name"] == "proj@main/other"'
    ok release "$name" proj@main/other --json
    json 'd == {"released": 2}'
}

@test "the full name of a clone with a hash is accepted, and the other clone's is not" {
    mkdir -p "$T/a/shop/.git" "$T/b/shop/.git"
    (cd "$T/a/shop" && dibs get web)
    cd "$T/b/shop"
    ok get web
    port=$out
    ok ls --names
    name=$out
    [[ $name = shop~*/web ]]
    ok get "$name"
    [ "$out" = "$port" ]
    refused 3 get shop/web
    says "$T/a/shop"
    says "--create"
    [ "$(held)" -eq 2 ]
    ok get --create shop/web --json # a name of its own that only looks like the other's
    json "d['name'] == '${name%/web}/shop/web'"
}

@test "a project with the name of its own batch keeps the batch's names" {
    mkdir -p "$T/web/.git"
    cd "$T/web"
    ok claim -n 2 web --keep
    first=$out
    ok ls --names
    [ "$out" = 'web/web/0
web/web/1' ]
    ok claim -n 2 web --keep
    [ "$out" = "$first" ]
    ok release web/0 --json # no claim has this full name
    json 'd == {"released": 1}'
    ok release web --json
    json 'd == {"released": 1}'
}

@test "a port that another project of mine keeps is refused with advice that is right" {
    two_trees
    cd "$T/shop-new"
    refused 3 get api --port "$ours"
    says "port $ours belongs to your project $T/shop"
    says "dibs release --project '$T/shop' $ours"
    not says 'release it first'
    ok release --project "$T/shop" "$ours"
    ok get api --port "$ours"
}

@test "with a manifest get answers its names and existing claims, and makes another one with --create" {
    cat >dibs.yaml <<'END'
roles:
  pg: { ports: [sql] }
  web: { ports: [http, admin] }
  job: { instances: 2, ports: [rpc] }
END
    ok get pg/sql
    port=$out
    for name in pg pg/0 project/pg/0/-/sql /project/pg/0/-/sql pg.sql; do
        ok get "$name"
        [ "$out" = "$port" ]
    done
    ok get job/1 --json
    json 'd["name"] == "project/job/1/-/rpc"'
    for name in web job cache; do
        refused 5 get "$name"
        says 'dibs get --create'
    done
    refused 5 get pgg
    says "did you mean 'pg'?"
    for name in wbe project/wbe; do # a role with several ports
        refused 5 get "$name"
        says 'there are: web/0/http, web/0/admin'
    done
    refused 5 get pgg/sql
    says "did you mean 'pg/sql'?"
    [ "$(held)" -eq 2 ]
    ok get --create cache
    port=$out
    ok get cache
    [ "$out" = "$port" ]
    refused 5 get cahce
    says "did you mean 'cache'?"
    ok get --create pg --json # beside the role
    json 'd["name"] == "project/pg"'
    ok release pg/sql pg --json
    json 'd == {"released": 2}'
    refused 5 get pg --existing
    ok get cache --existing
    [ "$(held)" -eq 2 ]
}

@test "get --existing makes nothing, and a number is never claimed" {
    refused 5 get web --existing
    refused 5 get 13082
    refused 2 get web --existing --port 13082
    refused 2 get 13082 --prefer 1
    [ "$(dibs ls --all --json)" = '[]' ]
    ok get web --port 13082
    for name in web 13082 :13082; do
        ok get "$name" --json
        json 'd["name"] == "project/web"'
    done
}

@test "a name below the group of another project is refused, not made below the own group" {
    repository "$T/one"
    repository "$T/two"
    cd "$T/one" && ok get web
    cd "$T/two"
    refused 3 claim one@main/new
    says "is the group of another project"
    refused 3 get one@main/new
    refused 3 run -p one@main/new -- true
    ok claim --keep two@main/own
    ok claim 'x@y/z' # nobody's group
}
