# shellcheck shell=bash disable=SC2034,SC2154 # variables that bats sets, or that a test reads
# A real cluster of etcd on loopback for bats files:   load ../support/dibs; load ../support/etcd
#
#   etcd_start 3            $ETCD_URL is its URL, for DIBS_LEDGER; $ETCD_PIDS its members' pids; ended by dibs_teardown
#   etcd_kill 0; etcd_member 0        SIGKILL to a member, and its start with the data that it had

#   node a --node-ttl 3s; on a ls     the daemon of a host of that name on $DIBS_LEDGER, and a command of that host's administrator

# etcd_start N [tls]
etcd_start() {
    needs etcd curl
    ETCD_DIR=$T/etcd.$RANDOM
    ETCD_N=$1
    ETCD_PIDS=()
    ETCD_CURL=(curl --silent --noproxy '*' --max-time 20)
    local i tail=/t scheme=http
    mkdir "$ETCD_DIR"
    start "$DIBS_TEST_SUPPORT/etcd_ports.py" "$1" "$ETCD_DIR/ports"
    wait_until 10 test -f "$ETCD_DIR/ports" || return 1
    if [ "${2:-}" = tls ]; then
        local at=$ETCD_DIR/tls
        "$DIBS_TEST_SUPPORT/etcd-certificates" "$at" || return 1
        tail="/t?cacert=$at/ca.cert&cert=$at/client.cert&key=$at/client.key"
        scheme=https
        ETCD_CURL+=(--cacert "$at/ca.cert" --cert "$at/client.cert" --key "$at/client.key")
    fi
    mapfile -t ETCD_PORTS < <(cut -d' ' -f1 "$ETCD_DIR/ports")
    ETCD_URL=etcd://$(printf '127.0.0.1:%s,' "${ETCD_PORTS[@]}")
    ETCD_URL=${ETCD_URL%,}$tail
    ETCD_ORIGIN=$scheme://127.0.0.1:${ETCD_PORTS[0]}
    for ((i = 0; i < $1; i++)); do etcd_member "$i"; done
    wait_until 30 etcd_is_ready
}

etcd_member() {
    start "$DIBS_TEST_SUPPORT/etcd-member" "$ETCD_DIR" "$1"
    ETCD_PIDS[$1]=$STARTED
}

etcd_kill() {
    end_process "${ETCD_PIDS[$1]}"
}

# etcd_ask PATH JSON: what the first member answers; fails when it is a refusal.
etcd_ask() {
    "${ETCD_CURL[@]}" --fail "$ETCD_ORIGIN$1" --data "$2"
}

etcd_is_ready() {
    etcd_ask /v3/kv/range '{"key":"eA=="}'
}

# node NAME [OPTION]...: the daemon of that host, ready on return; its pid is ${NODES[NAME]}, its log $T/NAME.log.
declare -gA NODES
node() {
    DIBS_SOCKET=none start "$DIBS" serve --node "$1" --socket "$T/$1.sock" --admin-socket "$T/$1.admin" "${@:2}" 2>>"$T/$1.log"
    NODES[$1]=$STARTED
    wait_until 20 on "$1" ls || { cat "$T/$1.log" >&2; return 1; }
}

# on NAME COMMAND...: as an administrator of that host.
on() {
    DIBS_SOCKET=$T/$1.admin dibs "${@:2}"
}
