#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# The commands on a ledger in etcd: pools of a cluster, and what a host reports of them. Several hosts on one ledger are
# in unit/test_ledger_etcd*.c. Ports of this file: 17000-17999.
load ../support/dibs
load ../cli/cli
load ../support/etcd
load ../support/serve

setup() { dibs_setup; }
teardown() { dibs_teardown; }

# cluster [N]: of etcd, and the daemon of this host on it.
cluster() {
    etcd_start "${1:-1}"
    export DIBS_LEDGER=$ETCD_URL
    serve_start
    export DIBS_SOCKET=$ADMIN
}

@test "a pool of the scope cluster is made and shown, and keeps the scope of ports that have claims" {
    cluster
    ok pool set everywhere --ranges 17000-17199 --scope cluster --cooldown 1s
    ok pool show everywhere --json
    json 'd["scope"] == "cluster" and d["cooldown_ms"] == 1000 and d["usage"]["size"] == 200'
    ok claim --pool everywhere -n 3 --keep web
    port=$(head -1 "$T/out")
    ok claim --port 17001 --pool everywhere
    refused 3 pool set everywhere --ranges 17900-17999
    says 'would change between host and cluster scope'
    says 'release that first'
    refused 3 pool set everywhere --scope host
    ok claim web/0 --keep
    [ "$out" = "$port" ]
    ok pool set everywhere --ranges 17000-17299 # nobody has a claim on the new ones
    refused 3 pool rm everywhere
    says 'still has 4 claims'
    ok release --all-mine
    ok pool rm everywhere
}

@test "on a ledger of one host the scope cluster is refused with the reason" {
    refused 2 pool set everywhere --ranges 17200-17209 --scope cluster
    says "one host's own"
    refused 5 pool show everywhere
}

@test "settings that overrule a pool of the cluster are reported" {
    cluster
    ok pool set everywhere --ranges 17300-17399 --scope cluster
    try doctor
    not grep -q overrule "$T/out"
    serve_stop
    DIBS_BAND=off DIBS_COOLDOWN=9s serve_start
    try doctor
    prints 'settings of this host overrule it: band off, order stride, cooldown 9s instead of band auto, order stride, cooldown 5s'
    grep -q 'settings of this host overrule a pool of the cluster.*pool=everywhere' "$T/serve.log"
    serve_stop
}

@test "one port on several hosts is claimed with --hosts, kept, and the same again" {
    cluster
    host=$(uname -n)
    ok claim --keep first
    ok claim --hosts "$host" job
    port=$out
    ok claim --hosts "$host" job --json
    json "len(d) == 1 and d[0]['port'] == $port and d[0]['kept']"
    refused 3 claim --hosts "$host" --port 17998 job
    says "is port $port on host $host, which is not what is asked for now"
    refused 3 claim --hosts "$host" --proto udp job
    says 'not what is asked for now'
    refused 5 claim --hosts "$host,elsewhere" job
    says "knows no host 'elsewhere'"
    refused 2 claim --hosts "$host,$host" job
    refused 2 claim --hosts "$host" -n 2
    refused 2 claim --hosts "$host" --ttl 5m
    refused 2 claim --hosts "a,,b"
    ok release --hosts "$host" job --json
    json "d == {'released': 1}"
    ok release --hosts "$host" job
    refused 2 release --hosts "$host" "$port"
    refused 2 release --hosts "$host" --all-mine
    refused 2 release --hosts "$host" --force job
    says 'ends only claims without a holder'
    refused 5 release --hosts elsewhere job
    DIBS_LEDGER=sqlite:$T/one.db DIBS_SOCKET=none refused 2 claim --hosts "$host"
}

@test "one port on several hosts is claimed by administrators alone, and each host's daemon knows it" {
    cluster
    host=$(uname -n)
    node other
    node third
    ok claim --hosts "other,$host,third" job --json
    json "[c['node'] for c in d] == ['other', None, 'third'] and len({c['port'] for c in d}) == 1"
    ok claim --hosts "$host,other" job
    port=$out
    wait_until 10 has_job other
    wait_until 10 has_job third
    on third claim job --ttl 1m
    refused 3 release --hosts "other,$host,third" job
    says 'host third has a holder of'
    ok get job
    prints "$port"
    on third release job
    ok release --hosts "other,$host,third" job --json
    json "d == {'released': 2}"
    wait_until 10 lacks_job other
    DIBS_SOCKET=$SOCKET refused 7 claim --hosts "$host" job
    says administrator
    serve_stop
}

has_job() { on "$1" ls --all --json | grep -q "\"port\":$port"; }
lacks_job() { ! has_job "$1"; }

@test "doctor looks at members, majority, alarms and this host's place" {
    cluster 3
    ok claim --keep web
    try doctor
    [ "$code" -eq 0 ]
    [ "$(grep -c 'member .*, etcd 3.*answers in' "$T/out")" -eq 3 ]
    [ "$(grep -c ', leads, ' "$T/out")" -eq 1 ]
    prints 'a majority answers in'
    prints 'this host is one of 1 nodes of the ledger'
    prints 'clock is'
    serve_stop # without the daemon its members are looked at all the same
    try doctor
    [ "$code" -ne 0 ]
    [ "$(grep -c 'member .*, etcd 3.*answers in' "$T/out")" -eq 3 ]
    export DIBS_SOCKET=none
    try doctor
    prints 'through the daemon of this host'
    DIBS_LEDGER=etcd://127.0.0.1:${ETCD_PORTS[0]}/t try doctor
    [ "$(grep -c 'is not named' "$T/out")" -eq 2 ]
    etcd_kill 2
    DIBS_TIMEOUT=20s try doctor
    grep -q 'warn  http://127.0.0.1:.* does not answer' "$T/out"
    prints 'a majority answers in'
    etcd_kill 1
    DIBS_TIMEOUT=20s try doctor
    [ "$code" -ne 0 ]
    prints 'FAIL  no majority answers'
    prints 'start members until more than half of them run'
    [ "$(grep -c 'does not answer' "$T/out")" -ge 2 ]
}

@test "doctor accepts a user with rights below the prefix alone" {
    etcd_start 1
    for name in root dibs; do
        etcd_ask /v3/auth/user/add "{\"name\":\"$name\",\"password\":\"pw\"}"
        etcd_ask /v3/auth/role/add "{\"name\":\"$name\"}"
        etcd_ask /v3/auth/user/grant "{\"user\":\"$name\",\"role\":\"$name\"}"
    done
    # From /t/ to /t0, which is what --prefix=true gives.
    etcd_ask /v3/auth/role/grant '{"name":"dibs","perm":{"permType":"READWRITE","key":"L3Qv","range_end":"L3Qw"}}'
    etcd_ask /v3/auth/enable '{}'
    export DIBS_ETCD_USER=dibs DIBS_ETCD_PASSWORD=pw DIBS_LEDGER=$ETCD_URL
    serve_start
    export DIBS_SOCKET=$ADMIN
    ok claim --keep web
    try doctor
    [ "$code" -eq 0 ]
    prints 'a majority answers in'
    # A refused user gets no advice to start members.
    export DIBS_SOCKET=none
    DIBS_LEDGER=${ETCD_URL%/t}/elsewhere try doctor
    [ "$code" -ne 0 ]
    grep -q 'FAIL  the cluster refuses us, .*permission denied' "$T/out"
    prints 'rights below the prefix'
    DIBS_ETCD_PASSWORD=wrong try doctor
    [ "$code" -ne 0 ]
    grep -q 'FAIL  http://127.0.0.1:.* refuses us: .*invalid user ID or password' "$T/out"
    prints 'FAIL  the cluster refuses us'
    [ "$(grep -c 'start members' "$T/out")" -eq 0 ]
}

@test "doctor reports a full database and the remedy" {
    cluster
    ok claim --keep web
    id=$(etcd_ask /v3/cluster/member/list '{}' | sed 's/.*"ID":"\([0-9]*\)".*/\1/')
    etcd_ask /v3/maintenance/alarm "{\"action\":\"ACTIVATE\",\"memberID\":\"$id\",\"alarm\":\"NOSPACE\"}"
    try doctor
    [ "$code" -ne 0 ]
    prints 'has the alarm NOSPACE'
    prints 'etcdctl alarm disarm'
}

etcd_takes_put() { # a member that has just started has no leader at first
    "${ETCD_CURL[@]}" --output "$T/answer" "$ETCD_ORIGIN/v3/kv/put" --data @"$T/put" &&
        grep -Eq '"revision"|space exceeded' "$T/answer"
}

doctor_says() { # TEXT; etcd counts what it has written up to its last commit, a moment ago
    try doctor
    grep -qF "$1" "$T/out"
}

@test "doctor reports a database that is nearly full" {
    local i
    cluster
    ok claim --keep web
    try doctor
    not grep -q 'from .* MiB on' "$T/out"
    serve_stop
    etcd_kill 0
    start "$DIBS_TEST_SUPPORT/etcd-member" "$ETCD_DIR" 0 --quota-backend-bytes $((16 << 20))
    ETCD_PIDS[0]=$STARTED
    wait_until 30 etcd_is_ready
    head -c 1000000 /dev/zero | base64 -w0 >"$T/value"
    for i in $(seq 11); do # 1.5 MiB at once at most
        printf '{"key":"%s","value":"%s"}' "$(printf 'x%s' "$i" | base64)" "$(cat "$T/value")" >"$T/put"
        wait_until 30 etcd_takes_put
    done
    wait_until 30 doctor_says 'from 16 MiB on nothing is written'
    grep -Eq 'allow it more \(--quota-backend-bytes\)|etcdctl defrag' "$T/out" # by how much of the file is in use
}

has_lag() { # its own change has come back
    ask /metrics
    [[ $output =~ dibs_etcd_watch_lag_seconds\ [0-9.]+ ]]
}

@test "the daemon's metrics of etcd: commits, conflicts, retries, watch lag" {
    cluster
    ok pool set nodeports --ranges 17500-17599 --scope cluster
    ok claim -n 3 --keep web
    ok claim --keep api --pool nodeports # only claims of the cluster's pools are watched
    wait_until 10 has_lag
    ask /metrics
    assert_code 200
    [[ $output =~ dibs_etcd_commit_seconds_count\ ([0-9]+) ]]
    [ "${BASH_REMATCH[1]}" -ge 2 ]
    [[ $output =~ 'dibs_etcd_commit_seconds_bucket{le="+Inf"} '([0-9]+) ]]
    [ "${BASH_REMATCH[1]}" -ge 2 ]
    [[ $output =~ dibs_etcd_conflicts_total\ 0 ]]
    [[ $output =~ dibs_etcd_retries_total\ 0 ]]
    [[ $output =~ dibs_etcd_watch_lag_seconds\ [0-9.]+ ]]
    serve_stop
}

@test "snapshots go from a ledger to another, into etcd and out of it" {
    cluster
    ok pool set nodeports --ranges 17500-17599 --scope cluster
    ok claim web --port 17510 --pool nodeports --keep
    ok claim api --keep
    port=$out
    ok snapshot export "$T/all.json"
    serve_stop
    export DIBS_LEDGER=sqlite:$T/one.db DIBS_SOCKET=none
    ok snapshot import "$T/all.json" --json
    json 'd == {"imported": 2}'
    ok pool show nodeports --json
    json 'd["scope"] == "cluster"'
    export DIBS_LEDGER=${ETCD_URL%/*}/elsewhere
    serve_start
    export DIBS_SOCKET=$ADMIN
    ok snapshot import "$T/all.json" --json
    json 'd == {"imported": 2}'
    ok snapshot import "$T/all.json" --json
    json 'd == {"imported": 0}'
    ok get web
    [ "$out" = 17510 ]
    ok get api
    [ "$out" = "$port" ]
    ok snapshot export --format k8s --pool nodeports "$T/bits.json"
    ok release --all-mine
    ok snapshot import --pool nodeports "$T/bits.json" --json
    json 'd == {"imported": 1}'
}

@test "repair restores used ports, reports errors, and drops a leak after its grace" {
    cluster
    ok pool set k8s --ranges 17600-17699 --scope cluster
    printf '17600 one\n17601 two\n17600 three\n18000 four\n' >"$T/seen"
    ok repair --pool k8s --observed "$T/seen" --json
    json 'sorted(i["kind"] for i in d) == ["duplicate", "out-of-range", "restored", "restored"]'
    ok ls --json
    json 'sorted(c["port"] for c in d) == [17600, 17601]'
    for _ in 1 2 3 4; do
        ok repair --pool k8s --observed /dev/null
        ok ls --json
        json 'len(d) == 2'
    done
    ok repair --pool k8s --observed /dev/null --grace 1ms
    ok ls --json
    json 'd == []'
}
