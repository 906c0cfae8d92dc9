#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The life of a daemon: starts, ends, restarts, and what happens to its ledger meanwhile.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell; `ask` sets output and code
load ../support/dibs
load ../support/sandbox
load ../support/serve

setup() {
    dibs_setup
    needs curl
    LOG=$T/serve.log
}
teardown() { sandbox_teardown; }

is_logged() { grep -q "$1" "$LOG"; }
# ports: of all claims, in order.
ports() { ask /v1/claims && python3 -c 'import json, sys
print(*sorted(c["port"] for c in json.loads(sys.argv[1])["claims"]), sep="\n")' "$output"; }
has_claims() { [ "$(ports | grep -c .)" = "$1" ]; }
# ask_later FILE [CURL OPTION]... PATH: in the background; the answer is in FILE, its code on the last line.
ask_later() {
    local file=$1 words=("${@:2}")
    words[-1]=http://dibs${words[-1]}
    start curl -sSN --max-time 30 --unix-socket "$SOCKET" -w '\n%{http_code}\n' "${words[@]}" >"$file" 2>&1
}
# connections N: the daemon has so many (its listening sockets do not count).
connections() { [ "$(ss -Hxp state established | grep -c "pid=$DAEMON,")" = "$1" ]; }

# ---- ends ----

@test "SIGKILL at any moment loses nothing that was answered" {
    python3 "$BATS_TEST_DIRNAME/serve_kill.py" "$DIBS" "$T/dibs.sock" "$(long_or 500 24)" "${DIBS_TEST_SEED:-$RANDOM}" 2>/dev/null
}

@test "SIGTERM lets requests under way end, refuses new ones, and leaves no socket" {
    serve_start
    ask_later "$T/poll" '/v1/events?since=0&wait=30s'
    poll=$STARTED
    ask_later "$T/stream" -H 'Accept: text/event-stream' /v1/events
    stream=$STARTED
    # Connects, says that it has, and sends its request on a signal.
    start python3 -c 'import os, socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
open(sys.argv[2] + ".on", "w").close()
while not os.path.exists(sys.argv[2] + ".go"): time.sleep(0.005)
s.sendall(b"GET /v1/daemon HTTP/1.1\r\nHost: dibs\r\n\r\n")
got = b""
while True:
    part = s.recv(4096)
    if not part: break
    got += part
open(sys.argv[2], "wb").write(got)' "$SOCKET" "$T/fresh"
    fresh=$STARTED
    wait_until 10 test -f "$T/fresh.on"
    wait_until 10 grep -q retry: "$T/stream"
    wait_until 10 connections 3
    kill -TERM "$DAEMON"
    wait_until 10 is_logged msg=stopping
    touch "$T/fresh.go"
    run curl -sS --unix-socket "$SOCKET" http://dibs/readyz
    [ "$status" -eq 7 ]
    status=0
    wait "$DAEMON" || status=$?
    assert_status 0
    wait "$poll" "$stream" "$fresh"
    [ "$(tail -1 "$T/poll")" = 200 ]
    [ "$(tail -1 "$T/stream")" = 200 ]
    grep -q '^HTTP/1.1 200' "$T/fresh"
    grep -q '"version"' "$T/fresh"
    [ ! -e "$SOCKET" ] && [ ! -e "$ADMIN" ]
}

@test "a client that says nothing does not keep a daemon from ending" {
    serve_start
    start python3 -c 'import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
s.sendall(sys.argv[2].encode())
time.sleep(600)' "$SOCKET" 'POST /v1/claims HTTP/1.1
Content-Len'
    wait_until 10 connections 1
    before=$SECONDS
    serve_stop
    assert_status 0
    within 6 "$before" # not the half a minute that a request may take
}

# ---- sockets ----

@test "a second daemon on the same socket is exit 3 and disturbs nothing" {
    serve_start
    inode=$(stat -c %i "$SOCKET" "$ADMIN" | xargs)
    run dibs serve --socket "$SOCKET"
    assert_status 3
    assert_output_has "another daemon serves $SOCKET"
    run dibs serve --socket "$T/other.sock" --admin-socket "$ADMIN"
    assert_status 3
    [ ! -e "$T/other.sock" ]
    [ "$(stat -c %i "$SOCKET" "$ADMIN" | xargs)" = "$inode" ]
    ask /v1/daemon
    [ "$(member pid)" = "$DAEMON" ]
}

# passed MODE ADDRESS: dibs serve with an admin socket that was opened for it; the first byte of ADDRESS may be '@'.
passed() {
    DIBS_SOCKET=none start python3 -c 'import os, socket, sys
mode, at = int(sys.argv[1], 8), sys.argv[2]
s = socket.socket(socket.AF_UNIX)
s.bind("\0" + at[1:] if at[0] == "@" else at)
if at[0] != "@": os.chmod(at, mode)
s.listen()
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES="admin")
os.execv(sys.argv[3], [sys.argv[3], "serve"])' "$@" "$DIBS" 2>"$LOG"
    DAEMON=$STARTED
}

@test "a socket that was opened for administrators is refused when all users may connect" {
    passed 666 "$T/a.sock"
    status=0
    wait "$DAEMON" || status=$?
    assert_status 2
    is_logged 'mode 666'
    passed 666 "@dibs-$$"
    status=0
    wait "$DAEMON" || status=$?
    assert_status 2
    is_logged 'any user could connect'
    passed 600 "$T/b.sock"
    SOCKET=$T/b.sock
    wait_until 10 serve_answers
    ask /v1/daemon
    [ "$(member admin)" = true ]
}

@test "the socket of a dead daemon is replaced, anything else in its place is not" {
    serve_start
    serve_stop KILL
    [ -S "$SOCKET" ]
    serve_start
    serve_stop
    echo precious >"$SOCKET"
    run dibs serve --socket "$SOCKET"
    assert_status 2
    assert_output_has "is not a socket"
    [ "$(cat "$SOCKET")" = precious ]
    rm "$SOCKET"
    ln -s "$T/elsewhere" "$SOCKET"
    run dibs serve --socket "$SOCKET"
    assert_status 2
    [ -L "$SOCKET" ] && [ ! -e "$T/elsewhere" ]
}

# ---- others on the same ledger ----

@test "two daemons on one ledger see each other's claims at once" {
    serve_start
    first=$SOCKET
    SOCKET_DIR=$T/second serve_start
    ask_later "$T/poll" '/v1/events?since=0&wait=30s'
    poll=$STARTED
    wait_until 10 connections 1
    began=$SECONDS
    ASK_SOCKET=$first ask --json '{"name":"a/b","keep":true,"holder":null}' /v1/claims
    assert_code 201
    wait "$poll"
    within 1 "$began" # and not after the half minute that was asked for
    grep -q '"a/b"' "$T/poll"
    ask '/v1/claims/-?name=a/b'
    assert_code 200
    ask -X DELETE '/v1/claims/-?name=a/b'
    [ "$(member released)" = 1 ]
    ASK_SOCKET=$first ask '/v1/claims/-?name=a/b'
    assert_code 404
}

@test "a claim made beside the daemon reaches streams and waiting requests, and the daemon ends it" {
    serve_start
    ask_later "$T/poll" '/v1/events?since=0&wait=30s'
    poll=$STARTED
    for page in limit=3 newest=true wait=1s; do # these are of pages
        ask -H 'Accept: text/event-stream' "/v1/events?since=0&$page"
        assert_code 400
    done
    ask_later "$T/stream" -H 'Accept: text/event-stream' '/v1/events?since=0'
    wait_until 10 grep -q retry: "$T/stream"
    wait_until 10 connections 2
    start_sleeper
    DIBS_SOCKET=none dibs claim /beside --pid "$STARTED"
    wait "$poll"
    grep -q '"beside"' "$T/poll"
    wait_until 10 grep -q 'event: claimed' "$T/stream"
    end_process "$STARTED"
    wait_until 10 grep -q 'event: reaped' "$T/stream"
}

# ---- a ledger in trouble ----

@test "a full disk is 503 with its reason, and free space makes it go on" {
    needs_root
    mkdir "$T/disk"
    export DIBS_LEDGER=sqlite:$T/disk/ledger.db
    sandbox_start
    in_sandbox "$SANDBOX" mount -t tmpfs -o size=1m dibs "$T/disk"
    curl() { in_sandbox "$SANDBOX" curl "$@"; }
    SOCKET=$T/dibs.sock
    start_in_sandbox "$SANDBOX" "$DIBS" serve --socket "$SOCKET" 2>>"$LOG"
    DAEMON=$STARTED
    wait_until 10 serve_answers
    ask --json '{"name":"a/b","keep":true,"holder":null}' /v1/claims
    port=$(member port)
    in_sandbox "$SANDBOX" dd if=/dev/zero bs=64k of="$T/disk/fill" 2>/dev/null || true
    in_sandbox "$SANDBOX" dd if=/dev/zero bs=512 of="$T/disk/rest" 2>/dev/null || true
    for n in $(seq 60); do # what the log's last block still holds may be used up
        ask --json '{}' /v1/claims
        [ "$code" = 201 ] || break
    done
    assert_code 503
    [ "$(member trouble)" = full ]
    assert_output_has "free some space"
    ask '/v1/claims/-?name=a/b' # looking goes on
    [ "$(member port)" = "$port" ]
    for n in 1 2 3; do ask --json '{}' /v1/claims; done
    assert_code 503
    ask /readyz
    assert_code 503
    assert_output_has "free some space"
    in_sandbox "$SANDBOX" rm "$T/disk/fill" "$T/disk/rest"
    ask --json '{}' /v1/claims
    assert_code 201
    ask /readyz
    assert_code 200
    wait_until 10 is_logged 'the ledger can be changed again'
    [ "$(grep -c 'level=error msg="the ledger cannot be changed" why=".*free some space' "$LOG")" = 1 ]
}

@test "a file system that is read-only shows in /readyz and doctor, without a request that fails" {
    needs_root
    mkdir "$T/disk"
    export DIBS_LEDGER=sqlite:$T/disk/ledger.db
    sandbox_start
    in_sandbox "$SANDBOX" mount -t tmpfs -o size=1m dibs "$T/disk"
    in_sandbox "$SANDBOX" "$DIBS" claim web --keep
    in_sandbox "$SANDBOX" mount -o remount,ro "$T/disk"
    curl() { in_sandbox "$SANDBOX" curl "$@"; }
    SOCKET=$T/dibs.sock
    start_in_sandbox "$SANDBOX" "$DIBS" serve --socket "$SOCKET" 2>>"$LOG"
    is_not_ready() {
        ask /readyz
        assert_code 503
        assert_output_has "make it writable"
    }
    wait_until 10 is_not_ready
    run in_sandbox "$SANDBOX" env DIBS_SOCKET="$SOCKET" "$DIBS" doctor
    assert_status 1
    assert_output_has "can only be read"
    in_sandbox "$SANDBOX" mount -o remount,rw "$T/disk"
    ask /readyz
    assert_code 200
    # It becomes read-only while the daemon has it open, as after an error of the disk.
    in_sandbox "$SANDBOX" mount --bind "$T/disk" "$T/disk"
    in_sandbox "$SANDBOX" mount -o remount,bind,ro "$T/disk"
    is_not_ready
    in_sandbox "$SANDBOX" umount "$T/disk"
    ask /readyz
    assert_code 200
}

@test "a ledger that a stopped writer holds is 503 in time for every caller, and reads go on" {
    serve_start --timeout 1s
    ask --json '{"name":"a/b","keep":true,"holder":null}' /v1/claims
    start python3 -c 'import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
open(sys.argv[2], "w").close()
time.sleep(600)' "$T/ledger.db" "$T/locked"
    wait_until 10 test -f "$T/locked"
    locker=$STARTED
    kill -STOP "$locker"
    began=$SECONDS requests=()
    for n in 1 2 3 4 5 6 7 8; do
        ask_later "$T/answer.$n" --json '{}' /v1/claims
        requests+=("$STARTED")
    done
    ask '/v1/claims/-?name=a/b'
    assert_code 200
    wait "${requests[@]}"
    within 5 "$began"
    for n in 1 2 3 4 5 6 7 8; do
        [ "$(tail -1 "$T/answer.$n")" = 503 ]
        grep -q '"trouble":"locked"' "$T/answer.$n"
    done
    ask /readyz
    assert_code 503
    kill -KILL "$locker"
    ask --json '{}' /v1/claims
    assert_code 201
    ask /readyz
    assert_code 200
    wait_until 10 is_logged 'the ledger can be changed again'
    [ "$(grep -c 'level=error msg="the ledger cannot be changed"' "$LOG")" = 1 ]
}

@test "claims of dead holders that cannot be ended without the ledger are reported once" {
    serve_start --timeout 200ms
    start_sleeper
    dead=$STARTED
    ask --json "{\"holder\":{\"kind\":\"process\",\"pid\":$dead}}" /v1/claims
    assert_code 201
    start python3 -c 'import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
open(sys.argv[2], "w").close()
time.sleep(600)' "$T/ledger.db" "$T/locked"
    locker=$STARTED
    wait_until 10 test -f "$T/locked"
    end_process "$dead"
    wait_until 10 is_logged 'the ledger cannot be changed'
    ask /readyz
    assert_code 503
    end_process "$locker"
    wait_until 10 has_claims 0
    wait_until 10 is_logged 'the ledger can be changed again'
    [ "$(grep -c 'cannot be changed' "$LOG")" = 1 ]
    ask /readyz
    assert_code 200
}

@test "a ledger that 'dibs doctor --fix' has replaced is the daemon's from then on" {
    export DIBS_RANGE=21000-21500 # sockets of other programs in the pool are claimed
    serve_start --quota 6
    ask_later "$T/before" -H 'Accept: text/event-stream' /v1/events
    before=$STARTED
    for n in 1 2 3; do ask --json "{\"name\":\"a/$n\",\"keep\":true,\"holder\":null}" /v1/claims; done
    port=$(member port)
    # With the events their numbers are lost, so that the new file counts from what the claims have.
    ask --json '{"name":"lease"}' /v1/claims
    for n in 1 2 3 4 5 6 7 8 9; do ask --json '{"ttl":"1h"}' '/v1/claims/-/renew?name=lease'; done
    assert_code 200
    sql 'DROP TABLE events; PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    DIBS_SOCKET=none run dibs doctor --fix
    assert_status 1
    assert_output_has "the damaged file is now"
    assert_output_has "not read to the end: events"
    wait "$before" # its reader must list everything again, and must get that answer
    is_logged 'all claims were read again'
    ask --json '{"name":"a/4","keep":true,"holder":null}' /v1/claims
    assert_code 201
    [ "$(DIBS_SOCKET=none dibs get /a/4)" = "$(member port)" ]
    ask '/v1/claims/-?name=a/3'
    [ "$(member port)" = "$port" ]
    has_claims 5
    # With a number of the old file, which the new one has not reached.
    ask_later "$T/stream" -H 'Accept: text/event-stream' -H 'Last-Event-ID: 1000000' /v1/events
    wait_until 10 grep -q retry: "$T/stream"
    start_sleeper
    DIBS_SOCKET=none dibs claim /beside --pid "$STARTED" # what others do is seen, and deaths
    wait_until 10 grep -q 'event: claimed' "$T/stream"
    end_process "$STARTED"
    wait_until 10 grep -q 'event: reaped' "$T/stream"
    ask --json '{}' /v1/claims
    assert_code 201
    ask --json '{}' /v1/claims # the seventh: those of before count once
    assert_code 507
}

@test "a ledger, its log or the log's index that is removed under a daemon makes it refuse, not issue a port again" {
    local file
    for file in ledger.db-wal ledger.db ledger.db-shm; do
        rm -f "$T"/ledger.db*
        serve_start
        ask --json '{"name":"a/b","keep":true}' /v1/claims
        assert_code 201
        port=$(member port)
        [ -e "$T/$file" ]
        rm "$T/$file"
        for way in -XGET -XPOST; do # neither makes a new one
            ask --unix-socket "$ADMIN" $way /v1/doctor
            assert_code 200
            assert_output_has "was removed while it was in use"
        done
        ask /readyz
        assert_code 503
        assert_output_has "was removed while it was in use"
        for body in '{}' "{\"mode\":\"required\",\"port\":$port}"; do
            ask --json "$body" /v1/claims
            assert_code 503
            [[ $output = *"was removed while it was in use"* ]]
        done
        [ ! -e "$T/$file" ]
        serve_stop
    done
}

@test "a ledger of an older format is taken over with all its claims" {
    for version in 1003 1004 1005 1006 1007; do
        rm -f "$T"/ledger.db*
        start_sleeper
        owner=$STARTED
        dibs claim -n 20 kept --keep >"$T/ports"
        dibs claim -n 5 held --pid "$owner" >>"$T/ports"
        dibs claim -n 5 leased --ttl 1h >>"$T/ports"
        sql "$(older_ledger "$version")"
        serve_start
        diff <(ports) <(sort -n "$T/ports")
        [ "$(sql 'PRAGMA user_version')" = "$LEDGER_VERSION" ]
        end_process "$owner"
        wait_until 10 has_claims 25
        serve_stop
    done
}

# ---- configuration ----

# certificate NAME: $T/NAME.pem and $T/NAME.key
certificate() {
    needs openssl
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=localhost \
        -addext subjectAltName=IP:127.0.0.1 -keyout "$T/$1.key" -out "$T/$1.pem" 2>/dev/null
}
# expired NAME: a certificate for the key $T/NAME.key that is no longer valid
expired() {
    openssl req -new -key "$T/$1.key" -subj /CN=localhost | openssl x509 -req -signkey "$T/$1.key" -days -1 -out "$T/$1.pem" 2>/dev/null
}
tokens() { # LINE...
    printf '%s\n' "$@" >"$T/tokens"
    chmod 600 "$T/tokens"
}
TOKEN=0123456789abcdef0123456789abcdef OTHER=fedcba9876543210fedcba9876543210
over_tcp() { curl -s -o "$T/body" -w '%{http_code}' --cacert "$T/a.pem" -H "Authorization: Bearer $1" "https://127.0.0.1:$PORT/v1/daemon"; }
# serve_tls: on $PORT, which nobody had a moment ago.
serve_tls() {
    PORT=$(python3 "$DIBS_TEST_SUPPORT/free_port.py")
    certificate a
    serve_start --listen "127.0.0.1:$PORT" --tls-cert "$T/a.pem" --tls-key "$T/a.key" --tokens "$T/tokens"
}

@test "--check-config finds what would keep a daemon from starting, and changes nothing" {
    certificate a
    certificate b
    tokens "uid:0 $TOKEN"
    files=(--tls-cert "$T/a.pem" --tls-key "$T/a.key" --tokens "$T/tokens")
    run dibs serve --check-config --socket "$T/s" --listen 127.0.0.1:8443 "${files[@]}"
    assert_status 0
    [ ! -e "$T/s" ]
    [ ! -e "$T/ledger.db" ]
    wrong() { # CODE TEXT OPTION...
        run dibs serve --check-config "${@:3}"
        assert_status "$1" && assert_output_has "$2"
    }
    wrong 2 "--tls-cert" --listen 127.0.0.1:8443
    wrong 2 "are for --listen" --tokens "$T/tokens"
    wrong 2 "ADDRESS:PORT" --listen nonsense "${files[@]}"
    wrong 2 "port" --listen 127.0.0.1:99999 "${files[@]}"
    wrong 2 "is not a loopback" --portserver-http 192.0.2.1:80
    wrong 2 "--quota" --quota 0
    wrong 2 "--rate" --rate many
    wrong 2 "$T/none" --listen 127.0.0.1:8443 --tls-cert "$T/none" --tls-key "$T/a.key" --tokens "$T/tokens"
    wrong 2 "certificate" --listen 127.0.0.1:8443 --tls-cert "$T/tokens" --tls-key "$T/a.key" --tokens "$T/tokens"
    wrong 2 "certificate" --listen 127.0.0.1:8443 --tls-cert "$T/a.pem" --tls-key "$T/b.key" --tokens "$T/tokens"
    chmod 640 "$T/a.key"
    wrong 0 "" --listen 127.0.0.1:8443 "${files[@]}"
    chmod 604 "$T/a.key"
    wrong 7 "private key $T/a.key has mode 0604" --listen 127.0.0.1:8443 "${files[@]}"
    chmod 600 "$T/a.key"
    expired b
    wrong 2 "certificate $T/b.pem expired at" --listen 127.0.0.1:8443 --tls-cert "$T/b.pem" --tls-key "$T/b.key" --tokens "$T/tokens"
    wrong 2 "a socket's path" --socket "$T/$(printf 'x%.0s' $(seq 120))"
    wrong 2 "name a path" --socket "@dibs-$$"
    wrong 2 "name a path" --socket "$T/s" --admin-socket "@dibs-$$"
    chmod 644 "$T/tokens"
    wrong 7 "chmod 600" --listen 127.0.0.1:8443 "${files[@]}"
    tokens "uid:0 short"
    wrong 2 "$T/tokens:1" --listen 127.0.0.1:8443 "${files[@]}"
    DIBS_RANGE=nonsense wrong 2 nonsense
    DIBS_LEDGER=sqlite:$T/body/none wrong 0 "" # it would be made
    [ ! -e "$T/body" ]
    ln -s nowhere "$T/link"
    DIBS_LEDGER=sqlite:$T/link wrong 6 "symbolic link"
    : >"$T/file"
    DIBS_LEDGER=sqlite:$T/file/none wrong 6 "create its directory"
    DIBS_LEDGER=sqlite:$T/file wrong 0 ""
    [ ! -s "$T/file" ]
    dibs claim -n 5 kept --keep >/dev/null
    sql "$(older_ledger 1005)"
    sql 'PRAGMA wal_checkpoint(TRUNCATE)'
    rm -f "$T"/ledger.db-*
    ledger_is() { (cd "$T" && ls ledger.db* && md5sum ledger.db); }
    before=$(ledger_is)
    wrong 0 ""
    [ "$(ledger_is)" = "$before" ]
    serve_start # takes it over
    serve_stop KILL
    before=$(ledger_is)
    dibs serve --check-config # reads the log that a daemon has left
    [ "$(ledger_is)" = "$before" ]
    printf 'no ledger' >"$T/ledger.db"
    wrong 6 "it is not a ledger"
}

@test "SIGHUP takes new tokens, keeps the old ones when the file is broken, and says so" {
    tokens "uid:0 $TOKEN"
    serve_tls
    [ "$(over_tcp "$TOKEN")" = 200 ]
    [ "$(over_tcp "$OTHER")" = 401 ]
    tokens "uid:0 $OTHER"
    kill -HUP "$DAEMON"
    wait_until 10 is_logged msg=reloaded
    [ "$(over_tcp "$TOKEN")" = 401 ]
    [ "$(over_tcp "$OTHER")" = 200 ]
    tokens "uid:0 $TOKEN" "what is this $TOKEN"
    kill -HUP "$DAEMON"
    wait_until 10 is_logged 'level=error msg="reload refused'
    is_logged "$T/tokens:2"
    [ "$(over_tcp "$OTHER")" = 200 ]
    [ "$(over_tcp "$TOKEN")" = 401 ]
}

@test "a stream over TCP ends when tokens are read again, and others go on" {
    tokens "uid:0 $TOKEN"
    serve_tls
    start curl -sN --cacert "$T/a.pem" -H "Authorization: Bearer $TOKEN" -H 'Accept: text/event-stream' \
        "https://127.0.0.1:$PORT/v1/events" >"$T/tcp"
    start curl -sN --unix-socket "$SOCKET" -H 'Accept: text/event-stream' http://dibs/v1/events >"$T/unix"
    wait_until 10 grep -q retry "$T/tcp"
    wait_until 10 grep -q retry "$T/unix"
    tokens "uid:0 $OTHER"
    kill -HUP "$DAEMON"
    wait_until 10 is_logged msg=reloaded
    ask --json '{"name":"after/reload"}' /v1/claims
    assert_code 201
    wait_until 10 grep -q after/reload "$T/unix"
    if grep after/reload "$T/tcp"; then false; fi
}

@test "a certificate that is no longer valid is logged once, and so is a key that others can read" {
    tokens "uid:0 $TOKEN"
    serve_tls
    expired a
    kill -HUP "$DAEMON"
    wait_until 10 grep -q "msg=\"the certificate is not valid\" why=\"certificate $T/a.pem expired at" "$LOG"
    sleep 2.5 # two more looks at it
    [ "$(grep -c 'is not valid' "$LOG")" = 1 ]
    curl -s -o /dev/null --insecure "https://127.0.0.1:$PORT/healthz" # it stays in use
    chmod 644 "$T/a.key"
    kill -HUP "$DAEMON"
    wait_until 10 grep -q 'reload refused.*private key' "$LOG"
}

@test "a wrong token is logged with its sender, and answered late" {
    tokens "uid:0 $TOKEN"
    serve_tls
    [ "$(curl -s -o "$T/body" -w '%{http_code}' --cacert "$T/a.pem" "https://127.0.0.1:$PORT/v1/daemon")" = 401 ]
    if is_logged 'unknown token'; then false; fi # none is no wrong one
    for _ in 1 2 3; do [ "$(over_tcp "$OTHER")" = 401 ]; done
    is_logged 'level=warning msg="an unknown token was refused" from=127.0.0.1 since_start=1'
    if is_logged "$OTHER"; then false; fi
    run python3 - "$PORT" "$OTHER" "$TOKEN" <<'END'
import socket, ssl, sys
context = ssl._create_unverified_context()
def send(token):
    client = context.wrap_socket(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20))
    client.sendall(b"GET /v1/daemon HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % token.encode())
    return client
wrong, right = send(sys.argv[2]), send(sys.argv[3])
print(right.recv(12).decode())
wrong.setblocking(False)
try:
    print(wrong.recv(12).decode())
except ssl.SSLWantReadError:
    print("not yet")
wrong.settimeout(20)
print(wrong.recv(12).decode())
END
    assert_status 0
    [ "${lines[*]}" = "HTTP/1.1 200 not yet HTTP/1.1 401" ]
}

@test "connections without a token do not keep the users with one out" {
    tokens "uid:0 $TOKEN"
    serve_tls
    run timeout 60 python3 - "$PORT" "$TOKEN" <<'END'
import resource, select, socket, ssl, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))
address = ("127.0.0.1", int(sys.argv[1]))
silent = [socket.create_connection(address, 20) for _ in range(1100)]  # more than the connections of one user
client = ssl._create_unverified_context().wrap_socket(socket.create_connection(address, 20))
client.sendall(b"GET /v1/daemon HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % sys.argv[2].encode())
print(client.recv(12).decode())
poll = select.poll()
for s in silent:
    poll.register(s, select.POLLIN)
print(len(silent) - len(poll.poll(0)) <= 256)  # the others were closed
END
    assert_status 0
    [ "${lines[*]}" = "HTTP/1.1 200 True" ]
}

@test "a reload with one thing wrong changes nothing, whichever it is" {
    mkdir "$XDG_CONFIG_HOME/dibs"
    settings() { printf 'range: %s\nledger: sqlite:%s\n' "$1" "$2" >"$XDG_CONFIG_HOME/dibs/dibs.yaml"; }
    is_as_before() {
        wait_until 10 is_logged 'level=error msg="reload refused'
        : >"$LOG"
        [ "$(over_tcp "$TOKEN")" = 200 ]
        ask --json '{}' /v1/claims
        [[ $(member port) = 2100? ]]
    }
    unset DIBS_LEDGER
    settings 21000-21009 "$T/ledger.db"
    tokens "uid:0 $TOKEN"
    serve_tls
    settings 21100-21109 "$T/another.db"
    tokens "uid:0 $OTHER"
    kill -HUP "$DAEMON"
    is_as_before
    settings 21100-21109 "$T/ledger.db"
    tokens "nobody"
    kill -HUP "$DAEMON"
    is_as_before
    tokens "uid:0 $OTHER"
    kill -HUP "$DAEMON"
    wait_until 10 is_logged msg=reloaded
    [ "$(over_tcp "$OTHER")" = 200 ]
    ask --json '{}' /v1/claims
    [[ $(member port) = 2110? ]]
}

@test "the log is logfmt, one line a fact, and has no token" {
    tokens "uid:0 $TOKEN"
    serve_tls
    over_tcp "$TOKEN"
    ask --json '{"name":"a/b","keep":true,"holder":null}' /v1/claims
    token=$(member token)
    ask -X DELETE "/v1/claims/$token"
    tokens "broken $TOKEN"
    kill -HUP "$DAEMON"
    wait_until 10 is_logged refused
    serve_stop
    python3 - "$LOG" "$TOKEN" "$token" <<'END'
import re, sys
text = open(sys.argv[1]).read()
pair = r'[a-z_]+=(?:[^\s"=\\]+|"(?:[^"\\]|\\.)*")'
lines = text.splitlines()
assert len(lines) >= 3 and text.endswith("\n"), text
for line in lines:
    assert re.fullmatch(rf"time=\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{3}}Z level=(?:info|warning|error) msg=\S.*", line), line
    assert re.fullmatch(rf"{pair}(?: {pair})*", line), line
assert not any(secret in text for secret in sys.argv[2:]), text
END
}

# ---- limits ----

@test "with more owners than descriptors all are served, and every death is seen" {
    (ulimit -n 64 && serve_start && echo "$DAEMON" >"$T/daemon")
    DAEMON=$(cat "$T/daemon") SOCKET=$T/dibs.sock
    owners=()
    for n in $(seq 100); do
        start_sleeper
        owners+=("$STARTED")
        ask --json "{\"holder\":{\"kind\":\"process\",\"pid\":$STARTED}}" /v1/claims
        assert_code 201
    done
    has_claims 100
    kill -KILL "${owners[@]}"
    wait_until 20 has_claims 0
}
