#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2153,SC2154 # variables come from, and go to, what is loaded below; shells expand their own
# Processes with an environment that `dibs run` would not give any more, whether claims change or not. No fixed ports.

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
        says "web/0: pid $COMMAND (sleep) has to be restarted: $1"
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

@test "a reference to another port is reported with the running pod until that is restarted" {
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

@test "a variable that is renamed, added or removed while its claim is kept is reported" {
    manifest "$web"
    ok up
    ports
    run_role web/0
    manifest "${web/API/BACK}"
    restarts "\$BACK is $http (it has none), \$API is gone (it has $http)"
    json "[v for c in d if c['change'] == 'restart' for v in c['variables']] == \
        [{'name': 'BACK', 'was': None, 'now': '$http'}, {'name': 'API', 'was': '$http', 'now': None}]"
    manifest "${web/env: PORT/env: MINE}"
    restarts "\$MINE is $own (it has none)" # PORT is always the first one
    manifest "${web/api.http\}/api.http\}, {env: ADMIN, from: api.admin\}}"
    restarts "\$ADMIN is $admin (it has none)"
    manifest "${web%, references*}"
    restarts "\$API is gone (it has $http)"
    manifest "$web"
    calm
}

@test "a value that no process gets is no reason for a restart" {
    manifest "$web"
    ok up
    run_role web/0
    manifest "${web/env: PORT/env: PORT, annotation: a.example/port}"
    calm
    manifest "ports: [{env: PORT, name: http}], references: [{from: {role: api, port: http}, env: API}], command: [other]"
    calm
}

@test "every later plan reports a port that moved, since the process still has the old one" {
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

@test "a released claim with the same number again needs no restart" {
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
    # One of them has another number: it alone is reported.
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

@test "a pod that only shares and refers is reported, and one of several alike" {
    shared='ports: [{name: g, env: G, scope: RoleScoped}], references: [{env: API, from: api.http}]'
    manifest "$shared"
    ok up
    run_role web/1
    manifest "${shared/env: G/env: H}"
    ok plan
    says "web/1: pid $COMMAND (sleep) has to be restarted: \$H is "
    ok up --json
    json '[(c["pod"], c["name"]) for c in d if c["needs_restart"]] == [("web/1", "project/web/1/-/g")]'
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
    says "web/0: pid $COMMAND (sleep) has to be restarted: \$PORT is "
    says "(it has $own), \$API is "
}

@test "a process that changes its own environment changes nothing of what it was given" {
    manifest "$web"
    ok up
    ports
    start "$DIBS" -q run web/0 -- sh -c 'echo $$ >"$0.pid"; exec env -i sleep 600' "$T/web"
    wait_until 10 test -s "$T/web.pid"
    cat "$T/web.pid" >>"$T/started"
    calm
    manifest "${web/API/BACK}"
    ok plan
    says "web/0: pid $(cat "$T/web.pid") ("
    says "\$BACK is $http (it has none), \$API is gone (it has $http)"
}

# The file itself.
# bats test_tags=unserved
@test "a process without a record is not mentioned" {
    manifest "$web"
    ok up
    ports
    # One that `dibs run` has not started, and one of which an older version recorded nothing.
    start sleep 600
    ok claim --pid "$STARTED" api/0/admin
    run_role web/0
    sql "UPDATE claims SET env='' WHERE name='project/web/0/-/http'"
    manifest "${web/API/BACK}"
    calm
}

@test "variables that are too long to be recorded are not spoken of, and that is no error" {
    local refs=() i
    for ((i = 0; i < 60; i++)); do refs+=("{env: A_RATHER_LONG_NAME_$i, from: api.http}"); done
    local many
    many="ports: [{name: http, env: PORT}], references: [$(IFS=,; echo "${refs[*]}")]"
    manifest "$many"
    ok up
    run_role web/0
    manifest "${many/A_RATHER_LONG_NAME_0,/OTHER,}"
    calm
}

@test "run --all reports the same for its parts, and distinguishes a component's pods" {
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
        says "a/0/w$i: pid $(cat "up.$((${#i} > 0))") (sleep) has to be restarted: \$X is $q (it has $p)"
    done
}
