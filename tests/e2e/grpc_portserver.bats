#!/usr/bin/env bats
# Clients of gRPC's port server: GET /get, /drop/N, /dump, /version_number, over loopback and the Unix socket.
load ../support/dibs

setup() {
    needs curl
    dibs_setup
}
teardown() { dibs_teardown; }

# serve [OPTION...]: a daemon that answers, also over loopback, at $URL.
serve() {
    HTTP=127.0.0.1:$("$DIBS_TEST_SUPPORT/free_port.py")
    URL=http://$HTTP
    start "$DIBS" serve --socket "$T/dibs.sock" --admin-socket "$T/admin.sock" --portserver-http "$HTTP" "$@" \
        2>"$T/log"
    wait_until 10 grep -q msg=serving "$T/log" || { cat "$T/log" >&2; return 1; }
}

# fetch PATH [OPTION...]: the body; fails unless the answer is 200.
fetch() { curl -sS --max-time 10 --fail-with-body "$URL$1" "${@:2}"; }
# code PATH [OPTION...]: the status.
code() { curl -sS --max-time 10 -o /dev/null -w '%{http_code}' "$URL$1" "${@:2}"; }
# The same as another user.
as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }

claims() { dibs ls --all --json; } # of the ledger itself, whatever the daemon says

@test "get gives a port that is a lease of ten minutes, and drop ends it" {
    serve
    port=$(fetch /get)
    [[ $port =~ ^[0-9]+$ ]]
    run claims
    assert_output_has "\"port\":$port"
    assert_output_has '"ttl_ms":600000'
    run fetch "/drop/$port"
    assert_status 0
    [ -z "$output" ]
    run claims
    [[ $output != *"\"port\":$port"* ]]
    [ "$(code "/drop/$port")" = 200 ]
}

@test "two ports are never the same" {
    serve
    for _ in {1..50}; do fetch /get; echo; done >"$T/ports"
    [ "$(sort -u "$T/ports" | wc -l)" -eq 50 ]
}

@test "drop ends nothing that was not got here, and nothing of others" {
    needs_root
    serve
    kept=$(dibs claim web --keep)
    named=$(dibs claim api --ttl 10m)
    port=$(fetch /get)
    [ "$(code "/drop/$kept")" = 200 ]
    [ "$(code "/drop/$named")" = 200 ]
    [ "$(as_nobody curl -sS -o "$T/body" -w '%{http_code}' "$URL/drop/$port")" = 200 ]
    # Also through the socket of administrators, who may end the claims of others elsewhere.
    other=$(as_nobody curl -sS "$URL/get")
    [ "$(curl -sS -o /dev/null -w '%{http_code}' --unix-socket "$T/admin.sock" "http://dibs/drop/$other")" = 200 ]
    run claims
    for one in "$kept" "$named" "$port" "$other"; do assert_output_has "\"port\":$one"; done
}

@test "drop ends the lease alone when its user has declared the same number" {
    serve
    port=$(fetch /get)
    dibs claim mine --declare "$port" --keep
    [ "$(code "/drop/$port")" = 200 ]
    run claims
    assert_output_has '/mine"'
    [[ $output != *'"ttl_ms":600000'* ]]
}

@test "over loopback it is the claim of the user whose connection it is" {
    needs_root
    serve
    port=$(as_nobody curl -sS --fail "$URL/get")
    run claims
    assert_output_has "\"port\":$port"
    assert_output_has '"principal":"uid:65534"'
}

@test "dump shows used ports with their age, and free ones" {
    needs python3
    serve --range 20100-20109
    port=$(fetch /get)
    fetch /dump >"$T/dump"
    python3 - "$port" "$T/dump" <<'PY'
import sys, yaml
port, dump = int(sys.argv[1]), yaml.safe_load(open(sys.argv[2]))
assert list(dump["in_use"]) == [port] and 0 <= dump["in_use"][port] < 60, dump
assert sorted(dump["pool"] + [port]) == list(range(20100, 20110)), dump
PY
    fetch "/drop/$port"
    run fetch /dump
    assert_output_has 'in_use: {}'
}

@test "a client finds it new enough and cannot end it" {
    serve
    [ "$(fetch /version_number)" -ge 21 ]
    [ "$(code /quitquitquit)" = 403 ]
    fetch /get
}

@test "over loopback there is nothing else" {
    serve
    for path in / /v1/claims /v1/daemon /metrics /healthz /get/ /drop/ /drop /nothing; do
        [ "$(code $path)" = 404 ] || { echo "$path" >&2; return 1; }
    done
    [ "$(code /get -X POST)" = 405 ]
    [ "$(code /drop/0)" = 400 ]
    [ "$(code /drop/65536)" = 400 ]
    [ "$(code /drop/web)" = 400 ]
    [ "$(code '/get?n=2')" = 400 ]
}

@test "a web page cannot ask for ports" {
    serve
    [ "$(code /get -H 'Origin: http://example.org')" = 403 ]
    [ "$(code /get -H 'Sec-Fetch-Site: cross-site')" = 403 ]
    # A name that somebody made point at a loopback address (DNS rebinding).
    # 0.0.0.0 is this host to a browser, which marks requests to it in no way.
    for host in evil.example evil.example:80 127.0.0.1.evil.example localhost.evil.example 0.0.0.0:80 '[::]:80'; do
        [ "$(code /get -H "Host: $host")" = 403 ]
    done
    [ "$(code /get -I)" = 405 ] # nothing changes by HEAD
    [ "$(code /drop/20000 -I)" = 405 ]
    [ "$(code /dump -I)" = 200 ]
    run claims
    [[ $output != *'"port"'* ]]
}

@test "addresses and localhost are names of this host" {
    serve
    for host in "$HTTP" localhost "LOCALHOST:80" '[::1]:80' 127.0.0.1; do
        [ "$(code /get -H "Host: $host")" = 200 ]
    done
}

@test "the same is served on the Unix socket" {
    serve
    port=$(curl -sS --fail --unix-socket "$T/dibs.sock" http://dibs/get)
    [[ $port =~ ^[0-9]+$ ]]
    [ "$(fetch "/drop/$port")" = "" ]
    run claims
    [[ $output != *"\"port\":$port"* ]]
}

@test "an exhausted pool and a full quota are errors" {
    needs_root
    serve --range 20100-20101 --quota 1
    fetch /get
    [ "$(code /get)" = 507 ]
    as_nobody curl -sS --fail "$URL/get"
    [ "$(as_nobody curl -sS -o "$T/body" -w '%{http_code}' "$URL/get")" = 507 ]
}

@test "only a loopback address is served without a token" {
    run dibs serve --socket "$T/dibs.sock" --portserver-http "0.0.0.0:$("$DIBS_TEST_SUPPORT/free_port.py")"
    assert_status 2
    assert_output_has "loopback"
}
