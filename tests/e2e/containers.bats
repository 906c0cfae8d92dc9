#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Containers: pid namespaces with a /proc of their own that share one ledger; and users who share one.
# shellcheck disable=SC2016,SC2030,SC2031,SC2153,SC2154 # words for other shells; variables that sandbox.bash sets
load ../support/dibs
load ../support/sandbox

setup() {
    dibs_setup
    needs_root
}

teardown() { sandbox_teardown; }

container() { sandbox_start --pid --mount-proc "$@"; }

inside() { # inside SANDBOX ARGUMENT...
    local sandbox=$1
    shift
    in_sandbox "$sandbox" "$DIBS" "$@"
}

# run_inside SANDBOX NAME: `dibs run` holds a port of this name there; it is in $PORT.
run_inside() {
    start_in_sandbox "$1" "$DIBS" run -p "$2" -- sleep 600
    wait_until 10 holder_runs "$2" || return 1
    PORT=$(dibs ls --json "$2" | field port)
}

# The claim is CMD's only once it runs.
holder_runs() { dibs ls --json "$1" | grep -q '"command":"sleep"'; }

# taken_for WHO PORT: a claim of the port there is refused, naming the holder.
taken_for() {
    run_apart "$1" claim --port "$2"
    assert_status 3
    [[ $stderr = *"$2"* ]]
}

reaps() { # reaps COUNT COMMAND...
    local count=$1
    shift
    run "$@" reap
    assert_status 0
    assert_output_has "$count claim"
}

@test "a container's claim cannot be taken from outside while it lives, and is free after one reap when it is killed" {
    local sandbox init_port
    container
    sandbox=$SANDBOX
    run_inside "$sandbox" web
    init_port=$(inside "$sandbox" claim --pid 1)
    for port in "$PORT" "$init_port"; do
        has_state "$port" alive
        run_apart dibs claim --port "$port"
        assert_status 3
        [[ $stderr = *sleep* ]] # who holds it
    done
    [[ $(dibs claim --port "$PORT" 2>&1) = *project/web* ]]
    reaps 0 dibs
    kill -KILL "$sandbox" # its init, and the kernel ends the rest
    wait_until 10 has_state "$PORT" dead
    wait_until 10 has_state "$init_port" dead
    reaps 2 dibs
    for port in "$PORT" "$init_port"; do
        run dibs claim --port "$port"
        assert_status 0
    done
}

@test "a port of a killed container is taken over without any reap" {
    container
    run_inside "$SANDBOX" web
    kill -KILL "$SANDBOX"
    wait_until 10 has_state "$PORT" dead
    run dibs claim --port "$PORT"
    assert_status 0
}

@test "a process that ends inside of a living container frees its port, inside and outside" {
    local sandbox first second
    container
    sandbox=$SANDBOX
    run_inside "$sandbox" web
    sleeper_in "$sandbox"
    first=$(inside "$sandbox" claim --pid "$INSIDE")
    sleeper_in "$sandbox"
    second=$(inside "$sandbox" claim --pid "$INSIDE")
    has_state "$second" alive
    kill -KILL "$OUTSIDE"
    wait_until 10 has_state "$second" dead
    reaps 1 inside "$sandbox"
    has_state "$first" alive
    has_state "$PORT" alive
    taken_for dibs "$first"
    taken_for dibs "$PORT"
}

@test "sibling containers never take each other's, doctor shows them, and release --force ends one" {
    local one two port_one port_two
    container
    one=$SANDBOX
    container
    two=$SANDBOX
    run_inside "$one" web
    port_one=$PORT
    run_inside "$two" api
    port_two=$PORT
    [ "$port_one" != "$port_two" ]
    for pair in "$one $port_two" "$two $port_one"; do
        # shellcheck disable=SC2086 # two words
        set -- $pair
        run inside "$1" claim --port "$2"
        assert_status 3
        reaps 0 inside "$1"
        run inside "$1" ls --port "$2"
        assert_output_has unknown
        run inside "$1" doctor
        assert_output_has "port $2: it is not known whether its holder is alive"
        assert_output_has "release --force"
        assert_output_has "1 of unknown state"
    done
    # dead, but the sibling cannot know it: still kept for it
    kill -KILL "$one"
    wait_until 10 has_state "$port_one" dead
    run inside "$two" claim --port "$port_one"
    assert_status 3
    reaps 0 inside "$two"
    # by its owner's right, and only on request
    run inside "$two" release "$port_one"
    [ "$(sql "SELECT count(*) FROM claims WHERE port=$port_one")" = 1 ]
    assert_output_has "--force"
    run inside "$two" release --force "$port_one"
    assert_status 0
    [ "$(sql "SELECT count(*) FROM claims WHERE port=$port_one")" = 0 ]
    run inside "$two" claim --port "$port_one"
    assert_status 0
}

@test "dynamic choice in sibling containers and outside gives no number twice" {
    local one two
    container
    one=$SANDBOX
    container
    two=$SANDBOX
    export DIBS_RANGE=28000-28299
    claims() { timeout 30 bash -c 'for i in $(seq 40); do "$DIBS" claim --pid "$PPID" || exit 1; done'; }
    export -f claims
    start_in_sandbox "$one" bash -c 'claims >"$T/got.1"; sleep 600'
    start_in_sandbox "$two" bash -c 'claims >"$T/got.2"; sleep 600'
    claims >"$T/got.3"
    wait_until 20 eval '[ "$(cat "$T"/got.* | wc -l)" -eq 120 ]'
    [ "$(sort -u "$T"/got.* | wc -l)" = 120 ]
}

@test "a container in a container: seen from outside and from the one around it, unknown from its own inside" {
    local outer inner port_inner port_outer
    container
    outer=$SANDBOX
    sandbox_start_in "$outer" --pid --mount-proc
    inner=$SANDBOX
    run_inside "$inner" deep
    port_inner=$PORT
    run_inside "$outer" middle
    port_outer=$PORT
    has_state "$port_inner" alive
    run inside "$outer" ls --port "$port_inner"
    assert_output_has alive
    run inside "$inner" ls --port "$port_outer"
    assert_output_has unknown
    for sandbox in "$outer" "$inner"; do
        for port in "$port_inner" "$port_outer"; do
            run inside "$sandbox" claim --port "$port"
            assert_status 3
        done
        reaps 0 inside "$sandbox"
    done
    taken_for dibs "$port_inner"
    kill -KILL "$inner"
    wait_until 10 has_state "$port_inner" dead
    has_state "$port_outer" alive
    reaps 1 dibs
    kill -KILL "$outer"
    wait_until 10 has_state "$port_outer" dead
    reaps 1 dibs
}

@test "killing the outer container ends the inner one's claims too" {
    local outer port_inner
    container
    outer=$SANDBOX
    sandbox_start_in "$outer" --pid --mount-proc
    run_inside "$SANDBOX" deep
    port_inner=$PORT
    kill -KILL "$outer"
    wait_until 10 has_state "$port_inner" dead
    reaps 1 dibs
}

@test "a container with a network of its own shares the port numbers of the host" {
    local sandbox
    container --net
    sandbox=$SANDBOX
    in_sandbox "$sandbox" ip link set lo up
    run_inside "$sandbox" web
    taken_for dibs "$PORT"
    listen_in "$sandbox" "$PORT" # its own server, in its own network
    has_state "$PORT" alive
    taken_for dibs "$PORT"
    run dibs claim --range "$PORT"
    assert_status 4
    local mine
    start_sleeper
    mine=$(dibs claim --pid "$STARTED")
    run inside "$sandbox" claim --port "$mine"
    assert_status 3
    kill -KILL "$sandbox"
    wait_until 10 has_state "$PORT" dead
    reaps 1 dibs
}

@test "an orphan in a container's network is kept until its socket is gone" {
    local sandbox port
    container --net
    sandbox=$SANDBOX
    sleeper_in "$sandbox"
    port=$(inside "$sandbox" claim --pid "$INSIDE")
    listen_in "$sandbox" "$port"
    kill -KILL "$OUTSIDE"
    wait_until 10 has_state "$port" orphan
    reaps 0 dibs
    taken_for dibs "$port"
    kill -KILL "$sandbox"
    wait_until 10 has_state "$port" dead
    reaps 1 dibs
}

@test "a user's own daemon frees the ports of a container with its own network once its processes are gone" {
    local container
    needs curl unshare
    public_folder
    export SOCKET=$PUBLIC/dibs.sock DIBS_LEDGER=sqlite:$PUBLIC/state.64101/ledger.db
    start setpriv --reuid=64101 --regid=64101 --clear-groups env DIBS_SOCKET=none "$PUBLIC/dibs" serve --socket "$SOCKET"
    claims() { curl -sf --unix-socket "$SOCKET" http://dibs/v1/claims | grep -o '"name":"[^"]*"' | sort | tr -d '\n'; }
    have() { [ "$(claims)" = "$1" ]; }
    wait_until 10 test -S "$SOCKET"
    # shellcheck disable=SC2016 # for the shell there
    start setpriv --reuid=64101 --regid=64101 --clear-groups env DIBS_SOCKET="$SOCKET" PUBLIC="$PUBLIC" \
        unshare --user --map-root-user --net --pid --fork --kill-child --mount-proc bash -c 'cd "$PUBLIC"
            port=$("$PUBLIC/dibs" claim /lease --ttl 1s --address 127.0.0.1)
            ip link set lo up
            "$PUBLIC/dibs" run -p /process -- sleep 600 &
            exec python3 -c "import socket, sys, time; s = socket.create_server((\"127.0.0.1\", int(sys.argv[1]))); time.sleep(600)" "$port"'
    container=$STARTED
    wait_until 10 have '"name":"lease""name":"process"'
    sleep 1.5 # the lease is over, and its socket stays
    curl -sf --unix-socket "$SOCKET" --json '{}' http://dibs/v1/reap
    have '"name":"lease""name":"process"'
    end_process "$container"
    has_none() { curl -sf --unix-socket "$SOCKET" http://dibs/v1/claims | grep -qF '"claims":[]'; }
    wait_until 10 has_none
}

@test "a lease stays while its network cannot be known, and is known of who shares the daemon's" {
    needs curl
    public_folder
    export SOCKET=$PUBLIC/dibs.sock DIBS_LEDGER=sqlite:$PUBLIC/state.64101/ledger.db
    start setpriv --reuid=64101 --regid=64101 --clear-groups env DIBS_SOCKET=none "$PUBLIC/dibs" serve --socket "$SOCKET"
    wait_until 10 test -S "$SOCKET"
    # A process that nobody may inspect, its own user included.
    cat >"$T/hidden.py" <<'END'
import ctypes, json, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def ask(name):
    client = socket.socket(socket.AF_UNIX)
    client.connect(sys.argv[1])
    body = json.dumps({"name": name, "holder": {"kind": "lease", "ttl": "1s"}})
    client.sendall(f"POST /v1/claims HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    answer = b""
    while part := client.recv(65536):
        answer += part
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])
os.setgroups([]); os.setgid(64101); os.setuid(64101)
assert libc.prctl(4, 0, 0, 0, 0) == 0  # PR_SET_DUMPABLE
here = ask("in/ours")
assert here["netns"] == os.stat("/proc/self/ns/net").st_ino, here
assert libc.prctl(4, 1, 0, 0, 0) == 0 and libc.unshare(0x10000000 | 0x40000000) == 0 and libc.prctl(4, 0, 0, 0, 0) == 0
claim = ask("in/another")
server = socket.socket()
server.bind(("0.0.0.0", claim["port"]))
server.listen()
print("listens", flush=True)
time.sleep(600)
END
    start python3 "$T/hidden.py" "$SOCKET" >"$T/hidden"
    wait_until 10 grep -q listens "$T/hidden"
    names() { curl -sf --unix-socket "$SOCKET" http://dibs/v1/claims | grep -o '"name":"[^"]*"' | sort | tr -d '\n'; }
    is_left() { [ "$(names)" = '"name":"in/another"' ]; }
    wait_until 10 is_left
    curl -sf --unix-socket "$SOCKET" --json '{}' http://dibs/v1/reap
    is_left
}

@test "a daemon in a container keeps the lease of a client outside while it cannot look into its network" {
    needs curl
    export SOCKET=$T/dibs.sock
    # outside ARGUMENT...: a claim of a second; its number is in $PORT, and somebody listens there.
    outside() {
        PORT=$(DIBS_SOCKET=$SOCKET dibs claim --ttl 1s "$@")
        start python3 -c "import socket, sys, time
server = socket.socket()
server.bind(('0.0.0.0', int(sys.argv[1])))
server.listen()
print('listens', flush=True)
time.sleep(600)" "$PORT" >"$T/listener"
        wait_until 10 grep -q listens "$T/listener"
    }
    state() { curl -sf --unix-socket "$SOCKET" "http://dibs/v1/claims?judge=true&port=$1" | grep -o '"life":"[a-z]*"'; }
    has_ended() { ! state "$1" >/dev/null; }
    lingers() { curl -sf --unix-socket "$SOCKET" http://dibs/metrics | grep -qx 'dibs_lingering_claims 1'; }

    container --net
    start_in_sandbox "$SANDBOX" env DIBS_SOCKET=none DIBS_LEDGER="sqlite:$T/inside.db" "$DIBS" serve --socket "$SOCKET"
    wait_until 10 test -S "$SOCKET"
    outside far
    wait_until 10 lingers
    [ "$(state "$PORT")" = '"life":"unknown"' ]
    DIBS_SOCKET=$SOCKET run dibs claim --port "$PORT"
    assert_status 3
    DIBS_SOCKET=$SOCKET dibs release --force far # its owner can end it
    has_ended "$PORT"

    container # with the network of the host: the daemon sees the socket, and that it has gone
    SOCKET=$T/beside.sock
    start_in_sandbox "$SANDBOX" env DIBS_SOCKET=none DIBS_LEDGER="sqlite:$T/beside.db" "$DIBS" serve --socket "$SOCKET" --admin-socket "$T/beside-admin.sock"
    wait_until 10 test -S "$SOCKET"
    outside near
    wait_until 10 lingers
    [ "$(state "$PORT")" = '"life":"alive"' ]
    end_process "$STARTED"
    wait_until 10 has_ended "$PORT"
}

@test "dibs looks for the listener in the holder's network" {
    local sandbox port
    container --net
    sandbox=$SANDBOX
    sleeper_in "$sandbox"
    port=$(dibs claim web --pid "$OUTSIDE")
    run dibs assert web
    assert_status 3
    start nsenter --net --target "$OUTSIDE" -- "$DIBS_TEST_SUPPORT/listen.py" "$port" tcp 0.0.0.0 "$T/stranger"
    wait_until 10 test -f "$T/stranger"
    run dibs assert web
    assert_status 3
    assert_output_has "another process"
    end_process "$STARTED"
    start_in_sandbox "$sandbox" "$DIBS" run -p served -- "$DIBS_TEST_SUPPORT/listen.py" '{served}' tcp 0.0.0.0 "$T/served"
    wait_until 10 test -f "$T/served"
    inside "$sandbox" assert served
    port=$(dibs assert served)
    run dibs who "$port"
    assert_output_has ": holder"
    run dibs ls --audit --port "$port"
    assert_output_has "holder pid"
}

@test "a container whose init has died is dead, also while its starter has not noticed" {
    local sandbox starter
    container
    sandbox=$SANDBOX
    run_inside "$sandbox" web
    starter=$(awk '/^PPid/ { print $2 }' "/proc/$sandbox/status")
    kill -STOP "$starter" # so that the init stays a zombie, and the namespace is there still
    kill -KILL "$sandbox"
    wait_until 10 has_state "$PORT" dead
    reaps 1 dibs
    run dibs claim --port "$PORT"
    assert_status 0
    kill -CONT "$starter"
}

@test "as process 1 of a container dibs run leaves no zombies, for one command and for all roles" {
    local orphans='for i in 1 2 3; do (sleep 0.1 &); done; sleep 0.5; for i in 1 2 3 4 5 6 7 8 9; do
        grep -qs "^State:.Z" /proc/[0-9]*/status || exit 4; sleep 1; done; exit 5'
    run unshare --pid --mount-proc --fork --kill-child "$DIBS" run -- sh -c "$orphans"
    assert_status 4
    cat >dibs.json <<END
{"roles": {"web": {"ports": [{"name": "http", "env": "PORT"}], "command": ["sh", "-c", $(printf '%s' "$orphans" | python3 -c 'import json, sys; print(json.dumps(sys.stdin.read()))')]},
           "api": {"ports": [{"name": "http", "env": "PORT"}], "command": ["sleep", "60"]}}}
END
    run unshare --pid --mount-proc --fork --kill-child "$DIBS" run --all
    assert_status 4
}

@test "without /proc there is a clear error and no verdict" {
    local port
    [ "${DIBS_TEST_SANITIZE:-none}" = none ] || skip "the sanitizer itself needs /proc"
    start_sleeper
    port=$(dibs claim web --pid "$STARTED")
    sandbox_start
    in_sandbox "$SANDBOX" umount -l /proc
    for command in "claim" "claim --port $port" "reap" "ls" "release web" "get web" "claim --pid 1"; do
        # shellcheck disable=SC2086 # several words
        refused 1 /proc in_sandbox "$SANDBOX" "$DIBS" $command
    done
    has_state "$port" alive
    [ "$(sql 'SELECT count(*) FROM claims')" = 1 ]
}

@test "in a /proc of processes only the error names the file that is missing" {
    sandbox_start --user --map-root-user --pid
    in_sandbox "$SANDBOX" mount -t proc -o subset=pid proc /proc || skip "this kernel has no subset=pid"
    refused 1 /proc/sys/kernel/overflowuid in_sandbox "$SANDBOX" "$DIBS" claim
}

@test "with the /proc of another pid namespace nobody is declared dead, and no wrong process becomes a holder" {
    local port
    start_sleeper
    port=$(dibs claim web --pid "$STARTED")
    sandbox_start --pid # /proc is still the host's
    run_apart in_sandbox "$SANDBOX" "$DIBS" claim --pid 1
    [ "$status" -ne 0 ]
    [[ $stderr = *"/proc"* ]]
    run in_sandbox "$SANDBOX" "$DIBS" claim --port "$port"
    assert_status 3
    run in_sandbox "$SANDBOX" "$DIBS" reap
    assert_output_has "0 claims"
    has_state "$port" alive
}

# ---- users ----

share_ledger() {
    public_folder
    mkdir -m 1777 "$PUBLIC/shared"
    : >"$PUBLIC/shared/ledger.db"
    chmod 0666 "$PUBLIC/shared/ledger.db"
    chmod 0777 "$PUBLIC/shared"
    export DIBS_LEDGER=sqlite:$PUBLIC/shared/ledger.db
    cd "$PUBLIC" || return 1
}

ann() { as_user 64101 "$PUBLIC/dibs" "$@"; }
bob() { as_user 64102 "$PUBLIC/dibs" "$@"; }

@test "two users of one ledger: neither ends, renews or takes the other's claim; root may" {
    local port token
    share_ledger
    ann claim /web --keep --json >"$T/json"
    port=$(field port <"$T/json")
    token=$(field token <"$T/json")
    run bob claim --port "$port"
    assert_status 3
    run bob release /web # among one's own: there is none
    assert_status 0
    run bob release "$port"
    assert_status 0
    run bob release --force "$port"
    assert_status 0
    run bob release --all-mine --force
    assert_status 0
    run bob release --token "$token"
    assert_status 7
    run bob renew --token "$token"
    assert_status 7
    run bob transfer --token "$token" --ttl 5m
    assert_status 7
    run bob reap --stale
    assert_status 0
    [ "$(ann ls --json | field port)" = "$port" ]
    # a name is unique per user: bob's is another claim
    run bob claim /web --keep
    assert_status 0
    [ "$output" != "$port" ]
    run dibs release --token "$token" # root is admin
    assert_status 0
    run ann -q ls --names # without the note about claims of others
    [ -z "$output" ]
    run bob ls --names
    assert_output_has web
}

@test "users do not see each other's tokens, and a reap by one ends the dead of all" {
    local port
    share_ledger
    start setpriv --reuid=64101 --regid=64101 --clear-groups sleep 600
    wait_until 10 grep -q 64101 "/proc/$STARTED/status"
    port=$(ann claim --pid "$STARTED")
    run bob ls --all --json
    [[ $output != *token* ]]
    run bob reap
    assert_output_has "0 claims"
    end_process "$STARTED"
    run bob reap
    assert_output_has "1 claim"
    run bob claim --port "$port"
    assert_status 0
}

@test "a process of another user cannot be made a holder" {
    share_ledger
    start setpriv --reuid=64101 --regid=64101 --clear-groups sleep 600
    wait_until 10 grep -q 64101 "/proc/$STARTED/status"
    run bob claim --pid "$STARTED"
    assert_status 7
    run ann claim --pid "$STARTED"
    assert_status 0
}
