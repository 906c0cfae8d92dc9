#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The units as they are installed, under a real systemd: it is booted once, as the init of namespaces that end
# with this file.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell; `ask` sets output and code
load ../support/dibs
load ../support/serve
load ../support/page

setup_file() {
    [ "$(id -u)" -eq 0 ] && command -v systemctl unshare nsenter >/dev/null || return 0
    export BOOT=$BATS_FILE_TMPDIR/boot
    local unit
    mkdir -p "$BOOT/units"
    chmod 0755 "$BATS_FILE_TMPDIR" "$BOOT"
    cp "$DIBS" "$DIBS-serve" "$DIBS-bpf" "$BATS_TEST_DIRNAME"/../support/{listen,bind_once}.py "$BOOT"
    installed system "$BOOT/units"
    installed user "$BOOT/user"
    for unit in dibs.service dibs.socket dibs-admin.socket; do # a machine without anything else
        mkdir "$BOOT/units/$unit.d"
        printf '[Unit]\nDefaultDependencies=no\n' >"$BOOT/units/$unit.d/test.conf"
    done
    # A sanitizer looks for leaks with ptrace(), which the unit forbids.
    cat >>"$BOOT/units/dibs.service.d/test.conf" <<'END'
[Service]
ExecStart=
ExecStart=/run/test/dibs serve
StandardError=append:/run/test/serve.log
Environment=ASAN_OPTIONS=detect_leaks=0
END
    timeout -k 5 200 unshare --mount --fork --kill-child "$BATS_TEST_DIRNAME/../support/boot.sh" "$BOOT" \
        >"$BOOT/boot.log" 2>&1 3>&- &
    echo $! >"$BOOT/starter"
    wait_until 20 is_booted || { cat "$BOOT/boot.log" >&2; return 1; }
}

# installed KIND FOLDER: the units as they are installed, with the program of this build.
installed() {
    local at=$BATS_FILE_TMPDIR/root unit
    [ -d "$at" ] || DESTDIR=$at meson install -C "$BUILD" --no-rebuild --quiet
    unit=$(find "$at" -path "*/systemd/$1/dibs.service")
    mkdir -p "$2"
    cp "${unit%/*}"/* "$2"
}

teardown_file() {
    [ -f "${BOOT:-}/starter" ] || return 0
    kill "$(cat "$BOOT/starter")"
    wait_until 10 test ! -d "/proc/$(cat "$BOOT/init")"
    # shellcheck disable=SC2016 # for the shell there
    unshare --mount bash -c 'mount -t cgroup2 cgroup2 "$1/cgroups" &&
        find "$1/cgroups/$(cat "$1/cgroup")" -depth -type d -exec rmdir {} +' - "$BOOT"
}

is_booted() {
    local pid
    pid=$(cat "$BOOT/starter")
    while [ "$(cat "/proc/$pid/comm")" != systemd ]; do
        pid=$(cat "/proc/$pid/task/$pid/children") && pid=${pid%% *} && [ -n "$pid" ] || return 1
    done
    echo "$pid" >"$BOOT/init"
    inside systemctl is-system-running
}

setup() {
    dibs_setup
    [[ $BATS_TEST_DESCRIPTION != systemd* ]] || return 0 # it looks at files alone
    [ -f "${BOOT:-}/init" ] || { needs_root; needs systemctl unshare nsenter; }
    needs curl ip setpriv
    SOCKET=/run/dibs/dibs.sock ADMIN=/run/dibs/admin.sock LOG=$BOOT/serve.log
    : >"$LOG"
    inside systemctl start dibs.socket dibs-admin.socket
}

teardown() {
    [ -z "${SOCKET:-}" ] || {
        [ -n "${BATS_TEST_COMPLETED:-}" ] || cat "$LOG" "$BOOT/boot.log" >&2
        inside systemctl stop dibs.service dibs.socket dibs-admin.socket
        inside bash -c 'rm -rf /var/lib/dibs/* /etc/dibs /tmp/* /run/systemd/system/dibs.service.d/zz.conf'
        inside systemctl daemon-reload
        inside systemctl reset-failed
    }
    dibs_teardown
}

# inside COMMAND...: where systemd is the init.
inside() { nsenter --all --target "$(cat "$BOOT/init")" --wdns=/ -- timeout -k 5 60 "$@"; }
# as_inside UID COMMAND...
as_inside() { inside setpriv --reuid="$1" --regid="$1" --clear-groups "${@:2}"; }
# For `ask`; with AS=UID as another user.
curl() { if [ -n "${AS:-}" ]; then as_inside "$AS" curl "$@"; else inside curl "$@"; fi; }
property() { inside systemctl show --property "$1" --value dibs.service; }
has_property() { [ "$(property "$1")" = "$2" ]; }
drop_in() { # LINE...: of [Service]
    { echo '[Service]'; printf '%s\n' "$@"; } | inside tee /run/systemd/system/dibs.service.d/zz.conf >/dev/null
    inside systemctl daemon-reload
}
# in_unit UID COMMAND...: in a unit of its own, and so in a cgroup of this systemd, as start_inside is not. Its line of
# output is $output.
in_unit() {
    local uid=$1 unit=test-$RANDOM$RANDOM
    shift
    inside systemd-run --quiet --unit="$unit" --uid="$uid" --setenv=DIBS_SOCKET="$SOCKET" \
        --property=StandardOutput="truncate:/run/test/$unit.out" -- "$@"
    wait_until 20 test -s "$BOOT/$unit.out"
    output=$(cat "$BOOT/$unit.out")
}
is_another() { local pid; pid=$(property MainPID) && [ "$pid" -gt 0 ] && [ "$pid" != "$1" ]; }
is_logged() { grep -q "$1" "$LOG"; }
# start_inside COMMAND...: in the background there; $STARTED is its pid here, $INSIDE there.
start_inside() {
    start nsenter --all --target "$(cat "$BOOT/init")" --wdns=/ -- "$@"
    wait_until 10 find_child "$STARTED"
    STARTED=$(find_child "$STARTED")
    echo "$STARTED" >>"$T/started"
    INSIDE=$(sed -n 's/^NSpid:.*\t//p' "/proc/$STARTED/status")
}
find_child() { local c; c=$(cat "/proc/$1/task/$1/children") && [ -n "$c" ] && echo "${c%% *}"; }

@test "systemd finds nothing wrong with the units, and little that is open" {
    local kind
    needs systemd-analyze
    for kind in system user; do
        installed $kind "$T/$kind"
        sed -i "s|^ExecStart=/.*/dibs |ExecStart=$DIBS |" "$T/$kind/dibs.service"
        run systemd-analyze --$kind verify --man=no "$T/$kind"/*
        assert_status 0
        [ -z "$output" ]
    done
    # Of 10. It is for processes, namespaces and sockets of all users, which is most of what is left.
    run systemd-analyze security --offline=true --no-pager --threshold=36 "$T/system/dibs.service"
    echo "# ${lines[-1]}, at most 3.6" >&3
    assert_status 0
}

@test "the first connection starts the daemon, and both sockets have the right owners" {
    has_property ActiveState inactive
    ask /v1/daemon
    assert_code 200
    [ "$(member pid)" = "$(property MainPID)" ]
    [ "$(member admin)" = false ]
    has_property SubState running
    has_property StatusText serving # which it reported itself: Type=notify
    ASK_SOCKET=$ADMIN ask /v1/daemon
    [ "$(member admin)" = true ]
    AS=65534 ask /v1/daemon
    [ "$(member principal)" = uid:65534 ]
    run as_inside 65534 curl -sS --unix-socket "$ADMIN" http://dibs/v1/daemon
    [ "$status" -ne 0 ]
}

@test "a restart keeps every claim and refuses nobody" {
    ask --json '{"name":"shop/web","keep":true,"holder":null}' /v1/claims
    assert_code 201
    claim=$output pid=$(property MainPID)
    # Asks all the time, each time on a new connection; prints who has answered and what went wrong.
    start_inside python3 -c 'import http.client, json, os, socket
class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect("/run/dibs/dibs.sock")
seen = []
while not os.path.exists("/tmp/enough"):
    connection = Connection("dibs")
    try:
        connection.request("GET", "/v1/daemon")
        answer = connection.getresponse()
        who = json.loads(answer.read())["pid"] if answer.status == 200 else answer.status
    except Exception as why:
        who = repr(why)
    connection.close()
    if who not in seen:
        seen.append(who)
        with open("/run/test/seen.new", "w") as out:
            out.write("\n".join(map(str, seen)) + "\n")
        os.rename("/run/test/seen.new", "/run/test/seen")'
    wait_until 10 grep -qx "$pid" "$BOOT/seen"
    for _ in 1 2 3; do
        inside systemctl restart dibs.service
        wait_until 10 grep -qx "$(property MainPID)" "$BOOT/seen"
    done
    inside touch /tmp/enough
    cat "$BOOT/seen"
    [ "$(grep -cx '[0-9]*' "$BOOT/seen")" = 4 ]
    [ "$(wc -l <"$BOOT/seen")" = 4 ]
    ask '/v1/claims/-?name=shop/web'
    python3 -c 'import json, sys
was, now = map(json.loads, sys.argv[1:])
assert all(was[k] == now[k] for k in ("id", "port", "name")), (was, now)' "$claim" "$output"
}

@test "sockets that are stopped leave no file behind" {
    ask /v1/daemon
    assert_code 200
    inside systemctl stop dibs.service dibs.socket dibs-admin.socket
    [ -z "$(inside ls /run/dibs)" ]
    inside systemctl start dibs.socket
    ask /v1/daemon
    assert_code 200
}

@test "a daemon that is killed comes back by itself" {
    ask --json '{"name":"shop/web","keep":true,"holder":null}' /v1/claims
    port=$(member port) pid=$(property MainPID)
    inside kill -KILL "$pid"
    wait_until 10 is_another "$pid"
    ask '/v1/claims/-?name=shop/web'
    [ "$(member port)" = "$port" ]
}

has_page() { ask_page /v1/claims && [ "$code" = 200 ]; }

@test "the dashboard works under the unit's restrictions, and its pages survive a restart and SIGKILL" {
    begin_session "$(inside env DIBS_SOCKET="$SOCKET" /run/test/dibs ui --no-open)"
    ask_page /v1/map
    assert_code 200
    [ "$(member sees)" = '{"processes": true, "nat": true}' ]
    python3 -c 'import json, sys
port, pid = map(int, sys.argv[2:])
assert pid in [s.get("pid") for s in json.loads(sys.argv[1])["sockets"] if s["port"] == port], sys.argv[1]' \
        "$output" "$PAGE_PORT" "$(property MainPID)"
    inside systemctl restart dibs.service
    wait_until 10 has_page
    inside kill -KILL "$(property MainPID)"
    wait_until 10 has_page
    if is_logged level=warning; then return 1; fi
}

@test "a reload takes what has changed, and keeps what it had when that is wrong" {
    inside mkdir /etc/dibs
    echo 'range: 21000-21009' | inside tee /etc/dibs/dibs.yaml
    ask --json '{}' /v1/claims
    [[ $(member port) = 2100? ]]
    pid=$(property MainPID)
    echo 'range: 21100-21109' | inside tee /etc/dibs/dibs.yaml
    inside systemctl reload dibs.service
    wait_until 10 is_logged msg=reloaded
    ask --json '{}' /v1/claims
    [[ $(member port) = 2110? ]]
    echo 'range: nonsense' | inside tee /etc/dibs/dibs.yaml
    inside systemctl reload dibs.service
    wait_until 10 is_logged 'level=error msg="reload refused'
    ask --json '{}' /v1/claims
    [[ $(member port) = 2110? ]]
    has_property MainPID "$pid"
}

@test "a daemon that does not move any more is replaced by the watchdog" {
    drop_in WatchdogSec=1s TimeoutAbortSec=1s
    ask --json '{"name":"shop/web","keep":true,"holder":null}' /v1/claims
    pid=$(property MainPID)
    inside kill -STOP "$pid"
    wait_until 20 is_another "$pid"
    ask '/v1/claims/-?name=shop/web'
    assert_code 200
    pid=$(property MainPID)
    inside sleep 2 # twice its time: one that does move is left alone
    has_property MainPID "$pid"
}

@test "an option that makes no sense is not tried again" {
    drop_in ExecStart= 'ExecStart=/run/test/dibs serve --quota none'
    run inside systemctl start dibs.service
    [ "$status" -ne 0 ]
    has_property ExecMainStatus 2
    has_property NRestarts 0
    is_logged "quota: 'none' is not a whole number"
}

@test "it writes its state and nothing else, with six capabilities" {
    ask /v1/daemon
    pid=$(property MainPID)
    inside grep -qx 'NoNewPrivs:.1' "/proc/$pid/status"
    # bits 2, 10, 19, 21: DAC_READ_SEARCH, NET_BIND_SERVICE, SYS_PTRACE, SYS_ADMIN
    inside grep -qx 'CapBnd:.0000000000281405' "/proc/$pid/status"
    inside grep -qx 'Seccomp:.2' "/proc/$pid/status"
    [ "$(inside stat -c '%a %U' /var/lib/dibs /var/lib/dibs/ledger.db | xargs)" = '700 root 600 root' ]
    there() { inside nsenter --mount --target "$pid" -- "$@"; }
    there touch /var/lib/dibs/x
    for place in /etc/x /usr/x /tmp/x /run/x /run/dibs/x /home/x; do
        run there touch "$place"
        assert_output_has "Read-only file system" || { echo "$place" >&2; return 1; }
    done
}

@test "processes of other users are seen, and their death" {
    start_inside setpriv --reuid=65534 --regid=65534 --clear-groups sleep 600
    wait_until 10 grep -q '^Uid:.65534' "/proc/$STARTED/status"
    AS=65534 ask --json "{\"name\":\"a/b\",\"holder\":{\"kind\":\"process\",\"pid\":$INSIDE}}" /v1/claims
    assert_code 201
    seq=$(member id)
    [ "$(member principal)" = uid:65534 ]
    kill -KILL "$STARTED"
    ask "/v1/events?since=$seq&wait=10s"
    [ "$(member events.0.what)" = reaped ]
}

@test "the owner of a socket is found, and a port below 1024 can be explained" {
    start_inside setpriv --reuid=65534 --regid=65534 --clear-groups /usr/bin/python3 /run/test/listen.py 21777 tcp 127.0.0.1 /tmp/listens
    wait_until 10 inside test -f /tmp/listens
    AS=65533 ask /v1/ports/tcp/21777
    assert_code 200
    assert_output_has "\"pid\":$INSIDE"
    ask --json '{"mode":"required","port":79}' /v1/claims # for root: others may not have it
    assert_code 201
}

@test "a lease of another network namespace lives as long as its socket there" {
    inside ip netns add apart # only a mount: made after the daemon has its own mounts
    ask /v1/daemon
    inside ip netns add later
    for ns in apart later; do
        inside ip -n $ns link set lo up
        start_inside ip netns exec $ns /usr/bin/python3 /run/test/listen.py 21777 tcp 127.0.0.1 "/tmp/listens.$ns"
        wait_until 10 inside test -f "/tmp/listens.$ns"
        output=$(inside ip netns exec $ns curl -sS --unix-socket "$SOCKET" \
            --json '{"mode":"required","port":21777,"holder":{"kind":"lease","ttl":"1s"}}' http://dibs/v1/claims)
        seq=$(member id)
        ask "/v1/events?since=$seq&wait=3s" # nothing happens, although the lease is over
        [ "$(member events)" = '[]' ] || { echo "$output" >&2; return 1; }
        kill -KILL "$STARTED"
        ask "/v1/events?since=$seq&wait=10s"
        [ "$(member events.0.what)" = reaped ]
        inside ip netns delete $ns
    done
}

@test "a user can have an own daemon" {
    local run=/run/user/65534
    inside install -d -o 65534 -g 65534 -m 0700 $run $run/systemd $run/systemd/user /tmp/home
    inside cp /run/test/user/dibs.service /run/test/user/dibs.socket $run/systemd/user
    inside sed -i 's|^ExecStart=/.*/dibs |ExecStart=/run/test/dibs |' $run/systemd/user/dibs.service
    inside systemd-run --quiet --unit=user-of-test --uid=65534 --gid=65534 --property=Delegate=yes --property=Type=notify \
        --setenv=XDG_RUNTIME_DIR=$run --setenv=HOME=/tmp/home --setenv=ASAN_OPTIONS=detect_leaks=0 \
        /lib/systemd/systemd --user
    as_inside 65534 env XDG_RUNTIME_DIR=$run systemctl --user start dibs.socket
    SOCKET=$run/dibs/dibs.sock
    [ "$(inside stat -c %a $SOCKET)" = 600 ]
    AS=65534 ask --json '{"name":"a/b","keep":true,"holder":null}' /v1/claims
    assert_code 201
    AS=65534 ask /v1/daemon
    [ "$(member ledger)" = sqlite:/tmp/home/.local/state/dibs/ledger.db ]
    as_inside 65534 env XDG_RUNTIME_DIR=$run systemctl --user restart dibs.service
    AS=65534 ask '/v1/claims/-?name=a/b'
    assert_code 200
    inside systemctl stop user-of-test.service
}

@test "the drop-in of docs/OPERATING.md for enforced ports gives the daemon the rights that it needs" {
    awk -v fence='```' '$0 == fence { on = 0 } on; $0 == fence "sh systemd-enforce" { on = 1 }' \
        "$BATS_TEST_DIRNAME/../../docs/OPERATING.md" >"$BOOT/examples"
    sed -i 's,/usr/local/bin/dibs,/run/test/dibs,' "$BOOT/examples"
    inside mkdir -p /etc/systemd/system/dibs.service.d
    inside mv /run/systemd/system/dibs.service.d/test.conf /run/systemd/system/dibs.service.d/00-test.conf
    run inside env -i PATH="/run/test:$PATH" HOME=/tmp bash -eux /run/test/examples
    inside mv /run/systemd/system/dibs.service.d/00-test.conf /run/systemd/system/dibs.service.d/test.conf
    inside rm -rf /etc/systemd/system/dibs.service.d
    [ "$status" -eq 0 ] || { echo "$output" >&2; return 1; }
    assert_output_has "the kernel enforces the claims"
    AS=65534 ask --json '{"holder":{"kind":"lease","ttl":"5m"}}' /v1/claims
    port=$(member port)
    in_unit 65534 /usr/bin/python3 /run/test/bind_once.py "$port"
    [ "$output" = ok ]
    in_unit 1 /usr/bin/python3 /run/test/bind_once.py "$port"
    [ "$output" = EADDRINUSE ]
    in_unit 65534 env HOME=/tmp /run/test/dibs run -- sh -c 'sleep 0.5; cat /proc/self/cgroup'
    assert_output_has dibs-run.
}

@test "every example of docs/OPERATING.md runs" {
    awk -v fence='```' '$0 == fence { on = 0 } on; $0 == fence "sh systemd" { on = 1; n++ } END { exit n < 5 }' \
        "$BATS_TEST_DIRNAME/../../docs/OPERATING.md" >"$BOOT/examples"
    # The unit's own drop-in names the program for this test; one of the page comes after it.
    sed -i 's,/usr/local/bin/dibs,/run/test/dibs,' "$BOOT/examples"
    inside mv /run/systemd/system/dibs.service.d/test.conf /run/systemd/system/dibs.service.d/00-test.conf
    run inside env -i PATH="/run/test:$PATH" HOME=/tmp bash -eux /run/test/examples
    inside mv /run/systemd/system/dibs.service.d/00-test.conf /run/systemd/system/dibs.service.d/test.conf
    inside systemctl disable dibs.socket dibs-admin.socket
    inside rm -rf /etc/systemd/system/dibs.service.d
    assert_status 0
    [ "$(grep -c 'dibs get shop/web' <<<"$output")" = 2 ]
}

@test "the recipe for a machine of continuous integration runs as any user" {
    awk -v fence='```' '$0 == fence { on = 0 } on; $0 == fence "sh systemd" { on = 1; n++ } END { exit n != 1 }' \
        "$BATS_TEST_DIRNAME/../../docs/RECIPES.md" >"$BOOT/examples"
    [ "$(grep -c systemctl "$BOOT/examples")" = 1 ]
    for who in root 65534; do # an administrator enables the sockets
        user=$([ $who = root ] || echo "setpriv --reuid=$who --regid=$who --clear-groups")
        # shellcheck disable=SC2086 # words
        run inside env -i PATH="/run/test:$PATH" HOME=/tmp $user bash -eux /run/test/examples
        assert_status 0
        assert_output_has "+ dibs ls --all"
        sed -i /systemctl/d "$BOOT/examples"
    done
    inside systemctl disable dibs.socket dibs-admin.socket
    ask "/v1/events?since=0"
    assert_output_has uid:65534
}

@test "projects in closed directories and in /tmp are not taken for gone" {
    inside bash -c 'mkdir -m 0700 /tmp/closed && mkdir /tmp/closed/project && chown -R 65534:65534 /tmp/closed'
    AS=65534 ask --json '{"name":"web","project":"/tmp/closed/project","keep":true,"holder":null}' /v1/claims
    assert_code 201
    ASK_SOCKET=$ADMIN ask --json '{"stale":true}' /v1/reap
    [ "$(member claims)" = '[]' ]
    inside rm -r /tmp/closed/project
    ASK_SOCKET=$ADMIN ask --json '{"stale":true}' /v1/reap
    [ "$(member claims.0.project)" = /tmp/closed/project ]
}

@test "EnvironmentFile= reads every text of dibs env --format systemd" {
    # shellcheck disable=SC2016 # as it is
    local texts='a b|it'"'"'s|"q"|$HOME `x` \ #|{x}||~|&;<>*?()!|%n %%'
    "$(command -v /usr/bin/python3 || command -v python3)" -c 'import json, sys
print(json.dumps({"roles": {"r": {"ports": ["p"], "env": {
    f"T{i}": t.replace("{", "{{").replace("}", "}}") for i, t in enumerate(sys.argv[1].split("|"))}}}}))' "$texts" >dibs.json
    DIBS_SOCKET=none dibs env r --format systemd >"$BOOT/texts.env"
    cat >"$BOOT/texts.service" <<'END'
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
EnvironmentFile=/run/test/texts.env
ExecStart=/bin/sh -c 'printf "%%s|" "$T0" "$T1" "$T2" "$T3" "$T4" "$T5" "$T6" "$T7" "$T8" >/run/test/texts.out'
END
    inside cp /run/test/texts.service /run/systemd/system/
    inside systemctl daemon-reload
    inside systemctl start texts.service
    inside rm /run/systemd/system/texts.service
    [ "$(cat "$BOOT/texts.out")" = "$texts|" ]
}
