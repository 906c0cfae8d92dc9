#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# GET /v1/map: every socket with its process, and what it is to the claim of its port.
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # every test is a subshell; `ask` sets output and code
load ../support/dibs
load ../support/sandbox
load ../support/serve

setup() {
    dibs_setup
    needs curl python3
}
teardown() { sandbox_teardown; }

# map: a look that is younger than this call, for a look is good for a second.
map() {
    sleep 1.1
    ask '/v1/map?proto=tcp'
    assert_code 200
}

# socket PORT [MEMBER]: of the first socket of the port in the last answer, "none" without one.
socket() {
    python3 -c 'import json, sys
found = [s for s in json.loads(sys.argv[1])["sockets"] if s["port"] == int(sys.argv[2])]
print("none" if not found else found[0].get(sys.argv[3], "absent"))' "$output" "$1" "${2:-relation}"
}
is_socket() { # is_socket PORT MEMBER WANTED
    [ "$(socket "$1" "$2")" = "$3" ] || { echo "$1: $2 is $(socket "$1" "$2"), wanted $3" >&2; return 1; }
}

# port_of NAME
port_of() { DIBS_SOCKET=$ADMIN dibs ls --all --json | python3 -c 'import json, sys
print(*[c["port"] for c in json.load(sys.stdin) if c["name"] == sys.argv[1]])' "$1"; }

@test "a socket has its process, and its relation to the claim of its port" {
    serve_start
    export DIBS_SOCKET=$SOCKET
    serve='exec python3 "$DIBS_TEST_SUPPORT/listen.py" "$PORT" tcp 127.0.0.1 "$T/ready.$PORT"'
    export DIBS_TEST_SUPPORT
    start dibs run -p /m/holder -- sh -c "$serve"
    start dibs run -p /m/below -- sh -c "sh -c '$serve'; true"
    dibs claim --keep /m/kept >/dev/null
    dibs claim --ttl 1h /m/lease >/dev/null
    dibs claim --ttl 1h --address 127.0.0.2 /m/beside >/dev/null
    start_sleeper
    dibs claim --pid "$STARTED" /m/same >/dev/null
    for name in kept lease beside same; do listen "$(port_of "m/$name")"; done
    listener=$STARTED
    listen 0
    alone=$LISTENED alone_pid=$STARTED
    wait_until 10 test -f "$T/ready.$(port_of m/holder)"
    wait_until 10 test -f "$T/ready.$(port_of m/below)"
    map
    is_socket "$(port_of m/holder)" relation holder
    is_socket "$(port_of m/below)" relation descendant
    is_socket "$(port_of m/kept)" relation project
    is_socket "$(port_of m/lease)" relation holder
    is_socket "$(port_of m/beside)" relation unclaimed # on another address
    is_socket "$(port_of m/same)" relation same-user
    is_socket "$(port_of m/same)" pid "$listener"
    is_socket "$alone" relation unclaimed
    is_socket "$alone" pid "$alone_pid"
    is_socket "$alone" state listening
    is_socket "$alone" address 127.0.0.1
    is_socket "$alone" user "$(id -un)"
    is_socket "$alone" directory "$PWD"
    [[ $(socket "$alone" command) = python3* ]]
    [[ $(socket "$alone" arguments) = *listen.py* ]]
    now=$(date +%s%3N)
    since=$(socket "$alone" since_ms)
    [ "$since" -le "$((now + 1000))" ] && [ "$since" -gt "$((now - 1000 * (60 + STALL)))" ]
}

@test "a kept claim's socket is of the project if its process works there" {
    mkdir -p "$T/here/below" "$T/there"
    serve_start
    export DIBS_SOCKET=$SOCKET
    cd "$T/here"
    dibs get web >"$T/web"
    dibs get api >"$T/api"
    cd "$T/here/below"
    listen "$(cat "$T/web")"
    cd "$T/there"
    listen "$(cat "$T/api")"
    map
    is_socket "$(cat "$T/web")" relation project
    is_socket "$(cat "$T/api")" relation same-user
}

@test "another user's socket is foreign, and its command line is that user's alone to see" {
    needs_root
    needs setpriv
    public_folder
    SOCKET_DIR=$PUBLIC serve_start
    ask --json '{"name":"m/mine","keep":true,"holder":null}' /v1/claims
    mine=$(member port)
    listen_as 65533 "$mine"
    ASK_BY=(as_user 65533)
    map
    is_socket "$mine" relation foreign
    is_socket "$mine" uid 65533
    [[ $(socket "$mine" arguments) = */usr/bin/python3* ]]
    ASK_BY=(as_user 65534)
    ask '/v1/map'
    is_socket "$mine" relation foreign
    is_socket "$mine" command python3
    is_socket "$mine" arguments absent
    is_socket "$mine" directory absent
    ASK_BY=()
    ASK_SOCKET=$ADMIN ask /v1/map
    is_socket "$mine" directory "$PWD"
}

@test "a daemon that may not look at other users' processes says so" {
    needs_root
    needs setpriv
    public_folder
    mkdir -p "$PUBLIC/own"
    chown 65533 "$PUBLIC/own"
    listen 0
    start setpriv --reuid=65533 --regid=65533 --clear-groups env DIBS_LEDGER="sqlite:$PUBLIC/own/ledger.db" DIBS_SOCKET=none \
        "$PUBLIC/dibs" serve --socket "$PUBLIC/own/dibs.sock" 2>"$PUBLIC/own/log"
    SOCKET=$PUBLIC/own/dibs.sock
    ASK_BY=(as_user 65533)
    wait_until 10 test -S "$SOCKET"
    listen_as 65533 0
    map
    [ "$(member sees.processes)" = false ]
    is_socket "$LISTENED" uid 0
    is_socket "$LISTENED" pid absent
    is_socket "$LISTENED" command absent
}

@test "the next look finds the process that has a port now" {
    serve_start
    listen 0
    first=$STARTED port=$LISTENED
    map
    is_socket "$port" pid "$first"
    end_process "$first"
    listen "$port"
    map
    is_socket "$port" pid "$STARTED"
    end_process "$STARTED"
    map
    [ "$(socket "$port")" = none ]
}

@test "a socket that several processes have stays found when one of them ends" {
    serve_start
    # The child has the same socket, and outlives its parent.
    python3 -c 'import os, socket, sys, time
s = socket.create_server(("127.0.0.1", 0))
r, w = os.pipe()
if os.fork() == 0:
    os.close(w)
    open(sys.argv[1] + ".child", "w").write(str(os.getpid()))
    os.read(r, 1)
    time.sleep(600)
open(sys.argv[1] + ".new", "w").write(str(s.getsockname()[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)' "$T/shared" &
    parent=$!
    echo "$parent" >>"$T/started"
    wait_until 10 test -s "$T/shared"
    wait_until 10 test -s "$T/shared.child"
    cat "$T/shared.child" >>"$T/started"
    echo >>"$T/started"
    port=$(cat "$T/shared")
    # The process with the lower number is shown: the parent, unless the numbers began again between the two.
    mapfile -t owners < <(printf '%s\n' "$parent" "$(cat "$T/shared.child")" | sort -n)
    map
    is_socket "$port" pid "${owners[0]}"
    end_process "${owners[0]}"
    map
    is_socket "$port" pid "${owners[1]}"
}

@test "states, protocols, cooling and reserved ports are as the kernel and the ledger have them" {
    serve_start
    listen 0 udp
    udp=$LISTENED
    listen 0 connected
    connected=$LISTENED
    ASK_SOCKET=$ADMIN ask -X PUT --json '{"name":"slow","ranges":"21000-21009","scope":"host","band":"off","order":"stride","cooldown_ms":600000}' /v1/pools/slow
    assert_code 200
    ask --json '{"pool":"slow"}' /v1/claims
    cooling=$(member port)
    ask -X DELETE "/v1/claims/$(member token)"
    map
    is_socket "$connected" state connected
    is_socket "$connected" pid absent
    [ "$(socket "$udp")" = none ]
    [ "$(member cooling.0.port)" = "$cooling" ]
    [ "$(member cooling.0.until_boot_ms)" -gt "$(($(member boot_ms) + 500000))" ]
    [ "$(member ephemeral)" = "$(tr '\t' - </proc/sys/net/ipv4/ip_local_port_range)" ]
    [ "$(member reserved)" = "$(cat /proc/sys/net/ipv4/ip_local_reserved_ports)" ]
    ask '/v1/map?proto=udp'
    is_socket "$udp" state listening
    is_socket "$udp" relation unclaimed
    ask '/v1/map?proto=sctp'
    assert_code 200
}

# inside COMMANDS: in a network namespace of its own.
inside() {
    unshare --net bash -c 'set -eE; trap "echo failed at line \$LINENO: \$BASH_COMMAND >&2" ERR; ip link set lo up
        for part in support/dibs support/serve; do . "$DIBS_TEST_SUPPORT/../$part.bash"; done; '"$1"
}

@test "ports and ranges that NAT rules publish are there with the rule" {
    needs nft
    unshare --net true 2>/dev/null || skip "needs root"
    export DIBS_TEST_SUPPORT
    inside 'serve_start
        nft add table ip t
        nft "add chain ip t pre { type nat hook prerouting priority -100; }"
        for rule in "tcp dport 21000 dnat to 10.0.0.5:80" "tcp dport 21010-21019 dnat to 10.0.0.6" "udp dport 53 dnat to 10.0.0.7"; do
            nft add rule ip t pre "$rule"
        done
        ask /v1/map
        [ "$(member sees.nat)" = true ]
        python3 - "$output" <<P
import json, sys
nat = json.loads(sys.argv[1])["nat"]
assert [(n["port"], n.get("last")) for n in nat] == [(21000, None), (21010, 21019)], nat
assert nat[0]["rule"] == "table ip t, chain pre: dnat to 10.0.0.5:80", nat
P'
}

@test "requests of many pages share a look, and one that is under way is answered when the daemon stops" {
    serve_start
    listen 0
    for i in 1 2 3 4 5 6 7 8; do
        start curl -sS --max-time 20 --unix-socket "$SOCKET" -w '\n%{http_code}' -o "$T/map.$i" http://dibs/v1/map >"$T/code.$i"
        asked[i]=$STARTED
    done
    for i in 1 2 3 4 5 6 7 8; do
        wait "${asked[i]}"
        [ "$(tail -n 1 "$T/code.$i")" = 200 ]
        cmp "$T/map.1" "$T/map.$i" || [ "$(python3 -c 'import json, sys; print(*[len(json.load(open(f))["sockets"]) for f in sys.argv[1:]])' "$T/map.1" "$T/map.$i" | tr ' ' '\n' | sort -u | wc -l)" = 1 ]
    done
    sleep 1.1
    start curl -sS --max-time 20 --unix-socket "$SOCKET" -w '%{http_code}' -o "$T/last" http://dibs/v1/map >"$T/code"
    serve_stop
    [ "$status" = 0 ]
    wait "$STARTED" || [ "$?" = 7 ] # it may have come too late to connect
    case $(cat "$T/code") in 200 | 503 | 000) ;; *) cat "$T/code" "$T/last" >&2; return 1 ;; esac
}
