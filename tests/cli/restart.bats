#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2153,SC2154 # variables come from, and go to, what is loaded below; shells expand their own
# Who runs with an environment that `dibs run` would not give any more, whether claims change or not. No fixed ports.

load ../support/dibs
load cli

setup() {
    dibs_setup
}

teardown() {
    dibs_teardown
}

# manifest WEB: what role `web` has besides its ports; beside it there is `api` with two of them.
manifest() {
    printf 'roles:\n  api: {ports: [{name: http, env: PORT}, {name: admin, env: ADMIN}]}\n  web: {instances: 2, %s}\n' "$1" >dibs.yaml
}

web='ports: [{name: http, env: PORT}], references: [{env: API, from: api.http}]'

# ports: of what the tests below speak of.
ports() {
    ok get api/0/http
    http=$out
    ok get api/0/admin
    admin=$out
    ok get web/0/http
    own=$out
}

# restarts TEXT: plan says so of web/0 and changes nothing; up does the same, and --json of both.
restarts() {
    local words
    for words in plan up; do
        ok "$words"
        says "web/0: pid $COMMAND (sh) has to be restarted: $1"
        says '4 kept, 0 added, 0 moved, 0 dropped'
        not says 'does not know of port'
    done
    ok plan --json
    cp "$T/out" "$T/planned"
    ok up --json
    # The same but for the tokens, which a plan has none of.
    diff "$T/planned" <(sed 's/,"token":"[^"]*"//g' "$T/out")
    json '[c["change"] for c in d].count("keep") == 4'
}

# calm: nobody has to be restarted.
calm() {
    local words
    for words in plan up; do
        ok "$words" --json
        json 'not any(c["needs_restart"] for c in d)'
        ok "$words"
        not says 'restarted'
    done
}

@test "a reference that means another port is told with the pod that runs without knowing, until it is restarted" {
    manifest "$web"
    ok up
    ports
    run_role web/0
    calm
    manifest "${web/api.http/api.admin}"
    restarts "\$API is $admin (it has $http)"
    json "[(c['pod'], c['pods'], c['name'], c['holder']['pid'], c['variables']) for c in d if c['change'] == 'restart'] == \
        [('web/0', 1, 'project/web/0/-/http', $COMMAND, [{'name': 'API', 'was': '$http', 'now': '$admin'}])]"
    kill -TERM "$COMMAND"
    wait "$STARTED" || true
    run_role web/0
    calm
}

@test "a variable that is renamed, added or removed while its claim is kept is told" {
    manifest "$web"
    ok up
    ports
    run_role web/0
    manifest "${web/API/BACK}"
    restarts "\$BACK is $http (it has none), \$API is gone (it has $http)"
    json "[v for c in d if c['change'] == 'restart' for v in c['variables']] == \
        [{'name': 'BACK', 'was': None, 'now': '$http'}, {'name': 'API', 'was': '$http', 'now': None}]"
    manifest "${web/env: PORT/env: MINE}"
    restarts "\$MINE is $own (it has none)" # PORT is the first one whoever has it
    manifest "${web/api.http\}/api.http\}, {env: ADMIN, from: api.admin\}}"
    restarts "\$ADMIN is $admin (it has none)"
    manifest "${web%, references*}"
    restarts "\$API is gone (it has $http)"
    manifest "$web"
    calm
}

@test "what no process is told is no reason for a restart" {
    manifest "$web"
    ok up
    run_role web/0
    manifest "${web/env: PORT/env: PORT, annotation: a.example/port}"
    calm
    manifest "ports: [{env: PORT, name: http}], references: [{from: {role: api, port: http}, env: API}], command: [other]"
    calm
}

@test "a port that moved is told by every later plan, too, for the process has the old one still" {
    manifest "$web"
    ok up
    ports
    run_role web/0
    ok release api/0/http
    start sleep 600
    ok claim --port "$http" --pid "$STARTED" # somebody else's now
    ok plan
    says 'api/0/http: the process that runs as web/0 does not know of port'
    not says 'has to be restarted'
    ok up
    says 'api/0/http: the process that runs as web/0 does not know of port'
    ok get api/0/http
    [ "$out" != "$http" ]
    restarts "\$API is $out (it has $http)"
}

@test "what was released and has its number again is nothing that a process would have to learn" {
    shards=', {name: shards, env: SHARDS, count: 2}, {name: base, env: BASE, count: 3, contiguous: true}'
    back='ports: [{name: http, env: PORT}'$shards'], references: [{env: API, from: api.http}, {env: ALL, from: "web[1].shards"}, {env: FIRST, from: "web[1].base"}]'
    manifest "$back"
    ok up
    ports
    run_role web/0
    ok down
    calm # the plan is the first one that adds
    ok up
    says '14 kept'
    # One of them has another number: it alone is told.
    ok release api/0/http api/0/admin web/1/base
    start sleep 600
    ok claim --port "$http" --pid "$STARTED"
    ok plan --json
    json '[c["name"] for c in d if c["change"] == "add" and c["needs_restart"]] == ["project/api/0/-/http"]'
    json 'len([c for c in d if c["change"] == "add"]) > 1'
    ok up
    says 'api/0/http: the process that runs as web/0 does not know of port'
    not says '/base'
    not says 'has to be restarted'
}

@test "a pod that only shares and refers is told, and one of several alike" {
    shared='ports: [{name: g, env: G, scope: RoleScoped}], references: [{env: API, from: api.http}]'
    manifest "$shared"
    ok up
    run_role web/1
    manifest "${shared/env: G/env: H}"
    ok plan
    says "web/1: pid $COMMAND (sh) has to be restarted: \$H is "
    ok up --json
    json '[(c["pod"], c["name"]) for c in d if c["needs_restart"]] == [("web/1", "project/web/1/-/-")]'
}

@test "a group that was renamed has pods that run with what it had before" {
    manifest "$web"
    ok up
    ports
    run_role web/0
    sed -i '1i group: other' dibs.yaml
    ok plan --json
    cp "$T/out" "$T/planned"
    json 'sorted(c["name"] for c in d if c["change"] == "add" and c["needs_restart"]) == ["other/api/0/-/http", "other/web/0/-/http"]'
    ok up
    says 'web/0/http: the process that runs as web/0 does not know of port'
    ok up
    says "web/0: pid $COMMAND (sh) has to be restarted: \$PORT is "
    says "(it has $own), \$API is "
}

@test "an environment that cannot be known is not spoken of" {
    manifest "$web"
    ok up
    ports
    # Without any, with one that is another's, and with one that the program has written over.
    start "$DIBS" -q run web/0 -- sh -c 'echo $$ >"$0.pid"; exec env -i sleep 600' "$T/web"
    wait_until 10 test -s "$T/web.pid"
    cat "$T/web.pid" >>"$T/started"
    start "$DIBS" -q run web/1 -- sh -c 'echo $$ >"$0.pid"; DIBS_TOLD="1 web/1/- API=1" exec sleep 600' "$T/other"
    wait_until 10 test -s "$T/other.pid"
    cat "$T/other.pid" >>"$T/started"
    start env "DIBS_TOLD=$STARTED api/0/- PORT=\$(x) =" sleep 600
    ok claim --pid "$STARTED" api/0/admin
    manifest "${web/API/BACK}"
    calm
}

@test "a manifest that has a variable of that name itself gives its own, and nothing is known" {
    manifest "${web/API/DIBS_TOLD}"
    ok up
    ports
    ok run web/0 -- printenv DIBS_TOLD
    [ "$out" = "$http" ]
    run_role web/0
    manifest "$web"
    calm
}

@test "a process that may not be looked at is not spoken of, and that is no error" {
    shared_ledger
    chmod o+rx .
    manifest "$web"
    capture as_nobody "$DIBS" up
    [ "$code" -eq 0 ]
    # It holds its claim as before, but is closed to its own user (PR_SET_DUMPABLE).
    start as_nobody "$DIBS" -q run web/0 -- "$PYTHON" -SEc 'import ctypes, os, sys, time
ctypes.CDLL(None).prctl(4, 0)
print(os.getpid(), file=open(sys.argv[1], "w"), flush=True)
time.sleep(600)' "$T/web.pid"
    wait_until 10 test -s "$T/web.pid"
    cat "$T/web.pid" >>"$T/started"
    as_nobody test ! -r "/proc/$(cat "$T/web.pid")/environ"
    manifest "${web/API/BACK}"
    for words in plan up; do
        capture as_nobody "$DIBS" "$words"
        [ "$code" -eq 0 ]
        says '4 kept'
        not says 'restarted'
    done
}

@test "run --all tells its parts the same, and a component's pods are told apart" {
    cat >dibs.yaml <<'END'
roles:
  a:
    components:
      - {name: w, size: 2, ports: [{name: d, env: D}], references: [{env: X, from: b.p}]}
    command: [sh, -c, 'echo $$ >up.$DIBS_POD; exec sleep 600']
  b: {ports: [p, q]}
END
    ok up
    ok get b/0/p
    p=$out
    ok get b/0/q
    q=$out
    start "$DIBS" -q run --all
    wait_until 10 test -s up.0 -a -s up.1
    cat up.0 up.1 >>"$T/started"
    calm
    sed -i 's/b\.p/b.q/' dibs.yaml
    ok up
    for i in '' .1; do
        says "a/0/w$i: pid $(cat "up.$((${#i} > 0))") (sh) has to be restarted: \$X is $q (it has $p)"
    done
}
