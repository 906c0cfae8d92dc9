#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# What a project shows and finds by default. Ports of this file: the default pool.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

# two_projects: $T/shop and $T/blog, each with a claim `web`, and a claim without a project.
two_projects() {
    mkdir -p "$T/shop/.git" "$T/blog"
    echo 'roles: {web: {ports: [http]}}' >"$T/blog/dibs.yaml"
    cd "$T/shop" && ok get web && ok claim
    cd "$T/blog" && ok up
}

@test "in a project ls shows its claims and those without a project, with --all and elsewhere all" {
    two_projects
    ok ls --json
    json '[c["name"] for c in d] == [None, "blog/web/0/-/http"]'
    not says 'not shown' # to a script
    ok ls --names
    [ "$out" = blog/web/0/-/http ]
    mkdir -p "$T/shop/src"
    cd "$T/shop/src"
    ok ls --json
    json '[c["name"] for c in d] == ["shop/web", None]'
    ok ls --all --json
    json 'len(d) == 3'
    cd "$T/project" # no manifest and no .git: a directory, no project
    ok ls --json
    json 'len(d) == 3'
    ok ls --group shop --json
    json '[c["name"] for c in d] == ["shop/web", None]'
}

@test "a port and an absolute name are looked up in all projects by ls" {
    two_projects
    cd "$T/shop"
    ok ls --json /blog
    json '[c["name"] for c in d] == ["blog/web/0/-/http"]'
    port=$(value 'd[0]["port"]')
    for arguments in "$port" "--port $port"; do
        # shellcheck disable=SC2086 # words
        ok ls --json $arguments
        json 'len(d) == 1'
    done
}

@test "ls says what it hides to a person, and to a script that sees nothing" {
    needs script
    two_projects
    cd "$T/shop"
    ok release web
    run script -qec "$DIBS ls" /dev/null </dev/null
    assert_output_has "1 claim of another project not shown; 'dibs ls --all' shows all"
    mkdir -p "$T/empty/.git"
    cd "$T/empty"
    ok ls --pool default --proto udp --json
    json 'd == []'
    not says 'not shown'
    ok release --all-mine
    cd "$T/blog"
    ok up
    cd "$T/empty"
    ok ls
    says "1 claim of another project not shown"
    cd "$T/blog"
    ok down
    run script -qec "$DIBS ls" /dev/null </dev/null
    assert_output_has "no claims here; 'dibs up' claims the ports of the manifest"
}
