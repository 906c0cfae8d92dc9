#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Holders across hosts: daemons of several hosts on one real etcd.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell; variables come from what is loaded below
load ../support/dibs
load ../support/etcd

TTL=3 # seconds; the least that etcd grants with the times of our members

setup() {
    dibs_setup
    needs curl
}
teardown() { dibs_teardown; }

# cluster N: of etcd, with a pool `all` whose ports are everybody's.
cluster() {
    etcd_start "$1"
    export DIBS_LEDGER=$ETCD_URL
    dibs --node a pool set all --ranges 31000-31009 --scope cluster --cooldown 0s
}
# daemon NODE: of that host; its pid is ${DAEMONS[NODE]}, its log $T/NODE.log.
declare -gA DAEMONS
daemon() {
    DIBS_SOCKET=none start "$DIBS" serve --node "$1" --node-ttl ${TTL}s --socket "$T/$1.sock" --admin-socket "$T/$1.admin" \
        2>>"$T/$1.log"
    DAEMONS[$1]=$STARTED
    wait_until 20 on "$1" ls || { cat "$T/$1.log" >&2; return 1; }
}
# on NODE COMMAND...: as somebody on that host.
on() {
    DIBS_SOCKET=$T/$1.admin dibs "${@:2}"
}
# margin NODE: seconds for which it counts on its lease.
margin() {
    curl -s --max-time 20 --unix-socket "$T/$1.admin" http://dibs/metrics | sed -n 's/^dibs_cluster_lease_margin_seconds //p'
}
is_certain() { [ "$(margin "$1")" != 0.000 ] && [ -n "$(margin "$1")" ]; }
is_uncertain() { [ "$(margin "$1")" = 0.000 ]; }
is_logged() { grep -q "$2" "$T/$1.log"; }
# state NODE PORT: how that host sees the claim.
state() { on "$1" ls --all --port "$2" --json | python3 -c 'import json, sys
print(*(c["life"] for c in json.load(sys.stdin)))'; }
is_state() { [ "$(state "$1" "$2")" = "$3" ]; }

@test "a process of another host lives, as far as can be told here, and its port is not given away" {
    cluster 1
    daemon a
    daemon b
    start_sleeper
    on a claim web --port 31000 --pool all --pid "$STARTED"
    wait_until 10 is_state b 31000 alive
    run on b claim --port 31000 --pool all --ttl 1m
    assert_status 3
    assert_output_has "uid:0@a"
    run on b who 31000
    assert_output_has "on a"
    run on b ls --all --json
    assert_output_has '"node":"a"'
    run on a ls --all --json
    assert_output_has '"node":null'
    on b reap
    wait_until 10 is_state b 31000 alive
    end_process "$STARTED"
    wait_until 10 is_state b 31000 "" # its own host has seen it
}

@test "a host whose daemon is dead for long loses its cluster's ports to others, keeps its own, and is told so" {
    local port
    cluster 1
    daemon a
    daemon b
    start_sleeper
    sleeper=$STARTED
    on a claim web --port 31000 --pool all --pid "$sleeper"
    on a claim idle --port 31001 --pool all --pid "$sleeper"
    on a claim kept --port 31002 --pool all --keep
    on a claim own --port 25000 --address 127.0.0.9 --pid "$sleeper"
    kill -KILL "${DAEMONS[a]}"
    wait "${DAEMONS[a]}" || true
    run on b claim --port 31000 --pool all --ttl 1m
    assert_status 3
    sleep $((3 * TTL))
    run on b claim taken --port 31000 --pool all --ttl 1m
    assert_status 0
    run on b claim --port 31002 --pool all --ttl 1m
    assert_status 3 # kept claims outlive the host
    daemon a
    wait_until 10 is_state a 25000 alive
    wait_until 10 is_state a 31001 "" # ended by its own host, for it hung on a lease that has ended
    run on a who 31000
    assert_output_has "on b"
    run on a log --json
    [ "$(grep -o '"what":"reaped"' <<<"$output" | wc -l)" = 2 ]
    is_logged a "other hosts have ended claims of this one"
    for port in 25000 31002; do [ "$(on a ls --all --port $port --json)" != '[]' ]; done
}

has_five() { [ "$(on "$1" ls --all --json | grep -o '"port":3100' | wc -l)" -ge 5 ]; }
all_are_free() { [ "$(on b ls --all --json)" = '[]' ] && [ "$(on c ls --all --json)" = '[]' ]; }
all_are_reaped() { [ $(($(reaped_by b) + $(reaped_by c))) = 5 ]; }
reaped_by() { on "$1" log --json | grep -o '"what":"reaped"' | wc -l; }

@test "the dead of a host that is gone are cleared away by others, once, without being asked" {
    cluster 1
    daemon a
    daemon b
    daemon c
    start_sleeper
    on a claim -n 5 web --pool all --pid "$STARTED"
    for node in b c; do wait_until 10 has_five "$node"; done # else nothing would be free before it is heard of
    end_process "${DAEMONS[a]}"
    wait_until $((4 * TTL)) all_are_free
    wait_until "$TTL" all_are_reaped
    on b reap
    on c reap
    all_are_reaped # not a second time, not even when asked to
}

@test "a daemon that comes back in time holds on for its processes" {
    cluster 1
    daemon a
    start_sleeper
    on a claim web --port 31000 --pool all --pid "$STARTED"
    kill -TERM "${DAEMONS[a]}"
    wait "${DAEMONS[a]}"
    daemon a
    [ "$(state a 31000)" = alive ]
}

@test "without a majority claims fail in time, nobody is told that he holds the cluster's ports, and all goes on by itself" {
    local from
    cluster 3
    daemon a
    start_sleeper
    on a claim web --port 31000 --pool all --pid "$STARTED"
    on a claim own --port 25000 --address 127.0.0.9 --pid "$STARTED"
    etcd_kill 1
    etcd_kill 2
    wait_until $((3 * TTL)) is_uncertain a
    [ "$(state a 31000)" = unknown ]
    [ "$(state a 25000)" = alive ]
    run on a assert web
    assert_status 6
    run on a get web
    assert_status 6
    run on a assert own
    assert_status 3 # its own, though nobody listens
    is_logged a "cannot be renewed"
    from=$SECONDS
    run on a claim --port 31005 --pool all --ttl 1m
    assert_status 6
    run on a claim --port 25001 --address 127.0.0.9 --ttl 1m
    assert_status 6
    within 12 "$from" # the timeout of each is 5s
    etcd_member 1
    etcd_member 2
    wait_until 60 is_certain a
    wait_until 10 on a claim --port 31005 --pool all --ttl 1m
    [ "$(state a 25000)" = alive ]
}

@test "without a daemon nobody holds by a process in a cluster, but for a time or for good" {
    cluster 1
    start_sleeper
    run dibs --node c claim --pool all --pid "$STARTED"
    assert_status 2
    assert_output_has "dibs serve"
    run dibs --node c run true
    assert_status 2
    dibs --node c claim --pool all --port 31003 --ttl 1m
    dibs --node c claim --pool all --port 31004 --keep
    daemon b
    [ "$(state b 31003)" = unknown ] # only c itself can tell
    [ "$(state b 31004)" = alive ]
    run on b claim --pool all --port 31003 --ttl 1m
    assert_status 3
    assert_output_has "only its own host can tell"
}

# figure NODE NAME: of its metrics.
figure() { curl -s --max-time 20 --unix-socket "$T/$1.admin" http://dibs/metrics | sed -n "s/^$2 //p"; }
has_figure() { [ "$(figure "$1" "$2")" = "$3" ]; }

@test "every host counts what all hosts have of the cluster's pools" {
    local port available='dibs_allocator_available_ports{pool="all",band="dynamic"}'
    cluster 1
    daemon a
    daemon b
    on b claim --pool all --keep beside
    on a claim --pool all -n 3 --keep web
    for port in {31000..31009}; do on a claim --pool all --port "$port" --keep fixed && break; done
    wait_until 10 has_figure b "$available" 5
    has_figure a "$available" 5
    [ "$(figure b 'dibs_allocator_allocated_ports{pool="all",kind="static"}')" = 1 ]
    run on b pool show all --json
    assert_output_has '"available":5'
    on a release --all-mine
    wait_until 10 has_figure b "$available" 9
    wait_until 10 has_figure a "$available" 9
}

@test "a pool that another host changes or removes counts at once" {
    local port
    cluster 1
    daemon a
    daemon b
    on a pool set moving --ranges 31100-31109
    wait_until 10 has_ranges b moving 31100-31109
    on b claim --pool moving --ttl 1m
    on a pool set moving --ranges 31200-31209
    wait_until 10 has_ranges b moving 31200-31209
    port=$(on b claim --pool moving --ttl 1m)
    [ "$port" -ge 31200 ]
    on b claim --pool moving --ttl 1m # so that it could remember it
    on a pool rm moving
    wait_until 10 lacks_pool b moving
    run on b claim --pool moving --ttl 1m
    assert_status 5
}
has_ranges() { on "$1" pool ls --json | grep -q "\"name\":\"$2\",\"ranges\":\"$3\""; }
lacks_pool() { ! on "$1" pool ls --names | grep -q "^$2\$"; }

@test "what another host has of a pool is shown as that host's, also when the pool moves away from it" {
    cluster 1
    daemon a
    daemon b
    on a claim --pool all --port 31003 --keep of-a
    on b claim --pool all --port 31004 --keep of-b
    run on b ls --all
    assert_output_has "- on a"
    run on b who 31003
    assert_output_has "of host a"
    run on b pool set all --ranges 31005-31009
    assert_status 0
    assert_output_has "2 claims of pool 'all' are outside of its ranges now, and stay: 31003, 31004"
    run on b pool set with/slash --ranges 31100-31101
    assert_status 2
    assert_output_has "pool name 'with/slash'"
}

@test "doctor tells which hosts have a lease" {
    cluster 1
    daemon a
    dibs --node b claim --keep web
    run on a doctor
    assert_output_has "this host has a lease in the cluster"
    assert_output_has "1 of 2 hosts have no lease in the cluster"
    run dibs --node b doctor
    assert_output_has "this host has no lease in the cluster"
}

@test "a snapshot brings back the cluster's claims of all hosts, each as its own host's" {
    cluster 1
    daemon a
    daemon b
    start_sleeper
    on a claim kept --port 31001 --pool all --keep
    on b claim held --port 31002 --pool all --pid "$STARTED"
    on b claim kept --port 31003 --pool all --keep
    wait_until 10 is_state a 31003 alive
    on a snapshot export "$T/all.json"
    grep -q '"principal":"uid:0@b"' "$T/all.json"
    run on a snapshot import "$T/all.json" # all is there
    assert_status 0
    assert_output_has "0 claims imported"
    run env DIBS_LEDGER="sqlite:$T/own.db" "$DIBS" --socket none snapshot import "$T/all.json"
    assert_status 2 # one host's own
    end_process "${DAEMONS[a]}"
    end_process "${DAEMONS[b]}"
    export DIBS_LEDGER=$DIBS_LEDGER-new # as after etcd was lost: nobody is known there
    run dibs --node a --socket none snapshot import "$T/all.json"
    assert_status 0
    assert_output_has "3 claims imported"
    daemon b
    wait_until 10 is_state b 31002 alive # judged by its own host, on whose lease it hangs again
    [ "$(on b get kept)" = 31003 ]
    run on b ls --all --port 31001 --json
    assert_output_has '"principal":"uid:0@a"'
    daemon a
    wait_until 10 is_state a 31002 alive
    [ "$(on a get kept)" = 31001 ]
    on b release --all-mine
    wait_until 10 is_state b 31002 ""
    on b snapshot export "$T/b.json" # where a's is another host's
    on a release --all-mine
    run on a snapshot import "$T/b.json"
    assert_status 0
    assert_output_has "1 claim imported"
    [ "$(on a get kept)" = 31001 ]
}

is_gone() { on b node | grep -q "^$1  *gone"; }

@test "an administrator forgets a host that will not come back, and all that it has claimed" {
    cluster 1
    daemon a
    daemon b
    start_sleeper
    on a claim web --port 31000 --pool all --pid "$STARTED"
    on a claim kept --port 31001 --pool all --keep
    on a claim own --port 25000 --address 127.0.0.9 --pid "$STARTED"
    run on b node remove a
    assert_status 3
    assert_output_has "alive"
    run on b node remove b
    assert_status 2
    run on b node remove none
    assert_status 5
    run env DIBS_SOCKET="$T/b.sock" "$DIBS" node remove a --force
    assert_status 7 # not through the public socket
    end_process "${DAEMONS[a]}"
    wait_until $((4 * TTL)) is_gone a
    run on b claim --port 31001 --pool all --ttl 1m
    assert_status 3
    run on b node remove a --json
    assert_status 0
    assert_output_has '{"ended":3}'
    run on b node ls --json
    assert_output_has '[{"name":"b","alive":true,"here":true}]'
    on b claim --port 31001 --pool all --ttl 1m
    daemon a # a host of that name is another one now
    [ "$(on a ls --all --port 25000 --json)" = '[]' ]
    on a claim own --port 25000 --address 127.0.0.9 --pid "$STARTED"
    on a claim web --port 31002 --pool all --pid "$STARTED"
    wait_until 10 is_state b 31002 alive
}

@test "a host that is removed although it lives is one again by itself" {
    cluster 1
    daemon a
    daemon b
    start_sleeper
    on a claim web --port 31000 --pool all --pid "$STARTED"
    on b node remove a --force
    wait_until 10 is_state a 31000 ""
    wait_until 10 on a claim web --port 31000 --pool all --pid "$STARTED"
    wait_until 10 is_state b 31000 alive
}

@test "what a host is called, and how long its lease is, is checked" {
    run dibs serve --node 'a b' --socket "$T/x" --admin-socket "$T/y"
    assert_status 2
    assert_output_has "cannot be a host's name"
    run dibs serve --node-ttl 10 --socket "$T/x" --admin-socket "$T/y"
    assert_status 2
    run dibs serve --node-ttl 10ms --socket "$T/x" --admin-socket "$T/y"
    assert_status 2
    assert_output_has "between 1s and 1h"
}
