#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# `dibs serve --portserver`, asked by a client that knows the protocol alone (portserver.py), and by the real one.
# In a network namespace of its own, so that every port of the pool is free for sure.
# shellcheck disable=SC2030,SC2031 # each test is a subshell of its own
load ../support/dibs
load ../support/sandbox

setup() {
    dibs_setup
    needs_root
    sandbox_start --net
    in_sandbox "$SANDBOX" ip link set lo up
    ADDRESS=@dibs-test
    CLIENT=${BATS_TEST_DIRNAME}/portserver.py
}

teardown() { sandbox_teardown; }

serve() { # serve [RANGE]; its pid is $SERVER
    start_in_sandbox "$SANDBOX" env DIBS_RANGE="${1:-20000-32767}" "$DIBS" serve --socket "$T/sock" --portserver "$ADDRESS"
    SERVER=$STARTED
    wait_until 10 said close
}

# A process that ports are asked for, in the same network; its pid is $OWNER.
start_owner() {
    sleeper_in "$SANDBOX"
    OWNER=$OUTSIDE
}

said() { in_sandbox "$SANDBOX" "$CLIENT" "$ADDRESS" "$@"; }

# gets_port TEXT: the answer is a port of the default pool and a newline, nothing else.
gets_port() {
    said ask "$1" >"$T/answer" || return 1
    grep -qxE '2[0-9]{4}|3[0-2][0-9]{3}' "$T/answer" && [ "$(wc -c <"$T/answer")" -eq 6 ] && return 0
    printf 'asked "%s", got "%s"\n' "$1" "$(cat "$T/answer")" >&2
    return 1
}

# gets_nothing TEXT: not one byte, then the end.
gets_nothing() {
    said ask "$1" >"$T/answer" || return 1
    [ ! -s "$T/answer" ] || { printf 'asked "%s", got "%s"\n' "$1" "$(cat "$T/answer")" >&2; return 1; }
}

@test "the pid of a living process gets a port, which is that process' claim from then on" {
    serve
    start_owner
    gets_port "$OWNER\n"
    run dibs ls --json --port "$(cat "$T/answer")"
    assert_status 0
    assert_output_has "\"pid\":$OWNER,"
}

@test "a pid that Python's int() accepts is accepted, with and without a newline" {
    serve
    start_owner
    local pid=$OWNER text
    for text in "$pid" "$pid\r\n" "+$pid\n" " $pid \n" "\t$pid\n" "0$pid\n" "${pid:0:1}_${pid:1}\n"; do
        gets_port "$text"
    done
}

@test "a client that names no living process gets no byte, then the end, and the next one is served" {
    serve
    start_owner
    local dead=$OWNER text
    end_process "$dead"
    start_owner
    for text in "$dead\n" '1\n' '0\n' '-1\n' "-$OWNER\n" 'garbage\n' '\n' '\xff\xfe\n' '\x00\n' "$OWNER x\n" \
        "$OWNER.0\n" '0x10\n' "_$OWNER\n" "${OWNER}_\n" "++$OWNER\n" '99999999999\n' \
        "                        $OWNER\n" "$OWNER\n$OWNER\n$OWNER\n$OWNER\n$OWNER\n" \
        "$(printf '7%.0s' {1..5000})"; do
        gets_nothing "$text"
    done
    [ -z "$(said close)" ]
    gets_port "$OWNER\n"
    [ "$(dibs ls --json | grep -o '"pid":' | wc -l)" -eq 1 ]
}

@test "an exhausted pool gives nothing; a port comes back when its process dies" {
    serve 21000-21003
    start_owner
    local first=$OWNER
    gets_port "$first\n"
    local port
    port=$(cat "$T/answer")
    start_owner
    [ "$(said in-a-row 3 "$OWNER" | sort -u | wc -l)" -eq 3 ]
    gets_nothing "$OWNER\n"
    end_process "$first"
    wait_until 10 gets_port "$OWNER\n"
    [ "$(cat "$T/answer")" = "$port" ]
    gets_nothing "$OWNER\n"
}

@test "a port on which somebody has a TCP or UDP socket is not given" {
    listen_in "$SANDBOX" 21000 tcp
    listen_in "$SANDBOX" 21002 udp 127.0.0.1
    serve 21000-21003
    start_owner
    [ "$(said in-a-row 3 "$OWNER" | sort | xargs)" = "21001 21003" ]
}

@test "5,000 requests in a row get 5,000 ports" {
    serve
    start_owner
    said in-a-row 5000 "$OWNER" >"$T/ports"
    [ "$(grep -cE '^[0-9]+$' "$T/ports")" -eq 5000 ]
    [ "$(sort -u "$T/ports" | wc -l)" -eq 5000 ]
    end_process "$OWNER"
    wait_until 10 nothing_is_held
}
nothing_is_held() { [ "$(sql 'SELECT count(*) FROM claims')" -eq 0 ]; }

@test "200 connections that ask at once get 200 ports" {
    serve
    start_owner
    said at-once 200 "$OWNER" >"$T/ports"
    [ "$(grep -cE '^[0-9]+$' "$T/ports")" -eq 200 ]
    [ "$(sort -u "$T/ports" | wc -l)" -eq 200 ]
}

@test "of many that ask at once nobody gets a port on which somebody has a UDP socket" {
    start_in_sandbox "$SANDBOX" python3 -c "
import socket, sys, time
kept = []
for i, port in enumerate(range(21000, 21060, 2)):
    kept.append(socket.socket(socket.AF_INET6 if i % 2 else socket.AF_INET, socket.SOCK_DGRAM))
    kept[-1].bind((('127.0.0.1', '::1', '0.0.0.0', '::')[i % 4], port))
open('$T/bound', 'w').close()
time.sleep(600)"
    wait_until 10 test -e "$T/bound"
    serve 21000-21229
    start_owner
    for _ in 1 2; do # the second group gets the list from its first port on
        said at-once 100 "$OWNER" >>"$T/ports"
    done
    diff <(sort "$T/ports") <(seq 21001 2 21059; seq 21060 21229)
}

@test "clients that connect and say nothing are in nobody's way" {
    serve
    start_owner
    [ "$(said silent 300 "$CLIENT" "$ADDRESS" in-a-row 20 "$OWNER" | grep -cE '^[0-9]+$')" -eq 20 ]
}

@test "an address without @ is a path" {
    ADDRESS=$T/portserver
    serve
    [ -S "$ADDRESS" ]
    start_owner
    gets_port "$OWNER\n"
}

@test "ports stay with their process when the server is killed and started again" {
    serve 21000-21000
    start_owner
    gets_port "$OWNER\n"
    end_process "$SERVER"
    local holder=$OWNER
    serve 21000-21000
    start_owner
    gets_nothing "$OWNER\n"
    end_process "$holder"
    wait_until 10 gets_port "$OWNER\n"
}

@test "the portpicker library gets its ports from us" {
    serve
    # portpicker falls back to a port of the kernel's when the server gives none: so the claim must be there.
    run in_sandbox "$SANDBOX" env PORTSERVER_ADDRESS="$ADDRESS" /usr/bin/python3 -c "
import portpicker, subprocess, sys
port = portpicker.pick_unused_port()
print(port)
print(subprocess.run([sys.argv[1], 'ls', '--json', '--port', str(port)], capture_output=True, text=True).stdout)" "$DIBS"
    assert_status 0
    assert_output_has "\"port\":${lines[0]},"
    assert_output_has '"kind":"process"'
}

# container_asks [COMMAND...]: a process of a container, which runs through COMMAND, asks eight times for itself. $ASKER
# is its pid here, $PORTS has the answers.
container_asks() {
    sandbox_start_in "$SANDBOX" --pid --mount-proc
    start_in_sandbox "$SANDBOX" "$@" "$CLIENT" "$ADDRESS" itself 8 "$PUBLIC/ports"
    local starter=$STARTED
    wait_until 20 test -f "$PUBLIC/ports"
    ASKER=$(child_of "$starter")
    mapfile -t PORTS <"$PUBLIC/ports"
    [ "${#PORTS[@]}" -eq 8 ]
}

claims_of() { dibs ls --all --json | grep -o "\"pid\":$1," | wc -l; }

@test "a process of a container is itself in all of its requests, and never the host's process of the same number" {
    local outer=$SANDBOX container inside words
    serve
    public_folder
    for words in "" "setpriv --reuid 65534 --clear-groups"; do
        SANDBOX=$outer
        rm -f "$PUBLIC/ports"
        # shellcheck disable=SC2086 # words
        container_asks $words
        container=$SANDBOX
        inside=$(sed -n 's/^NSpid:.*\t//p' "/proc/$ASKER/status")
        [ "$inside" != "$ASKER" ]
        [ -d "/proc/$inside" ] # the host has such a process, too: it must not be taken for the holder
        [ "$(claims_of "$ASKER")" -eq 8 ]
        [ "$(claims_of "$inside")" -eq 0 ]
        # All are one principal's, who is not the host's user.
        [ "$(dibs ls --all --json | grep -oE '"principal":"uid:[0-9]+@[^"]+"' | sort | uniq -c | wc -l)" -eq 1 ]
        ! dibs ls --all --json | grep -qE '"principal":"uid:[0-9]+"'
        kill -KILL "$container"
        wait_until 10 has_no_claims
    done
}

has_no_claims() { [ "$(dibs ls --all --json)" = "[]" ]; }

@test "process 1 of a container gets a port, process 1 of the host does not" {
    serve
    gets_nothing '1\n'
    sandbox_start_in "$SANDBOX" --pid --mount-proc
    gets_port '1\n'
    [ "$(claims_of "$SANDBOX")" -eq 1 ]
}
