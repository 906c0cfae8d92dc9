#!/usr/bin/env bats
# A real cluster of etcd for tests: it answers, and outlives its members' deaths with what was written.
# shellcheck disable=SC2154 # variables come from what is loaded below
load ../support/dibs
load ../support/etcd
load ../support/serve

setup() { dibs_setup; }
teardown() { dibs_teardown; }

KEY='{"key":"eA==","value":"eQ=="}'
has_key() { etcd_ask /v3/kv/range '{"key":"eA=="}' | grep -q '"value":"eQ=="'; }

@test "a cluster of three members keeps what was written when one of them dies" {
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

@test "a cluster with TLS serves only clients with a certificate" {
    needs openssl
    etcd_start 1 tls
    case $ETCD_URL in etcd://127.0.0.1:*/t\?cacert=*) ;; *) false ;; esac
    etcd_ask /v3/kv/put "$KEY"
    run curl --silent --noproxy '*' --max-time 3 --cacert "$ETCD_DIR/tls/ca.cert" "$ETCD_ORIGIN/v3/kv/put" --data "$KEY"
    [ "$status" -ne 0 ]
}

@test "--check-config of a daemon writes nothing into etcd, and raises no format" {
    etcd_start 1
    export DIBS_LEDGER=$ETCD_URL
    everything() { etcd_ask /v3/kv/range '{"key":"AA==","range_end":"AA=="}' | sed 's/"header":{[^}]*}//'; }
    dibs serve --check-config
    [ "$(everything)" = "{}" ]
    python3 - "$DIBS_TEST_SUPPORT/etcd-format-1.txt" >"$T/old" <<'END' # the ledger of an older dibs
import base64, json, sys
for line in open(sys.argv[1]):
    key, value = (bytes.fromhex(word) for word in line.split())
    print(json.dumps({"key": base64.b64encode(b"/t" + key).decode(), "value": base64.b64encode(value).decode()}))
END
    while read -r put; do etcd_ask /v3/kv/put "$put" >/dev/null; done <"$T/old"
    before=$(everything)
    dibs serve --check-config
    [ "$(everything)" = "$before" ]
    serve_start
    [ "$(everything)" != "$before" ]
    etcd_kill 0
    run dibs serve --check-config
    [ "$status" -eq 6 ]
}

# Connections that the daemon has not accepted yet.
nine_wait() { [ "$(ss -Hxl "src = $SOCKET" | awk '{ print $3 }')" = 9 ]; }

@test "requests that share a commit that etcd does not answer fail together, not one after another" {
    etcd_start 1
    DIBS_LEDGER=$ETCD_URL DIBS_TIMEOUT=1s serve_start
    ask --json '{"name":"before"}' /v1/claims
    assert_code 201
    local pids=() i codes
    kill -STOP "$DAEMON" # so that all are there when it looks
    for i in 1 2 3 4 5 6 7 8; do
        curl -sS --max-time 60 --unix-socket "$SOCKET" -o "$T/answer.$i" -w '%{http_code}\n' --json "{\"name\":\"n$i\"}" http://dibs/v1/claims \
            >>"$T/codes" &
        pids+=($!)
    done
    curl -sS --max-time 60 --unix-socket "$SOCKET" -o /dev/null -w '%{http_code}' http://dibs/metrics >"$T/measured" &
    pids+=($!)
    wait_until 10 nine_wait
    kill -STOP "${ETCD_PIDS[0]}"
    wait_until 10 grep -q '^State:.*stopped' "/proc/${ETCD_PIDS[0]}/status"
    local began=$SECONDS
    kill -CONT "$DAEMON"
    wait "${pids[@]}"
    kill -CONT "${ETCD_PIDS[0]}"
    codes=$(sort -u "$T/codes")
    [ "$codes" = 503 ]
    [ "$(cat "$T/measured")" = 200 ] # who measures has no part in it
    within 6 "$began"
    wait_until 10 serve_answers
    ask --json '{"name":"after"}' /v1/claims
    assert_code 201
}
