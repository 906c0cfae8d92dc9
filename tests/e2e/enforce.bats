#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# dibs serve --enforce: the kernel refuses a claimed port to all but its claim's processes.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell; the support files set variables
load ../support/dibs
load ../support/sandbox
load ../support/serve

setup() {
    dibs_setup
    needs_root
    needs setpriv setsid
    public_folder
    cp "$DIBS_TEST_SUPPORT/bind_once.py" "$PUBLIC"
    export SOCKET_DIR=$PUBLIC
}
teardown() {
    sandbox_teardown
    [ ! -e "${T:-}/mounted" ] || umount /sys/fs/bpf
}

enforcing() {
    serve_start --enforce
    export DIBS_SOCKET=$SOCKET
}

# bound WANTED PORT [WORD]...: what a bind by this test, which owns no claim of a process, answers.
bound() {
    local wanted=$1 got
    shift
    got=$("$PUBLIC/bind_once.py" "$@")
    [ "$got" = "$wanted" ] || { echo "bind of $*: $got, wanted $wanted" >&2; return 1; }
}

bound_as() { # bound_as UID WANTED PORT [WORD]...
    local wanted=$2 got
    got=$(as_user "$1" "$PUBLIC/bind_once.py" "${@:3}")
    [ "$got" = "$wanted" ] || { echo "bind as $1 of ${*:3}: $got, wanted $wanted" >&2; return 1; }
}

@test "nobody else binds the port of a process, not even root, whatever options are set" {
    enforcing
    start_sleeper
    port=$(dibs claim --pid "$STARTED")
    for words in "" addr port "addr port" "127.0.0.1 addr" "0.0.0.0 addr port" "::1 addr" "v6only addr"; do
        # shellcheck disable=SC2086 # words
        bound EADDRINUSE "$port" tcp $words
        # shellcheck disable=SC2086
        bound_as 65534 EADDRINUSE "$port" tcp $words
    done
    bound ok "$port" udp # another protocol is another port
    dibs release "$port"
    bound ok "$port" tcp
}

@test "a claim of one address leaves the others free, and wildcards conflict with it" {
    enforcing
    start_sleeper
    port=$(dibs claim --pid "$STARTED" --address 127.0.0.1)
    bound EADDRINUSE "$port" 127.0.0.1 addr
    bound EADDRINUSE "$port" 0.0.0.0 addr
    bound EADDRINUSE "$port" :: addr
    bound EADDRINUSE "$port" ::ffff:127.0.0.1 addr
    bound ok "$port" 127.0.0.2
    bound ok "$port" ::1
    bound ok "$port" :: v6only
}

@test "an IPv4 server cannot slip below a claim of both families, and UDP is refused like TCP" {
    enforcing
    start_sleeper
    port=$(dibs claim --pid "$STARTED" --proto tcp,udp)
    bound EADDRINUSE "$port" udp 0.0.0.0 addr port
    bound EADDRINUSE "$port" udp :: addr port
    bound EADDRINUSE "$port" tcp 0.0.0.0 addr
}

@test "the command of dibs run and all its descendants bind freely" {
    enforcing
    run dibs run -p web -- sh -c "$PUBLIC/bind_once.py \$PORT addr; setsid $PUBLIC/bind_once.py \$PORT; sh -c '$PUBLIC/bind_once.py \$PORT'"
    [ "$output" = "ok
ok
ok" ]
}

# cgroups: of commands, on the whole host.
cgroups() { find "$CGROUPS" -name 'dibs-run.*' -type d | sort; }
cgroup_of() { sed -n 's/^0:://p' "/proc/$1/cgroup"; }
is_gone() { [ ! -e "$CGROUPS$1" ]; }

@test "a process that leaves its parents still belongs to its dibs run, whose cgroup ends with the last one" {
    CGROUPS=$(findmnt -nt cgroup2 -o TARGET | head -n 1)
    enforcing
    # The subshell ends at once; what it started has another parent then.
    start dibs run -p web -- sh -c "echo \$\$ >\"$T/pid\"; ( ( sleep 1; $PUBLIC/bind_once.py \$PORT >\"$T/later\" ) & ); sleep 3"
    wait_until 10 test -s "$T/pid"
    pid=$(cat "$T/pid")
    wait_until 10 grep -q "dibs-run.$pid" "/proc/$pid/cgroup"
    cgroup=$(cgroup_of "$pid")
    wait_until 10 test -s "$T/later"
    [ "$(cat "$T/later")" = ok ]
    wait_until 10 is_gone "$cgroup"
}

@test "a cgroup that a killed daemon has left is removed by the next one" {
    CGROUPS=$(findmnt -nt cgroup2 -o TARGET | head -n 1)
    enforcing
    start dibs run -p web -- sh -c "echo \$\$ >\"$T/pid\"; exec sleep 600"
    wait_until 10 test -s "$T/pid"
    pid=$(cat "$T/pid")
    echo "$pid" >>"$T/started"
    wait_until 10 grep -q "dibs-run.$pid" "/proc/$pid/cgroup"
    cgroup=$(cgroup_of "$pid")
    serve_stop KILL
    rm -f "$SOCKET" "$ADMIN"
    enforcing
    port=$(dibs ls --all --json | field port)
    bound EADDRINUSE "$port" # the command still has it
    kill -KILL "$pid"
    wait_until 10 is_gone "$cgroup"
}

@test "the port of a lease is its user's: other users are refused, also root" {
    enforcing
    port=$(as_user 65534 env DIBS_SOCKET="$SOCKET" HOME="$PUBLIC" "$PUBLIC/dibs" claim --ttl 5m)
    bound_as 65534 ok "$port"
    bound_as 65533 EADDRINUSE "$port" addr
    bound EADDRINUSE "$port" addr
}

@test "claims stay enforced when the daemon is restarted, and one that ends is not any more" {
    enforcing
    start_sleeper
    port=$(dibs claim --pid "$STARTED")
    serve_stop
    DIBS_SOCKET=none dibs claim --port 23000 --pid "$STARTED" # without the daemon: of the level none
    enforcing
    bound EADDRINUSE "$port" addr
    bound ok 23000
    [ "$(dibs ls --all --json --port "$port" | field hold)" = enforce ]
    end_process "$STARTED"
    wait_until 10 bound ok "$port" addr
}

@test "doctor says whether this host can enforce, and whether its daemon does" {
    run dibs doctor
    [[ $output = *"this kernel can refuse claimed ports to others"* ]]
    [[ $output != *"the kernel enforces the claims"* ]]
    enforcing
    run dibs doctor
    [[ $output = *"the kernel enforces the claims"* ]]
    serve_stop
    rm -f "$SOCKET" "$ADMIN"
    # Without cgroup v2:
    export DIBS_SOCKET=none
    sandbox_start
    in_sandbox "$SANDBOX" sh -c 'findmnt -nt cgroup2 -o TARGET | xargs umount -l'
    run in_sandbox "$SANDBOX" "$DIBS" doctor
    [[ $output = *"cannot refuse claimed ports to others: no cgroup v2 hierarchy is mounted"* ]]
    run in_sandbox "$SANDBOX" "$DIBS" serve --enforce --socket "$T/s"
    [ "$status" -eq 6 ]
    [[ $output = *"no cgroup v2 hierarchy is mounted"* ]]
}

@test "a declared port is refused to nobody" {
    enforcing
    start_sleeper
    dibs claim --declare 23456 --pid "$STARTED"
    bound ok 23456
}

@test "when the daemon is stopped or killed, every process may bind again" {
    for signal in TERM KILL; do
        enforcing
        start_sleeper
        port=$(dibs claim --pid "$STARTED")
        bound EADDRINUSE "$port"
        serve_stop "$signal"
        wait_until 10 bound ok "$port"
        rm -f "$SOCKET" "$ADMIN"
        export DIBS_SOCKET=none
    done
}

@test "with --enforce-persistent ports stay refused without a daemon, until one without it starts" {
    [ "$(stat -fc %T /sys/fs/bpf)" = bpf_fs ] || { mount -t bpf bpf /sys/fs/bpf && : >"$T/mounted"; }
    serve_start --enforce-persistent
    export DIBS_SOCKET=$SOCKET
    start_sleeper
    port=$(dibs claim --pid "$STARTED" held)
    ended=$(dibs claim --keep ended)
    bound EADDRINUSE "$port"
    serve_stop KILL
    rm -f "$SOCKET" "$ADMIN"
    bound EADDRINUSE "$port"
    DIBS_SOCKET=none dibs release ended
    serve_start --enforce-persistent
    bound EADDRINUSE "$port"
    bound_as 65534 ok "$ended" # of before the start, and not there any more
    serve_stop
    bound EADDRINUSE "$port"
    serve_start --enforce
    bound EADDRINUSE "$port"
    serve_stop
    bound ok "$port"
    [ ! -e /sys/fs/bpf/dibs/bind4 ]
}

@test "a port is enforced in the network namespace of its claim alone" {
    enforcing
    sandbox_start --net
    in_sandbox "$SANDBOX" ip link set lo up
    start_in_sandbox "$SANDBOX" sleep 600
    port=$(in_sandbox "$SANDBOX" env DIBS_SOCKET="$SOCKET" "$PUBLIC/dibs" claim --pid "$STARTED")
    bound ok "$port"
    [ "$(in_sandbox "$SANDBOX" "$PUBLIC/bind_once.py" "$port")" = EADDRINUSE ]
}

@test "a daemon that may not load programs into the kernel says so, and does not start" {
    run as_user 65534 env DIBS_LEDGER="sqlite:$PUBLIC/other.db" \
        "$PUBLIC/dibs" serve --enforce --socket "$PUBLIC/other.sock"
    [ "$status" -eq 6 ]
    case $output in *"ports cannot be enforced here: "*) ;; *) echo "$output"; false ;; esac
}

@test "auto is enforce, and a claim with another level is not enforced" {
    enforcing
    dibs claim auto --keep --json >"$T/out"
    grep -q '"hold":"enforce"' "$T/out"
    [[ $(dibs who "$(dibs get auto)") = *", hold enforce,"* ]]
    none=$(dibs claim none --keep --hold none)
    bound_as 65534 ok "$none" tcp
    dibs claim none --keep --hold enforce
    bound_as 65534 EADDRINUSE "$none" tcp
    dibs claim none --keep --hold none
    bound_as 65534 ok "$none" tcp
    guarded=$(dibs claim guarded --keep --hold guard)
    bound EADDRINUSE "$guarded" tcp
    bound ok "$guarded" tcp addr
    # dibs binds here, before the command has a cgroup
    dibs run --listen web -- python3 "$DIBS_TEST_SUPPORT/activated.py" >"$T/out"
    grep -q "^web tcp listening" "$T/out"
}
