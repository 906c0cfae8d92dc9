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

@test "the level that is shown is the one in force: after a restart without --enforce it is none" {
    enforcing
    port=$(dibs claim web --keep)
    [ "$(dibs ls --all --json --port "$port" | field hold)" = enforce ]
    # Without the daemon, too, as long as one enforces this ledger:
    [ "$(DIBS_SOCKET=none dibs ls --all --json --port "$port" | field hold)" = enforce ]
    [[ $(DIBS_SOCKET=none dibs who "$port") = *", hold enforce,"* ]]
    serve_stop KILL
    rm -f "$SOCKET" "$ADMIN"
    for where in none "$SOCKET"; do
        export DIBS_SOCKET=$where
        [ "$where" = none ] || serve_start
        bound_as 65534 ok "$port"
        [ "$(dibs ls --all --json --port "$port" | field hold)" = none ]
        [[ $(dibs who "$port") = *", hold none (not enforced now: "* ]]
        [ "$(dibs claim web --keep --json | field hold)" = none ]
        dibs snapshot export >"$T/snapshot" # has what the ledger has
        grep -q '"hold": *"enforce"' "$T/snapshot"
    done
    serve_stop
    enforcing
    bound_as 65534 EADDRINUSE "$port"
    [ "$(dibs ls --all --json --port "$port" | field hold)" = enforce ]
}

@test "only one daemon enforces the claims of a ledger: a second one does not know the commands of the first" {
    enforcing
    ln -s "$T/ledger.db" "$T/link.db"
    for ledger in ledger link; do
        run env DIBS_LEDGER="sqlite:$T/$ledger.db" DIBS_SOCKET=none timeout 20 "$DIBS" serve --enforce --socket "$T/second"
        [ "$status" -eq 3 ]
        [[ $output = *"another daemon enforces the claims of this ledger ($T/ledger.db-enforced)"* ]]
    done
    # One that does not enforce them may serve them.
    DIBS_SOCKET=none start "$DIBS" serve --socket "$T/second" 2>>"$T/serve.log"
    wait_until 10 curl -sf --unix-socket "$T/second" http://dibs/readyz
    start_sleeper
    port=$(DIBS_SOCKET=$T/second dibs claim web --pid "$STARTED")
    dibs claim web --pid "$STARTED" --hold enforce
    wait_until 10 bound EADDRINUSE "$port" addr
    [ "$(DIBS_SOCKET=$T/second dibs ls --all --json --port "$port" | field hold)" = enforce ]
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
    [ "$(DIBS_SOCKET=none dibs ls --all --json held | field hold)" = enforce ]
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

@test "a daemon in another network namespace does not enforce there what an earlier one has pinned" {
    [ "$(stat -fc %T /sys/fs/bpf)" = bpf_fs ] || { mount -t bpf bpf /sys/fs/bpf && : >"$T/mounted"; }
    serve_start --enforce-persistent
    start_sleeper
    port=$(DIBS_SOCKET=$SOCKET dibs claim --pid "$STARTED")
    serve_stop KILL
    rm -f "$SOCKET" "$ADMIN"
    start unshare --net sleep 600
    wait_until 10 grep -qx sleep "/proc/$STARTED/comm"
    local there=(nsenter "--net=/proc/$STARTED/ns/net")
    "${there[@]}" ip link set lo up
    DIBS_SOCKET=none start "${there[@]}" "$DIBS" serve --enforce-persistent --socket "$SOCKET"
    wait_until 10 curl -sf --unix-socket "$SOCKET" http://dibs/readyz
    [ "$("${there[@]}" "$PUBLIC/bind_once.py" "$port")" = ok ]
    bound EADDRINUSE "$port"
    end_process "$STARTED"
    rm -f "$SOCKET"
    enforcing # ends what is pinned
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
    case $output in *"ports cannot be enforced here: only root"*) ;; *) echo "$output"; false ;; esac
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

@test "a user's own cgroup does not become that of a command by its name" {
    CGROUPS=$(findmnt -nt cgroup2 -o TARGET | head -n 1)
    own=$CGROUPS/dibs-test.$$
    enforcing
    start_sleeper
    port=$(dibs claim --pid "$STARTED")
    name=dibs-run.$STARTED.$(cut -d ' ' -f 22 "/proc/$STARTED/stat")
    mkdir "$own"
    chown 65534 "$own"
    as_user 65534 mkdir "$own/$name"
    serve_stop KILL
    rm -f "$SOCKET" "$ADMIN"
    enforcing
    # shellcheck disable=SC2016 # for the shell there
    got=$(sh -c 'echo $$ >"$1/cgroup.procs" && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$2" "$3" addr' \
        sh "$own/$name" "$PUBLIC/bind_once.py" "$port")
    rmdir "$own/$name" "$own"
    [ "$got" = EADDRINUSE ]
}

@test "no moment is left in which a lease that is renewed is not enforced" {
    enforcing
    port=$(dibs claim lease --ttl 5m)
    one=$(dibs claim one --ttl 5m --port 23700 --address 127.0.0.1)
    dibs claim two --ttl 5m --port "$one" --address 127.0.0.2
    # shellcheck disable=SC2016 # for the interpreter
    thief='import socket, sys, time
end, taken = time.time() + 3, 0
while time.time() < end:
    for address, port in (("", int(sys.argv[1])), ("127.0.0.1", int(sys.argv[2])), ("127.0.0.2", int(sys.argv[2]))):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind((address, port))
                taken += 1
            except OSError:
                pass
print(taken)'
    as_user 65534 /usr/bin/python3 -c "$thief" "$port" "$one" >"$T/taken" 3>&- &
    pid=$!
    while kill -0 "$pid" 2>/dev/null; do dibs renew lease --ttl 5m && dibs renew one --ttl 5m; done >/dev/null
    wait "$pid"
    [ "$(cat "$T/taken")" = 0 ] || { echo "taken $(cat "$T/taken") times"; false; }
}

@test "a network namespace with the inode of one that has ended is another one" {
    enforcing
    # The kernel gives the inode to the next namespace, unless another process of the host is faster.
    for _ in 1 2 3; do
        # shellcheck disable=SC2016 # for the shell there
        [ "$(unshare --net sh -c 'ip link set lo up
            sleep 60 3>&- &
            port=$("$0/dibs" claim --pid $!)
            "$0/bind_once.py" "$port"
            "$0/dibs" release "$port" >"$1"
            kill $!' "$PUBLIC" "$T/out")" = EADDRINUSE ]
    done
}

@test "many claims of one port on different addresses are enforced, and descendants of any depth are the holder's" {
    enforcing
    start_sleeper
    for i in $(seq 12); do dibs claim --pid "$STARTED" --port 23800 --address "127.0.1.$i" "at$i"; done
    for i in 1 8 9 12; do bound EADDRINUSE 23800 "127.0.1.$i" addr; done
    bound EADDRINUSE 23800 0.0.0.0 addr
    bound ok 23800 127.0.1.13
    dibs release at1 at6
    for i in 1 6; do bound ok 23800 "127.0.1.$i"; done # others have their places
    for i in 2 11 12; do bound EADDRINUSE 23800 "127.0.1.$i" addr; done
    dibs release --all --every-project
    bound ok 23800
    # shellcheck disable=SC2016,SC2089,SC2090 # for the shell there
    nested='[ "$1" -eq 0 ] && exec "$PUBLIC/bind_once.py" "$port"; sh -c "$nested" sh $(($1 - 1)); exit'
    # shellcheck disable=SC2090
    export PUBLIC nested
    # shellcheck disable=SC2016 # for the shell there
    [ "$(sh -c 'export port=$("$PUBLIC/dibs" claim --pid $$); sh -c "$nested" sh 50; exit')" = ok ]
}

@test "of two daemons with --enforce-persistent the second does not start, and one with --enforce leaves the first alone" {
    [ "$(stat -fc %T /sys/fs/bpf)" = bpf_fs ] || { mount -t bpf bpf /sys/fs/bpf && : >"$T/mounted"; }
    serve_start --enforce-persistent
    export DIBS_SOCKET=$SOCKET
    start_sleeper
    port=$(dibs claim --pid "$STARTED")
    bound EADDRINUSE "$port"
    run env DIBS_LEDGER="sqlite:$T/second.db" DIBS_SOCKET=none timeout 20 "$DIBS" serve --enforce-persistent --socket "$T/second"
    [ "$status" -eq 3 ]
    [[ $output = *"another daemon with --enforce-persistent runs"* ]]
    DIBS_LEDGER="sqlite:$T/second.db" DIBS_SOCKET=none start "$DIBS" serve --enforce --socket "$T/second" 2>>"$T/serve.log"
    wait_until 10 curl -sf --unix-socket "$T/second" http://dibs/readyz
    bound EADDRINUSE "$port"
    serve_stop KILL
    bound EADDRINUSE "$port"
    # Another process that gets the daemon's number has none of its rights.
    # shellcheck disable=SC2016 # for the interpreter
    got=$(/usr/bin/python3 -c 'import ctypes, os, sys
SYS_clone3, SIGCHLD = 435, 17
wanted = (ctypes.c_int * 1)(int(sys.argv[1]))
args = (ctypes.c_uint64 * 10)(0, 0, 0, 0, SIGCHLD, 0, 0, 0, ctypes.addressof(wanted), 1) # the last two: set_tid
pid = ctypes.CDLL(None, use_errno=True).syscall(SYS_clone3, args, ctypes.sizeof(args))
if pid == 0:
    os.execv(sys.argv[2], sys.argv[2:4])
os.waitpid(pid, 0) if pid > 0 else print(os.strerror(ctypes.get_errno()))' "$DAEMON" "$PUBLIC/bind_once.py" "$port")
    [ "$got" = EADDRINUSE ]
    end_process "$STARTED"
    rm -f "$SOCKET" "$ADMIN"
    enforcing # ends what is pinned
    serve_stop
    [ ! -e /sys/fs/bpf/dibs/bind4 ]
}

# nested COMMAND: what bash does in a cgroup namespace of its own, two levels below the root, with a daemon that
# enforces claims, if it starts.
nested() {
    local inner=$CGROUPS/dibs-test.$$/inner
    mkdir -p "$inner"
    # shellcheck disable=SC2016 # for the shell there
    run sh -c 'echo $$ >"$1/cgroup.procs"; exec unshare --cgroup --mount bash -c "$2"' sh "$inner" "$1
        export DIBS_SOCKET='$T/inner.sock'
        DIBS_SOCKET=none '$DIBS' serve --enforce --socket '$T/inner.sock' 3>&- &
        for i in {1..400}; do curl -sf --unix-socket '$T/inner.sock' http://dibs/readyz && break; kill -0 \$! || exit; sleep 0.05; done
        '$DIBS' run -p web -- sh -c '( ( sleep 0.3; $PUBLIC/bind_once.py \$PORT ) & ); sleep 1'
        kill \$!
        wait \$!"
    wait_until 10 find "${inner%/*}" -depth -type d -exec rmdir {} + # with what the daemon had no time to remove
}

@test "in a cgroup namespace of its own the daemon knows the cgroups of commands, or says that it cannot" {
    CGROUPS=$(findmnt -nt cgroup2 -o TARGET | head -n 1)
    nested "umount -l '$CGROUPS' && mount -t cgroup2 cgroup2 '$CGROUPS'"
    [[ $'\n'$output$'\n' = *$'\nok\n'* ]] || { echo "$output"; false; }
    nested true
    [[ $output = *"not the part that the daemon's cgroup namespace shows"* ]] || { echo "$output"; false; }
}

@test "numbers of an ordinary user are not those of a process that could gain rights" {
    enforcing
    # shellcheck disable=SC2016 # for the shell there
    run unshare --net sh -c 'ip link set lo up; exec setpriv --reuid=65534 --regid=65534 --clear-groups \
        timeout 60 /usr/bin/python3 -c "$(cat "$1")" "$2"' sh "$BATS_TEST_DIRNAME/numbers_rights.py" "$SOCKET"
    [ "$output" = "real
replaced" ] || { echo "$output"; false; }
    # One of a setuid program is not root's.
    cp /usr/bin/sleep "$PUBLIC/setuid"
    chmod 4755 "$PUBLIC/setuid"
    run as_user 65534 /usr/bin/python3 -c 'import http.client, json, socket, subprocess, sys
child = subprocess.Popen([sys.argv[2], "60"])
connection = http.client.HTTPConnection("dibs")
connection.sock = socket.socket(socket.AF_UNIX)
connection.sock.connect(sys.argv[1])
number = {"proto": "tcp", "inside": 389, "outside": 24389, "own": False}
connection.request("POST", "/v1/numbers", json.dumps({"pid": child.pid, "numbers": [number]}),
                   {"Content-Type": "application/json"})
print(connection.getresponse().status)
child.terminate()' "$SOCKET" "$PUBLIC/setuid"
    [ "${lines[0]}" = 403 ] || { echo "$output"; false; }
}

@test "where the daemon cannot give a command a cgroup, --as says which way is left" {
    enforcing
    closed=$(findmnt -nt cgroup2 -o TARGET | head -n 1)/dibs-test.$$
    mkdir "$closed"
    echo 0 >"$closed/cgroup.max.descendants"
    # shellcheck disable=SC2016 # for the shell there
    run sh -c 'echo $$ >"$1/cgroup.procs"; exec "$2" run --as 3000 -- true' sh "$closed" "$DIBS"
    assert_status 6
    assert_output_has "'--as-by seccomp' does without them: making the cgroup"
    [ "$(dibs ls --all --json)" = "[]" ]
    # shellcheck disable=SC2016 # for the shell there
    run sh -c 'echo $$ >"$1/cgroup.procs"; exec "$2" run -p web -- true' sh "$closed" "$DIBS"
    assert_status 0
    assert_output_has "a descendant that leaves it may not bind: making the cgroup"
    # shellcheck disable=SC2016 # for the shell there
    run sh -c 'echo $$ >"$1/cgroup.procs"; exec "$2" -q run --as-by seccomp --as 3000 -- true' sh "$closed" "$DIBS"
    assert_status 0
    wait_until 10 rmdir "$closed"
}

@test "a user whose commands have a quarter of all cgroups gets no more, and takes none from others" {
    CGROUPS=$(findmnt -nt cgroup2 -o TARGET | head -n 1)
    start setpriv --reuid=64321 --regid=64321 --clear-groups sleep 600
    sleeper=$STARTED
    wait_until 10 grep -qx sleep "/proc/$sleeper/comm"
    (cd "$CGROUPS" && seq -f "dibs-run.$sleeper.%.0f" 1024 | xargs mkdir)
    enforcing
    run as_user 64321 "$DIBS" run -p web -- cat /proc/self/cgroup
    left=$(cd "$CGROUPS" && seq -f "dibs-run.$sleeper.%.0f" 1024 | xargs ls -d | wc -l)
    limited=$output
    run as_user 64321 "$DIBS" run --as 3000 -- true
    refused="$status $output"
    run as_user 64322 "$DIBS" run --as 3000 -- cat /proc/self/cgroup
    end_process "$sleeper"
    serve_stop # a daemon that stops removes what it can
    rm -f "$SOCKET" "$ADMIN"
    [ "$left" = 1024 ]
    [[ $limited = *"may not bind: user 64321 has 1024 cgroups of commands already"* ]]
    [[ $limited != *dibs-run* ]]
    [[ $refused = "6 "*"'--as-by seccomp' does without them: user 64321 has 1024 cgroups"* ]] || { echo "$refused"; false; }
    [[ $output = *dibs-run.* ]]
    [ -z "$(find "$CGROUPS" -maxdepth 1 -name "dibs-run.$sleeper.*")" ]
}

@test "a daemon that has nothing else to do removes the cgroups of commands that have ended" {
    CGROUPS=$(findmnt -nt cgroup2 -o TARGET | head -n 1)
    enforcing
    for _ in 1 2 3; do # each command wakes the daemon; on a busy machine three seconds can be too short
        dibs run -p web -- sh -c "cat /proc/self/cgroup >\"$T/cgroup\""
        cgroup=$(sed -n 's/^0:://p' "$T/cgroup")
        [[ $cgroup = *dibs-run.* ]]
        sleep 3
        if is_gone "$cgroup"; then return 0; fi
    done
    false
}

@test "the roles of a manifest bind their numbers at once, whichever way serves them" {
    enforcing
    cat >dibs.yaml <<END
group: shop
roles:
  db:  { ports: [ { name: sql, as: 5432 } ], command: [ "$PUBLIC/bind_once.py", "5432" ] }
  web: { ports: [ { name: http, as: 3000 } ], command: [ sh, -c, "sleep 0.5; $PUBLIC/bind_once.py 3000" ] }
END
    for way in bpf seccomp; do
        run dibs -q run --all --keep-going --as-by $way
        [ "$(grep -c '| ok$' <<<"$output")" = 2 ] || { echo "$way: $output"; false; }
    done
}

@test "a command with --as inside of another one has the numbers of both, its own first" {
    enforcing
    cat >"$T/both.py" <<'END'
import socket, sys
server = socket.create_server(("", 3000))
print(server.getsockname()[1], *(socket.create_connection(("localhost", int(p))).getpeername()[1] for p in sys.argv[1:]))
END
    cat >"$T/outer" <<END
python3 -c 'import socket, time; server = socket.create_server(("", 4000)); open("$T/up", "x"); time.sleep(60)' &
until [ -e "$T/up" ]; do sleep 0.05; done
"$DIBS" -q run --as 3000 -- python3 "$T/both.py" 3000 4000
kill \$!
END
    run dibs -q run --as 3000 --as 4000 -- sh "$T/outer"
    [ "$output" = "3000 3000 4000" ] || { echo "$output"; false; }
}

@test "the metrics say whether the kernel enforces claims, and count those that it could not" {
    serve_start
    ask /metrics
    grep -qx 'dibs_enforces 0' <<<"$output"
    serve_stop
    enforcing
    # More claims of one port than the kernel's programs compare.
    python3 -c 'import json
print(json.dumps({"requests": [{"mode": "required", "port": 23100, "bindings": [{"address": f"127.0.{n // 200}.{n % 200 + 1}"}]}
                               for n in range(300)]}))' >"$T/many"
    ask --json @"$T/many" /v1/batch
    assert_code 200
    ask /metrics
    grep -qx 'dibs_enforces 1' <<<"$output"
    missed=$(awk '$1 == "dibs_unenforced_claims_total" { print $2 }' <<<"$output")
    [ "$missed" -gt 0 ] || { echo "$missed claims are not enforced" >&2; return 1; }
    grep -q 'a claim is not enforced' "$T/serve.log"
}
