#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# dibs run ROLE ROLE and run --all: what runs, what it says, and how it ends. Ports of this file: 16000-16099.
load ../support/dibs
load cli

setup() {
    dibs_setup
    export DIBS_RANGE=16000-16089
    ON_TERMINAL=$DIBS_TEST_SUPPORT/on_terminal.py
}
teardown() { dibs_teardown; }

@test "several roles run as they are named: all of a role, or one instance" {
    cat >dibs.yaml <<'END'
roles:
  web: { instances: 2, ports: [ http ], command: 'echo "I am web/$DIBS_INSTANCE on $HTTP_PORT"' }
  api: { ports: [ http ], command: 'echo "I am api"' }
  db: { ports: [ sql ], command: 'echo "I am db"' }
  none: { ports: [ http ] }
END
    ok run --keep-going web api
    [ "$(sort "$T/out" | sed 's/ on .*//')" = 'api   | I am api
web/0 | I am web/0
web/1 | I am web/1' ]
    ok run --keep-going web/1 db
    [ "$(sort "$T/out")" = "db    | I am db
web/1 | I am web/1 on $(dibs get web/1/http)" ]
    refused 2 run web web/0
    says 'named twice'
    refused 2 run web none
    says "role 'none' has no command"
    refused 5 run web web/2
    refused 2 run -p http web api
    refused 2 run --keep-going web
    # A word that is no role: a command, as ever.
    ok run echo web
    [ "$out" = web ]
    try run web nothing
    [ "$code" -eq 127 ]
    ok run --all --keep-going
    [ "$(grep -c 'I am' "$T/out")" -eq 4 ]
}

@test "the ports come first, and --quiet leaves them out" {
    cat >dibs.yaml <<'END'
roles:
  api: { ports: [ http, { name: admin, count: 2, contiguous: true } ], command: 'echo up' }
  worker: { ports: [ { name: metrics, scope: RoleScoped } ], references: [ { env: API, from: api.http } ], command: 'echo up' }
END
    ok run --all --keep-going
    [ "$(head -n 2 "$T/err")" = "dibs: api    | http $(dibs get api/http), admin $(dibs get api/admin)
dibs: worker | metrics $(dibs get worker/metrics)" ]
    ok -q run --all --keep-going
    [ -z "$errs" ]
}

@test "--keep-going leaves the others running, and its code is that of the first failure" {
    cat >dibs.yaml <<'END'
roles:
  good: { command: 'exit 0' }
  bad: { command: 'sleep 0.2; exit 4' }
  worse: { command: 'sleep 0.5; exit 5' }
  long: { command: 'sleep 1; echo done' }
END
    try run --all --keep-going
    [ "$code" -eq 4 ]
    prints 'long  | done'
    says 'good has ended with 0; the others go on'
    says 'bad has ended with 4; the others go on'
    try run --all
    [ "$code" -eq 0 ]
    not grep -q 'done' "$T/out"
}

# Counts the signals it gets, drains for a while after the first, and says so.
drain() {
    cat >drain.py <<'END'
import signal, sys, time
name, seconds = sys.argv[1], float(sys.argv[2])
until = None
def note(number, _):
    global until
    print(signal.Signals(number).name, flush=True)
    until = until or time.monotonic() + seconds
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, note)
open(name + ".ready", "w").close()
while not until or time.monotonic() < until:
    time.sleep(0.02)
print("drained", flush=True)
END
}
got() { sed -n "s/^$1 *| //p" "$T/said" | tr '\n' ' '; } # got ROLE: its lines

@test "each role gets each signal once, however many others end meanwhile" {
    drain
    cat >dibs.yaml <<END
roles:
  slow: { command: [ $PYTHON, drain.py, slow, "2" ] }
  a: { command: 'sleep 1.5; exit 3' }
  b: { command: 'exec sleep 600' }
  c: { command: 'trap "sleep 0.3; exit 0" TERM; while :; do sleep 0.1; done' }
  d: { command: 'trap "sleep 0.6; exit 0" TERM; while :; do sleep 0.1; done' }
END
    code=0
    dibs run --all >"$T/said" 2>&1 || code=$?
    [ "$code" -eq 3 ]
    [ "$(got slow)" = 'SIGTERM drained ' ]
    # A signal that comes twice from outside is one, too; what is no end is handed on as it is.
    rm -f slow.ready
    start "$DIBS" run slow b >"$T/said" 2>&1
    wait_until 10 test -e slow.ready
    kill -TERM "$STARTED"
    wait_until 10 grep -q SIGTERM "$T/said"
    kill -TERM "$STARTED"
    kill -TERM "$STARTED"
    wait "$STARTED" || code=$?
    [ "$code" -eq 143 ]
    [ "$(got slow)" = 'SIGTERM drained ' ]
}

@test "a role that waits after Ctrl-C is left alone, and one that ignores it is asked by SIGTERM" {
    drain
    cat >dibs.yaml <<END
roles:
  slow: { command: [ $PYTHON, drain.py, slow, "6.5" ] }
  deaf: { command: "trap '' INT; trap 'echo asked; exit 0' TERM; touch deaf.ready; while :; do sleep 0.1; done" }
  # A background job of a shell ignores Ctrl-C; the shell itself does not.
  back: { command: "$PYTHON drain.py back 0.1 & touch back.ready; sleep 600" }
END
    sed -i 's/signal.SIGINT, //' drain.py
    cp drain.py other.py
    start env --default-signal=INT "$DIBS" run --all >"$T/said" 2>&1
    wait_until 10 eval '[ -e slow.ready ] && [ -e deaf.ready ] && [ -e back.ready ]'
    sleep 0.2
    kill -INT "$STARTED"
    wait "$STARTED" || code=$?
    [ "$code" -eq 130 ]
    got deaf | grep -q asked
    got back | grep -q 'SIGTERM drained'
}

@test "dibs returns when the last process of every group has ended" {
    drain
    cat >dibs.yaml <<END
roles:
  parent: { ports: [ http ], command: "$PYTHON drain.py child 1.5 & until [ -e child.ready ]; do sleep 0.05; done; exit 7" }
END
    code=0
    dibs run --all >"$T/said" 2>&1 || code=$?
    [ "$code" -eq 7 ]
    [ "$(got parent)" = 'SIGTERM drained ' ]
    [ "$(sql 'SELECT count(*) FROM claims WHERE holder <> 0')" -eq 0 ]
}

@test "a second Ctrl-C ends at once what still drains" {
    drain
    printf 'roles: { slow: { command: [ %s, drain.py, slow, "60" ] } }\n' "$PYTHON" >dibs.yaml
    start env --default-signal=INT "$DIBS" run --all >"$T/said" 2>&1
    wait_until 10 test -e slow.ready
    kill -INT "$STARTED"
    wait_until 10 grep -q SIGINT "$T/said"
    sleep 0.7
    began=$SECONDS
    kill -INT "$STARTED"
    wait "$STARTED" || code=$?
    [ "$code" -eq 130 ]
    within 5 "$began"
    not grep -q drained "$T/said"
}

@test "on a terminal each role has one of its own, with a coloured title; NO_COLOR and files have no colour of dibs" {
    cat >dibs.yaml <<'END'
roles:
  web: { command: 'test -t 1 && test -t 2 && stty size <&1; printf "\033[31mred\033[0m \033[2J\033[Hmore\n"; printf "no end of line"' }
  longer: { command: 'test -t 0 || echo "no input"; echo error >&2' }
END
    export TERM=xterm
    unset NO_COLOR
    run "$ON_TERMINAL" 70 "$DIBS" run --keep-going --all
    [ "$status" -eq 0 ]
    assert_output_has $'\033[36mweb    |\033[0m 24 61'
    assert_output_has $'\033[36mweb    |\033[0m \033[31mred\033[0m more'
    assert_output_has $'\033[36mweb    |\033[0m no end of line'
    assert_output_has $'\033[33mlonger |\033[0m no input'
    assert_output_has $'\033[33mlonger |\033[0m error'
    case $output in *$'\033[2J'*) return 1 ;; esac
    NO_COLOR=1 run "$ON_TERMINAL" 70 "$DIBS" run --keep-going --all
    assert_output_has $'web    | \033[31mred\033[0m more' # the role's own
    case $output in *$'\033[36m'*) return 1 ;; esac
    # With the output in a file nothing is a terminal; with only errors on one, only these are.
    run "$ON_TERMINAL" 70 sh -c '"$0" run --keep-going --all >"$1"' "$DIBS" "$T/said"
    assert_output_has $'\033[33mlonger |\033[0m error'
    grep -q '^longer | no input$' "$T/said"
    not grep -q stty "$T/said"
    not grep -q '24 61' "$T/said"
}

@test "the roles' terminals follow the size of that of dibs" {
    cat >dibs.yaml <<'END'
roles:
  web: { command: "trap 'stty size <&1; exit 0' WINCH; touch web.ready; i=0; while [ $((i += 1)) -lt 200 ]; do sleep 0.1; done" }
END
    "$PYTHON" -SE - "$DIBS" >"$T/said" <<'END'
import fcntl, os, pty, struct, sys, termios, time
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execv(sys.argv[1], [sys.argv[1], "run", "--all"])
end = time.monotonic() + 30
while not os.path.exists("web.ready"):
    assert time.monotonic() < end
    time.sleep(0.05)
time.sleep(0.2)
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
said = b""
while True:
    try:
        said += os.read(terminal, 4096)
    except OSError:
        break
print(said.decode())
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
    grep -q '50 114' "$T/said"
}

@test "Ctrl-C on a terminal reaches each role once, and the end of the terminal does, too" {
    drain
    printf 'roles: { slow: { command: [ %s, drain.py, slow, "1" ] }, other: { command: "exec sleep 600" } }\n' "$PYTHON" >dibs.yaml
    for what in press hangup; do
        rm -f slow.ready
        "$PYTHON" -SE - "$what" "$DIBS" >"$T/said" <<'END'
import os, pty, signal, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "dumb"
    os.execv(sys.argv[2], [sys.argv[2], "run", "--all"])
end = time.monotonic() + 30
while not os.path.exists("slow.ready"):
    assert time.monotonic() < end
    time.sleep(0.05)
time.sleep(0.2)
said = b""
if sys.argv[1] == "press":
    os.write(terminal, b"\x03")
    while True:
        try:
            said += os.read(terminal, 4096)
        except OSError:
            break
else:
    os.close(terminal)
print(said.decode().replace("\r", "").replace("^C", ""))
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
assert code in ((130,) if sys.argv[1] == "press" else (129, 74)), code  # 74: the output has no reader any more
END
        if [ "$what" = press ]; then
            [ "$(got slow)" = 'SIGINT drained ' ]
        fi
        [ -z "$(find "$XDG_STATE_HOME/dibs/runs" -type f)" ]
    done
}
