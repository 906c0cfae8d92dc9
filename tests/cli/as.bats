#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# What the commands say about claims that have another number inside (dibs run --as). tests/e2e/as.bats has how it works.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "ls has a column for the number inside when a claim has one, and who finds the claims by it" {
    ok claim plain
    ok ls
    not grep -q 'AS' "$T/out"
    capture dibs -q run --as api=3000 -- sh -c '"$DIBS" ls; "$DIBS" get api; "$DIBS" who 3000; "$DIBS" who api'
    [ "$code" -eq 0 ] || complain "failed"
    port=$(sed -n 's/^\([0-9]*\)  *3000  *tcp .*project.*api.*/\1/p' "$T/out")
    [ "$port" -ge 20000 ]
    grep -qx "$port" "$T/out" # get
    grep -q "^inside  $port is used as 3000 by project.*/api  pid [0-9]* (sh), alive" "$T/out"
    grep -q "^claim .*:$port .*, used as 3000, " "$T/out"
    refused 5 who 3000
}

@test "the number inside is in the JSON of a claim, and in a listing of who uses it" {
    capture dibs -q run --as 3000 -- sh -c '"$DIBS" ls --json >"$T/ls"; "$DIBS" who 3000 --json'
    [ "$code" -eq 0 ] || complain "failed"
    json 'd["port"] == 3000 and d["claims"] == [] and [c["as"] for c in d["used_as"]] == [3000]'
    mv "$T/ls" "$T/out"
    json 'len(d) == 1 and d[0]["as"] == 3000 and d[0]["port"] != 3000'
    ok claim plain --json
    json '"as" not in d[0]'
}

@test "a name keeps its port with and without a number inside, and the number is that of the last run" {
    ok run --keep --as web=3000 -- sh -c 'echo "$DIBS_OUTSIDE_PORT_3000"'
    port=$out
    ok ls --json
    json "d[0]['port'] == $port and d[0]['as'] == 3000"
    ok run --as web=4000 -- sh -c 'echo "$DIBS_OUTSIDE_PORT_4000"'
    [ "$out" = "$port" ]
    ok ls --json
    json 'd[0]["as"] == 4000'
    ok run -p web -- sh -c 'echo "$WEB_PORT ${DIBS_OUTSIDE_PORT_4000:-}"'
    [ "$out" = "$port " ]
    ok ls --json
    json '"as" not in d[0]'
}

@test "env names the ports outside, and gives programs outside the claimed numbers" {
    printf 'group: shop\nroles:\n  db: { ports: [ { name: sql, as: 5432 } ] }\n  web: { ports: [ { name: http, as: 3000 } ], references: [ { env: DB, from: db.sql } ] }\n' >dibs.yaml
    ok env web --json
    json 'set(d) == {"HTTP_PORT", "DB", "DIBS_OUTSIDE_PORT_3000", "DIBS_OUTSIDE_PORT_5432"}'
    json 'd["HTTP_PORT"] == d["DIBS_OUTSIDE_PORT_3000"] != "3000" and d["DB"] == d["DIBS_OUTSIDE_PORT_5432"]'
    ok env --json
    json 'd["SQL_PORT"] == d["DIBS_OUTSIDE_PORT_5432"] and d["HTTP_PORT"] == d["DIBS_OUTSIDE_PORT_3000"]'
    ok ls --json
    json 'sorted(c["as"] for c in d) == [3000, 5432]'
    ok run web -- sh -c 'echo "$PORT $HTTP_PORT $DB"'
    [ "$out" = "3000 3000 5432" ]
}
