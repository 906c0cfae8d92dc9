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

# cluster N: of etcd, with a pool `all` of the scope cluster, which the first daemon makes.
cluster() {
    etcd_start "$1"
    export DIBS_LEDGER=$ETCD_URL
}
# daemon NODE: of that host, with a short lease.
daemon() {
    node "$1" --node-ttl ${TTL}s
    if ! on "$1" pool show all >/dev/null 2>&1; then
        on "$1" pool set all --ranges 31000-31009 --scope cluster --cooldown 0s
    fi
}
# margin NODE: seconds for which it counts on its lease.
margin() {
    curl -s --max-time 20 --unix-socket "$T/$1.admin" http://dibs/metrics | sed -n 's/^dibs_cluster_lease_margin_seconds //p'
}
is_certain() { [[ $(margin "$1") =~ [1-9] ]]; }
is_uncertain() { [[ $(margin "$1") =~ ^0\.0+$ ]]; }
is_logged() { grep -q "$2" "$T/$1.log"; }
# state NODE PORT: how that host sees the claim.
state() { on "$1" ls --all --port "$2" --json | python3 -c 'import json, sys
print(*(c["life"] for c in json.load(sys.stdin)))'; }
is_state() { [ "$(state "$1" "$2")" = "$3" ]; }

@test "a process of another host counts as alive here, and its port is not handed out" {
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

@test "a host whose daemon is dead for long loses its cluster ports to others, keeps its own, and reports that" {
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
    kill -KILL "${NODES[a]}"
    wait "${NODES[a]}" || true
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
    end_process "${NODES[a]}"
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
    kill -TERM "${NODES[a]}"
    wait "${NODES[a]}"
    daemon a
    [ "$(state a 31000)" = alive ]
}

@test "without a majority claims fail in time, no host reports that it holds cluster ports, and all recover by themselves" {
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
    run on a release web # INV-11
    assert_status 6
    assert_output_has "cannot renew its lease there"
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

@test "without a daemon nothing is claimed in a cluster, and the error names what to start" {
    cluster 1
    run dibs --node c claim --keep web
    assert_status 6
    assert_output_has "dibs serve --ledger $ETCD_URL"
    run dibs --node c run true
    assert_status 6
    run dibs --node c ls
    assert_status 6
}

# metric NODE NAME: of its metrics.
metric() { curl -s --max-time 20 --unix-socket "$T/$1.admin" http://dibs/metrics | sed -n "s/^$2 //p"; }
has_metric() { [ "$(metric "$1" "$2")" = "$3" ]; }

@test "every host counts what all hosts have of the cluster's pools" {
    local port available='dibs_allocator_available_ports{pool="all",band="dynamic"}'
    cluster 1
    daemon a
    daemon b
    on b claim --pool all --keep beside
    on a claim --pool all -n 3 --keep web
    for port in {31000..31009}; do on a claim --pool all --port "$port" --keep fixed && break; done
    wait_until 10 has_metric b "$available" 5
    has_metric a "$available" 5
    [ "$(metric b 'dibs_allocator_allocated_ports{pool="all",kind="static"}')" = 1 ]
    run on b pool show all --json
    assert_output_has '"available":5'
    on a release --all-mine
    wait_until 10 has_metric b "$available" 9
    wait_until 10 has_metric a "$available" 9
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

@test "ports of another host are shown as that host's, and the pool does not move away from them" {
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
    assert_status 3
    assert_output_has "port 31003 would change between host and cluster scope"
    run on b pool set with/slash --ranges 31100-31101
    assert_status 2
    assert_output_has "pool name 'with/slash'"
}

@test "doctor shows which hosts have a lease" {
    cluster 1
    daemon a
    daemon b
    end_process "${NODES[b]}"
    wait_until 30 is_without_lease
    run on a doctor
    assert_output_has "this host has a lease in the cluster"
}

is_without_lease() { on a doctor | grep -q "1 of 2 hosts have no lease in the cluster"; }

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
    end_process "${NODES[a]}"
    end_process "${NODES[b]}"
    export DIBS_LEDGER=$DIBS_LEDGER-new # as after etcd was lost: nobody is known there
    node a --node-ttl ${TTL}s # without the pool, which the snapshot has
    run on a snapshot import "$T/all.json"
    assert_status 0
    assert_output_has "3 claims imported"
    end_process "${NODES[a]}"
    daemon b
    wait_until 10 is_state b 31002 alive # judged by its own host, to whose lease it is attached again
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
    end_process "${NODES[a]}"
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

@test "the name of a host and the length of its lease are checked" {
    run dibs serve --node 'a b' --socket "$T/x" --admin-socket "$T/y"
    assert_status 2
    assert_output_has "cannot be a host's name"
    run dibs serve --node-ttl 10 --socket "$T/x" --admin-socket "$T/y"
    assert_status 2
    run dibs serve --node-ttl 10ms --socket "$T/x" --admin-socket "$T/y"
    assert_status 2
    assert_output_has "between 1s and 1h"
}
