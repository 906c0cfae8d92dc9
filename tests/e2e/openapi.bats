#!/usr/bin/env bats
# /openapi.json against reality: every operation is asked for, and every answer must be as it is described.
load ../support/dibs
load ../support/sandbox
load ../support/serve
load ../support/etcd

setup() {
    dibs_setup
    needs_root # asks as another user, too
    needs curl openssl python3
    python3 -c 'import jsonschema' || skip "python3-jsonschema is not installed"
    public_folder
}
teardown() { sandbox_teardown; }

# serve_all [OPTION]...: a daemon on every transport; $TLS is its port over TCP, $TOKEN a token there, $LOOPBACK that for gRPC's clients.
serve_all() {
    TOKEN=sixteen-or-more-$RANDOM$RANDOM
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost \
        -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' -keyout "$T/key.pem" -out "$T/cert.pem" 2>"$T/openssl"
    (umask 077 && echo "uid:65534 $TOKEN" >"$T/tokens")
    TLS=$("$DIBS_TEST_SUPPORT/free_port.py") LOOPBACK=$("$DIBS_TEST_SUPPORT/free_port.py")
    SOCKET_DIR=$PUBLIC serve_start --listen "127.0.0.1:$TLS" --tls-cert "$T/cert.pem" --tls-key "$T/key.pem" --tokens "$T/tokens" \
        --portserver-http "127.0.0.1:$LOOPBACK" "$@"
}

@test "everything that the daemon answers is as its description says, and nothing else is there" {
    DIBS_LEDGER=sqlite:$T/strict.db SOCKET_DIR=$T serve_start --rate 1
    strict=$SOCKET
    mkdir "$T/gone"
    DIBS_LEDGER=sqlite:$T/gone.db SOCKET_DIR=$T/gone serve_start --quota 1
    gone=$SOCKET
    serve_all --enforce
    listen 0
    run timeout 60 python3 "$BATS_TEST_DIRNAME/openapi.py" "$ADMIN" "$SOCKET" "$strict" "$gone" "$T/gone.db" "$TLS" "$T/cert.pem" \
        "$TOKEN" "$LOOPBACK" "$LISTENED"
    assert_status 0
    assert_output_has "operations"
}

# fuzz ROUNDS: DIBS_TEST_SEED repeats the requests of a run.
fuzz() {
    run timeout 60 python3 "$BATS_TEST_DIRNAME/openapi_fuzz.py" "${DIBS_TEST_SEED:-$RANDOM}" "$1" \
        "$ADMIN" "$SOCKET" "$TLS" "$T/cert.pem" "$TOKEN" "$LOOPBACK"
    assert_status 0
    assert_output_has "requests"
}

@test "requests that are made from the description are answered as it says, valid and invalid ones" {
    serve_all
    fuzz 30
}

@test "the same in a cluster" {
    etcd_start 1
    export DIBS_LEDGER=$ETCD_URL
    serve_all
    fuzz 12
}
