#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# dibs stop ends what dibs run has started, and nothing else. Ports of this file: 15900-15999.
load ../support/dibs
load cli

setup() {
    dibs_setup
    export DIBS_RANGE=15900-15989
    needs setsid
    cat >serve.py <<'END'
import http.server, os, sys
server = http.server.HTTPServer(("127.0.0.1", int(os.environ["HTTP_PORT"])), http.server.SimpleHTTPRequestHandler)
open(sys.argv[1] + ".ready", "w").close()
server.serve_forever()
END
    cat >dibs.yaml <<END
roles:
  web: { ports: [ http ], command: "exec $PYTHON serve.py web" }
  api: { ports: [ http ], command: "$PYTHON serve.py api & wait; true" }
END
}
teardown() {
    dibs stop 2>/dev/null || true
    dibs_teardown
}

# run_all [ROLE...]: in the background, ready when its servers are; dibs itself is $STARTED.
run_all() {
    rm -f ./*.ready
    start "$DIBS" run "${@:---all}" >"$T/said" 2>&1
    wait_until 20 are_ready "$@"
}
are_ready() {
    local role
    for role in "${@:-web}" api; do
        [ "$role" = --all ] || [ -e "$role.ready" ] || return 1
    done
}

# tree: how many processes have the mark of a run of this test; each test has its own state.
tree() {
    local note n=0 pid
    for note in "$T"/ids/*; do
        [ -e "$note" ] || continue
        for pid in /proc/[0-9]*; do
            if tr '\0' '\n' <"$pid/environ" 2>/dev/null | grep -q "^DIBS_RUN=.*${note##*/}"; then n=$((n + 1)); fi
        done 2>/dev/null
    done
    echo "$n"
}
# remember: the ids of all that runs now, for tree.
remember() {
    mkdir -p "$T/ids"
    find "$XDG_STATE_HOME/dibs/runs" -type f -printf '%f\n' | while read -r id; do touch "$T/ids/$id"; done
}
is_free() { # is_free PORT...: nobody listens there
    local port
    for port; do not "$PYTHON" -SE -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])), 1)' "$port" 2>/dev/null || return 1; done
}
gone() { ! kill -0 "$1" 2>/dev/null; }
nothing_is_held() { [ "$(sql 'SELECT count(*) FROM claims WHERE holder <> 0')" -eq 0 ]; }

@test "stop ends every role with all its processes, and dibs run with them" {
    run_all
    remember
    ports=("$(dibs get web/http)" "$(dibs get api/http)")
    [ "$(tree)" -eq 3 ] # two servers and a shell
    ok stop
    says 'stopped web'
    says 'stopped api'
    [ "$(tree)" -eq 0 ]
    is_free "${ports[@]}"
    wait "$STARTED" || code=$?
    [ "$code" -eq 143 ]
    grep -q 'web was stopped' "$T/said"
    nothing_is_held
    [ -z "$(find "$XDG_STATE_HOME/dibs/runs" -type f)" ]
    ok stop --json
    [ "$out" = '[]' ]
    run_all
    [ "$(dibs get web/http) $(dibs get api/http)" = "${ports[*]}" ]
}

@test "stop ends what a killed dibs has left, also what has left its process group and its parent" {
    cat >>dibs.yaml <<'END'
  far: { command: '(setsid sh -c "sleep 600; true" &); setsid sleep 600 & touch far.ready; exec sleep 600' }
END
    run_all
    wait_until 10 test -e far.ready
    ports=("$(dibs get web/http)" "$(dibs get api/http)")
    end_process "$STARTED"
    remember
    wait_until 10 eval '[ "$(tree)" -eq 7 ]'
    ok stop
    [ "$(tree)" -eq 0 ]
    is_free "${ports[@]}"
    nothing_is_held
    [ -z "$(find "$XDG_STATE_HOME/dibs/runs" -type f)" ]
}

@test "stop ends a child that has a session and an environment of its own, dibs killed or not" {
    cat >>dibs.yaml <<'END'
  far: { command: 'env -i setsid sh -c "echo \$\$ >far.new; mv far.new far.ready; exec sleep 600" & exec sleep 600' }
END
    for is_killed in false true; do
        run_all
        wait_until 10 test -e far.ready
        child=$(cat far.ready)
        echo "$child" >>"$T/started"
        if $is_killed; then end_process "$STARTED"; fi
        ok stop
        not grep -q "^State:.[^ZX]" "/proc/$child/status" # init may reap it later
    done
}

@test "stop ROLE ends this role alone, and its dibs goes on" {
    run_all
    web=$(dibs get web/http)
    api=$(dibs get api/http)
    ok stop web
    [ "$errs" = "dibs: stopped web (pid $(value_of web))" ] || says 'stopped web'
    is_free "$web"
    not is_free "$api"
    kill -0 "$STARTED"
    grep -q 'web was stopped; the others go on' "$T/said"
    ok stop web
    says "'web' does not run"
    refused 5 stop wbe
    says "did you mean 'web'"
    # It can be started beside the others, and gets its port again.
    rm web.ready
    start "$DIBS" -q run web
    second=$STARTED
    wait_until 10 test -e web.ready
    [ "$(dibs get web/http)" = "$web" ]
    ok stop web/0
    says "'web/0' does not run" || says 'stopped web'
    ok stop
    is_free "$web" "$api"
    wait_until 10 gone "$second"
}
value_of() { sed -n "s/^dibs: stopped $1 (pid \([0-9]*\)).*/\1/p" "$T/err"; }

@test "stop ends a command without a manifest, by the name of its port or with all" {
    rm dibs.yaml
    start "$DIBS" -q run -p web -- sh -c 'touch one.ready; sleep 600; true'
    one=$STARTED
    start "$DIBS" -q run sh -c 'touch two.ready; sleep 600; true'
    two=$STARTED
    wait_until 10 eval '[ -e one.ready ] && [ -e two.ready ]'
    remember
    [ "$(tree)" -eq 4 ]
    ok stop web
    wait "$one" || code=$?
    [ "$code" -eq 143 ]
    [ "$(tree)" -eq 2 ]
    ok stop
    says 'stopped a command'
    wait "$two" || true
    [ "$(tree)" -eq 0 ]
}

@test "stop knows a role by the full name of its port, and a command by that of its own" {
    run_all
    ok ls --names
    name=$(grep /web/ <<<"$out")
    ok stop "$name"
    says 'stopped web'
    not says api
    ok stop "${name%%/*}/api"
    says 'stopped api'
    start "$DIBS" run -p own -- sleep 600
    wait_until 10 eval '[ -n "$(dibs ls --names | grep /own)" ] && dibs ls --json | grep -q \"sleep\"'
    ok stop "${name%%/*}/own"
    says 'stopped own'
    refused 5 stop "${name%%/*}/other"
    # Another group is another project, also in the same directory.
    start "$DIBS" run --group team -p own -- sleep 600
    wait_until 10 eval 'dibs ls --json team/own | grep -q \"sleep\"'
    ok ls --names
    prints team/own
    refused 5 stop own
    ok stop team/own
    says 'stopped own'
}

@test "what a command leaves behind is stopped, too, after the command and dibs have ended" {
    start "$DIBS" -q run -p web -- sh -c '(setsid sleep 600 &); (sleep 600 &); exit 0'
    wait "$STARTED"
    remember
    [ "$(tree)" -eq 2 ]
    ok stop
    [ "$(tree)" -eq 0 ]
    [ -z "$(find "$XDG_STATE_HOME/dibs/runs" -type f)" ]
}

@test "stop touches nobody else: other holders of the project's ports, other projects, reused pids" {
    start_sleeper
    holder=$STARTED
    ok claim mine --pid "$holder"
    listen "$(dibs get mine)"
    listener=$STARTED
    mkdir "$T/other"
    cp dibs.yaml serve.py "$T/other"
    start env -C "$T/other" "$DIBS" -q run web
    other=$STARTED
    wait_until 10 test -e "$T/other/web.ready"
    run_all
    # A note of a process that has ended, whose pid another process has now.
    mine=$(dirname "$(grep -rl '^title api$' "$XDG_STATE_HOME/dibs/runs")")
    mine=$(grep -l '^title web$' "$mine"/*)
    start_sleeper
    reused=$STARTED
    forged=$(dirname "$mine")/00000000000000000000000000000000
    sed "s/^process \([^ ]*\) \([^ ]*\) [0-9]* \([0-9]*\)/process \1 \2 $reused \3/; s/^title .*/title old/" "$mine" >"$forged"
    ok stop
    for pid in "$holder" "$listener" "$other" "$reused"; do kill -0 "$pid"; done
    [ ! -e "$forged" ]
    not is_free "$(cd "$T/other" && dibs get web/http)"
    (cd "$T/other" && dibs stop)
    wait_until 10 gone "$other"
}

@test "another user's commands in the same directory are another user's" {
    shared_ledger
    chmod 0755 "$T/project"
    chmod 0777 "$T/state"
    rm -f web.ready
    chmod 0777 .
    mkdir -m 0777 "$T/theirs"
    start env XDG_STATE_HOME="$T/theirs" HOME="$T/theirs" DIBS_SOCKET="$PUBLIC_SOCKET" setpriv --reuid=65534 --regid=65534 --clear-groups "$DIBS" -q run web
    wait_until 10 test -e web.ready
    ok stop
    kill -0 "$STARTED"
    # Neither does the other user end root's.
    run_all api
    capture env XDG_STATE_HOME="$T/theirs" HOME="$T/theirs" DIBS_SOCKET="$PUBLIC_SOCKET" setpriv --reuid=65534 --regid=65534 --clear-groups "$DIBS" stop
    [ "$code" -eq 0 ]
    not is_free "$(dibs get api/http)"
}

@test "each process gets SIGTERM once: the command, then what it has left; a server may drain, and what ignores it is killed" {
    cat >drain.py <<'END'
import os, signal, sys, time
def note(*_):
    with open(sys.argv[1] + ".terms", "a") as file:
        file.write("TERM\n")
    sys.stdout.flush()
    global until
    until = until or time.monotonic() + 1.5
until = None
signal.signal(signal.SIGTERM, note)
open(sys.argv[1] + ".ready", "w").close()
while not until or time.monotonic() < until:
    time.sleep(0.05)
open(sys.argv[1] + ".drained", "w").close()
END
    # npm forwards signals to its child and waits for it; this one does the same.
    cat >forward.py <<'END'
import signal, subprocess, sys
child = subprocess.Popen(sys.argv[1:])
signal.signal(signal.SIGTERM, lambda *_: child.send_signal(signal.SIGTERM))
sys.exit(child.wait())
END
    cat >dibs.yaml <<END
roles:
  plain: { command: [ $PYTHON, drain.py, plain ] }
  npm: { command: [ $PYTHON, forward.py, $PYTHON, drain.py, npm ] }
  shell: { command: "$PYTHON forward.py $PYTHON drain.py shell; true" }
  deaf: { command: "trap '' TERM; touch deaf.ready; while :; do sleep 1; done" }
END
    start "$DIBS" -q run --all
    wait_until 10 eval '[ -e plain.ready ] && [ -e npm.ready ] && [ -e shell.ready ] && [ -e deaf.ready ]'
    remember
    began=$SECONDS
    if [ -z "${DIBS_TEST_SERVED:-}" ]; then end_process "$STARTED"; fi # with dibs and without it
    ok stop
    says 'stopped deaf'
    says 'it had to be killed'
    [ $((SECONDS - began)) -ge 9 ]
    for name in plain npm shell; do
        [ "$(cat "$name.terms")" = TERM ]
        [ -e "$name.drained" ]
    done
    [ "$(tree)" -eq 0 ]
}

@test "stop ends processes that multiply faster than they are signalled" {
    cat >many.py <<'END'
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.monotonic() + 40
open("many.ready", "w").close()
while time.monotonic() < end:  # each child goes on, its parent ends
    pid = os.fork()
    if pid:
        os._exit(0)
    os.setsid()
    time.sleep(0.1)
END
    start "$DIBS" -q run -p many -- "$PYTHON" many.py
    wait_until 10 test -e many.ready
    wait "$STARTED" || true
    remember
    ok stop
    says 'it had to be killed'
    sleep 0.3
    [ "$(tree)" -eq 0 ]
}

@test "run says so where no note can be written, and runs; two stops at once both succeed" {
    if [ "$(id -u)" -eq 0 ]; then
        XDG_STATE_HOME=/proc/none try run true
    else
        HOME='' XDG_STATE_HOME='' try run true
    fi
    [ "$code" -eq 0 ]
    says "'dibs stop' will not find this command"
    run_all
    dibs -q stop &
    first=$!
    dibs -q stop
    wait "$first"
    is_free "$(dibs get web/http)" "$(dibs get api/http)"
}

@test "a run within a run belongs to both" {
    cat >dibs.yaml <<END
roles:
  outer: { command: "exec $DIBS -q run -p inner -- sleep 600" }
END
    start "$DIBS" -q run --all
    wait_until 10 eval '[ "$(find "$XDG_STATE_HOME/dibs/runs" -type f | wc -l)" -eq 2 ]'
    remember
    ok stop outer
    [ "$(tree)" -eq 0 ]
}

@test "a server that its command has left keeps its port, and a second start is refused until dibs stop" {
    # As npx, which a signal ends, and its server not.
    printf '%s\n' 'trap "exit 143" TERM' "HTTP_PORT=\$WEB_PORT $PYTHON serve.py left &" 'wait' >left.sh
    start "$DIBS" run -p web -- bash left.sh 2>"$T/said"
    wait_until 20 test -e left.ready
    port=$(dibs get web)
    kill "$STARTED"
    status=0
    wait "$STARTED" || status=$?
    assert_status 143
    grep -q "port $port stays claimed" "$T/said"
    [ "$(dibs get web)" = "$port" ]
    run dibs run -p web -- true
    assert_status 3
    assert_output_has "its holder is gone, but its socket is still bound"
    dibs stop web
    run dibs run -p web -- printenv PORT
    [ "$output" = "$port" ]
}

@test "a process that its command has left without a use of the port keeps no claim" {
    run dibs run -p web -- sh -c 'sleep 30 & exit 3'
    assert_status 3
    [ "$(dibs ls --json)" = "[]" ]
    dibs stop
}
