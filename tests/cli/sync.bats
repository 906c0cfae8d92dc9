#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2153,SC2154 # variables come from, and go to, what is loaded below; shells expand their own
# `dibs up`, `down` and `plan` against what is there already, and against what runs. Ports of this file: 15300-15399.

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
    ok get --create x/y/z/t
    own=$out
    ok get --create mine
    ok up
    says '0 kept, 1 added, 0 moved, 0 dropped'
    ok down
    says '0 kept, 0 added, 0 moved, 1 dropped'
    ok ls --all --json
    json 'sorted(c["name"] for c in d) == ["shop/mine", "shop/x/y/z/t"]'
    ok get x/y/z/t
    [ "$out" = "$own" ]
}

@test "a role or a port that is renamed may have the ports that it leaves, where there are no others" {
    for port in 'front http' 'web grpc'; do
        manifest 'range: 15320-15327
roles: {web: {instances: 6, ports: [http]}}'
        ok up
        manifest "range: 15320-15327
roles: {${port% *}: {instances: 6, ports: [${port#* }]}}"
        ok plan
        says '0 kept, 6 added, 0 moved, 6 dropped'
        planned=$(printf '%s\n' "$out" | sed -n 's/^add //p')
        ok up
        [ "$out" = "$planned" ]
        [ "$(held)" -eq 6 ]
    done
}

@test "a new name that up would take for the manifest's is refused, and one that is there is found" {
    ok claim --keep cache/0/a/b # there is no manifest yet
    own=$out
    manifest 'roles: {web: {ports: [http]}}'
    echo '{{ port "cache/-/c/d" }}' >template
    for command in 'claim --keep cache/-/c/d' 'claim -n 2 cache/0/c' 'get cache/-/c/d' 'run -p cache/1/c/d -- true' 'render template'; do
        # shellcheck disable=SC2086 # words
        refused 2 $command
        says "four parts with a number or '-' as the second are the manifest's"
    done
    refused 5 get web/0/-/htp
    not says 'a name of your own'
    [ "$(held)" -eq 1 ]
    ok get cache/0/a/b
    [ "$out" = "$own" ]
    ok claim --keep cache/0/a # no form of the manifest's
    ok claim --keep /cache/0/a/b/c
    ok claim --keep web/0/-/http
    ok up
    says '1 kept, 0 added, 0 moved, 1 dropped'
    ok release cache/0/a/b
}

# without_ipv6 ARGUMENT...: dibs in a network without IPv6; must succeed.
without_ipv6() {
    needs_root
    needs unshare ip
    [ -e /proc/sys/net/ipv6 ] || skip "this kernel has no IPv6 at all"
    capture unshare --net sh -c 'ip link set lo up && echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6 && exec "$DIBS" "$@"' sh "$@"
    [ "$code" -eq 0 ] || complain "dibs $* failed"
}

# A daemon probes in its own network, not in that of who asks.
# bats test_tags=unserved
@test "without IPv6 a manifest's localhost and wildcard ports are kept, and said to be IPv4 alone" {
    manifest 'roles: {a: {ports: [{name: d, env: D, address: localhost}, {name: e, env: E}, {name: f, env: F, address: 127.0.0.1}]}}'
    without_ipv6 plan
    says 'this host has no IPv6'
    without_ipv6 up
    says 'this host has no IPv6'
    before=$out
    without_ipv6 up
    says '3 kept, 0 added, 0 moved, 0 dropped'
    says 'this host has no IPv6'
    [ "$out" = "$before" ]
    manifest 'roles: {a: {ports: [{name: f, env: F, address: 127.0.0.1}]}}'
    without_ipv6 up
    not says 'IPv6'
}

# A daemon probes in its own network, not in that of who asks.
# bats test_tags=unserved
@test "a claim made without IPv6 is widened when there is IPv6, unless a process holds it" {
    manifest 'roles: {a: {ports: [{name: d, env: D, address: localhost}]}, b: {ports: [{name: d, env: D, address: localhost}]}}'
    without_ipv6 up
    before=$out
    start_sleeper
    without_ipv6 claim b/0/d --pid "$STARTED" --address localhost
    ok plan
    prints 'move a/0/d'
    prints 'keep b/0/d'
    ok up
    says '1 kept, 0 added, 1 moved, 0 dropped'
    [ "$out" = "$before" ]
    ok ls --all --json
    json '{c["name"][-7:]: len(c["bindings"]) for c in d} == {"a/0/-/d": 2, "b/0/-/d": 1}'
    end_process "$STARTED"
    ok up
    says '1 kept, 0 added, 1 moved, 0 dropped'
    ok up
    says '2 kept, 0 added, 0 moved, 0 dropped'
    # And the other way round: what covers IPv6 is good enough without.
    without_ipv6 up
    says '2 kept, 0 added, 0 moved, 0 dropped'
    not says 'IPv4 alone'
}

@test "pods that run are named when a port of their role, or one that they refer to, changes" {
    web='web: {instances: 2, ports: [{name: http, env: PORT}], references: [{env: API, from: api.http}]}'
    manifest "roles: {api: {ports: [{name: http, env: PORT}]}, $web}"
    ok up
    run_role web/0
    manifest "roles: {api: {ports: [{name: http, env: PORT, address: 127.0.0.1}]}, $web}"
    ok plan
    says 'api/0/http: the process that runs as web/0 does not know of port'
    ok up
    says 'api/0/http: the process that runs as web/0 does not know of port'
    run_role web/1
    manifest "roles: {api: {ports: [{name: http, env: PORT, address: 127.0.0.1}]}, ${web/PORT\}/PORT\}, {name: g, env: G, scope: RoleScoped\}}}"
    ok up --json
    json '[(c["pod"], c["pods"]) for c in d if c["needs_restart"] and c["change"] == "add"] == [("web/0", 2)]'
    json '[c["pod"] for c in d if c["change"] == "restart"] == ["web/0", "web/1"]'
}

@test "a lease on a pod's port is not reported as running, and a running process is reported before it" {
    manifest 'roles: {web: {instances: 2, ports: [{name: http, env: PORT}, {name: g, env: G, scope: RoleScoped}]}}'
    ok up
    ok claim web/0/http --ttl 5m
    manifest 'roles: {web: {instances: 2, ports: [{name: http, env: PORT}]}}'
    ok plan
    says 'stays while web/0 has a lease'
    run_role web/1
    ok up
    says 'stays while web/1 runs'
    end_command
    ok release web/0/http
    ok up
    says '1 dropped'
}

@test "down leaves the port of a role alone while one of its pods runs, and ends it afterwards" {
    manifest 'roles: {web: {instances: 2, ports: [{name: http, env: PORT}, {name: g, env: G, scope: RoleScoped}]}}'
    ok up
    run_role web/0
    manifest 'roles: {web: {instances: 2, ports: [{name: http, env: PORT}]}}'
    ok plan
    prints 'stay web/-/g'
    ok up
    says 'stays while web/0 runs'
    not prints 'web/-/g'
    ok down
    says 'stays while web/0 runs'
    says '1 dropped, 2 staying'
    ok ls --all --json
    json 'sorted(c["name"] for c in d) == ["project/web/-/-/g", "project/web/0/-/http"]'
    end_command
    ok down
    says '1 dropped'
    [ "$(held)" -eq 0 ]
}

@test "a block that is no longer contiguous is refused with the remedy for every caller" {
    block() { manifest "roles: {a: {ports: [{name: d, env: D, count: 40$1}], command: ['true']}}"; }
    block ''
    ok up # forty ports, anywhere
    block ', contiguous: true'
    for command in 'env a' env 'get a/0/d' 'run a' 'run --all'; do
        # shellcheck disable=SC2086 # words
        refused 3 $command
        says "'dibs up' makes it so"
        not says 'release it first'
    done
    ok up
    ok env a
    first=${out#D=}
    ok get a/0/d.39
    [ "$out" -eq $((first + 39)) ]
}

@test "a port that the manifest changed is refused with the way out" {
    manifest 'roles: {a: {ports: [{name: d, env: D}]}}'
    ok up
    manifest 'roles: {a: {ports: [{name: d, env: D, proto: udp}]}}'
    refused 3 get a/0/d
    says "'project/a/0/-/d' has port"
    says "'dibs up' makes it so"
    echo '{{ port "a/0/d" }}' >template
    refused 3 render template
    says "'dibs up' makes it so"
    ok up
    ok get a/0/d
}

# end_command: what run_role has started, and dibs with it.
end_command() {
    kill -TERM "$COMMAND"
    wait "$STARTED" || true
    wait_until 10 has_ended "$COMMAND" # it may be nobody's child by now
}
has_ended() { ! grep -q '^State:.*[RSDT] ' "/proc/$1/status"; }

# a_web PORT: the only port of a role has this number.
a_web() {
    manifest "roles: {web: {ports: [{name: http, env: PORT, port: $1}], command: ['true']}}"
}

@test "a port that moves while its pod runs stays with it, and the pod is not started twice" {
    a_web 15301
    ok up
    run_role web
    a_web 15302
    ok plan
    prints 'move web/0/http 15301 -> 15302'
    ok up
    says 'web/0/http: the process that runs as web/0 does not know of port 15302'
    ok who 15301
    prints 'project/web/0/-/http/15301'
    ok log
    prints 'project/web/0/-/http/15301'
    for command in 'run web' 'run web/0' 'run --all'; do
        # shellcheck disable=SC2086 # words
        refused 3 $command
        says 'project/web/0/-/http/15301'
        says "pid $COMMAND"
    done
    ok plan
    prints 'stay web/0/-/http/15301 15301'
    ok up
    says '1 kept, 0 added, 0 moved, 0 dropped, 1 staying'
    says 'port 15301 stays with the process that runs'
    refused 2 get /project/web/0/-/http/15301 # nobody asks for such a name
    ok ls web/0/-/http/15301
    prints "pid $COMMAND"
    end_command
    ok run web
    [ "$(held)" -eq 1 ]
    ok get web/0/http
    [ "$out" = 15302 ]
}

@test "a port that moves and moves back is the one that its process has" {
    a_web 15303
    ok up
    run_role web
    a_web 15304
    ok up
    a_web 15303
    ok plan
    prints 'move web/0/http 15304 -> 15303'
    not says 'restarted'
    ok up
    says '0 kept, 0 added, 1 moved, 0 dropped'
    [ "$(held)" -eq 1 ]
    end_command
    ok get web/0/http
    [ "$out" = 15303 ]
    [ "$(held)" -eq 1 ] # kept as before
}

@test "dibs killed after a move: the process has both names' port until it ends, then down leaves nothing" {
    a_web 15305
    ok up
    run_role web
    a_web 15306
    ok up
    end_process "$STARTED"
    ok down
    says '0 kept, 0 added, 0 moved, 1 dropped, 1 staying'
    refused 3 claim --port 15305
    refused 3 run web
    end_process "$COMMAND"
    ok down
    [ "$(held)" -eq 0 ]
}

@test "the port of a role that moves while a pod of it runs is nobody else's until the next up without one" {
    role() { manifest "roles: {web: {instances: 2, ports: [{name: http, env: PORT}, {name: g, env: G, scope: RoleScoped, port: $1}]}}"; }
    role 15307
    ok up
    run_role web/1
    role 15308
    ok up
    says 'web/-/g: the process that runs as web/1 does not know of port 15308'
    refused 3 claim --port 15307
    says 'project/web/-/-/g/15307'
    ok plan
    prints 'stay web/-/-/g/15307 15307'
    ok up
    says 'port 15307 stays while web/1 runs'
    end_command
    ok up
    says '1 dropped'
    ok claim --port 15307
}

@test "a pod runs in its own directory, whatever its group is called, and in no other of the same name" {
    a_web 15309
    ok up
    run_role web
    mkdir -p "$T/other/project"
    cd "$T/other/project" || return 1
    a_web 15310
    ok run web
    ok up
    run_role web
    a_web 15311
    ok up
    for command in 'run web' 'run --all'; do
        # shellcheck disable=SC2086 # words
        refused 3 $command
        says 'project~'
        says '/web/0/-/http/15310'
        says "pid $COMMAND"
    done
}

@test "a port that a renamed role cannot have while the old one runs is reported with the pod to stop" {
    role() { manifest "roles: {$1: {instances: 2, ports: [{name: http, env: PORT}, {name: g, env: G, scope: RoleScoped, port: 15312}]}}"; }
    role web
    ok up
    run_role web/1
    role front
    for command in plan up; do
        refused 3 $command
        says "port 15312 is needed for another claim, but web/1 runs with it (pid $COMMAND, sleep); stop it first"
    done
    end_command
    ok up
    a_web 15313
    ok up
    run_role web
    manifest 'roles: {web: {ports: [{name: http, env: PORT, port: 15314}]}, front: {ports: [{name: http, port: 15313}]}}'
    refused 3 up # also when its own name has another number by then
    says "port 15313 is needed for another claim, but web/0 runs with it (pid $COMMAND, sleep); stop it first"
    end_command
    ok up
}

@test "a group that is renamed while a pod runs: the pod is not started a second time" {
    manifest 'group: first
roles: {web: {ports: [http], command: "true"}}'
    run_role web
    manifest 'group: second
roles: {web: {ports: [http], command: "true"}}'
    refused 3 run web
    says 'first/web/0/-/http'
    refused 3 run --all
    end_command
    ok run web
}

# Roles without a port of their own.
no_own_port() {
    printf '%s\n' "roles:
  api: {ports: [{name: http, port: 15312}]}
  web: {instances: 2, ports: [{name: http, scope: RoleScoped, port: $1}], command: 'true'}
  job: {references: [{env: API, from: api.http}], command: 'true'}
  model: {components: [{name: leader, ports: [{name: join, scope: RoleScoped}]}], command: 'true'}" >dibs.yaml
}

@test "a pod without a port of its own is not started twice, dibs killed or not" {
    no_own_port 15313
    for pod in web/0 job model/0/leader; do
        run_role "$pod"
        refused 3 run "$pod" -- true
        says 'it runs already'
        says "pid $COMMAND"
        refused 3 run --all
        end_process "$STARTED"
        refused 3 run "$pod" -- true
        end_command
        ok run "$pod" -- true
    done
    run_role web/1
    ok run web/0 -- true
    end_command
    ok run --all
    ok down
    [ "$(held)" -eq 0 ]
}

@test "a pod that refers to a port is over when it has ended, though that port is listened on" {
    no_own_port 15314
    ok up
    listen 15312
    run_role job
    end_process "$STARTED"
    end_command
    ok run job -- true
}

@test "a shared port stays while a pod runs that has nothing else" {
    no_own_port 15315
    ok up
    run_role web/1
    no_own_port 15316
    ok up
    says 'web/-/http: the process that runs as web/1 does not know of port 15316'
    not prints 'web/1/http'
    refused 3 claim --port 15315
    ok down
    says 'port 15315 stays while web/1 runs'
    says 'port 15316 stays while web/1 runs'
    not says 'web/1/http'
    refused 3 claim --port 15316
    end_process "$STARTED"
    end_command
    ok down
    says '2 dropped'
    [ "$(held)" -eq 0 ]
}
