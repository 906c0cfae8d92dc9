#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # the inner shell's words; and what is loaded below
# Guards that a daemon keeps: for the life of their claims, through its restart, within its descriptors.
load ../support/dibs
load ../support/serve
load ../support/sandbox
load ../cli/cli

setup() { dibs_setup; }
teardown() { sandbox_teardown; }

BIND="$BATS_TEST_DIRNAME/../support/bind.py"

# bind OPTION...: what a stranger gets.
bind() {
    python3 "$BIND" "$@" || true
}
becomes() { # becomes ANSWER BIND_OPTION...
    [ "$(bind "${@:2}")" = "$1" ]
}
guards() { # of the daemon
    find "/proc/$DAEMON/fd" -lname 'socket:*' | wc -l
}
begin() {
    serve_start
    export DIBS_SOCKET=$ADMIN
    ok claim --dry-run # the first probe opens sockets that the daemon keeps
}

@test "a guard lasts as long as its claim: release, the end of a lease, and another level end it" {
    begin
    before=$(guards)
    ok claim kept --keep --hold guard --proto tcp+udp
    kept=$(cut -d' ' -f1 "$T/out" | head -n1)
    ok claim leased --ttl 10m --hold guard --proto udp
    leased=$out
    ok claim other --keep --hold guard
    other=$out
    [ "$(guards)" -eq $((before + 4)) ]
    [ "$(bind 127.0.0.1 "$kept")" = EADDRINUSE ]
    [ "$(bind --udp :: "$kept")" = EADDRINUSE ]
    [ "$(bind --udp 127.0.0.1 "$leased")" = EADDRINUSE ]
    ok renew leased --ttl 1ms
    wait_until 10 becomes bound --udp 127.0.0.1 "$leased" # the guard is no socket that keeps the lease
    ok ls --names
    [[ $out != *leased* ]]
    ok get other --hold none
    [ "$out" = "$other" ]
    [ "$(bind 127.0.0.1 "$other")" = bound ]
    ok release kept
    [ "$(bind 127.0.0.1 "$kept")" = bound ]
    [ "$(guards)" -eq "$before" ]
}

@test "a released guarded udp port can be claimed again at once, by its name and by its number" {
    begin
    ok claim dns --keep --hold guard --proto udp
    port=$out
    ok release dns
    ok claim dns --keep --hold guard --proto udp
    [ "$out" = "$port" ]
    ok release dns
    ok claim --port "$port" --keep --proto udp
}

@test "a restarted daemon guards again, also a port whose program listened meanwhile" {
    begin
    ok claim idle --keep --hold guard --proto tcp+udp
    idle=$(head -n1 "$T/out")
    ok claim busy --keep --hold guard
    busy=$out
    start python3 "$BIND" --hold --reuse addr 127.0.0.1 "$busy" >"$T/bound"
    program=$STARTED
    wait_until 10 grep -q bound "$T/bound"
    kill -KILL "$DAEMON"
    wait "$DAEMON" || true
    [ "$(bind 127.0.0.1 "$idle")" = bound ]
    begin
    [ "$(bind 127.0.0.1 "$idle")" = EADDRINUSE ]
    [ "$(bind --udp 127.0.0.1 "$idle")" = EADDRINUSE ]
    end_process "$program"
    wait_until 10 becomes EADDRINUSE 127.0.0.1 "$busy" # the program has ended: no guard could be there before
    ok ls --json
    json 'all(c["hold"] == "guard" for c in d)'
}

@test "when the descriptors for guards are used up, a level that is asked for is refused and others go on" {
    ulimit -n 64 # a quarter of them is for guards
    begin
    cat >dibs.yaml <<'YAML'
group: shop
roles:
  web: { ports: [ { name: http, reuse: true } ] }
YAML
    ok claim -n 16 /x --keep --hold guard
    curl -sf --unix-socket "$SOCKET" http://dibs/metrics >"$T/metrics"
    grep -qx 'dibs_guards{state="bound"} 16' "$T/metrics"
    refused 1 claim /y --keep --hold guard
    [[ $errs = *"all 16 file descriptors for guards are in use"* ]]
    ok ls --names --all
    not grep -qx y "$T/out"
    ok get web/http
    [[ $errs = *"has no guard: all 16 file descriptors"* ]]
    ok claim /z --keep
    ok release /x/0
    ok claim /y --keep --hold guard
}

@test "root's daemon guards for a user, whose program may share the port by SO_REUSEPORT" {
    [ "$EUID" -eq 0 ] || skip "needs root"
    public_folder
    SOCKET_DIR=$PUBLIC begin
    as_user 65534 env DIBS_SOCKET="$SOCKET" "$DIBS" claim web --keep --hold guard >"$T/port"
    port=$(<"$T/port")
    [ "$(bind --as 65534 127.0.0.1 "$port")" = EADDRINUSE ]
    [ "$(bind --as 65534 --reuse port 127.0.0.1 "$port")" = bound ]
    [ "$(bind --as 65533 --reuse port 127.0.0.1 "$port")" = EADDRINUSE ]
}

@test "a port in another network namespace is guarded there" {
    unshare --net true 2>/dev/null || skip "needs root"
    begin
    unshare --net bash -c 'ip link set lo up; "$DIBS" claim web --keep --hold guard; python3 "$0" 127.0.0.1 "$("$DIBS" get web)"
        exec sleep 600' "$BIND" >"$T/inside" &
    STARTED=$!
    echo "$STARTED" >>"$T/started"
    wait_until 10 grep -q . "$T/inside"
    port=$(head -n1 "$T/inside")
    wait_until 10 grep -q EADDRINUSE "$T/inside"
    [ "$(bind 127.0.0.1 "$port")" = bound ]
}

@test "a service manager keeps the guards while the daemon is restarted, and ends them with their claims" {
    timeout -k 5 100 python3 "$BATS_TEST_DIRNAME/fd_store.py" "$DIBS" "$T"
}

@test "an ordinary user without a daemon guards and passes ports" {
    needs_root
    public_folder
    cp "$BIND" "$BATS_TEST_DIRNAME/../support/activated.py" "$PUBLIC"
    as_user 65534 env DIBS_LEDGER="sqlite:$PUBLIC/u.db" DIBS_SOCKET=none sh -c 'cd "$0"
        "$DIBS" run --hold guard -p web --proto tcp+udp -- sh -c "python3 bind.py 127.0.0.1 \$PORT; python3 bind.py --udp 127.0.0.1 \$PORT
            python3 bind.py --reuse addr 127.0.0.1 \$PORT"
        "$DIBS" run --listen web -- python3 activated.py' "$PUBLIC" >"$T/out"
    mapfile -t lines <"$T/out"
    [ "${lines[*]:0:3}" = "EADDRINUSE EADDRINUSE bound" ]
    [[ ${lines[3]} = "web tcp listening "* ]]
}

@test "run --as with each level" {
    for level in none guard fd; do
        DIBS_SOCKET=none ok run --as 3000 --hold "$level" -- sh -c '[ "$1" = fd ] || python3 "$0" --reuse addr 127.0.0.1 3000; python3 "$0" 127.0.0.1 $DIBS_OUTSIDE_PORT_3000; true' "$BIND" "$level"
        case $level in
        none) [ "$out" = "bound
bound" ] ;;
        guard) [ "$out" = "bound
EADDRINUSE" ] ;;
        fd) [ "$out" = EADDRINUSE ] ;;
        esac
    done
}

@test "who says when no guard is bound" {
    begin
    ok claim web --keep --hold guard
    port=$out
    ok who "$port"
    [[ $out = *", hold guard, "* ]]
    serve_stop
    DIBS_SOCKET=none ok who "$port"
    [[ $out = *", hold guard (not bound now: "* ]]
    DIBS_SOCKET=none ok who "$port" --json
    json '"not bound now" in d["claims"][0]["hold_note"]'
}
