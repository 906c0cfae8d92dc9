#!/usr/bin/env bats
# The daemon's metrics: read by promtool and by a real Prometheus, over TLS and with a token.
# shellcheck disable=SC2153 # variables that the support files set
load ../support/dibs
load ../support/serve

setup() {
    dibs_setup
    needs curl python3
}
teardown() { dibs_teardown; }

# value SERIES: of the last scrape.
value() {
    local line
    line=$(grep -F "$1 " <<<"$output" | grep -v '^#') || { echo "there is no $1" >&2; return 1; }
    echo "${line##* }"
}

# tcp_start: a daemon that listens on TCP, too. $PORT, $T/cert.pem; the token is $TOKEN.
tcp_start() {
    needs openssl
    TOKEN=sixteen-or-more-$RANDOM$RANDOM
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost \
        -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' -keyout "$T/key.pem" -out "$T/cert.pem" 2>"$T/openssl"
    (umask 077 && echo "uid:65534 $TOKEN" >"$T/tokens")
    PORT=$("$DIBS_TEST_SUPPORT/free_port.py")
    serve_start --listen "127.0.0.1:$PORT" --tls-cert "$T/cert.pem" --tls-key "$T/key.pem" --tokens "$T/tokens"
}

@test "promtool finds nothing to complain about" {
    needs promtool
    dibs pool set nodeports --ranges 30000-32767
    serve_start --kube-metrics nodeports
    ask --json '{}' /v1/claims
    ask /metrics
    assert_code 200
    run promtool check metrics <<<"$output"
    assert_status 0
    [ -z "$output" ]
}

@test "claims, refusals and requests are counted, with and without the daemon" {
    listen 0 tcp 127.0.0.1
    serve_start
    ask --json '{"mode":"required","port":20001,"bindings":[{"address":"127.0.0.1"}]}' /v1/claims
    assert_code 201
    ask --json '{"mode":"required","port":20001,"bindings":[{"address":"127.0.0.1"}]}' /v1/claims
    assert_code 409
    ask --json "{\"mode\":\"required\",\"port\":$LISTENED,\"bindings\":[{\"address\":\"127.0.0.1\"}]}" /v1/claims
    assert_code 409
    ask --json '{"nmae":"web"}' /v1/claims
    assert_code 400
    ask --json '{"requests":[{},{}],"dry_run":true}' /v1/batch
    assert_code 200
    ask /nothing
    assert_code 404
    dibs claim --address 127.0.0.1 >/dev/null
    counted() { ask /metrics && [ "$(value 'dibs_allocator_allocation_total{pool="default",scope="dynamic"}')" = 1 ]; }
    wait_until 10 counted
    ask /metrics
    [ "$(value 'dibs_allocator_allocated_ports{pool="default",kind="static"}')" = 1 ]
    [ "$(value 'dibs_allocator_allocated_ports{pool="default",kind="dynamic"}')" = 1 ]
    [ "$(value 'dibs_allocator_allocation_total{pool="default",scope="static"}')" = 1 ]
    [ "$(value 'dibs_allocator_allocation_errors_total{pool="default",scope="static",reason="taken"}')" = 2 ]
    [ "$(value 'dibs_allocator_allocation_errors_total{pool="default",scope="dynamic",reason="invalid"}')" = 1 ]
    [ "$(value dibs_probe_refusals_total)" = 1 ]
    [ "$(value dibs_claims)" = 2 ]
    [ "$(value 'dibs_request_duration_seconds_count{route="POST /v1/claims",code="2xx"}')" = 1 ]
    [ "$(value 'dibs_request_duration_seconds_count{route="POST /v1/claims",code="4xx"}')" = 3 ]
    [ "$(value 'dibs_request_duration_seconds_count{route="(other)",code="4xx"}')" = 1 ]
    [ "$(value dibs_connections)" = 1 ]
}

@test "a holder that dies is counted as watched, and then as reaped" {
    serve_start
    start_sleeper
    ask --json "{\"holder\":{\"kind\":\"process\",\"pid\":$STARTED}}" /v1/claims
    assert_code 201
    ask /metrics
    [ "$(value 'dibs_watched_processes{by="pidfd"}')" = 1 ]
    end_process "$STARTED"
    reaped() { ask /metrics && [ "$(value 'dibs_allocator_reaped_total{pool="default"}')" = 1 ]; }
    wait_until 10 reaped
    [ "$(value 'dibs_watched_processes{by="pidfd"}')" = 0 ]
    [ "$(value 'dibs_events_total{kind="reaped"}')" = 1 ]
}

@test "a repair is counted by what it found" {
    serve_start
    ask --json '{"observed":[{"port":20500,"name":"old"},{"port":70}]}' /v1/repair
    assert_code 200
    ask --json '{"observed":[{"port":20501}],"dry_run":true}' /v1/repair
    assert_code 200
    ask /metrics
    [ "$(value 'dibs_repair_findings_total{type="restored"}')" = 1 ]
    [ "$(value 'dibs_repair_findings_total{type="out-of-range"}')" = 1 ]
    [ "$(value 'dibs_events_total{kind="repaired"}')" = 1 ]
}

@test "a request that waits or listens to a stream counts as fast" {
    serve_start
    ask '/v1/events?wait=300ms'
    assert_code 200
    curl -sN --max-time 20 --unix-socket "$SOCKET" -H 'Accept: text/event-stream' 'http://dibs/v1/events' >"$T/stream" 3>&- &
    stream=$!
    echo "$stream" >>"$T/started"
    wait_until 10 grep -q retry "$T/stream"
    ask /metrics
    [ "$(value 'dibs_request_duration_seconds_bucket{route="GET /v1/events",code="2xx",le="0.256"}')" = 2 ]
}

@test "a pool that is not there cannot have the names of Kubernetes" {
    run dibs serve --socket "$T/s" --kube-metrics nodeports
    assert_status 5
    assert_output_has "there is no pool 'nodeports'"
    [ ! -e "$T/s" ]
}

@test "over TCP only health is served without a token" {
    tcp_start
    run curl -sS --cacert "$T/cert.pem" -o /dev/null -w '%{http_code}' "https://127.0.0.1:$PORT/metrics"
    [ "$output" = 401 ]
    run curl -sS --cacert "$T/cert.pem" -o /dev/null -w '%{http_code}' -H 'Authorization: Bearer no-such-token-at-all' \
        "https://127.0.0.1:$PORT/metrics"
    [ "$output" = 401 ]
    run curl -sS --cacert "$T/cert.pem" -o /dev/null -w '%{http_code}' "https://127.0.0.1:$PORT/healthz"
    [ "$output" = 200 ]
}

# plain PATH [CURL OPTION]...: over the listener of --metrics; $output and $code.
plain() {
    output=$(curl -sS --max-time 5 -w '\n%{http_code}' "${@:2}" "http://127.0.0.1:$PLAIN$1")
    code=${output##*$'\n'}
    output=${output%$'\n'*}
}

@test "--metrics serves metrics and health without TLS, and nothing else" {
    PLAIN=$("$DIBS_TEST_SUPPORT/free_port.py")
    serve_start --metrics "127.0.0.1:$PLAIN"
    ask --json '{}' /v1/claims
    assert_code 201
    plain /metrics
    assert_code 200
    [ "$(value 'dibs_allocator_allocation_total{pool="default",scope="dynamic"}')" = 1 ]
    [ "$(value dibs_ready)" = 1 ]
    [ "$(value dibs_commit_seconds_count)" = 1 ]
    [ "$(value 'dibs_commit_seconds_bucket{le="+Inf"}')" = 1 ]
    now=$(date +%s)
    started=$(value process_start_time_seconds)
    [ "$started" -le "$now" ] && [ "$started" -gt $((now - 120)) ]
    plain /healthz
    assert_code 200
    for path in /readyz /livez /v1/claims /v1/daemon /openapi.json /get /dump /; do
        plain "$path"
        [ "$code" = 404 ] || { echo "$path: $code" >&2; return 1; }
    done
    plain /v1/claims --json '{}'
    assert_code 404
    plain /metrics -X POST
    assert_code 405
    ask /metrics
    [ "$(value 'dibs_allocator_allocation_total{pool="default",scope="dynamic"}')" = 1 ]
}

@test "--metrics refuses a web page whose name leads to a loopback address" {
    PLAIN=$("$DIBS_TEST_SUPPORT/free_port.py")
    serve_start --metrics "127.0.0.1:$PLAIN"
    for host in evil.example "evil.example:$PLAIN" localhost.evil.example; do
        plain /metrics -H "Host: $host"
        assert_code 403
        [[ $output != *dibs_claims* ]]
    done
    for host in localhost "localhost:$PLAIN" "127.0.0.1:$PLAIN" "[::1]:$PLAIN"; do
        plain /metrics -H "Host: $host"
        assert_code 200
    done
}

@test "--metrics is refused on addresses that others reach, and on a port in use" {
    for address in 0.0.0.0:9464 '*:9464' '[::]:9464' 192.0.2.1:9464 localhost:9464 9464 127.0.0.1:0 127.0.0.1:99999; do
        run dibs serve --check-config --metrics "$address"
        [ "$status" -eq 2 ] || { echo "$address: $status $output" >&2; return 1; }
        assert_output_has "--metrics"
    done
    run dibs serve --check-config --metrics 192.0.2.1:9464
    assert_output_has "is not a loopback address"
    assert_output_has "--listen"
    listen 0 tcp 127.0.0.1
    run dibs serve --socket "$T/s" --admin-socket "$T/a" --metrics "127.0.0.1:$LISTENED"
    assert_status 3
    [ ! -e "$T/s" ]
    dibs serve --check-config --metrics '[::1]:9464' --socket "$T/s"
}

@test "clients of --metrics take no place of the API's, and end with the daemon" {
    PLAIN=$("$DIBS_TEST_SUPPORT/free_port.py")
    serve_start --metrics "127.0.0.1:$PLAIN"
    start python3 -c 'import socket, sys, time
idle = [socket.create_connection(("127.0.0.1", int(sys.argv[1]))) for _ in range(100)]
open(sys.argv[2], "w").close()
time.sleep(60)' "$PLAIN" "$T/open"
    wait_until 10 test -e "$T/open"
    ask --json '{}' /v1/claims
    assert_code 201
    ask /metrics
    [ "$(value dibs_connections)" = 1 ]
    serve_stop
    [ "$status" -eq 0 ]
}

@test "a real Prometheus scrapes the daemon over TLS with a token" {
    needs prometheus
    tcp_start
    ask --json '{}' /v1/claims
    web=$("$DIBS_TEST_SUPPORT/free_port.py")
    cat >"$T/prometheus.yml" <<END
global: { scrape_interval: 1s, scrape_timeout: 1s }
scrape_configs:
  - job_name: dibs
    scheme: https
    authorization: { credentials: "$TOKEN" }
    tls_config: { ca_file: "$T/cert.pem" }
    static_configs: [ { targets: [ "127.0.0.1:$PORT" ] } ]
END
    start prometheus --config.file="$T/prometheus.yml" --storage.tsdb.path="$T/tsdb" \
        --web.listen-address="127.0.0.1:$web" 2>"$T/prometheus.log"
    query() { # query EXPRESSION VALUE: Prometheus knows it
        curl -sG --max-time 5 "http://127.0.0.1:$web/api/v1/query" --data-urlencode "query=$1" >"$T/answer" &&
            python3 -c 'import json, sys
r = json.load(open(sys.argv[1]))["data"]["result"]
sys.exit(not r or r[0]["value"][1] != sys.argv[2])' "$T/answer" "$2"
    }
    wait_until 20 query 'up{job="dibs"}' 1 || { cat "$T/prometheus.log" "$T/answer" "$T/serve.log" >&2; return 1; }
    query 'dibs_allocator_allocated_ports{pool="default",kind="dynamic"}' 1
    query 'sum(dibs_allocator_allocation_total)' 1
}
