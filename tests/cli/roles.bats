#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2153,SC2154 # variables come from, and go to, what is loaded below
# dibs run ROLE and dibs run --all: who holds what, and until when. Ports of this file: 15200-15299.
load ../support/dibs
load cli

setup() {
    dibs_setup
    export DIBS_RANGE=15200-15299
    cat >dibs.yaml <<'END'
roles:
  api: { ports: [ { name: http, env: PORT } ] }
  web:
    instances: 2
    ports:
      - { name: http, env: PORT }
      - { name: gossip, env: GOSSIP_PORT, scope: RoleScoped, proto: udp }
    references: [ { env: API_PORT, from: api.http } ]
END
}
teardown() { dibs_teardown; }

# claim NAME: "kept", "held", "kept held" or nothing, of what the ledger has.
claim() {
    sql "SELECT trim(iif(kept, 'kept ', '') || iif(holder, 'held', '')) FROM claims WHERE name = 'project/$1'"
}
is() { [ "$(claim "$1")" = "$2" ]; }

port() { sql "SELECT port FROM claims WHERE name = 'project/$1'"; }

@test "a command gets the variables of its role, and what dibs env says" {
    ok run web/1 -- sh -c 'echo $PORT $GOSSIP_PORT $API_PORT $DIBS_ROLE $DIBS_INSTANCE {http} {gossip} {API_PORT}'
    read -r port gossip api rest <<<"$out"
    [ "$rest" = "web 1 $port $gossip $api" ]
    ok env web/1
    [ "$out" = "PORT=$port"$'\n'"GOSSIP_PORT=$gossip"$'\n'"API_PORT=$api" ]
    [ "$port" != "$api" ] # of UDP, gossip may have the number of either
}

@test "a port has the same name for every command, and a pod of several knows which it is" {
    cat >dibs.yaml <<'END'
roles:
  a:
    instances: 2
    command: "exit 0"
    components:
      - { name: l, ports: [ { name: s, scope: RoleScoped } ] }
      - { name: w, size: 2, ports: [ { name: h, env: PORT } ] }
END
    ok run a/1/w/1 -- sh -c 'echo "$PORT $DIBS_ROLE $DIBS_INSTANCE $DIBS_COMPONENT $DIBS_POD"'
    port=${out%% *}
    [ "$out" = "$port a 1 w 1" ]
    ok run a/1/l -- sh -c 'echo "${DIBS_POD-none}"'
    [ "$out" = none ]
    ok env a/1/w/1
    [ "$out" = "PORT=$port" ]
    ok get a/1/w/1/h
    [ "$out" = "$port" ]
    ok get a/l/s
    [ "$out" = "$(port a/-/l/s)" ]
    ok release a/1/w/1/h
    is a/1/w.1/h ''
    refused 5 get a/1/w/2/h
    says "did you mean 'a/1/w/0/h'?"
}

@test "a name that looks like one of the manifest's is one, or nothing that get would make" {
    ok get web/1/http
    port=$out
    ok get 'web[1].http'
    [ "$out" = "$port" ]
    ok release 'web[1].http'
    nothing_held
    for name in wbe/0/http web/htp web.htp 'web[9].http' web http; do
        refused 5 get "$name"
        says web/
        echo "{{ port \"$name\" }}" >"$T/template"
        refused 5 render "$T/template"
    done
    nothing_held
    # A person's own names are as they were: those that resemble nothing, and those that are there.
    ok get --create wbe
    ok get --create wx/http
    ok claim --keep web
    port=$out
    ok get web
    [ "$out" = "$port" ]
}

nothing_held() { [ "$(held)" -eq 0 ]; }

@test "when web/0 ends, web/1 keeps its own port and the one that both share" {
    run_role web/0
    first=$STARTED
    first_command=$COMMAND
    run_role web/1
    [ "$(claim web/0/-/http) $(claim web/1/-/http) $(claim web/-/-/gossip)" = "held held kept" ]
    gossip=$(port web/-/-/gossip)
    kill "$first_command"
    wait "$first" || true
    is web/0/-/http ''
    is web/1/-/http held
    is web/-/-/gossip kept
    ok run web/0 -- printenv GOSSIP_PORT
    [ "$out" = "$gossip" ]
    ok reap
    is web/-/-/gossip kept
}

@test "dibs killed by SIGKILL frees nothing: the command has its port until it ends itself" {
    run_role web
    port=$(port web/0/-/http)
    end_process "$STARTED"
    ok reap
    is web/0/-/http held
    refused 3 run web -- true
    end_process "$COMMAND"
    ok reap
    is web/0/-/http ''
    ok run web -- printenv PORT
    [ "$out" = "$port" ]
}

@test "a claim that up keeps stays kept when its command ends, dibs killed or not" {
    ok up
    port=$(port web/0/-/http)
    run_role web/0
    is web/0/-/http 'kept held'
    end_process "$STARTED"
    end_process "$COMMAND"
    ok reap
    is web/0/-/http kept
    [ "$(port web/0/-/http)" = "$port" ]
    ok run web/0 -- true
    is web/0/-/http kept
}

@test "a second run of an instance that lives is exit 3 and names the first; another instance is free" {
    run_role web/0
    refused 3 run web/0 -- echo started
    says "$COMMAND"
    says "or 'dibs stop'"
    refused 3 run web -- echo started
    refused 3 run -p web/0/http -- echo started
    not says 'to run both' # no name beside the manifest's would be accepted
    is web/0/-/http held
    ok run web/1 -- echo started
    [ "$out" = started ]
    [ "$(held)" -eq 3 ] # web/0, the shared one, and the one that it refers to
}

@test "a missing role, instance or command is reported, and nothing is claimed" {
    refused 5 run web/2 -- true
    says 'counted from 0'
    refused 2 run web
    says 'no command'
    refused 5 run wbe -- true
    says 'api, web'
    refused 2 run --all
    nothing_claimed
}

@test "a setting of the manifest cannot be given as an option, too" {
    sed -i 's/^  api: { /&command: "true", /' dibs.yaml
    for option in --keep '--range 15200-15210' '--pool default' '--proto udp' '--address ::1'; do
        # shellcheck disable=SC2086 # words
        refused 2 run $option web/1 -- true
        says "'${option%% *}'"
        # shellcheck disable=SC2086 # words
        refused 2 run $option api
        # shellcheck disable=SC2086 # words
        refused 2 run --all $option
        says "'${option%% *}'"
    done
    refused 2 run -p x web/1 -- true
    says "'--port'"
    refused 2 run --all -p web
    refused 2 run --all true
    nothing_claimed
    # With -p, what is no role before "--" is a command like any other, and so is a word that stands alone.
    ok run -p x printf -- %s words
    [ "$out" = words ]
    try run -p x web
    [ "$code" -eq 127 ]
}

@test "a role may be written as it stands in the names of its claims" {
    printf 'roles: { a/b: { ports: [ http ], command: "echo $HTTP_PORT" } }\n' >dibs.yaml
    ok run a%2Fb
    port=$out
    ok env a%2Fb
    [ "$out" = "HTTP_PORT=$port" ]
    ok run a%2Fb/0 -- printenv HTTP_PORT
    [ "$out" = "$port" ]
}

@test "a command that cannot be executed leaves no claim that was not there before" {
    try run web/0 -- "$T/nothing"
    [ "$code" -eq 127 ]
    touch "$T/plain"
    try run web/0 -- "$T/plain"
    [ "$code" -eq 126 ]
    [ "$(held)" -eq 0 ]
    ok get api/http
    api=$(port api/0/-/http)
    try run web/0 -- "$T/nothing"
    [ "$code" -eq 127 ]
    [ "$(held)" -eq 1 ]
    [ "$(port api/0/-/http) $(claim api/0/-/http)" = "$api kept" ]
    ok up
    before=$(dibs ls --json | "$PYTHON" -c 'import json, sys; print([(c["id"], c["port"], c["kept"], c["holder"]) for c in json.load(sys.stdin)])')
    try run web/1 -- "$T/nothing"
    [ "$code" -eq 127 ]
    [ "$(dibs ls --json | "$PYTHON" -c 'import json, sys; print([(c["id"], c["port"], c["kept"], c["holder"]) for c in json.load(sys.stdin)])')" = "$before" ]
}

none_is_held() { [ "$(held)" -eq 0 ]; }

@test "of --all, one command that cannot be executed stops the others and leaves no claim" {
    cat >dibs.yaml <<END
roles:
  good: { ports: [ http, { name: shared, scope: RoleScoped } ], command: [ sleep, "600" ] }
  bad: { ports: [ http ], command: [ "$T/nothing" ], references: [ { env: GOOD, from: good.http } ] }
END
    try run --all
    [ "$code" -eq 127 ]
    says "$T/nothing"
    wait_until 10 none_is_held # a daemon sees for itself that the others have ended
    ok get good/http
    try run --all
    [ "$code" -eq 127 ]
    [ "$(held) $(claim good/0/-/http)" = '1 kept' ]
}

@test "of --all, the first that ends stops the others, and its code is the answer" {
    cat >dibs.yaml <<'END'
roles:
  long: { instances: 2, ports: [ http ], command: 'echo "long $HTTP_PORT"; exec sleep 600' }
  short:
    ports: [ http ]
    command: 'echo "short $HTTP_PORT $LONG"; echo oops >&2; exit 7'
    references: [ { env: LONG, from: "long[1].http" } ]
END
    try run --all
    [ "$code" -eq 7 ]
    says 'short  | oops'
    says 'short has ended with 7; the others are stopped'
    [[ $out =~ 'short  | short '[0-9]+' '([0-9]+) ]]
    long=${BASH_REMATCH[1]}
    ok get long/1/http
    [ "$out" = "$long" ]
    [ "$(sql 'SELECT count(*) FROM claims WHERE holder <> 0')" -eq 0 ]
}

@test "of --all, a port that another part refers to stays when its own part ends before the other" {
    cat >dibs.yaml <<'END'
roles:
  api: { ports: [ http, admin ], command: 'echo $$ >api.new; mv api.new api.pid; exec sleep 600' }
  web: { ports: [ http ], command: 'echo $API $$ >web.new; mv web.new web.pid; exec sleep 600', references: [ { env: API, from: api.http } ] }
END
    start "$DIBS" -q run --all
    wait_until 10 test -s api.pid -a -s web.pid
    read -r http web <web.pid
    echo "$web" >>"$T/started"
    end_process "$STARTED"
    kill -KILL "$(cat api.pid)"
    wait_until 10 not test -e "/proc/$(cat api.pid)"
    ok reap
    [ "$(port api/0/-/http) $(claim api/0/-/http)" = "$http kept" ]
    [ "$(held)" -eq 2 ] # with the one that web holds
}

# unread STREAM WHAT: runs --all with a pipe for that stream that nobody reads; when it is full, TERM or INT ends dibs,
# INT again and again until it does, or the pipe is READ, into $T/read. Prints the exit code.
unread() {
    "$PYTHON" -SE - "$DIBS" "$@" "$T/read" <<'END'
import fcntl, os, select, signal, subprocess, sys, time
dibs, stream, what, path = sys.argv[1:]
reader, writer = os.pipe()
job = subprocess.Popen([dibs, "-q", "run", "--all"], **{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: writer})
end = time.monotonic() + 10
poll = select.poll()
poll.register(writer, select.POLLOUT)
while poll.poll(0):
    assert time.monotonic() < end, "the pipe is not full"
    time.sleep(0.01)
assert not fcntl.fcntl(writer, fcntl.F_GETFL) & os.O_NONBLOCK, "the shared pipe was changed"
os.close(writer)
if what == "READ":
    with open(reader, "rb") as pipe, open(path, "wb") as out:
        out.write(pipe.read())
try:
    while what != "READ" and job.poll() is None and time.monotonic() < end:
        job.send_signal(getattr(signal, "SIG" + what))
        try:
            job.wait(5 if what == "TERM" else 0.6)
        except subprocess.TimeoutExpired:
            assert what == "INT", "dibs does not end"
    print(job.wait(5))
finally:
    job.kill()
END
}

@test "--all can be stopped while nobody reads what it says" {
    cat >dibs.yaml <<'END'
roles:
  chatty: { ports: [ http ], command: "yes out & exec yes err >&2" }
END
    [ "$(unread stdout TERM)" -eq 143 ]
    [ "$(held)" -eq 0 ]
    [ "$(unread stderr TERM)" -eq 143 ]
    [ "$(held)" -eq 0 ]
    sed -i 's/command: "/&trap : TERM INT; /; s/exec yes/while :; do yes/; s/>&2"/>\&2; done"/' dibs.yaml
    [ "$(unread stdout INT)" -eq 130 ]
    [ "$(sql 'SELECT count(*) FROM claims WHERE holder <> 0')" -eq 0 ]
}

@test "a late reader of the output of --all gets all of it, line by line" {
    cat >dibs.yaml <<'END'
roles:
  one: { ports: [ http ], command: &both "trap '' TERM; >$DIBS_ROLE; until [ -e one -a -e two ]; do sleep 0.01; done; seq 100000; printf end" }
  two: { ports: [ http ], command: *both }
END
    [ "$(unread stdout READ)" -eq 0 ]
    for role in one two; do
        sed -n "s/^$role | //p" "$T/read" | grep -v end | cmp - <(seq 100000)
    done
    [ "$(grep -c . "$T/read")" -eq 200002 ]
}

@test "all of --all is claimed in one step: a port that is taken starts nobody" {
    listen 15290
    cat >dibs.yaml <<END
roles:
  one: { ports: [ http ], command: 'touch "$T/started.one"' }
  two: { ports: [ { name: http, port: 15290 } ], command: 'touch "$T/started.two"' }
END
    refused 3 run --all
    says 'port 15290 is in use'
    says 'in a manifest: prefer'
    [ ! -e "$T/started.one" ]
    [ ! -e "$T/started.two" ]
    nothing_claimed
}

@test "two users with the same project on one ledger never share or end each other's claims" {
    shared_ledger
    chmod 0755 "$T/project"
    ok up
    mine=$(dibs ls --json)
    capture as_nobody "$DIBS" up
    [ "$code" -eq 0 ] || complain 'as another user'
    theirs=$out
    [ "$(held)" -eq 8 ]
    [ "$(sql 'SELECT count(*) FROM (SELECT DISTINCT proto, port FROM slots WHERE claim <> 0)')" -eq 8 ]
    capture as_nobody "$DIBS" up
    [ "$out" = "$theirs" ]
    capture as_nobody "$DIBS" -q down
    [ "$code" -eq 0 ]
    [ "$(dibs ls --json)" = "$mine" ]
    capture as_nobody "$DIBS" -q down
    [ "$code" -eq 0 ]
    [ "$(held)" -eq 4 ]
    capture as_nobody "$DIBS" up
    [ "$out" = "$theirs" ]
    ok down # root's down, too, is of root's own
    [ "$(held)" -eq 4 ]
    # While the other's runs, mine may run, too.
    run_role web/0 env DIBS_SOCKET="$PUBLIC_SOCKET" setpriv --reuid=65534 --regid=65534 --clear-groups
    ok run web/0 -- printenv PORT
    not grep -qx "web/0/http $out" <<<"$theirs"
}

@test "a manifest of another user, or one that every user may write, is refused by every command that needs it" {
    needs_root
    chown 65534 dibs.yaml
    for command in up plan down env 'env web' 'run web -- true' 'run --all'; do
        # shellcheck disable=SC2086 # words
        try $command
        [ "$code" -eq 7 ] || complain "$command"
        says 65534
        one_line # nothing is said twice
    done
    try doctor
    [ "$(cat "$T/out" "$T/err" | grep -c 65534)" -eq 1 ]
    try run true
    [ "$code" -eq 0 ]
    says 65534
    try get cache # is nothing of the manifest's, and a note says so
    [ "$code" -eq 0 ]
    says 65534
    dibs release cache
    chown 0 dibs.yaml
    chmod o+w dibs.yaml
    refused 7 up
    [ "$(held)" -eq 0 ]
}

@test "a part of --all that ignores the interrupt is asked once more before it is killed" {
    cat >dibs.yaml <<'END'
roles:
  b: { ports: [http], command: [bash, -c, "trap '' INT; trap 'echo clean; exit 0' TERM; echo up; while :; do sleep .1; done"] }
END
    start "$DIBS" run --all >"$T/said" 2>&1
    wait_until 10 grep -q up "$T/said"
    kill -INT "$STARTED"
    wait_until 20 grep -q clean "$T/said"
}

@test "a command runs in the directory of its role, and a missing one is an error before anything is claimed" {
    mkdir -p deep/er
    cat >dibs.yaml <<'END'
roles:
  web: { ports: [ http ], command: 'pwd; echo "$PWD"', cwd: deep }
END
    cd deep/er
    ok run web
    [ "$out" = "$T/project/deep"$'\n'"$T/project/deep" ]
    ok run web -- /bin/pwd
    [ "$out" = "$T/project/deep" ]
    ok run --all
    [ "$out" = "web | $T/project/deep"$'\n'"web | $T/project/deep" ]
    cd "$T/project"
    rm -r deep
    ok release --all-mine
    refused 2 run web
    says dibs.yaml:2:
    says "$T/project/deep"
    refused 2 run --all
    [ "$(held)" -eq 0 ]
}

@test "a variable that changes only in its text needs a restart, too, and the ledger does not have the text" {
    cat >dibs.yaml <<'END'
roles:
  pg: { ports: [ sql ] }
  web: { ports: [ http ], env: { URL: "postgres://me:hunter2@localhost:{pg.sql}/" } }
END
    run_role web
    ok plan --json
    json 'not [c for c in d if c["change"] == "restart"]'
    not grep -rq hunter2 "$T"/ledger.db*
    sed -i 's/hunter2/other/' dibs.yaml
    ok plan --json
    json '[c["variables"] for c in d if c["change"] == "restart"][0][0]["name"] == "URL"'
    json '[c["variables"] for c in d if c["change"] == "restart"][0][0]["now"].startswith("postgres://me:other@localhost:")'
    ok up
    says '$URL is postgres://me:other@localhost:'
    sed -i 's/other/hunter2/' dibs.yaml
    ok plan --json
    json 'not [c for c in d if c["change"] == "restart"]'
    sed -i 's/sql \]/{ name: sql, prefer: 15289 } ]/' dibs.yaml
    sed -i 's/env: { URL.*/cwd: . }/' dibs.yaml
    ok up
    says '$URL is gone (it has another text)'
    says '$PWD is'
}

@test "a server that gives up the rights of root is still the role's own" {
    needs_root
    needs setpriv
    shared_ledger
    cat >dibs.yaml <<END
roles:
  web: { ports: [ http ], command: 'exec setpriv --reuid=65534 --regid=65534 --clear-groups -- $PYTHON -c "$listening" {http}' }
END
    start "$DIBS" -q run web
    wait_until 20 dibs -q assert web/http
    ok get web/http # and warns of nobody
    ok who web/http
    not prints foreign
}
listening='import socket, sys, time; s = socket.create_server((chr(48) + chr(46) + chr(48), int(sys.argv[1]))); time.sleep(600)'
