#!/usr/bin/env bats
# A real cluster of etcd for tests: it answers, and outlives its members' deaths with what it was told.
# shellcheck disable=SC2154 # variables come from what is loaded below
load ../support/dibs
load ../support/etcd

setup() { dibs_setup; }
teardown() { dibs_teardown; }

KEY='{"key":"eA==","value":"eQ=="}'
has_key() { etcd_ask /v3/kv/range '{"key":"eA=="}' | grep -q '"value":"eQ=="'; }

@test "a cluster of three members keeps what it was told when one of them dies" {
    etcd_start 3
    [ "${#ETCD_PIDS[@]}" -eq 3 ]
    etcd_ask /v3/kv/put "$KEY"
    etcd_kill 1
    wait_until 30 has_key # it may have led
    etcd_kill 0
    run etcd_ask /v3/kv/range '{"key":"eA=="}'
    [ "$status" -ne 0 ]
    etcd_member 0
    etcd_member 1
    wait_until 30 has_key
}

@test "a cluster with TLS serves only who shows a certificate" {
    needs openssl
    etcd_start 1 tls
    case $ETCD_URL in etcd://127.0.0.1:*/t\?cacert=*) ;; *) false ;; esac
    etcd_ask /v3/kv/put "$KEY"
    run curl --silent --noproxy '*' --max-time 3 --cacert "$ETCD_DIR/tls/ca.cert" "$ETCD_ORIGIN/v3/kv/put" --data "$KEY"
    [ "$status" -ne 0 ]
}
