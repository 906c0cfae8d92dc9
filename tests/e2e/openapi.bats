#!/usr/bin/env bats
# /openapi.json against reality: every operation is asked for, and every answer must be as it is described.
load ../support/dibs
load ../support/sandbox
load ../support/serve

setup() {
    dibs_setup
    needs_root # asks as another user, too
    needs curl openssl python3
    python3 -c 'import jsonschema' || skip "python3-jsonschema is not installed"
    public_folder
}
teardown() { sandbox_teardown; }

@test "everything that the daemon answers is as its description says, and nothing else is there" {
    DIBS_LEDGER=sqlite:$T/strict.db SOCKET_DIR=$T serve_start --rate 1
    strict=$SOCKET
    token=sixteen-or-more-$RANDOM$RANDOM
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost \
        -addext 'subjectAltName=DNS:localhost,IP:127.0.0.1' -keyout "$T/key.pem" -out "$T/cert.pem" 2>"$T/openssl"
    (umask 077 && echo "uid:65534 $token" >"$T/tokens")
    port=$("$DIBS_TEST_SUPPORT/free_port.py")
    SOCKET_DIR=$PUBLIC serve_start --listen "127.0.0.1:$port" --tls-cert "$T/cert.pem" --tls-key "$T/key.pem" --tokens "$T/tokens"
    listen 0
    run timeout 60 python3 "$BATS_TEST_DIRNAME/openapi.py" "$ADMIN" "$SOCKET" "$strict" "$port" "$T/cert.pem" "$token" "$LISTENED"
    assert_status 0
    assert_output_has "operations"
}
