#!/usr/bin/env bats
# The dashboard for Grafana and the alert rules for Prometheus (contrib): by themselves, and with a real Prometheus that
# reads real daemons, which are brought into the states that the alerts are for.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell; variables come from what is loaded below
load ../support/dibs
load ../support/etcd
load ../support/serve

setup() {
    dibs_setup
    needs curl python3 promtool prometheus
    TOP=$BATS_TEST_DIRNAME/../..
    RULES=$TOP/contrib/prometheus/dibs.rules.yml
    BOARD=$TOP/contrib/grafana/dibs.json
}
teardown() { dibs_teardown; }

monitoring() { "$DIBS_TEST_SUPPORT/monitoring.py" "$@"; }

# prometheus_start ADDRESS...: it reads these daemons every half second, with the rules; $PROMETHEUS is its address.
prometheus_start() {
    local targets target
    printf -v targets '"%s", ' "$@"
    PROMETHEUS=127.0.0.1:$("$DIBS_TEST_SUPPORT/free_port.py")
    cat >"$T/prometheus.yml" <<END
global: { scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 1s }
rule_files: [ "$(realpath "$RULES")" ]
scrape_configs: [ { job_name: dibs, static_configs: [ { targets: [ ${targets%, } ] } ] } ]
END
    start prometheus --config.file="$T/prometheus.yml" --storage.tsdb.path="$T/tsdb" --web.listen-address="$PROMETHEUS" \
        2>"$T/prometheus.log"
    for target; do wait_until 20 is_scraped "$target" || { cat "$T/prometheus.log" >&2; return 1; }; done
}
is_scraped() {
    sleep 0.2
    curl -sf "http://$PROMETHEUS/api/v1/query" --data-urlencode "query=up{instance=\"$1\"} == 1" | grep -q '"value"'
}

# soon COMMAND...: within the time, and without a load of its own.
soon() {
    wait_until 20 soon_again "$@" || { "$@"; return 1; }
}
soon_again() { "$@" || { sleep 0.4; return 1; }; }

# holds NAME ADDRESS: the condition of that alert comes to hold for that daemon.
holds() { soon monitoring alert "$PROMETHEUS" "$1" "$2"; }

# traffic: a bit of everything, until the test ends.
traffic() {
    while sleep 0.3; do
        ask --json '{"name":"traffic","bindings":[{"address":"127.0.0.1"}],"holder":{"kind":"lease","ttl":"1m"}}' /v1/claims
        ask -X DELETE '/v1/claims/-?name=traffic'
        ask --json '{"pool":"leaky","keep":true,"holder":null}' /v1/claims
        on b claim --pool shared --address 127.0.0.1 --ttl 1m -q
        on b release --all-mine -q
    done >/dev/null 2>&1 3>&-
}

# leave_orphans: 21 claims of a process that ends, while its child keeps their sockets.
leave_orphans() {
    python3 -c 'import json, os, socket, subprocess, sys, time
claim = [os.environ["DIBS"], "claim", "-n", "21", "--address", "127.0.0.1", "--pid", str(os.getpid()), "--json"]
sockets = [socket.create_server(("127.0.0.1", c["port"])) for c in json.loads(subprocess.check_output(claim))]
child = os.fork()
if child:
    print(child)
else:
    os.closerange(0, 3)
    time.sleep(120)' >>"$T/started" 3>&-
}

@test "the alert rules are valid; each fires when it must, and not otherwise" {
    run promtool check rules "$RULES"
    assert_status 0
    run promtool test rules "$DIBS_TEST_SUPPORT/dibs.rules.test.yml"
    assert_status 0
    # shellcheck disable=SC2016 # these are the page's own backticks
    diff <(sed -n 's/.*alert: //p' "$RULES" | sort) <(sed -n 's/^ *name: //p' "$DIBS_TEST_SUPPORT/dibs.rules.test.yml" | sort)
}

@test "the page about monitoring names each alert, and its configuration is valid" {
    local page=$TOP/docs/OPERATING.md
    awk '/^```/ { on = ($0 == "```yaml prometheus.yml"); next } on' "$page" >"$T/prometheus.yml"
    cp "$RULES" "$T/dibs.rules.yml"
    run promtool check config "$T/prometheus.yml"
    assert_status 0
    assert_output_has "1 rule files found"
    # shellcheck disable=SC2016 # these are the page's own backticks
    diff <(sed -n 's/.*alert: //p' "$RULES" | sort) <(grep -oE '`Dibs[A-Za-z]+`' "$page" | tr -d '`' | sort)
}

@test "each panel of the dashboard has a title, a unit, a description and a data source that can be chosen" {
    monitoring board "$BOARD"
}

@test "Prometheus has data for every query of the dashboard, and the alerts notice what happens to a daemon" {
    etcd_start 1
    local a b
    a=127.0.0.1:$("$DIBS_TEST_SUPPORT/free_port.py")
    b=127.0.0.1:$("$DIBS_TEST_SUPPORT/free_port.py")
    # Before the daemon starts: a guard whose port a program has.
    dibs pool set tiny --ranges 31100-31119
    dibs pool set leaky --ranges 31120-31199
    serve_start
    ask --json '{"keep":true,"holder":null,"hold":"guard","mode":"required","port":31200,"bindings":[{"address":"127.0.0.1"}]}' /v1/claims
    assert_code 201
    serve_stop
    listen 31200 tcp 127.0.0.1
    DIBS_TIMEOUT=1s serve_start --metrics "$a"
    DIBS_TIMEOUT=1s DIBS_LEDGER=$ETCD_URL node b --node-ttl 3s --metrics "$b"
    on b pool set shared --ranges 31000-31099 --scope cluster
    prometheus_start "$a" "$b"
    traffic &
    echo $! >>"$T/started"
    holds DibsGuardsWait "$a"

    # Holders that die, one of them with sockets that a child has inherited; a repair.
    start_sleeper
    ask --json "{\"name\":\"dies\",\"holder\":{\"kind\":\"process\",\"pid\":$STARTED}}" /v1/claims
    assert_code 201
    end_process "$STARTED"
    leave_orphans
    ask --json '{"observed":[{"port":20500,"name":"old"}]}' /v1/repair
    assert_code 200

    # Pools with few ports, and with none.
    ask --json "{\"requests\":[$(printf '{"pool":"tiny","keep":true,"holder":null},%.0s' {1..18}){\"pool\":\"tiny\",\"keep\":true,\"holder\":null}]}" /v1/batch
    assert_code 200
    holds DibsPoolAlmostExhausted "$a"
    ask --json '{"pool":"tiny","keep":true,"holder":null}' /v1/claims
    assert_code 201
    ask --json '{"pool":"tiny"}' /v1/claims
    assert_code 507
    holds DibsPoolExhausted "$a"
    holds DibsClaimsRefused "$a"
    holds DibsPoolExhaustedSoon "$a"
    holds DibsClaimsLinger "$a"
    soon monitoring data "$BOARD" "$PROMETHEUS"
    monitoring healthy "$RULES" "$PROMETHEUS"

    # A ledger that another process has locked.
    start python3 -c 'import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1])
db.execute("BEGIN IMMEDIATE")
open(sys.argv[2], "w").close()
time.sleep(60)' "$T/ledger.db" "$T/locked"
    wait_until 10 test -e "$T/locked"
    ask --json '{}' /v1/claims
    assert_code 503
    holds DibsNotReady "$a"
    holds DibsDegraded "$a"
    holds DibsCommitsSlow "$a"
    end_process "$STARTED"

    # etcd does not answer for longer than the host's lease lives.
    kill -STOP "${ETCD_PIDS[0]}"
    holds DibsLeaseExpired "$b"
    holds DibsCommitsFail "$b"
    kill -CONT "${ETCD_PIDS[0]}"
    holds DibsLeaseLost "$b"

    serve_stop KILL
    holds DibsDown "$a"
    monitoring healthy "$RULES" "$PROMETHEUS"
}
