#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# A manifest that is edited: `dibs plan` tells exactly what `dibs up` then does, and a refused `up` changes nothing.
# Ports of this file: 15000-15199.
load ../support/dibs
load cli

setup() {
    dibs_setup
    export DIBS_RANGE=15000-15099
    manifest <<'END'
roles:
  api: { ports: [ { name: http, env: PORT }, { name: admin, env: ADMIN_PORT, port: 15150 } ] }
  web:
    instances: 2
    ports:
      - { name: http, env: PORT }
      - { name: gossip, env: GOSSIP_PORT, scope: RoleScoped, proto: udp }
      - { name: debug, env: DEBUG_PORT, prefer: 15160 }
      - { name: data, env: DATA_PORT, count: 3, contiguous: true }
    references: [ { env: API_PORT, from: api.http } ]
END
    agree 'keep 0, add 13, move 0, drop 0'
}
teardown() { dibs_teardown; }

manifest() { cat >dibs.yaml; }

# edit SED-SCRIPT: must change something.
edit() {
    cp dibs.yaml "$T/edited"
    sed -i "$1" dibs.yaml
    not cmp -s dibs.yaml "$T/edited"
}

everything() { # from where no manifest is
    (cd "$T" && dibs ls --all --json && dibs log --json)
}

# agree COUNTS: plan reserves nothing, up does what it said in every detail, and a second up has nothing to do.
# Only what is not there yet has no id, token and time.
agree() {
    everything >"$T/before"
    ok plan --json
    cp "$T/out" "$T/planned"
    everything | cmp - "$T/before"
    ok up --json
    "$PYTHON" -SE - "$T/planned" "$T/out" "$1" <<'END'
import json, sys
planned, done = (json.load(open(path)) for path in sys.argv[1:3])
for change in planned + done:
    for key in ["token"] + ["id", "created", "created_ms", "changed_ms"] * (change["change"] in ("add", "move")):
        change.pop(key, None)
for p, d in zip(planned, done):
    assert p == d, f"planned {p}\ndone    {d}"
assert len(planned) == len(done), f"{len(planned)} planned, {len(done)} done"
kinds = [change["change"] for change in done]
counts = ", ".join(f"{kind} {kinds.count(kind)}" for kind in ("keep", "add", "move", "drop"))
assert counts == sys.argv[3], counts
END
    ok plan --json
    json 'all(c["change"] == "keep" and not c["needs_restart"] for c in d)'
    ok ls --json
    cp "$T/out" "$T/listed"
    ok plan --json
    json "sorted((c['id'], c['port']) for c in d) == sorted((c['id'], c['port']) for c in json.load(open('$T/listed')))"
}

# refuses CODE: plan and up alike, and nothing is different afterwards.
refuses() {
    everything >"$T/before"
    refused "$1" plan
    plan_says=$errs
    refused "$1" up
    [ "$errs" = "$plan_says" ] || complain "plan said '$plan_says'"
    everything | cmp - "$T/before"
}

ports() { # ports NAME...: of what is held
    local name
    for name; do sql "SELECT port FROM claims WHERE name = 'project/$name'"; done
}

@test "scaled up, down, to zero and up again: instances that stay keep their ports, instances that return get theirs" {
    first=$(ports web/0/-/http web/1/-/http)
    edit 's/instances: 2/instances: 5/'
    agree 'keep 13, add 15, move 0, drop 0'
    edit 's/instances: 5/instances: 1/'
    agree 'keep 8, add 0, move 0, drop 20'
    edit 's/instances: 1/instances: 0/'
    agree 'keep 3, add 0, move 0, drop 5' # the role's shared port stays
    edit 's/instances: 0/instances: 2/'
    agree 'keep 3, add 10, move 0, drop 0'
    [ "$(ports web/0/-/http web/1/-/http)" = "$first" ]
}

@test "a port that is added, removed or renamed changes nothing else" {
    edit 's/- { name: http, env: PORT }/&\n      - { name: metrics, env: METRICS_PORT }/'
    agree 'keep 13, add 2, move 0, drop 0'
    edit '/metrics/d'
    agree 'keep 13, add 0, move 0, drop 2'
    edit 's/name: debug/name: inspect/'
    agree 'keep 11, add 2, move 0, drop 2'
    [ "$(ports web/0/-/inspect)" = 15160 ] # what the old name leaves, the new one may have
}

@test "a scope that is changed and changed back" {
    edit 's/, scope: RoleScoped//'
    agree 'keep 12, add 2, move 0, drop 1'
    edit 's/env: GOSSIP_PORT/&, scope: RoleScoped/'
    agree 'keep 12, add 1, move 0, drop 2'
}

@test "a required port moves; one that becomes free or preferred stays" {
    edit 's/15150/15151/'
    agree 'keep 12, add 0, move 1, drop 0'
    [ "$(ports api/0/-/admin)" = 15151 ]
    edit 's/port: 15151/prefer: 15152/'
    agree 'keep 13, add 0, move 0, drop 0'
    edit 's/, prefer: 15152//'
    agree 'keep 13, add 0, move 0, drop 0'
    edit 's/prefer: 15160/prefer: 15161/'
    agree 'keep 13, add 0, move 0, drop 0'
    [ "$(ports api/0/-/admin web/0/-/debug)" = $'15151\n15160' ]
}

@test "two roles that exchange their required ports do so in one step" {
    edit 's/{ name: http, env: PORT }, /{ name: http, env: PORT, port: 15155 }, /'
    agree 'keep 12, add 0, move 1, drop 0'
    edit 's/15155/15999/; s/15150/15155/; s/15999/15150/'
    agree 'keep 11, add 0, move 2, drop 0'
    [ "$(ports api/0/-/http api/0/-/admin)" = $'15150\n15155' ]
}

@test "a required port that a foreign process listens on is refused, and nothing changes" {
    listen 15152
    edit 's/15150/15152/; s/instances: 2/instances: 9/; s/name: debug/name: inspect/'
    refuses 3
    says 15152
    says "$STARTED"
}

@test "a required port that another project has is refused, and nothing changes" {
    ok claim /other/x --port 15153 --keep
    edit 's/15150/15153/; s/instances: 2/instances: 0/'
    refuses 3
    says /other/x || says other/x
}

@test "more ports than there are is exit 4, and nothing changes" {
    edit 's/instances: 2/instances: 90/'
    refuses 4
}

@test "a role that is renamed takes its required port along" {
    edit 's/^  api:/  backend:/; s/from: api/from: backend/'
    agree 'keep 11, add 2, move 0, drop 2'
    [ "$(ports backend/0/-/admin)" = 15150 ]
}

@test "a reference to what is no longer there is refused with its place and the nearest name" {
    edit 's/name: http, env: PORT }, {/name: https, env: PORT }, {/'
    refuses 2
    says "dibs.yaml:10:42: "
    says "http'" # what was asked for
    says "https'"
    edit 's/from: api.http /from: apis.https /'
    refuses 2
    says "'apis'"
    says "'api'"
}

@test "a block that grows or shrinks is side by side again, its neighbours stay" {
    edit 's/count: 3/count: 5/'
    agree 'keep 7, add 4, move 6, drop 0'
    block_is_whole 5
    edit 's/count: 5/count: 2/'
    agree 'keep 11, add 0, move 0, drop 6'
    block_is_whole 2
    edit 's/count: 2, contiguous: true/count: 4/'
    agree 'keep 11, add 4, move 0, drop 0'
}

block_is_whole() {
    sql "SELECT count(*), max(port) - min(port) FROM claims WHERE name LIKE 'project/web/0/-/data%'" >"$T/block"
    [ "$(cat "$T/block")" = "$1|$(($1 - 1))" ] || { cat "$T/block" >&2; return 1; }
}

@test "a protocol or an address that is changed moves the claim and keeps its number while that can be had" {
    before=$(ports web/-/-/gossip)
    edit 's/proto: udp/proto: tcp/'
    agree 'keep 12, add 0, move 1, drop 0'
    # A number of UDP may be another's of TCP.
    [ "$(ports web/-/-/gossip)" = "$before" ] || [ "$(sql "SELECT count(*) FROM claims WHERE port = $before")" = 1 ]
    before=$(ports web/0/-/http web/1/-/http)
    edit 's/- { name: http, env: PORT }/- { name: http, env: PORT, address: 127.0.0.1 }/'
    agree 'keep 11, add 0, move 2, drop 0'
    edit 's/127.0.0.1/"*"/'
    agree 'keep 11, add 0, move 2, drop 0'
    edit 's/proto: tcp/proto: tcp+udp/'
    agree 'keep 12, add 0, move 1, drop 0'
    [ "$(ports web/0/-/http web/1/-/http)" = "$before" ]
}

@test "a change that a running process cannot see is reported, and the process loses nothing" {
    run_role web/0
    edit 's/name: debug/name: inspect/; s/15150/15151/'
    everything >"$T/before"
    ok plan --json
    json '{(c["change"], c.get("pod")) for c in d if c["needs_restart"]} == {("add", "web/0"), ("restart", "web/0")}'
    json '{c["name"] for c in d if c["needs_restart"] and c["change"] == "add"} == {"project/web/0/-/inspect"}'
    json '[(c["name"], c["kept"]) for c in d if c["change"] == "stay"] == [("project/web/0/-/debug", False)]'
    was=$(ports web/0/-/debug)
    agree_restart
    [ "$(ports web/0/-/debug)" = "$was" ] # until it ends
    edit 's/name: inspect/name: debug/'
    ok up --json
    json '[c["change"] for c in d if c["name"] == "project/web/0/-/debug"] == ["keep"]' # the same, if it is wanted again
}

agree_restart() {
    cp "$T/out" "$T/planned"
    ok up --json
    "$PYTHON" -SE - "$T/planned" "$T/out" <<'END'
import json, sys
planned, done = ([(c["change"], c["name"], c["port"], c["needs_restart"]) for c in json.load(open(path))]
                 for path in sys.argv[1:3])
assert planned == done, f"planned {planned}\ndone    {done}"
END
}

# goes_on WARNING: what tells or ends works beside the manifest that is there, and warns; what claims by it is refused.
goes_on() {
    local command
    for command in 'release cache' ls 'who 15150' 'explain 15190' log 'reap' 'pool' 'snapshot export' 'repair --dry-run' \
        'transfer other --ttl 1h' 'renew other' 'transfer other --keep'; do
        # shellcheck disable=SC2086 # words
        try $command
        [ "$code" -eq 0 ] || complain "$command"
        says "warning: "
        says "$1"
    done
    try assert other
    [ "$code" -eq 3 ] # nobody listens
    for command in 'claim' 'get other' 'run true' 'run api' 'render -' 'up' 'down' 'plan' 'env' 'kube inject -'; do
        # shellcheck disable=SC2086 # words
        try $command </dev/null
        [ "$code" -eq "$2" ] || complain "$command"
        says "$1"
    done
    try doctor --json
    not says "$1" # twice
    json 'any(f["topic"] == "manifest" and f["severity"] == "problem" and f["advice"] for f in d)'
}

@test "a broken manifest only stops commands that claim by it" {
    ok get --create cache
    ok get --create other
    before=$(held)
    mkdir -p deep/er
    cd deep/er || return 1
    manifest_here=../../dibs.yaml
    echo 'roles: [' >$manifest_here
    goes_on dibs.yaml:2:1: 2
    [ "$(held)" -eq $((before - 1)) ] # cache, by its name, from below
    echo 'range: nonsense' >$manifest_here
    goes_on nonsense 2
    rm $manifest_here
    mkfifo $manifest_here
    goes_on 'not a regular file' 2
    rm $manifest_here
    cd ../.. || return 1
    echo 'roles: {}' | tee dibs.yaml >dibs.json
    goes_on 'both dibs.yaml and dibs.json' 2
    rm dibs.json
    ok ls
    # Not the manifest's fault.
    DIBS_RANGE=other refused 2 ls
    [ "$(held)" -eq $((before - 1)) ]
}

@test "a manifest that cannot be read is passed over, and a stranger's that cannot be is in nobody's way" {
    shared_ledger
    chmod 0755 "$T/project"
    chmod 0 dibs.yaml
    capture as_nobody "$DIBS" ls
    [ "$code" -eq 0 ] || complain ls
    says 'warning: '
    says 'Permission denied'
    capture as_nobody "$DIBS" get cache
    [ "$code" -eq 1 ]
    rm dibs.yaml
    mkfifo -m 0600 dibs.yaml
    chown 1 dibs.yaml
    capture as_nobody "$DIBS" get cache
    [ "$code" -eq 0 ] || complain get
    says 'belongs to daemon (uid 1)'
    echo '{}' >dibs.json
    capture as_nobody "$DIBS" get cache
    [ "$code" -eq 0 ] || complain get
    says 'belongs to daemon (uid 1)'
    capture as_nobody "$DIBS" up
    [ "$code" -eq 7 ]
}

@test "a dangling link or a folder with the manifest's name is reported, not skipped" {
    dibs -q down
    rm dibs.yaml
    ln -s "$T/nothing" dibs.yaml
    for command in up 'get cache' 'run true'; do
        # shellcheck disable=SC2086 # words
        refused 2 $command
        says "$T/project/dibs.yaml is a symbolic link to nothing"
    done
    rm dibs.yaml
    mkdir dibs.json
    refused 2 up
    says "$T/project/dibs.json is not a regular file"
    [ "$(held)" -eq 0 ]
    try ls
    [ "$code" -eq 0 ]
    says 'dibs.json is not a regular file'
}

@test "a manifest that was taken away: down is exit 5 and says how to end what it left" {
    rm dibs.yaml
    refused 5 down
    says "dibs ls"
    says "--all-mine"
    says "dibs reap --stale"
    ok release web/0/-/http web/1/-/http
    [ "$(held)" -eq 11 ]
}

@test "an empty manifest, down, and down again release everything and are no failure" {
    manifest <<<'roles: {}'
    agree 'keep 0, add 0, move 0, drop 13'
    ok down
    ok down
    [ "$(held)" -eq 0 ]
}

@test "a person's own names and another project's are left alone by up and down" {
    ok get --create cache
    ok get /other/web/0/-/http
    edit 's/instances: 2/instances: 1/'
    agree_but 2
    ok down
    [ "$(held)" -eq 2 ]
}

agree_but() { # the same, beside so many claims that are not the manifest's
    ok up
    [ "$(held)" -eq $((8 + $1)) ]
}

@test "another range in the manifest keeps the ports that are there, and counts for new ones" {
    unset DIBS_RANGE
    edit '1i range: 15170-15174' # just enough for the ports of one more instance
    agree 'keep 13, add 0, move 0, drop 0'
    edit 's/instances: 2/instances: 3/'
    ok up --json
    json 'all(c["port"] < 15100 or c["port"] in (15150, 15160) for c in d if c["change"] == "keep")'
    json 'all(15170 <= c["port"] <= 15174 for c in d if c["change"] == "add")'
    json 'sum(c["change"] == "add" for c in d) == 5'
}
