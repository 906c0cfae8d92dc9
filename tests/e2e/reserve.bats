#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # the inner shell's words; and what is loaded below
# dibs serve --reserve: claimed ports of the ephemeral range are in ip_local_reserved_ports while they are claimed.
# Each test has a network namespace of its own, whose list it may write.
load ../support/dibs
load ../support/serve
load ../cli/cli

setup() {
    dibs_setup
    unshare --net true 2>/dev/null || skip "needs root"
}
teardown() { dibs_teardown; }

# inside NAME: run a function of this file in a network namespace of its own.
inside() {
    declare -f "$1" >"$T/steps"
    unshare --net bash -c 'ip link set lo up; set -eE; trap "echo failed at line \$LINENO: \$BASH_COMMAND >&2" ERR
        . "$DIBS_TEST_SUPPORT/dibs.bash"; . "$DIBS_TEST_SUPPORT/serve.bash"; . "$DIBS_TEST_SUPPORT/../cli/cli.bash"
        LIST=/proc/sys/net/ipv4/ip_local_reserved_ports; shopt -s expand_aliases
        reserved() { [ "$(cat $LIST)" = "$1" ] || { echo "reserved: $(cat $LIST), wanted: $1" >&2; return 1; }; }
        begin() { serve_start --reserve; export DIBS_SOCKET=$ADMIN; }
        . "$T/steps"; echo 40000 40999 >/proc/sys/net/ipv4/ip_local_port_range; '"$1"
}
export DIBS_TEST_SUPPORT

published() {
    echo 40010-40012,50000 >"$LIST"
    begin
    ok claim a --port 40005 --keep
    reserved 40005,40010-40012,50000
    ok claim -n 3 b --range 40100-40102 --keep --allow-ephemeral
    reserved 40005,40010-40012,40100-40102,50000
    ok claim low --port 12700 --keep # the kernel does not choose it anyway
    ok claim c --port 40011 --keep   # reserved by another: it stays his
    reserved 40005,40010-40012,40100-40102,50000
    ok release a c
    reserved 40010-40012,40100-40102,50000
    ok claim d --port 40200 --ttl 1h
    reserved 40010-40012,40100-40102,40200,50000
    ok renew d --ttl 1s
    wait_until 10 reserved 40010-40012,40100-40102,50000
    serve_stop
    reserved 40010-40012,50000
    [ ! -e "$T/ledger.db-reserved" ]
}
@test "claimed ports of the ephemeral range are in the list while they are claimed, and others' entries stay" {
    inside published
}

passed_by() {
    begin
    ok claim -n 999 x --range 40000-40998 --keep --allow-ephemeral
    python3 - <<'PY'
import socket
server = socket.create_server(("127.0.0.1", 30000))
got = []
try:
    while len(got) < 3:
        got.append(socket.create_connection(("127.0.0.1", 30000)))
except OSError:
    pass
assert [s.getsockname()[1] for s in got] == [40999], [s.getsockname() for s in got]
named = socket.create_server(("127.0.0.1", 40500)) # its owner may bind it
PY
}
@test "no outgoing connection gets a reserved port, and its owner binds it" {
    inside passed_by
}

killed() {
    echo 50000 >"$LIST"
    begin
    ok claim a --port 40001 --keep
    ok claim b --port 40002 --keep
    reserved 40001-40002,50000
    kill -KILL "$DAEMON"
    wait "$DAEMON" || true
    reserved 40001-40002,50000
    DIBS_SOCKET=none ok release a
    begin
    reserved 40002,50000
    kill -KILL "$DAEMON"
    wait "$DAEMON" || true
    DIBS_SOCKET=none ok release b
    begin
    reserved 50000
    # an entry that somebody else has removed comes back
    ok claim e --port 40003 --keep
    echo 50000 >"$LIST"
    ok claim f --port 40004 --keep
    reserved 40003-40004,50000
}
@test "after SIGKILL the next daemon removes what its claims do not need" {
    inside killed
}

without_the_option() {
    echo 50000 >"$LIST"
    begin
    ok claim g --port 40006 --keep
    reserved 40006,50000
    serve_stop KILL
    rm -f "$SOCKET" "$ADMIN"
    unshare --net timeout 20 bash -c '. "$DIBS_TEST_SUPPORT/dibs.bash"; . "$DIBS_TEST_SUPPORT/serve.bash"; serve_start; serve_stop'
    reserved 40006,50000 # another network namespace
    serve_start
    reserved 50000
    [ ! -e "$T/ledger.db-reserved" ]
}
@test "after SIGKILL a daemon that reserves nothing removes the entries, in their network namespace" {
    inside without_the_option
}

strangers_file() {
    echo 50000 >"$LIST"
    begin
    ok claim h --port 40007 --keep
    sed 's/ 40007/ 40007,50000/' "$T/ledger.db-reserved" >"$T/forged"
    grep -q 50000 "$T/forged"
    serve_stop KILL
    rm -f "$SOCKET" "$ADMIN"
    cp "$T/forged" "$T/ledger.db-reserved"
    chown 65534 "$T/ledger.db-reserved"
    serve_start
    reserved 40007,50000
}
@test "a file of another user removes no entries" {
    inside strangers_file
}

elsewhere() {
    begin
    unshare --net "$DIBS" claim there --port 40020 --keep >/dev/null
    ok claim here --port 40021 --keep
    reserved 40021
}
@test "a claim of another network namespace is not reserved in this one" {
    inside elsewhere
}

long() {
    begin
    python3 -c 'print(",".join(str(p) for p in range(1001, 39999, 2)))' >"$T/long"
    python3 -c '
import os, sys
text = open(sys.argv[1]).read().encode()
fd = os.open(sys.argv[2], os.O_WRONLY)
done = 0
while done < len(text):
    done += os.pwrite(fd, text[done:], done)' "$T/long" "$LIST"
    ok claim a --port 40001 --keep
    ok release a
    dd if="$LIST" bs=1M count=1 status=none | cmp - "$T/long" # a short read would get a part only
}
@test "a long list of others stays as it is" {
    inside long
}

@test "an ordinary user's daemon cannot reserve, and says why" {
    load ../support/sandbox
    public_folder
    code=0
    as_user 65534 env DIBS_LEDGER="sqlite:$PUBLIC/u.db" "$DIBS" serve --reserve --socket "$PUBLIC/s" 2>"$T/err" || code=$?
    [ "$code" -eq 7 ]
    grep -q "ip_local_reserved_ports needs root" "$T/err"
    rm -rf "$PUBLIC"
}
