#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# When a claim ends and when it does not (INV-5): leases and sockets, boots, orphans, clocks.
# shellcheck disable=SC2030,SC2031,SC2153 # every test is a subshell; sandbox.bash sets INSIDE and OUTSIDE
load ../support/dibs
load ../support/sandbox

setup() { dibs_setup; }

teardown() { sandbox_teardown; }

reap() { # reap COUNT: so many claims end
    run dibs reap
    assert_status 0
    assert_output_has "$1 claim"
}

# short_lease ARGUMENT...: a claim of one second; its port in $PORT.
short_lease() { PORT=$(dibs claim --ttl 1s "$@"); }

@test "a lease that ended stays while its own user listens, and ends with the socket" {
    short_lease --address 127.0.0.1
    listen "$PORT" tcp 127.0.0.1
    lease_ends "$PORT"
    has_state "$PORT" orphan
    reap 0
    run dibs claim --port "$PORT" --address 127.0.0.1
    assert_status 3
    run dibs claim other --range "$PORT"
    assert_status 4
    end_process "$STARTED"
    has_state "$PORT" dead
    reap 1
    run dibs claim --port "$PORT" --address 127.0.0.1
    assert_status 0
}

@test "a lease of a UDP port stays while its own user has the socket bound" {
    short_lease --proto udp
    listen "$PORT" udp 127.0.0.1
    lease_ends "$PORT"
    has_state "$PORT" orphan
    reap 0
    run dibs claim --port "$PORT" --proto udp
    assert_status 3
    end_process "$STARTED"
    reap 1
    has_state "$PORT" none
}

@test "a socket of the other protocol, or of an address that does not conflict, keeps nothing" {
    local tcp
    short_lease --address 127.0.0.1
    tcp=$PORT
    listen "$tcp" udp 127.0.0.1
    listen "$tcp" tcp 127.0.0.2
    lease_ends "$PORT"
    has_state "$tcp" dead
    reap 1
    run dibs claim --port "$tcp" --address 127.0.0.1
    assert_status 0
}

@test "a stranger's socket keeps no lease, and what it really holds is still refused as foreign" {
    needs_root
    public_folder
    short_lease --proto tcp+udp
    listen_as 65534 "$PORT" tcp
    listen_as 65534 "$PORT" udp
    lease_ends "$PORT"
    has_state "$PORT" dead
    reap 1
    has_state "$PORT" none
    run dibs claim --port "$PORT"
    assert_status 3
    assert_output_has "uid 65534"
}

@test "a lease that has not ended is nobody else's, socket or not, and renewing makes it longer" {
    short_lease web
    run dibs renew web --ttl 1h
    assert_status 0
    local later
    later=$(dibs claim --ttl 1s) # it ends after the first would have
    lease_ends "$later"
    dibs release "$later"
    has_state "$PORT" alive
    reap 0
    run dibs claim --port "$PORT"
    assert_status 3
}

@test "only sockets in the network namespace recorded with a lease count" {
    needs_root
    local inside outside
    sandbox_start --net
    in_sandbox "$SANDBOX" ip link set lo up
    outside=$(dibs claim --ttl 1s)
    inside=$(in_sandbox "$SANDBOX" "$DIBS" claim --ttl 1s)
    [ "$inside" != "$outside" ] # numbers are one space for the host
    listen_in "$SANDBOX" "$outside" tcp 0.0.0.0 # there: does not count for ours
    listen "$inside" tcp 0.0.0.0             # here: does not count for theirs
    lease_ends "$outside" "$inside"
    has_state "$outside" dead
    has_state "$inside" dead
    listen_in "$SANDBOX" "$inside" tcp 0.0.0.0 # there: counts, though we look from here
    has_state "$inside" orphan
    reap 1
    has_state "$outside" none
    has_state "$inside" orphan
    run dibs claim --port "$inside" # a claim blocks whatever the namespace
    assert_status 3
}

@test "a lease whose network namespace is gone ends" {
    needs_root
    local inside
    sandbox_start --net
    in_sandbox "$SANDBOX" ip link set lo up
    inside=$(in_sandbox "$SANDBOX" "$DIBS" claim --ttl 1s)
    listen_in "$SANDBOX" "$inside"
    end_process "$STARTED"
    lease_ends "$inside"
    kill -KILL "$SANDBOX"
    wait_until 10 has_state "$inside" dead
    reap 1
}

@test "a lease in a network namespace that cannot be seen is unknown and kept" {
    needs_root
    local other inside
    sandbox_start --net
    inside=$(in_sandbox "$SANDBOX" "$DIBS" claim --ttl 1s)
    listen_in "$SANDBOX" "$inside"
    lease_ends "$inside"
    sandbox_start --pid --mount-proc --net # sees neither the processes nor the network of the first
    other=$SANDBOX
    run in_sandbox "$other" "$DIBS" claim --port "$inside"
    assert_status 3
    run in_sandbox "$other" "$DIBS" reap
    assert_output_has "0 claims"
    run in_sandbox "$other" "$DIBS" doctor
    assert_output_has "network namespace cannot be reached"
    has_state "$inside" orphan
}

# another_boot: a sandbox in which the boot id is another one, for real: a file bound over it.
another_boot() {
    sandbox_start
    python3 -c 'import uuid; print(uuid.uuid4())' >"$T/boot_id"
    in_sandbox "$SANDBOX" mount --bind "$T/boot_id" /proc/sys/kernel/random/boot_id
}

holder_pid() { # holder_pid NAME
    dibs ls --json "$1" | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["holder"]["pid"])'
}

# runs_sleep NAME: the holder of NAME is a process, and has become sleep.
runs_sleep() {
    local pid
    pid=$(holder_pid "$1") || return 1
    grep -q sleep "/proc/$pid/comm"
}

@test "after another boot process- and lease-held claims are free, and kept ones stay on their ports" {
    needs_root
    local held leased kept run_kept socket
    start_sleeper
    held=$(dibs claim held --pid "$STARTED")
    leased=$(dibs claim leased --ttl 1h)
    kept=$(dibs claim kept --keep)
    socket=$(dibs claim socket --ttl 1h)
    start "$DIBS" run --keep -p both -- sleep 600
    wait_until 10 runs_sleep both
    holder_pid both >>"$T/started"
    run_kept=$(dibs ls --json both | field port)
    reap 0
    another_boot
    run in_sandbox "$SANDBOX" "$DIBS" reap --dry-run
    assert_status 0
    run in_sandbox "$SANDBOX" "$DIBS" reap
    assert_output_has "4 claims" # one of them only loses its holder
    run in_sandbox "$SANDBOX" "$DIBS" ls --json
    assert_status 0
    [ "$(python3 -c 'import json,sys; print(*sorted(c["port"] for c in json.loads(sys.argv[1])))' "$output")" = \
        "$(printf '%s\n' "$kept" "$run_kept" | sort -n | xargs)" ]
    [ "$(in_sandbox "$SANDBOX" "$DIBS" get kept)" = "$kept" ]
    [ "$(in_sandbox "$SANDBOX" "$DIBS" get both)" = "$run_kept" ]
    run in_sandbox "$SANDBOX" "$DIBS" claim --port "$kept"
    assert_status 3
    # a name keeps its port over the boot (INV-7)
    [ "$(in_sandbox "$SANDBOX" "$DIBS" claim held)" = "$held" ]
    run in_sandbox "$SANDBOX" "$DIBS" claim --port "$leased"
    assert_status 0
    [ -n "$socket" ]
}

@test "after another boot a claim is taken over without any reap" {
    needs_root
    local held
    start_sleeper
    held=$(dibs claim --pid "$STARTED")
    another_boot
    run in_sandbox "$SANDBOX" "$DIBS" claim --port "$held"
    assert_status 0
    run in_sandbox "$SANDBOX" "$DIBS" log
    assert_output_has reaped
}

@test "a boot id that cannot be understood is a clear error, and no claim dies of it" {
    needs_root
    start_sleeper
    PORT=$(dibs claim --pid "$STARTED")
    sandbox_start
    echo rubbish >"$T/boot_id"
    in_sandbox "$SANDBOX" mount --bind "$T/boot_id" /proc/sys/kernel/random/boot_id
    refused 1 boot_id in_sandbox "$SANDBOX" "$DIBS" reap
    refused 1 boot_id in_sandbox "$SANDBOX" "$DIBS" claim --port "$PORT"
    has_state "$PORT" alive
}

# orphan_start tcp|udp: a process ($PARENT) and its child ($CHILD) that inherits the socket of $PORT.
orphan_start() {
    start python3 -c 'import os, socket, sys, time
kind = socket.SOCK_DGRAM if sys.argv[1] == "udp" else socket.SOCK_STREAM
s = socket.socket(socket.AF_INET, kind)
while not os.path.exists(sys.argv[2] + ".port"):
    time.sleep(0.01)
s.bind(("127.0.0.1", int(open(sys.argv[2] + ".port").read())))
if sys.argv[1] == "tcp":
    s.listen(8)
child = os.fork()
if child:
    open(sys.argv[2] + ".new", "w").write(str(child))
    os.rename(sys.argv[2] + ".new", sys.argv[2])
time.sleep(600)' "$1" "$T/child"
    PARENT=$STARTED
    PORT=$(dibs claim --pid "$PARENT" --proto "$1")
    echo "$PORT" >"$T/child.port.new"
    mv "$T/child.port.new" "$T/child.port"
    wait_until 10 test -f "$T/child"
    CHILD=$(cat "$T/child")
    echo "$CHILD" >>"$T/started"
}

orphan_lives_and_dies() {
    orphan_start "$1"
    has_state "$PORT" alive
    end_process "$PARENT"
    has_state "$PORT" orphan
    reap 0
    run dibs claim --port "$PORT" --proto "$1"
    assert_status 3
    run dibs doctor
    assert_output_has "1 orphan,"
    kill -KILL "$CHILD"
    wait_until 10 has_state "$PORT" dead
    reap 1
    run dibs claim --port "$PORT" --proto "$1"
    assert_status 0
}

@test "a dead holder whose child inherited the listening socket is an orphan until the child dies" {
    orphan_lives_and_dies tcp
}

@test "the same for a bound UDP socket" {
    orphan_lives_and_dies udp
}

# Both sides of a time namespace judge processes and leases alike.
time_namespaces_agree() { # OFFSET
    local inside outside lease_in lease_out short_in short_out
    sandbox_start --time --boottime "$1" --monotonic "$1"
    start_sleeper
    outside=$(dibs claim --pid "$STARTED")
    local outside_pid=$STARTED
    sleeper_in "$SANDBOX"
    inside=$(in_sandbox "$SANDBOX" "$DIBS" claim --pid "$INSIDE")
    lease_in=$(in_sandbox "$SANDBOX" "$DIBS" claim --ttl 5m)
    lease_out=$(dibs claim --ttl 5m)
    short_in=$(in_sandbox "$SANDBOX" "$DIBS" claim --ttl 1s)
    short_out=$(dibs claim --ttl 1s)
    for side in here there; do
        look() { if [ "$side" = here ]; then dibs "$@"; else in_sandbox "$SANDBOX" "$DIBS" "$@"; fi; }
        run look reap --dry-run
        assert_output_has "0 claims"
        run look doctor
        assert_output_has "6 claims: 0 of unknown state, 0 of dead holders, 0 orphans"
        for port in "$lease_in" "$lease_out"; do # neither prolonged nor cut
            run look ls --port "$port"
            [[ $output =~ lease,\ (5m|4m5[0-9]s) ]]
        done
    done
    lease_ends "$short_in" "$short_out"
    for side in here there; do
        run look reap --dry-run
        assert_output_has "2 claims"
        [[ $output = *"$short_in"* && $output = *"$short_out"* ]]
        run look doctor
        assert_output_has "6 claims: 0 of unknown state, 2 of dead holders, 0 orphans"
    done
    end_process "$outside_pid"
    kill -KILL "$OUTSIDE"
    wait_until 10 has_state "$inside" dead
    has_state "$outside" dead
    run in_sandbox "$SANDBOX" "$DIBS" reap
    assert_output_has "4 claims"
}

@test "a time namespace that is far ahead judges processes and leases as the host does" {
    needs_root
    time_namespaces_agree 86400000
}

@test "a time namespace that is behind judges processes and leases as the host does" {
    needs_root
    local uptime
    uptime=$(cut -d. -f1 /proc/uptime)
    time_namespaces_agree "-$((uptime / 2))"
}
