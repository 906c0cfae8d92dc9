#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# dibs run --as: the command believes that it uses a number, and really uses its claim. The kernel's way that is
# tested: DIBS_TEST_AS=seccomp (the default) or bpf, which leaves out the tests with the tag "notifier".
load ../support/dibs
load ../cli/cli
load ../support/serve

WAY=${DIBS_TEST_AS:-seccomp}
CALLS="own_server families both_families refusals untouched non_blocking signals waiting_connect threads vfork
    reuse_port old_calls fast_open"

setup_file() {
    local flags=()
    [ "${DIBS_TEST_STATIC:-}" != yes ] || flags=(-static)
    # shellcheck disable=SC2086 # a compiler can be several words
    ${CC:-cc} -O1 -D_GNU_SOURCE -pthread "${flags[@]}" -o "$BATS_FILE_TMPDIR/calls" \
        "$BATS_TEST_DIRNAME/../support/as_calls.c" 2>&1 | grep -v 'statically linked' || true
    chmod -R a+rX "$BATS_FILE_TMPDIR"
}
setup() {
    dibs_setup
    CALL=$BATS_FILE_TMPDIR/calls
    [ "$WAY" = bpf ] || return 0
    needs_root
    needs curl
    PLACE=$(mktemp -d "${TMPDIR:-/tmp}/dibs-as.XXXXXX") # the daemon's socket, for all users
    chmod 0755 "$PLACE"
    SOCKET_DIR=$PLACE serve_start --enforce
    sed -i "/^$DAEMON\$/d" "$T/started" # ended last
    export DIBS_SOCKET=$SOCKET
}
teardown() {
    local pid
    while read -r pid; do if kill -TERM "$pid" 2>/dev/null; then wait "$pid" || true; fi; done <"$T/started"
    # What notified for a command has ended with the command's last process.
    wait_until 10 none_left
    [ -z "${DAEMON:-}" ] || serve_stop
    rm -rf ${USERS:+"$USERS"} ${PLACE:+"$PLACE"}
    dibs_teardown
}
none_left() {
    # (grep itself must not have the variable)
    not env -u DIBS_LEDGER grep -lzxF "DIBS_LEDGER=$DIBS_LEDGER" /proc/[0-9]*/environ 2>/dev/null |
        grep -vx "/proc/${DAEMON:-}/environ"
}

# user COMMAND...: captures a command of another user, with a ledger of its own.
user() {
    USERS=${USERS:-$(mktemp -d "${TMPDIR:-/tmp}/dibs-as.XXXXXX")}
    chmod 0777 "$USERS"
    capture setpriv --reuid=65534 --regid=65534 --clear-groups env HOME="$USERS" XDG_STATE_HOME="$USERS" \
        XDG_CONFIG_HOME="$USERS" DIBS_LEDGER="sqlite:$USERS/ledger.db" timeout 60 "$@"
}

as() { # as OPTIONS -- COMMAND: dibs run with the way that is tested
    dibs run --as-by "$WAY" "$@"
}
starts() { # starts OPTIONS -- COMMAND: the same in the background; dibs itself is $STARTED
    start "$DIBS" run --as-by "$WAY" "$@" 2>"$T/noted"
}
outside() { # outside NUMBER: the port that the note names
    sed -n "s/.*port $1 of the command is \([0-9]*\) outside.*/\1/p" "$T/noted"
}
serves() { # serves PORT: does the test's server answer here, outside of its tree?
    [ "$(timeout 5 bash -c "exec 5<>/dev/tcp/127.0.0.1/$1; cat <&5" 2>/dev/null)" = served ]
}
held_ports() {
    [ "$(dibs ls --all --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))')" -eq "$1" ]
}

@test "a program uses its number in every way that it has without dibs" {
    for name in $CALLS; do
        capture as -q --as 3000 -- "$CALL" "$name" 3000
        [ "$code" -eq 0 ] || [ "$code" -eq 77 ] || complain "$name"
        [ -z "$errs" ] || complain "$name"
    done
}

@test "a program uses its number for datagrams, and for both protocols at once" {
    for name in datagrams messages waiting_receive; do
        capture as -q --as 5300/udp -- "$CALL" "$name" 5300
        [ "$code" -eq 0 ] || complain "$name"
        [ -z "$errs" ] || complain "$name"
    done
    for name in own_server datagrams threads waiting_connect fast_open; do
        capture as -q --as 5300/tcp+udp -- "$CALL" "$name" 5300
        [ "$code" -eq 0 ] || complain "$name with tcp+udp"
        [ -z "$errs" ] || complain "$name with tcp+udp"
    done
}

# bats test_tags=notifier
@test "with --as any each number that is bound gets a port: its own while that is free" {
    for name in families datagrams threads reuse_port; do
        listen 3000 # a stranger
        capture as -q --as any -- "$CALL" "$name" 3000
        end_process "$STARTED"
        [ "$code" -eq 0 ] || complain "$name"
    done
    capture as --as any -- sh -c '"$DIBS" -q claim --port 4001 >/dev/null; "$1" own_server 4001
        "$DIBS" ls --json' sh "$CALL"
    [ "$code" -eq 0 ] || complain "two numbers"
    outside=$(sed -n 's/.*port 4001 of the command is \([0-9]*\) outside/\1/p' "$T/err")
    [ "$outside" -ge 20000 ]
    json "[c['as'] for c in d if c['port'] == $outside] in ([], [4001])" # its process may have ended
    ok release 4001
    capture as --as any -- sh -c 'echo "${PORT:-none}"'
    [ "$out" = none ]
    held_ports 0
    # The first one has the number itself; for the second one it is no server of its own.
    starts --as any -- "$CALL" serve 4002
    wait_until 10 serves 4002
    grep -q 'port 4002 of the command is 4002 outside' "$T/noted"
    capture as -q --as any -- "$PYTHON" -c "$CONNECTS" 4002
    [ "$out" = 'Connection refused 4002' ] || complain "a neighbour"
    capture as -q --as any -- "$CALL" families 4002
    [ "$code" -eq 0 ] || complain "the second"
    refused 2 run --as any --as 3000 --as 3000 -- true
}

# bats test_tags=notifier
@test "with --as any a program may bind any count of numbers one after the other, and 256 at once" {
    capture as -q --as any -- "$PYTHON" -c 'import errno, socket
def bound(number):
    s = socket.socket()
    s.bind(("127.0.0.1", number))
    return s
for number in range(4100, 4400):
    s = bound(number)
    s.close()
held = []
try:
    for number in range(4400, 4700):
        held.append(bound(number))
except OSError as e:
    print(len(held), errno.errorcode[e.errno])
held.pop(100).close()
print(bound(4699).getsockname()[1])'
    [ "$out" = $'256 ENOBUFS\n4699' ] || complain "many numbers"
    wait_until 10 held_ports 0
}

# bats test_tags=notifier
@test "it works with each level of holding that needs no daemon, and with --confine" {
    for name in own_server families threads reuse_port; do
        for level in none guard; do
            capture as -q --hold $level --as 3000 -- "$CALL" "$name" 3000
            [ "$code" -eq 0 ] || complain "$name, hold $level"
        done
    done
    cat >"$T/passed.py" <<'END'
import os, socket
server = socket.socket(fileno=3)
client = socket.create_connection(("localhost", 3000))
print(os.environ["LISTEN_FDNAMES"], server.getsockname()[1], client.getpeername()[1], server.accept()[0].getsockname()[1])
END
    capture as -q --hold fd --as web=3000 -- "$PYTHON" "$T/passed.py"
    [ "$out" = 'web 3000 3000 3000' ] || complain "hold fd"
    refused 2 run -q --hold guard --as any -- true
    "$DIBS" run --confine true 2>"$T/why" || skip "no confine: $(cat "$T/why")"
    capture as -q --confine --as 3000 -- "$CALL" own_server 3000
    [ "$code" -eq 0 ] || complain "confine"
    capture as -q --confine --as 3000 -- "$CALL" own_server 4000
    [ "$code" -eq 1 ]
    [[ $errs = *"Permission denied"* ]]
}

@test "through a daemon that enforces claims it works by either way" {
    needs_root
    [ "$WAY" = bpf ] || { PLACE=$(mktemp -d "${TMPDIR:-/tmp}/dibs-as.XXXXXX"); chmod 0755 "$PLACE"; }
    [ "$WAY" = bpf ] || SOCKET_DIR=$PLACE serve_start --enforce
    export DIBS_SOCKET=$SOCKET
    for name in own_server families threads; do
        capture as -q --hold enforce --as 3000 -- "$CALL" "$name" 3000
        [ "$code" -eq 0 ] || complain "$name"
    done
    capture dibs run -q --hold fd --as 3000 -- "$PYTHON" -c 'import socket; print(socket.socket(fileno=3).getsockname()[1])'
    [ "$out" = 3000 ] || complain "a socket that is passed"
    refused 2 run --as-by bpf --hold fd --as 3000 -- true
    if [ "$WAY" = seccomp ]; then
        capture as -q --as any -- "$CALL" families 3000
        [ "$code" -eq 0 ] || complain "any"
    fi
    if "$DIBS" run --confine true 2>"$T/why"; then
        capture as -q --confine --as 3000 -- "$CALL" own_server 3000
        [ "$code" -eq 0 ] || complain "confine"
        capture as -q --confine --as 3000 -- "$CALL" own_server 4000
        [[ $errs = *"Permission denied"* ]] || complain "confine to others"
    fi
}

@test "it works without privileges" {
    needs_root
    cd / && user true
    cp "$CALL" "$USERS/calls"
    for name in own_server families non_blocking threads; do
        user "$DIBS" -q run --as-by "$WAY" --as 80 -- "$USERS/calls" "$name" 80
        [ "$code" -eq 0 ] || complain "$name"
        [ -z "$errs" ] || complain "$name"
    done
}

@test "the number inside is in the environment and the arguments, the one outside in a note and a variable" {
    capture as --as web=3000 --as 5432 -- sh -c 'echo "$PORT $PORT0 $PORT1 $WEB_PORT $DIBS_PORTS $*"
        echo "$DIBS_OUTSIDE_PORT_3000 $DIBS_OUTSIDE_PORT_5432"' sh '{PORT}' '{web}'
    [ "$code" -eq 0 ] || complain "it failed"
    [ "${out%%$'\n'*}" = "3000 3000 5432 3000 web=3000 5432 3000 3000" ]
    read -r web db <<<"${out##*$'\n'}"
    [[ $errs = *"port 3000 of the command is $web outside"*"port 5432 of the command is $db outside"* ]]
    [ "$web" -ge 20000 ] && [ "$db" -ge 20000 ] && [ "$web" -ne "$db" ]
    held_ports 0
    ok run -p plain --as 3000 -- sh -c 'echo "$PORT $PORT1 $PLAIN_PORT"'
    read -r first second plain <<<"$out"
    [ "$first" = "$plain" ] && [ "$second" = 3000 ] && [ "$plain" -ge 20000 ]
}

@test "three servers with one number run at once, and each is reached from outside by its own" {
    starts --as 3000 -- "$CALL" serve 3000
    mv "$T/noted" "$T/noted.1"
    starts --as 3000 -- "$CALL" serve 3000
    mv "$T/noted" "$T/noted.2"
    starts --as 3000 -- "$CALL" serve 3000
    mv "$T/noted" "$T/noted.3"
    wait_until 10 grep -q outside "$T/noted.1" && wait_until 10 grep -q outside "$T/noted.2"
    wait_until 10 grep -q outside "$T/noted.3"
    for i in 1 2 3; do
        port=$(sed -n 's/.* is \([0-9]*\) outside.*/\1/p' "$T/noted.$i")
        wait_until 10 serves "$port"
        echo "$port"
    done | sort -u >"$T/ports"
    [ "$(wc -l <"$T/ports")" -eq 3 ]
    not serves 3000
}

@test "wrong numbers and combinations are refused" {
    refused 2 run --as 0 -- true
    refused 2 run --as 65536 -- true
    refused 2 run --as web -- true
    refused 2 run --as 3000/sctp -- true
    refused 2 run --as 3000/ -- true
    refused 2 run --as =3000 -- true
    refused 2 run --as 3000 --as 3000 -- true
    says 'given twice'
    refused 2 run --as a-b=3000 --as a/b=3001 -- true
    refused 2 run --as-by magic --as 3000 -- true
    refused 127 run -q --as 3000 -- no-such-command
    held_ports 0
}

@test "the exit code and signals are the command's" {
    capture as -q --as 3000 -- sh -c 'exit 7'
    [ "$code" -eq 7 ]
    capture as -q --as 3000 -- sh -c 'kill -USR1 $$'
    [ "$code" -eq $((128 + $(kill -l USR1))) ]
    starts --as 3000 -- sh -c 'trap "exit 3" TERM; echo ready; while :; do sleep 0.05; done' >"$T/said"
    wait_until 10 grep -q ready "$T/said"
    kill -TERM "$STARTED"
    code=0
    wait "$STARTED" || code=$?
    [ "$code" -eq 3 ]
    held_ports 0
}

# received WORD...: the signals that the command of signals.py got so far.
received() {
    [ "$(tr '\n' ' ' <"$T/received" 2>/dev/null)" = "$* " ]
}

@test "the command gets each signal once: from others with its value, and from its terminal" {
    start setsid "$DIBS" -q run --as-by "$WAY" --as 3000 -- "$PYTHON" "$DIBS_TEST_SUPPORT/signals.py" "$T/received"
    wait_until 10 received ready
    expected=(ready)
    for name in TERM INT HUP WINCH URG RTMIN; do
        kill -s "$name" "$STARTED"
        expected+=("SIG$name")
        wait_until 10 received "${expected[@]}"
    done
    "$PYTHON" -c 'import ctypes, sys; ctypes.CDLL(None).sigqueue(int(sys.argv[1]), 10, ctypes.c_void_p(7))' "$STARTED"
    wait_until 10 received "${expected[@]}" 'SIGUSR1*'
    kill -s USR2 "$STARTED"
    code=0
    wait "$STARTED" || code=$?
    [ "$code" -eq 77 ]
    for how in press hangup; do
        code=0
        rm "$T/received"
        "$DIBS_TEST_SUPPORT/terminal.py" "$T/received" $how \
            "$DIBS" -q run --as-by "$WAY" --as 3000 -- "$PYTHON" "$DIBS_TEST_SUPPORT/signals.py" "$T/received" || code=$?
        [ "$code" -eq 77 ]
        [ "$(grep -cE 'SIGINT|SIGHUP' "$T/received")" -eq 1 ]
    done
    held_ports 0
}

@test "Ctrl-Z stops dibs with the command, and the shell continues both" {
    cat >"$T/job.sh" <<END
set -m
"$DIBS" -q run --as-by $WAY --as 3000 -- sh -c 'kill -TSTP \$\$; echo continued; exit 5'
echo "stopped \$?"
fg >/dev/null
echo "ended \$?"
END
    capture timeout 30 "$DIBS_TEST_SUPPORT/on_terminal.py" 80 bash "$T/job.sh"
    [ "$out" = $'stopped 147\ncontinued\nended 5' ] || complain "job control"
}

@test "dibs that is killed leaves the command its number" {
    starts --as 3000 -- sh -c "sleep 1; exec '$CALL' serve 3000"
    wait_until 10 outside 3000
    wait_until 10 grep -q outside "$T/noted"
    port=$(outside 3000)
    end_process "$STARTED"
    wait_until 10 serves "$port" # it has bound its number after the death of dibs
    ok ls --all --json
    kill -KILL "$(value "d[0]['holder']['pid']")"
    wait_until 10 held_ports 0
}

@test "what the command leaves running keeps the number, and nobody waits for it" {
    began=$SECONDS
    capture as --as 3000 -- sh -c "'$CALL' serve 3000 >/dev/null 2>&1 & echo \$! >'$T/left'"
    [ "$code" -eq 0 ] || complain "it failed"
    within 5 $began
    port=${errs#* is }
    wait_until 10 serves "${port%% *}"
    kill -KILL "$(cat "$T/left")"
}

# bats test_tags=notifier
@test "when the notifier is killed, dibs says so and the command gets errors, and does not hang" {
    starts --as 3000 -- sh -c "echo ready; until [ -f '$T/killed' ]; do sleep 0.02; done
        timeout 20 '$CALL' own_server 3000 2>'$T/failed'; echo \$? >'$T/code'" >"$T/said"
    wait_until 10 grep -q ready "$T/said"
    second=$(pgrep -P "$STARTED")
    kill -KILL "$second"
    code=0
    wait "$STARTED" || code=$?
    [ "$code" -eq 137 ]
    grep -q 'Function not implemented' "$T/noted"
    touch "$T/killed"
    wait_until 10 test -s "$T/code"
    [ "$(cat "$T/code")" -eq 1 ]
    grep -q 'Function not implemented' "$T/failed"
}

# bats test_tags=notifier
@test "a second --as inside the first one fails clearly before its command starts" {
    for way in seccomp bpf; do # a daemon's programs would get the calls after the first one's notifier
        capture as -q --as 3000 -- "$DIBS" -q run --as-by $way --as 4000 -- touch "$T/ran"
        [ "$code" -eq 1 ]
        [[ $errs = *"the command of another 'dibs run --as'"* ]]
        [ ! -e "$T/ran" ]
    done
    held_ports 0
}

@test "a user's command is shown to the daemon only once it cannot gain rights any more, however slow it is" {
    needs_root
    needs strace
    cd / && user true
    cp "$CALL" "$USERS/calls"
    # (no leak check works in a process that is traced)
    ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0 user strace -f -qq -o "$USERS/trace" -e trace=prctl -e inject=prctl:delay_enter=1000000:when=1 \
        "$DIBS" -q run --as-by "$WAY" --as 3000 -- "$USERS/calls" own_server 3000
    [ "$code" -eq 0 ] || complain "own_server"
    grep -q PR_SET_NO_NEW_PRIVS "$USERS/trace"
}

@test "a command that --as takes its rights from is refused before it starts, and containers are warned of" {
    needs_root
    cd / && user true
    cp /bin/true "$USERS/special"
    chmod 4755 "$USERS/special"
    user "$DIBS" -q run --as 80 -- "$USERS/special"
    [ "$code" -eq 2 ] || complain "not refused"
    [[ $errs = *no_new_privs* ]]
    printf '#!/bin/sh\n' >"$USERS/docker"
    chmod 0755 "$USERS/docker"
    user "$DIBS" -q run --as 80 -- "$USERS/docker"
    [ "$code" -eq 0 ] || complain "docker"
    [[ $errs = *"does not reach into containers"* ]]
}

# bats test_tags=notifier
@test "root without CAP_SYS_PTRACE reaches its own processes, and a note says that it reaches no others" {
    needs_root
    for name in own_server families; do
        capture setpriv --bounding-set -sys_ptrace --inh-caps -sys_ptrace "$DIBS" run --as 3000 -- "$CALL" "$name" 3000
        [ "$code" -eq 0 ] || complain "$name"
        [[ $errs = *"without CAP_SYS_PTRACE --as reaches only processes of root"* ]] || complain "$name"
    done
    capture as --as 3000 -- true
    [[ $errs != *CAP_SYS_PTRACE* ]] || complain "with it"
}

@test "an address of an interface is this host, and a number of another host is that host's" {
    needs_root
    [ "$(ip -o link | wc -l)" -eq 1 ] || skip "not in a network of its own"
    ip addr replace 192.0.2.9/32 dev lo
    ip addr replace 2001:db8::9/128 dev lo
    cat >"$T/ask.py" <<'END'
import errno, socket
server = socket.create_server(("::", 3000), family=socket.AF_INET6, dualstack_ipv6=True)
for host in ("192.0.2.9", "2001:db8::9", "::ffff:192.0.2.9", "203.0.113.1"):
    client = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        client.connect((host, 3000))
        print(client.getpeername()[1])
    except OSError as e:
        print(errno.errorcode[e.errno])
END
    capture as -q --as 3000 -- "$PYTHON" "$T/ask.py"
    [ "$out" = $'3000\n3000\n3000\nENETUNREACH' ] || complain "addresses"
}

@test "a peer on another host keeps its port, also one that is a number's port here" {
    needs_root
    needs nsenter
    [ "$(ip -o link | wc -l)" -eq 1 ] || skip "not in a network of its own"
    start unshare --net sleep 60
    other=$STARTED
    wait_until 10 grep -qx sleep "/proc/$other/comm"
    ip link add near type veth peer name far netns "$other"
    ip addr add 198.51.100.1/24 dev near
    ip link set near up
    nsenter -t "$other" -n sh -c 'ip addr add 198.51.100.2/24 dev far; ip link set far up'
    start "$DIBS" run --as-by "$WAY" --as 3000 -- "$PYTHON" -c 'import socket
server = socket.create_server(("", 3000))
print("ready", flush=True)
near, address = server.accept()
print(near.getpeername() == address, near.getsockname()[1])' >"$T/said" 2>"$T/noted"
    wait_until 10 grep -q ready "$T/said"
    nsenter -t "$other" -n "$PYTHON" -c 'import socket, sys
far = socket.create_connection(("198.51.100.1", int(sys.argv[1])), 10, ("", int(sys.argv[1])))
far.recv(1)' "$(outside 3000)"
    wait_until 10 grep -qx 'True 3000' "$T/said"
    ip link del near
}

@test "processes in another network of their own have their own ports" {
    needs_root
    capture as -q --as 3000 -- unshare --net sh -c 'ip link set lo up && exec "$@"' sh "$CALL" own_server 3000
    [ "$code" -eq 1 ]
    [[ $errs = *kernel_listens* ]]
}

# connects PORT: prints what a server there says, or why there is none.
CONNECTS='import socket, sys
for port in sys.argv[1:]:
    try:
        s = socket.create_connection(("localhost", int(port)), 5)
        print(s.recv(99).decode().strip(), s.getpeername()[1])
    except OSError as e:
        print(e.strerror, port)'

manifest() {
    cat >dibs.yaml <<END
group: shop
roles:
  db:
    ports: [ { name: sql, as: 5432 } ]
    command: [ "$CALL", serve, "5432" ]
  web:
    instances: 2
    ports: [ { name: http, as: 3000 }, { name: plain } ]
    references: [ { env: DB_PORT, from: db.sql } ]
    command: [ "$T/web" ]
  worker: {}
END
    cat >"$T/web" <<END
#!/bin/sh
echo "\$DIBS_INSTANCE \$PORT \$HTTP_PORT \$DB_PORT" >"$T/env.\$DIBS_INSTANCE"
exec "$CALL" serve 3000
END
    chmod +x "$T/web"
}

@test "the roles of a manifest see each other's numbers, and an instance reaches itself first" {
    manifest
    starts --all
    for i in 0 1; do
        wait_until 20 test -s "$T/env.$i"
    done
    end_process "$STARTED"
    for i in 0 1; do
        [ "$(cat "$T/env.$i")" = "$i 3000 3000 5432" ]
        port=$(sed -n "s/.*port 3000 of web.$i is \([0-9]*\) outside.*/\1/p" "$T/noted")
        wait_until 10 serves "$port"
    done
    wait_until 10 serves "$(sed -n 's/.*port 5432 of db is \([0-9]*\) outside.*/\1/p' "$T/noted")"
    capture as -q worker -- "$PYTHON" -c "$CONNECTS" 5432 3000
    [ "$out" = $'served 5432\nserved 3000' ] || complain "a role without ports of its own"
    ok ls --json
    for pid in $(value "' '.join(str(c['holder']['pid']) for c in d if 'pid' in c['holder'])"); do
        kill -KILL "$pid" || true # the end of one stops the others
    done
}

@test "an instance reaches itself, never another one, and other roles reach the first" {
    manifest
    starts web/0
    wait_until 10 test -s "$T/env.0"
    wait_until 10 serves "$(outside 3000)"
    capture as -q web/1 -- "$PYTHON" -c "$CONNECTS" 3000
    [ "$out" = 'Connection refused 3000' ] || complain "the second instance"
    capture as -q web/1 -- "$CALL" own_server 3000
    [ "$code" -eq 0 ] || complain "the second instance's own server"
    capture as -q worker -- "$PYTHON" -c "$CONNECTS" 3000
    [ "$out" = 'served 3000' ] || complain "another role"
}

@test "a number of the manifest never falls through to the host" {
    manifest
    listen 5432 # a stranger
    capture as -q web/1 -- "$PYTHON" -c "$CONNECTS" 5432 3000
    [ "$out" = $'Connection refused 5432\nConnection refused 3000' ] || complain "web"
    capture as -q web/1 -- "$CALL" own_server 5432
    [ "$code" -eq 1 ]
    [[ $errs = *"Address already in use"* ]] # it is the number of another role
}

@test "two ports of a manifest with one number inside are refused, unless they differ in protocol" {
    roles() { printf 'group: shop\nroles:\n  a: { ports: [ { name: x, as: 53 } ] }\n  b: { ports: [ { name: y, %s } ] }\n' "$1" >dibs.yaml; }
    roles 'as: 53'
    refused 2 plan
    says "the number 53 inside is that of port 'x' of role 'a' already"
    roles 'as: 53, proto: udp'
    ok plan
    roles 'as: 53, proto: tcp+udp'
    refused 2 plan
    roles 'as: 54, count: 2'
    refused 2 plan
    roles 'as: 54, proto: sctp'
    refused 2 plan
    roles 'as: 0'
    refused 2 plan
    roles 'as: 65536'
    refused 2 plan
    roles 'port: 13999, as: 54'
    ok plan
}
