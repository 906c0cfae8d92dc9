#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The dashboard's server: its port, the addresses and sessions of its pages, their rights, and requests of other pages.
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # the inner shell's words; every test is a subshell; `ask_page` sets output and code
load ../support/dibs
load ../support/sandbox
load ../support/serve
load ../support/page

setup() {
    dibs_setup
    needs curl ss
    LOG=$T/serve.log
}
teardown() { sandbox_teardown; }

# listens [PID]: the TCP addresses on which the daemon listens, in order.
listens() { ss -Hltnp | grep "pid=${1:-$DAEMON}," | awk '{ print $4 }' | sort; }
# lacks FILE TEXT
lacks() { if grep -qi -- "$2" "$1"; then echo "$1 has $2" >&2; return 1; fi; }
# is_secret TEXT: no log, ledger or file of sessions has it.
is_secret() {
    local file
    for file in "$T"/*.log "$T"/ledger.db*; do lacks "$file" "$1" || return 1; done
}

# ---- the listener ----

@test "there is no listener before the first dibs ui, and then one on loopback alone, on a claimed port" {
    serve_start
    [ -z "$(listens)" ]
    ask /v1/claims
    [ "$(member claims)" = '[]' ]
    open_page
    [ "$(listens)" = "$(printf '%s\n' "127.0.0.1:$PAGE_PORT" "[::1]:$PAGE_PORT")" ]
    ask "/v1/claims?port=$PAGE_PORT"
    [ "$(member claims.0.name)" = dibs/ui ]
    [ "$(member claims.0.holder.pid)" = "$DAEMON" ]
    # A second page is one of the same server; so is one by another of its names.
    before=$PAGE_PORT
    open_page
    [ "$PAGE_PORT" = "$before" ]
    for BASE in "http://localhost:$PAGE_PORT" "http://[::1]:$PAGE_PORT"; do
        ask_page /v1/daemon
        assert_code 200
    done
    # The next dibs ui claims the port again that its user has released.
    DIBS_SOCKET=$SOCKET dibs release --force /dibs/ui
    ask "/v1/claims?port=$PAGE_PORT"
    [ "$(member claims)" = '[]' ]
    open_page
    [ "$PAGE_PORT" = "$before" ]
    ask "/v1/claims?port=$PAGE_PORT"
    [ "$(member claims.0.name)" = dibs/ui ]
    [ "$(member claims.0.holder.pid)" = "$DAEMON" ]
    serve_stop
    [ "$(dibs ls --all --json)" = '[]' ]
}

@test "a project of its name and another daemon do not stop a daemon's dashboard" {
    dibs claim --keep /dibs/ui >"$T/own"
    mkdir "$T/dibs"
    cd "$T/dibs"
    DIBS_LEDGER=sqlite:$T/other.db dibs get ui >"$T/projects"
    serve_start
    open_page
    [ "$PAGE_PORT" = "$(cat "$T/own")" ] # a person has chosen it
    serve_stop
    dibs ls --all --json | field kept | grep -qx True
    DIBS_LEDGER=sqlite:$T/other.db serve_start
    open_page
    [ "$PAGE_PORT" != "$(cat "$T/projects")" ]
}

# ---- addresses and sessions ----

@test "an address works once, and its session until it is ended; no secret is in a log, a listing or an event" {
    serve_start
    open_page
    ask_page /v1/claims
    assert_code 200
    SESSION='' ask_page --json "{\"token\":\"$ONE_TIME\"}" /v1/session
    assert_code 401
    [ "$(member detail)" = "this address was used already, or is older than a minute" ]
    for SESSION in "$ONE_TIME" 0123456789abcdef0123456789abcdef "${SESSION}0" ''; do
        ask_page /v1/claims
        assert_code 401
    done
    grep -q 'an unknown token was refused' "$LOG"
    open_page
    ask_page /v1/session
    assert_code 200
    [ "$(member principal)" = "uid:$(id -u)" ]
    [ "$(member user)" = "$(id -un)" ]
    [ "$(member kind)" = daemon ]
    case $output in *"$SESSION"*) false ;; esac
    ask '/v1/events?since=0'
    case $output in *"$SESSION"*|*"$ONE_TIME"*) false ;; esac
    ask /metrics
    case $output in *"$SESSION"*|*"$ONE_TIME"*) false ;; esac
    is_secret "$SESSION"
    is_secret "$ONE_TIME"
    ask_page -X DELETE /v1/session
    assert_code 204
    ask_page /v1/claims
    assert_code 401
}

@test "what is no token, and what is too much, is refused in words" {
    serve_start
    open_page
    for body in '{}' '[]' '{"token":7}' '{' ''; do
        SESSION='' ask_page --json "$body" /v1/session
        assert_code 400
    done
    SESSION='' ask_page -H 'Content-Type: text/plain' -d x /v1/session
    assert_code 415
    SESSION='' ask_page --json "{\"token\":\"$(printf '%070000d' 1)\"}" /v1/session
    assert_code 401
    for nonce in short "$(printf '%0129d' 1)" "$(printf '%042d' 1)+" ''; do
        SESSION='' ask_page --json "{\"id\":\"$SESSION_ID\",\"nonce\":\"$nonce\"}" /v1/session/proof
        assert_code 400
    done
    SESSION='' ask_page --json '{"id":"0123456789abcdef","nonce":"0123456789abcdef0123456789"}' /v1/session/proof
    assert_code 404
}

# proves: the server knows the session.
proves() {
    local nonce=AbCdEfGhIjKlMnOpQrStUvWxYz0123456789-_AbCdE
    SESSION='' ask_page --json "{\"id\":\"$SESSION_ID\",\"nonce\":\"$nonce\"}" /v1/session/proof
    [ "$code" = 200 ] && [ "$(member proof)" = "$(python3 -c 'import base64, hashlib, hmac, sys
session, nonce = (a.encode() for a in sys.argv[1:])
print(base64.urlsafe_b64encode(hmac.digest(hashlib.sha256(session).digest(), nonce, "sha256")).decode().rstrip("="))' "$SESSION" "$nonce")" ]
}

@test "a session survives SIGKILL of the daemon, on the same port; the file with it has no secret" {
    serve_start
    open_page
    before=$PAGE_PORT
    proves
    [ "$(stat -c %a "$T/ledger.db-sessions")" = 600 ]
    for _ in 1 2; do
        end_process "$DAEMON"
        serve_start
        [ "$(listens)" = "$(printf '%s\n' "127.0.0.1:$before" "[::1]:$before")" ]
        proves
        ask_page /v1/claims
        assert_code 200
    done
    is_secret "$SESSION"
    is_secret "$ONE_TIME"
    serve_stop
    serve_start
    proves
    # Ended sessions need no listener, and end for good.
    ask_page -X DELETE /v1/session
    serve_stop
    serve_start
    [ -z "$(listens)" ]
}

@test "a daemon whose port another program has taken meanwhile ends all sessions" {
    serve_start
    open_page
    end_process "$DAEMON"
    listen "$PAGE_PORT"
    serve_start
    grep -q 'has a new port' "$LOG"
    old=$SESSION stranger=$PAGE_PORT
    open_page
    [ "$PAGE_PORT" != "$stranger" ]
    SESSION=$old
    ask_page /v1/claims
    assert_code 401
}

@test "a damaged, a foreign and an open file of sessions is reported and not used" {
    serve_start
    open_page
    serve_stop
    cp "$T/ledger.db-sessions" "$T/good"
    damage() { sed -i '2s/^[0-9]* /x /' "$T/ledger.db-sessions"; }
    show() { chmod 644 "$T/ledger.db-sessions"; }
    grow() { head -c 100000 /dev/zero >>"$T/ledger.db-sessions"; }
    for spoil in damage show grow; do
        cp "$T/good" "$T/ledger.db-sessions"
        chmod 600 "$T/ledger.db-sessions"
        $spoil
        : >"$LOG"
        serve_start
        grep -q "the sessions of the dashboard cannot be read" "$LOG"
        [ -z "$(listens)" ]
        serve_stop
    done
    cp "$T/good" "$T/ledger.db-sessions"
    chmod 600 "$T/ledger.db-sessions"
    serve_start
    proves
    # Of another boot: it is as if there were no file.
    serve_stop
    sed -i '1s/ [0-9a-f]\{8\}-/ 00000000-/' "$T/ledger.db-sessions"
    : >"$LOG"
    serve_start
    [ -z "$(listens)" ]
    [ "$(grep -c level=warning "$LOG")" = 0 ]
}

# ---- other pages ----

@test "a page of another origin, and one under another name of this address, gets nothing" {
    serve_start
    open_page
    for field in 'Host: evil.example' "Host: evil.example:$PAGE_PORT" 'Host: 127.0.0.1' 'Host: 127.0.0.1:1' "Host: 127.0.0.1.:$PAGE_PORT" \
        "Host: 0.0.0.0:$PAGE_PORT" 'Origin: null' 'Origin: http://localhost:3000' "Origin: https://127.0.0.1:$PAGE_PORT" \
        "Origin: http://localhost:$PAGE_PORT" "Origin: http://127.0.0.1:${PAGE_PORT}0" 'Sec-Fetch-Site: cross-site' \
        'Sec-Fetch-Site: same-site' 'Sec-Fetch-Site: '; do
        for path in / /ui.js /v1/claims; do
            ask_page -H "$field" "$path"
            [ "$code" = 403 ] || [ "$field" = 'Sec-Fetch-Site: ' ] || { echo "$field $path: $code" >&2; return 1; }
        done
        [ "$field" = 'Sec-Fetch-Site: ' ] && continue # curl leaves out a field without a value
        SESSION='' ask_page -H "$field" --json "{\"token\":\"$ONE_TIME\"}" /v1/session
        assert_code 403
    done
    for field in "Origin: $BASE" 'Sec-Fetch-Site: same-origin' 'Sec-Fetch-Site: none' "Host: LOCALHOST:$PAGE_PORT"; do
        ask_page -H "$field" /v1/claims
        assert_code 200
    done
    ask_page -X OPTIONS -H "Origin: http://evil.example" -H 'Access-Control-Request-Method: DELETE' /v1/claims
    [ "$code" -ge 400 ]
}

@test "every answer has the fields that keep other pages and programs away" {
    serve_start
    open_page
    policy="default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    for path in / /ui.js /ui.css /v1/claims /v1/nothing '/v1/events?since=0'; do
        for option in '' --head; do
            # shellcheck disable=SC2086 # no option is no word
            curl -sS --max-time 1 $option -D "$T/head" -o /dev/null -H "Authorization: Bearer $SESSION" -H 'Accept: text/event-stream' "$BASE$path" || [ "$?" = 28 ]
            for field in "Content-Security-Policy: $policy" 'X-Content-Type-Options: nosniff' 'Referrer-Policy: no-referrer' \
                'Cross-Origin-Opener-Policy: same-origin' 'Cross-Origin-Resource-Policy: same-origin' 'Cache-Control: no-store' 'X-Frame-Options: DENY'; do
                grep -qF "$field" "$T/head" || { echo "$path has no $field" >&2; cat "$T/head" >&2; return 1; }
            done
            lacks "$T/head" '^Access-Control'
            lacks "$T/head" '^Set-Cookie'
        done
    done
    SESSION='' ask_page /
    assert_code 200
    [[ ${output,,} = '<!doctype html>'* ]]
}

# ---- rights ----

@test "a page can release and renew its user's claims, and nothing else" {
    needs_root
    needs setpriv
    public_folder
    SOCKET_DIR=$PUBLIC serve_start
    for uid in 65533 65534; do
        ASK_BY=(as_user "$uid")
        ask --json "{\"name\":\"own/$uid\",\"holder\":{\"kind\":\"lease\",\"ttl\":\"1h\"}}" /v1/claims
        assert_code 201
        foreign=$(member token)
    done
    open_page 65533
    ask_page /v1/claims
    [ "$(member claims.0.name)" = own/65533 ]
    [ "$(member claims.1.name)" = own/65534 ]
    ask_page '/v1/claims/-?name=own/65534'
    assert_code 404 # names are among one's own
    ask_page -X DELETE '/v1/claims/-?name=own/65534'
    [ "$(member released)" = 0 ]
    for path in "/v1/claims/$foreign" "/v1/claims/$foreign?force=true"; do
        ask_page -X DELETE "$path"
        assert_code 403
    done
    ask_page --json '{"ttl":"2h"}' "/v1/claims/$foreign/renew"
    assert_code 403
    ask_page --json '{"ttl":"2h"}' '/v1/claims/-/renew?name=own/65533'
    assert_code 200
    [ "$(member holder.ttl_ms)" = 7200000 ]
    ask_page -X DELETE '/v1/claims/-?name=own/65533'
    [ "$(member released)" = 1 ]
    while read -r method path; do
        ask_page -X "$method" --json '{}' "$path"
        [ "$code" = 403 ] || { echo "$method $path: $code" >&2; return 1; }
        [ "$(member detail)" = "a page may not do this: use the command" ]
    done <<'END'
POST /v1/claims
POST /v1/batch
POST /v1/claims/-/transfer
PUT /v1/pools/default
DELETE /v1/pools/default
PUT /v1/pools/default/snapshot
POST /v1/numbers
POST /v1/reap
POST /v1/repair
POST /v1/restore
POST /v1/doctor
POST /v1/ui
DELETE /v1/nodes/x
GET /metrics
GET /healthz
GET /readyz
GET /openapi.json
END
    for path in /get /drop/1 /dump /quitquitquit; do # of gRPC's port server
        ask_page "$path"
        assert_code 404
    done
}

@test "a session from the administrators' socket is an ordinary one" {
    serve_start
    ask_admin() { DIBS_SOCKET=$ADMIN "$DIBS" ui --no-open; }
    begin_session "$(ask_admin)"
    ask_page /v1/daemon
    [ "$(member admin)" = false ]
    [ "$(member principal)" = "uid:$(id -u)" ]
    ASK_SOCKET=$ADMIN ask /v1/daemon
    [ "$(member admin)" = true ]
}

@test "an address and a session are of no use to another user's program" {
    needs_root
    needs setpriv
    public_folder
    SOCKET_DIR=$PUBLIC serve_start
    read_url "$(DIBS_SOCKET=$SOCKET as_user 65533 "$PUBLIC/dibs" ui --no-open)"
    ASK_BY=(as_user 65534)
    SESSION='' ask_page --json "{\"token\":\"$ONE_TIME\"}" /v1/session
    assert_code 401
    assert_has() { case $output in *"$1"*) ;; *) echo "$output" >&2; return 1 ;; esac; }
    assert_has "this address is for uid 65533, and your browser is run by uid 65534"
    ASK_BY=(as_user 65533) # nobody has used it up
    begin_session "$BASE/#t=$ONE_TIME"
    ask_page /v1/claims
    assert_code 200
    ASK_BY=(as_user 65534)
    ask_page /v1/claims
    assert_code 401
    SESSION='' ask_page --json "{\"id\":\"$SESSION_ID\",\"nonce\":\"0123456789abcdef0123456789\"}" /v1/session/proof
    assert_code 404
    ASK_BY=() # root may forward the connections of others
    ask_page /v1/session
    [ "$(member principal)" = uid:65533 ]
}

@test "a caller whose browser could not reach the page is refused, with advice" {
    needs_root
    serve_start
    sandbox_start --pid --mount-proc
    run in_sandbox "$SANDBOX" env DIBS_SOCKET="$SOCKET" "$DIBS" ui --no-open
    assert_status 7
    assert_output_has "a container has no dashboard: run 'dibs ui' on its host"
    sandbox_start --net
    run in_sandbox "$SANDBOX" env DIBS_SOCKET="$SOCKET" "$DIBS" ui --no-open
    assert_status 7
    assert_output_has "which your network namespace does not reach"
    [ -z "$(listens)" ] # nothing was opened for them
}

# ---- the stream of events ----

@test "a page follows the events, and misses none while the daemon restarts" {
    serve_start
    open_page
    ask --json '{"name":"a/1"}' /v1/claims
    follow() { curl -sSN --max-time 20 -H "Authorization: Bearer $SESSION" -H 'Accept: text/event-stream' "$@" "$BASE/v1/events"; }
    start follow -H 'Last-Event-ID: 0' >"$T/stream.1"
    wait_until 10 grep -q '"name":"a/1"' "$T/stream.1"
    last=$(sed -n 's/^id: //p' "$T/stream.1" | tail -n 1)
    end_process "$DAEMON"
    serve_start
    ask --json '{"name":"a/2"}' /v1/claims
    start follow -H "Last-Event-ID: $last" >"$T/stream.2"
    wait_until 10 grep -q '"name":"a/2"' "$T/stream.2"
    lacks "$T/stream.2" '"name":"a/1"'
}

# ---- without a daemon ----

# start_alone [OPTION]...: dibs ui in the background; its pid is $STARTED, what it prints is in $T/out and $T/err.
start_alone() {
    : >"$T/out"
    start "$DIBS" ui --no-open "$@" >"$T/out" 2>"$T/err"
    wait_until 10 test -s "$T/out"
}

@test "without a daemon dibs ui serves the page itself, over the user's own ledger, and opens nothing else" {
    dibs claim --keep /shop/db >"$T/port"
    start_sleeper
    dibs claim --pid "$STARTED" /shop/dead >/dev/null
    end_process "$STARTED"
    start_alone
    server=$STARTED
    [ "$(wc -l <"$T/out")" = 1 ]
    [ ! -s "$T/err" ]
    begin_session "$(cat "$T/out")"
    ask_page '/v1/claims?judge=true'
    assert_code 200
    [ "$(member claims.0.name)" = shop/db ]
    [ "$(member claims.1.life)" = dead ]
    ask_page /v1/session
    [ "$(member kind)" = short-lived ]
    proves
    [ "$(listens "$server")" = "$(printf '%s\n' "127.0.0.1:$PAGE_PORT" "[::1]:$PAGE_PORT")" ]
    ss -Hxlp >"$T/unix"
    lacks "$T/unix" "pid=$server,"
    [ ! -e "$T/ledger.db-sessions" ]
    # Commands go on beside it, and the page sees them.
    dibs claim /shop/new >/dev/null
    ask_page '/v1/claims?prefix=shop/new'
    [ "$(member claims.0.name)" = shop/new ]
    # A second one has another port.
    start_alone
    read_url "$(cat "$T/out")"
    second=$PAGE_PORT
    [ "$(dibs ls --all --port "$second" --json | field name)" = None ]
    for pid in "$STARTED" "$server"; do
        kill -TERM "$pid"
        status=0
        wait "$pid" || status=$?
        [ "$status" = 0 ]
    done
    # It has reaped nothing, and left nothing.
    [ "$(dibs ls --all --json | python3 -c 'import json, sys; print(*sorted(c["name"] for c in json.load(sys.stdin)))')" = "shop/db shop/dead shop/new" ]
}

@test "a server without a daemon ends when no page is there any more, and when its terminal is gone" {
    start_alone --idle 5s
    begin_session "$(cat "$T/out")"
    pid=$STARTED
    start curl -sSN -H "Authorization: Bearer $SESSION" -H 'Accept: text/event-stream' "$BASE/v1/events" >"$T/stream"
    wait_until 10 grep -q retry: "$T/stream"
    sleep 6
    kill -0 "$pid" # a page that follows the events is there
    end_process "$STARTED"
    status=0
    wait "$pid" || status=$?
    [ "$status" = 0 ]
    for signal in HUP INT; do
        start env --default-signal=INT "$DIBS" ui --no-open --json >"$T/json"
        wait_until 10 test -s "$T/json"
        output=$(cat "$T/json")
        [ "$(member kind)" = short-lived ]
        [ "$(member expires_ms)" -gt "$(date +%s000)" ]
        read_url "$(member url)"
        kill -"$signal" "$STARTED"
        status=0
        wait "$STARTED" || status=$?
        [ "$status" = 0 ]
    done
    # A page that ends its session leaves nothing to serve.
    start_alone
    begin_session "$(cat "$T/out")"
    ask_page -X DELETE /v1/session
    wait "$STARTED"
}

@test "dibs ui says what is wrong as every command does" {
    run dibs ui --no-such-option
    assert_status 2
    run dibs ui here
    assert_status 2
    run dibs ui --idle soon
    assert_status 2
    run env DIBS_SOCKET="$T/nobody.sock" "$DIBS" ui --no-open
    assert_status 6
    assert_output_has "no daemon answers"
    run env DIBS_LEDGER=sqlite:/dev/null/x.db "$DIBS" ui --no-open
    assert_status 6
    run env DIBS_LEDGER=etcd://127.0.0.1:1/x "$DIBS" ui --no-open
    assert_status 6
    run sh -c '"$DIBS" ui --no-open >/dev/full'
    assert_status 74
}

@test "the browser is opened only on a terminal of a desktop" {
    needs script
    mkdir "$T/bin"
    cat >"$T/bin/xdg-open" <<'END'
#!/bin/sh
echo "$1" >"$T/opened.new" && mv "$T/opened.new" "$T/opened"
END
    chmod +x "$T/bin/xdg-open"
    serve_start
    export PATH=$T/bin:$PATH DIBS_SOCKET=$SOCKET
    unset DISPLAY WAYLAND_DISPLAY
    screen() { script -qec "$*" /dev/null </dev/null >"$T/screen"; }
    screen "$DIBS" ui
    [ ! -e "$T/opened" ]
    export DISPLAY=:7
    "$DIBS" ui >/dev/null
    screen "$DIBS" ui --no-open
    screen "$DIBS" ui --json
    [ ! -e "$T/opened" ]
    screen "$DIBS" ui
    wait_until 10 test -e "$T/opened"
    grep -qF "$(cat "$T/opened")" "$T/screen"
    rm "$T/opened"
    unset DISPLAY
    export WAYLAND_DISPLAY=wayland-0
    screen "$DIBS" ui
    wait_until 10 test -e "$T/opened"
}

# is_shown: the demonstration has printed its last line, the address.
is_shown() { tr -d '\r' <"$T/screen" | grep -q '^http://127'; }

@test "make run ends with the dashboard on a terminal, and without it elsewhere" {
    needs script
    demo=$BATS_TEST_DIRNAME/../../tools/demo.sh
    run "$demo" "$DIBS"
    assert_status 0
    [[ $output != *http:* ]]
    start script -qfec "$demo $DIBS" "$T/screen" </dev/null >/dev/null
    wait_until 30 is_shown
    begin_session "$(tr -d '\r' <"$T/screen" | grep '^http://127')"
    ask_page /v1/claims
    [[ $output = *shop/api* ]]
    ask_page -X DELETE /v1/session
    wait "$STARTED"
}
