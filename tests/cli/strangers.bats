#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# A process of another project that listens on a kept port. Ports of this file: the default pool.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

# listen_in DIRECTORY PORT [ARGUMENT...]: `listen` by a process that works there.
listen_in() {
    local before=$PWD
    mkdir -p "$1"
    cd "$1" || return
    listen "${@:2}"
    cd "$before" || return
}

manifest() {
    cat >dibs.yaml <<'END'
roles:
  web: { ports: [http], command: ["true"] }
  db: { ports: [ { name: sql, port: 13090 } ] }
END
}

# warned PORT: the last try succeeded and warned of the process $STARTED there.
warned() {
    [ "$code" -eq 0 ] || complain "exit $code" || return
    says "warning: port $1 of"
    says "pid $STARTED (python3)"
}

@test "run refuses a kept port on which another project's process listens, and get warns" {
    ok get web
    port=$out
    listen_in "$T/elsewhere" "$port"
    try get web
    [ "$out" = "$port" ]
    warned "$port"
    says "$(id -un) (uid $(id -u))"
    says "dibs release web"
    for name in "$port" "web --existing"; do
        # shellcheck disable=SC2086 # words
        try get $name
        warned "$port"
    done
    refused 3 run -p web -- touch "$T/ran"
    says "pid $STARTED (python3)"
    try run -p web --json -- true
    [ ! -e "$T/ran" ]
    end_process "$STARTED"
    ok get web
    ok run -p web -- touch "$T/ran"
    [ -e "$T/ran" ]
}

@test "the project's own server is no stranger: it works in the project, or dibs run started it" {
    ok get web
    listen_in "$T/project/src" "$out"
    ok get web
    ok run -p web -- true # its own error would say that the port is in use
    ok doctor
    not prints 'not of its project'
    ok claim leased --ttl 1h
    listen_in "$T/elsewhere" "$out" # a lease is its user's
    ok get leased
    ok get /shared
    listen_in "$T/elsewhere" "$out" # of no project
    ok get /shared
    # shellcheck disable=SC2016 # for the shell there
    start "$DIBS" run -p api --keep -- sh -c 'echo $$ >>"$T/started"; cd / && exec "$0" "$PORT" tcp 127.0.0.1 "$1"' "$DIBS_TEST_SUPPORT/listen.py" "$T/ready"
    wait_until 10 test -f "$T/ready"
    ok get api
}

@test "up and plan warn, up --move chooses another port, and a required port stays" {
    manifest
    ok up
    port=$(printf '%s\n' "$out" | sed -n 's,web/0/http ,,p')
    listen_in "$T/elsewhere" "$port"
    for command in up plan; do
        try "$command"
        warned "$port"
        says "'dibs up --move'"
    done
    refused 3 run web
    ok up --move
    says "web/0/http leaves port $port to pid $STARTED (python3)"
    moved=$(printf '%s\n' "$out" | sed -n 's,web/0/http ,,p')
    [ "$moved" != "$port" ]
    ok run web
    ok up --move
    ok get web
    [ "$out" = "$moved" ]
    listen_in "$T/elsewhere" 13090
    refused 3 up --move
    says 'the manifest requires port 13090 for db/0/sql'
    ok get web
    [ "$(held)" -eq 2 ]
}

@test "run refuses a port that a role shares, too, but not one that it only refers to" {
    cat >dibs.yaml <<'END'
roles:
  web:
    instances: 2
    ports: [ http, { name: gossip, scope: RoleScoped } ]
    command: ["true"]
  api: { references: [ { env: GOSSIP, from: web.gossip } ], command: [ printenv, GOSSIP ] }
END
    ok up
    ok get web/gossip
    port=$out
    listen_in "$T/elsewhere" "$port"
    for words in web/0 "web/1 -- true" "--all"; do
        # shellcheck disable=SC2086 # words
        refused 3 run $words
        says "port $port of 'project/web/-/-/gossip'"
        says "pid $STARTED (python3)"
    done
    ok run api
    [ "$out" = "$port" ]
}

@test "doctor names the stranger on a kept port" {
    ok get web
    listen_in "$T/elsewhere" "$out"
    try doctor
    prints "is in use by a process that is not of its project"
    prints "pid $STARTED (python3)"
    try doctor --json
    json 'any(f["severity"] == "warn" and "python3" in f["text"] for f in d)'
}

@test "another user's process is a stranger wherever it works, but root's may serve a container" {
    shared_ledger
    mkdir -p "$T/theirs"
    chmod 0777 "$T/theirs"
    cd "$T/theirs"
    cat >dibs.yaml <<'END'
roles: { pg: { ports: [ { name: sql, container: 5432 } ] }, web: { ports: [http] } }
END
    chown 65534 dibs.yaml
    capture as_nobody "$DIBS" up
    [ "$code" -eq 0 ] || complain "exit $code"
    pg=$(sed -n 's,pg/0/sql ,,p' <<<"$out") web=$(sed -n 's,web/0/http ,,p' <<<"$out")
    listen "$pg" && listen "$web" # root's, in their directory
    capture as_nobody "$DIBS" get pg
    [ "$code" -eq 0 ] && [ -z "$errs" ]
    capture as_nobody "$DIBS" get web
    says "warning: port $web of"
    says ' root (uid 0)'
    not says 'pid 0'
    capture as_nobody "$DIBS" run web -- true
    [ "$code" -eq 3 ]
}

@test "a server that the holder has started as another user is the holder's" {
    needs_root
    needs setpriv
    # shellcheck disable=SC2016 # for the shell there
    printf '#!/bin/sh\nexec setpriv --reuid 65534 --regid 65534 --clear-groups /usr/bin/python3 -c "
import socket, sys, time
s = socket.create_server((\\"127.0.0.1\\", int(sys.argv[1])))
print(\\"ready\\", flush=True)
time.sleep(600)" "$@" >"$4"\n' >"$T/as-nobody"
    chmod +x "$T/as-nobody"
    # shellcheck disable=SC2016 # for the shell there
    start "$DIBS" run -p pg --keep -- sh -c '"$0" "$PORT" tcp 127.0.0.1 "$1" & printf "%s\n" $$ $! >>"$T/started"; wait' "$T/as-nobody" "$T/ready"
    wait_until 10 grep -q ready "$T/ready"
    ok get pg
    ok assert pg
    ok who pg
    prints 'nobody (uid 65534): descendant'
    refused 3 run -p pg -- true
    says "name 'project/pg'"
}
