#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# dibs snapshot. Ports of this file: 13500-13599.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

new_ledger() { # the following commands use an empty ledger
    export DIBS_LEDGER=sqlite:$T/other-$1.db
    if is_served; then dibs_serve; fi
}

without_times() { # the claims of the last try, comparable
    value 'sorted((c["port"], c["kind"], c["kept"], c["name"], str(c["pool"]), str(c["bindings"]), str(c["project"])) for c in d)'
}

@test "a full snapshot brings back claims, names, pools and holders" {
    start_sleeper
    ok pool set tests --ranges 13500-13509 --order lowest --cooldown 1s
    ok claim web --port 13510 --proto tcp+udp --address localhost --keep
    ok claim held --pid "$STARTED" --pool tests
    ok claim leased --ttl 1h
    ok claim declared --declare 13511
    ok ls --json
    before=$(without_times)
    ok snapshot export "$T/all.json"
    [ -z "$out" ]
    [ "$(stat -c %a "$T/all.json")" = 600 ]
    new_ledger 1
    ok snapshot import "$T/all.json" --json
    json 'd == {"imported": 4}'
    ok ls --json
    [ "$(without_times)" = "$before" ]
    json "any(c['holder'] and c['holder'].get('pid') == $STARTED and c['life'] == 'alive' for c in d)"
    ok pool show tests --json
    json 'd["ranges"] == "13500-13509" and d["cooldown_ms"] == 1000'
    refused 3 claim held
    refused 3 claim other --port 13510 --address 127.0.0.1
    ok get web
    [ "$out" = 13510 ]
}

@test "a snapshot brings back the claim that a repair made for a multicast socket" {
    listen 13540 udp 224.0.0.251
    ok pool set cast --ranges 13540
    ok repair --pool cast
    ok snapshot export "$T/all.json"
    new_ledger 1
    ok snapshot import "$T/all.json" --json
    json 'd == {"imported": 1}'
    ok ls --json
    json 'd[0]["bindings"][0]["address"] == "224.0.0.251"'
}

@test "importing twice changes nothing the second time" {
    ok get web --port 13520
    ok snapshot export "$T/all.json"
    ok snapshot import "$T/all.json" --json
    json 'd == {"imported": 0}'
    [ "$(held)" -eq 1 ]
}

@test "export goes to stdout, import comes from stdin" {
    ok get web --port 13530
    dibs snapshot export >"$T/all.json"
    "$PYTHON" -SE -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d["dibs"] == 1 and "token" not in str(d)' "$T/all.json"
    dibs snapshot export - | cmp - "$T/all.json"
    new_ledger 1
    dibs snapshot import - <"$T/all.json"
    ok get web
    [ "$out" = 13530 ]
}

@test "a dead holder does not come back to life" {
    start_sleeper
    ok claim held --pid "$STARTED" --port 13540
    ok snapshot export "$T/all.json"
    end_process "$STARTED"
    new_ledger 1
    ok snapshot import "$T/all.json"
    ok claim other --port 13540
}

@test "holders of another boot are dropped, kept claims come back" {
    ok claim leased --port 13545
    ok get kept --port 13546
    ok snapshot export "$T/all.json"
    boot=$(cat /proc/sys/kernel/random/boot_id)
    grep -qF "$boot" "$T/all.json"
    sed -i "s/$boot/00000000-0000-4000-8000-000000000000/g" "$T/all.json"
    new_ledger 1
    ok snapshot import "$T/all.json"
    ok ls --json
    json '[c["port"] for c in d if c["life"] != "dead"] == [13546]'
}

@test "a lease that is over does not come back, and a living one keeps its end" {
    ok claim short --ttl 1h --port 13547
    ok claim long --ttl 2h --port 13548
    ok snapshot export "$T/all.json"
    ok ls --json
    end=$(value 'd[1]["holder"]["until_boot_ms"]')
    "$PYTHON" -SE -c '
import json, sys
d = json.load(open(sys.argv[1]))
d["claims"][0]["holder"]["until_boot_ms"] = 1
json.dump(d, open(sys.argv[1], "w"))' "$T/all.json"
    new_ledger 1
    ok snapshot import "$T/all.json" --json
    json 'd == {"imported": 1}'
    ok ls --all --json
    json "[(c['port'], c['holder']['until_boot_ms']) for c in d] == [(13548, $end)]"
}

@test "a claim of what is no user of a host is refused, and named" {
    ok get web --port 13549
    ok snapshot export "$T/all.json"
    sed -i 's/"principal":"[^"]*"/"principal":"somebody"/' "$T/all.json"
    grep -qF somebody "$T/all.json"
    new_ledger 1
    refused 2 snapshot import "$T/all.json"
    says 'claims[0]'
    says somebody
    nothing_claimed
}

@test "a pool that an import changes is in the log, and one that it leaves alone is not" {
    ok pool set tests --ranges 13500-13509
    ok snapshot export "$T/all.json"
    ok snapshot import "$T/all.json"
    ok log --json
    json '[(e["what"], e["name"]) for e in d] == [("pool", "tests")]'
    ok pool set tests --ranges 13500-13505
    ok snapshot import "$T/all.json"
    ok log --json
    json '[(e["what"], e["name"]) for e in d] == 3 * [("pool", "tests")]'
    ok pool show tests --json
    json 'd["ranges"] == "13500-13509"'
}

@test "an import that conflicts brings back nothing at all" {
    ok get one --port 13550
    ok get two --port 13551
    ok snapshot export "$T/all.json"
    new_ledger 1
    ok claim mine --port 13551
    refused 3 snapshot import "$T/all.json"
    says 13551
    ok ls --json
    json 'len(d) == 1 and d[0]["name"] == "project/mine"'
}

@test "the Kubernetes format has the range and minimal bytes, and comes back as kept static claims" {
    ok pool set nodes --ranges 13560-13575
    ok claim --port 13560 --pool nodes
    ok claim --port 13569 --pool nodes
    ok snapshot export --format k8s --pool nodes
    json 'd == {"kind": "RangeAllocation", "apiVersion": "v1", "range": "13560-13575", "data": "AgE="}'
    cp "$T/out" "$T/k8s.json"
    new_ledger 1
    ok pool set nodes --ranges 13560-13575
    ok snapshot import --pool nodes "$T/k8s.json" --json
    json 'd == {"imported": 2}'
    ok ls --json
    json 'sorted(c["port"] for c in d) == [13560, 13569] and all(c["kept"] and c["kind"] == "static" for c in d)'
    # A bit stands for the port of every protocol.
    json 'all(sorted(b["proto"] for b in c["bindings"]) == ["sctp", "tcp", "udp"] for c in d)'
    refused 3 claim --port 13569 --proto udp
    ok snapshot export --format k8s --pool nodes
    cmp "$T/out" "$T/k8s.json"
}

@test "Kubernetes data that is wrong is refused and nothing imported" {
    ok pool set nodes --ranges 13560-13575
    while read -r document; do
        printf '%s' "$document" >"$T/k8s.json"
        refused 2 snapshot import --pool nodes "$T/k8s.json"
    done <<'END'
{"kind":"RangeAllocation","apiVersion":"v1","range":"13560-13575","data":"AQAB"}
{"kind":"RangeAllocation","apiVersion":"v1","range":"13560-13576","data":"AQ=="}
{"kind":"RangeAllocation","apiVersion":"v1","range":"13575-13560","data":"AQ=="}
{"kind":"RangeAllocation","apiVersion":"v1","range":"13560-13575","data":"!!!!"}
{"kind":"RangeAllocation","apiVersion":"v1","range":"13560-13575","data":5}
{"kind":"RangeAllocation","apiVersion":"v2","range":"13560-13575","data":"AQ=="}
{"kind":"RangeAllocation","apiVersion":"v1","data":"AQ=="}
END
    ok ls --json
    json 'd == []'
}

@test "bad files are refused with one line and nothing imported" {
    while IFS= read -r document; do
        printf '%s' "$document" >"$T/bad.json"
        refused 2 snapshot import "$T/bad.json"
        says 'nothing imported' || says 'line 1'
    done <<'END'
[]
{}
null
"text"
{"dibs":2,"pools":[],"claims":[]}
{"dibs":1,"pools":[]}
{"dibs":1,"pools":{},"claims":[]}
{"dibs":1,"pools":[],"claims":[{}]}
{"dibs":1,"pools":[],"claims":[],"more":1}
{"dibs":1,"pools":[],"claims":[],"claims":[]}
{"dibs":1,"pools":[],"claims":[5]}
{"dibs":1,"pools":[{"name":"x"}],"claims":[]}
{"dibs":1,"pools":[],"claims":[]
{"dibs":1,"pools":[],"claims":[]} trailing
END
    : >"$T/bad.json"
    refused 2 snapshot import "$T/bad.json"
    printf '{"dibs":1,"pools":[],"claims":[]}\0' >"$T/bad.json"
    refused 2 snapshot import "$T/bad.json"
    head -c 100000 /dev/urandom >"$T/bad.json"
    refused 2 snapshot import "$T/bad.json"
    refused 1 snapshot import "$T/not-there.json"
    refused 1 snapshot import "$T"
    nothing_claimed
}

@test "single members that are wrong are refused" {
    ok claim web --port 13580 --ttl 1h
    ok snapshot export "$T/all.json"
    new_ledger 1
    while read -r key bad; do
        "$PYTHON" -SE -c '
import json, sys
d = json.load(open(sys.argv[1]))
d["claims"][0][sys.argv[2]] = json.loads(sys.argv[3])
json.dump(d, open(sys.argv[4], "w"))' "$T/all.json" "$key" "$bad" "$T/bad.json"
        refused 2 snapshot import "$T/bad.json"
    done <<'END'
port 0
port 65536
port -1
port 1e3
port "80"
name ""
name "a\u0000b"
name "a\u001bb"
bindings []
bindings [{"proto":"icmp","address":"*"}]
bindings [{"proto":"tcp","address":"example.org"}]
kind "other"
kept "yes"
holder {"kind":"ghost","boot_id":"x"}
holder {"kind":"process","boot_id":"x","pid":0,"start_ticks":1,"pid_namespace":1}
unknown 1
END
    nothing_claimed
}

@test "a file that cannot be written is reported, and leaves no half of it" {
    ok get web
    refused 1 snapshot export "$T/no/such/folder/file.json"
    refused 2 snapshot export --format yaml
    refused 2 snapshot export a b
    refused 2 snapshot import
    refused 2 snapshot import --format k8s "$T/x"
    refused 2 snapshot turn
    refused 2 snapshot
    mkdir "$T/target"
    try snapshot export "$T/target"
    [ "$code" -eq 1 ]
    [ -z "$(ls "$T/target")" ]
    [ -z "$(find "$T" -maxdepth 1 -name 'target.*')" ]
}

@test "export writes through what is not a file, and leaves a link a link" {
    [ "$(id -u)" -eq 0 ] || skip "needs root to make a device"
    mknod -m 666 "$T/null" c 1 3
    ok snapshot export "$T/null"
    [ -c "$T/null" ]
    echo old >"$T/real.json"
    ln -s real.json "$T/link.json"
    ok snapshot export "$T/link.json"
    [ -L "$T/link.json" ]
    python3 -c 'import json,sys; json.load(open(sys.argv[1]))["claims"]' "$T/real.json"
}
