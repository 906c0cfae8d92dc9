#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# dibs claim: counts, names, modes, holders. Required ports of this file: 12000-12499.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

ports() { # the ports of the last try, on one line
    tr '\n' ' ' <"$T/out"
}

@test "a claim prints one port of the default pool and nothing else" {
    ok claim
    [[ $out =~ ^[0-9]+$ ]]
    [ "$out" -ge 20000 ]
    [ "$out" -le 32767 ]
    [ ! -s "$T/err" ]
    [ "$(held)" -eq 1 ]
}

@test "several names get a port each, in the order asked for" {
    ok claim web api db
    [ "$(sort -u "$T/out" | wc -l)" -eq 3 ]
    mapfile -t all <"$T/out"
    ok claim db
    [ "$out" = "${all[2]}" ]
    ok claim api web
    [ "$(ports)" = "${all[1]} ${all[0]} " ]
    [ "$(held)" -eq 3 ]
}

@test "claim -n 3 web makes web/0, web/1, web/2, and the same three again" {
    ok claim -n 3 web
    first=$(ports)
    ok claim -n 3 web
    [ "$(ports)" = "$first" ]
    ok claim web/1
    [ "$out" = "$(cut -d' ' -f2 <<<"$first")" ]
    ok ls --names
    [ "$out" = "$(printf '/project/web/%s\n' 0 1 2)" ] || [ "$out" = "$(printf 'project/web/%s\n' 0 1 2)" ]
    ok release web/0 web/1 web/2
    ok claim -n 3 web
    [ "$(ports)" = "$first" ]
}

@test "claim -n1 web is web/0, and claim -n without a name is unnamed" {
    ok claim -n1 web --json
    json 'd[0]["name"].endswith("/web/0")'
    ok claim --count=2 --json
    json 'len(d) == 2 and all(c["name"] is None for c in d) and d[0]["port"] != d[1]["port"]'
}

@test "contiguous ports follow each other and are the same next time" {
    ok claim -n 5 run --contiguous --range 12000-12099
    first=$(ports)
    read -r -a all <<<"$first"
    for i in 1 2 3 4; do [ "${all[$i]}" -eq $((all[0] + i)) ]; done
    ok claim -n 5 run --contiguous --range 12000-12099
    [ "$(ports)" = "$first" ]
}

@test "an aligned run starts at a multiple" {
    ok claim -n 4 --contiguous --align 16 --range 12001-12040
    [ $(($(head -1 "$T/out") % 16)) -eq 0 ]
    ok claim -n 4 --contiguous --align 16 --range 12001-12040
    [ $(($(head -1 "$T/out") % 16)) -eq 0 ]
    refused 4 claim -n 4 --contiguous --align 16 --range 12001-12040 # 12016 and 12032 were all
    [ "$(held)" -eq 8 ]
}

@test "a run of one is aligned, too" {
    for number in 1 2 3; do
        ok claim -n 1 --contiguous --align 16 --range 12001-12048
        [ $((out % 16)) -eq 0 ]
    done
    refused 4 claim -n 1 --contiguous --align 16 --range 12001-12048 # 12016, 12032 and 12048 were all
    says "no free port that is a multiple of 16"
    for name in a b c d; do
        ok claim "$name" --contiguous --align 8
        [ $((out % 8)) -eq 0 ]
    done
}

@test "a name whose port is not aligned as requested is refused with the reason" {
    ok claim one --port 12051
    refused 3 claim one --contiguous --align 8
    says "port 12051"
    says "multiple of 8"
    ok claim run/0 --port 12053
    ok claim run/1 --port 12054
    refused 3 claim -n 2 run --contiguous --align 4
    says "multiple of 4"
    ok claim -n 2 run --contiguous
    [ "$(ports)" = "12053 12054 " ]
    [ "$(held)" -eq 3 ]
}

@test "a run longer than its range can never fit, and the answer says so" {
    refused 4 claim -n 8 --contiguous --range 12060-12063,12070-12072
    says "8 ports in a row can never fit"
    says "4"
    [ "$(held)" -eq 0 ]
}

@test "a run that does not fit claims nothing" {
    ok claim --port 12012
    refused 4 claim -n 3 --contiguous --range 12010-12014
    [ "$(held)" -eq 1 ]
}

@test "a required port is static, and is refused while another name has it" {
    ok claim one --port 12020 --json
    json 'd[0]["port"] == 12020 and d[0]["kind"] == "static" and d[0]["exclusive"]'
    refused 3 claim two --port 12020
    says /one
    says 12020
    ok claim one --port 12020
    [ "$out" = 12020 ]
    refused 3 claim one --port 12021
    says 12020
    [ "$(held)" -eq 1 ]
}

@test "a required port that a stranger listens on is refused with the stranger's pid" {
    listen 12030
    refused 3 claim --port 12030 --address 127.0.0.1
    says "$STARTED"
    ok claim --port 12030 --address 127.0.0.2
    [ "$(held)" -eq 1 ]
}

@test "a preferred port is taken when it is free, and another one when it is not" {
    ok claim a --prefer 12040
    [ "$out" = 12040 ]
    ok claim b --prefer 12040 --range 12040-12049
    [ "$out" -ge 12041 ]
    [ "$out" -le 12049 ]
    says 12040
    ok claim a --prefer 12040
    [ "$out" = 12040 ]
    refused 2 claim c --prefer 12039 --range 12040-12049
    says 12040-12049
}

# A daemon probes in its own network, not in that of who asks.
# bats test_tags=unserved
@test "a preferred port that one may not bind is like one that is taken; a required one is refused" {
    shared_ledger
    # In a network of its own, where the kernel's own rule of privileged ports holds.
    capture unshare --net setpriv --reuid=65534 --regid=65534 --clear-groups "$DIBS" claim web --prefer 80
    [ "$code" -eq 0 ] || complain "refused"
    [ "$out" -ge 1024 ]
    says "port 80 could not be had"
    capture unshare --net setpriv --reuid=65534 --regid=65534 --clear-groups "$DIBS" claim other --port 80
    [ "$code" -eq 7 ]
    says privileged
    [ "$(held)" -eq 1 ]
}

@test "declared ports are recorded, not exclusive, and avoided by dynamic choice" {
    ok claim mine --declare 12050 --json
    json 'd[0]["port"] == 12050 and d[0]["exclusive"] is False and d[0]["kind"] == "static"'
    ok claim other --declare 12050
    [ "$out" = 12050 ]
    ok claim --range 12050-12051
    [ "$out" = 12051 ]
    listen 12052
    ok claim busy --declare 12052
}

@test "one number for tcp and udp at once" {
    listen 12060 udp
    refused 4 claim --proto tcp+udp --range 12060 --address 127.0.0.1
    ok claim --proto tcp --range 12060 --address 127.0.0.1
    ok claim both --proto udp,tcp --range 12060-12061 --json
    json 'd[0]["port"] == 12061 and sorted(b["proto"] for b in d[0]["bindings"]) == ["tcp", "udp"]'
    refused 3 claim --proto udp --port 12061
    refused 3 claim --proto tcp --port 12061
}

@test "tcp and udp of one number are two claims when asked for apart" {
    ok claim t --port 12070 --proto tcp
    ok claim u --port 12070 --proto udp
    [ "$(held)" -eq 2 ]
}

@test "a process holds its claim until it ends" {
    start_sleeper
    ok claim srv --pid "$STARTED" --port 12080 --json
    json "d[0]['holder']['kind'] == 'process' and d[0]['holder']['pid'] == $STARTED and not d[0]['kept']"
    refused 3 claim other --port 12080
    says "$STARTED"
    says sleep
    end_process "$STARTED"
    ok claim other --port 12080
    ok log --port 12080 --json
    json '[e["what"] for e in d] == ["claimed", "reaped", "claimed"]'
}

@test "a name that a living process holds is not given to another holder" {
    start_sleeper
    ok claim srv --pid "$STARTED" --json
    port=$(value 'd[0]["port"]') token=$(value 'd[0]["token"]')
    refused 3 claim srv
    says "$STARTED"
    ok claim srv --pid "$STARTED"
    [ "$out" = "$port" ]
    end_process "$STARTED"
    start_sleeper
    ok claim srv --pid "$STARTED" --json
    json "d[0]['port'] == $port and d[0]['holder']['pid'] == $STARTED"
    ok release --token "$token" # is another generation's
    [ "$(held)" -eq 1 ]
}

@test "a lease lasts as long as --ttl says, 10 minutes by default" {
    for ttl in 3651d 0s; do
        refused 2 claim --ttl $ttl
    done
    refused 2 claim --ttl 99999d
    says 'at most 3650d'
    ok claim --ttl 3650d
    ok claim --json
    json 'd[0]["holder"]["kind"] == "lease" and d[0]["holder"]["ttl_ms"] == 600000 and not d[0]["kept"]'
    ok claim --ttl 90s --json
    json 'd[0]["holder"]["ttl_ms"] == 90000'
    DIBS_TTL=7m ok claim --json
    json 'd[0]["holder"]["ttl_ms"] == 420000'
    ok claim short --ttl 50ms --port 12090
    lease_ends 12090
    ok claim next --port 12090
}

@test "a kept claim has no holder and stays" {
    ok claim stay --keep --json
    json 'd[0]["holder"] is None and d[0]["kept"]'
    ok reap
    ok claim stay
    [ "$(held)" -eq 1 ]
}

@test "a dry run reserves nothing and names a port that can then be had" {
    for options in '' '-n 3' '-n 3 --contiguous' '--proto tcp+udp' '--keep' '--port 12100' '--prefer 12101' \
        '--range 12102-12103' '--declare 12104'; do
        # shellcheck disable=SC2086 # several words
        ok claim $options --dry-run
        says 'dry run'
        planned=$(ports)
        nothing_claimed
        for port in $planned; do dibs claim --dry-run -q --port "$port" >/dev/null; done
    done
    ok claim web --dry-run
    ok claim taken --port "$out"
}

@test "a dry run reports refusals like a real one" {
    ok claim --port 12110
    refused 3 claim --dry-run --port 12110
    refused 4 claim --dry-run --range 12110
    listen 12111
    refused 3 claim --dry-run --port 12111
    [ "$(held)" -eq 1 ]
}

@test "a second claim with the same key gets the same claims, and another request is refused" {
    ok claim -n 2 --key build-4711 --json
    cp "$T/out" "$T/first"
    ok claim -n 2 --key build-4711 --json
    cmp "$T/out" "$T/first"
    refused 2 claim -n 3 --key build-4711
    refused 2 claim --key ''
    refused 2 claim --key "$(printf '%0129d' 0)"
    refused 2 claim --key k --hosts a
    [ "$(held)" -eq 2 ]
    # The claims have ended: the same key makes no others.
    ok release --all-mine
    refused 5 claim -n 2 --key build-4711
}

@test "a batch is all or nothing" {
    ok claim -n 2 --range 12120-12121
    refused 4 claim a b c --range 12120-12123
    [ "$(held)" -eq 2 ]
    ok ls --names
    [ -z "$out" ]
}

@test "an absolute name belongs to no project, a relative one to this project" {
    ok claim /infra/db --json
    json 'd[0]["name"] == "infra/db" and d[0]["project"] is None'
    ok claim db --json
    json 'd[0]["name"] == "project/db" and d[0]["project"].endswith("/project")'
    mkdir "$T/elsewhere"
    cd "$T/elsewhere"
    ok claim /infra/db --json
    json 'd[0]["was_there"]'
    ok claim db --json
    json 'not d[0]["was_there"] and d[0]["name"] == "elsewhere/db"'
    ok claim db --group project --json
    json 'd[0]["name"] == "project/db"'
}

@test "options that exclude each other are refused" {
    for options in '--port 12130 --prefer 12131' '--port 12130 --declare 12130' '--prefer 12130 --declare 12130' \
        '--range 12130-12139 --pool default' '--pid 1 --ttl 5m' '--pid 1 --keep' '--ttl 5m --keep' \
        '--contiguous --port 12130' '-n 2 --port 12130' 'a b --port 12130' 'a b -n 2' '--align 4' 'a a' \
        '-q -q' '--port 12130 --port 12131'; do
        # shellcheck disable=SC2086 # several words
        refused 2 claim $options
    done
    nothing_claimed
}

@test "the JSON of a claim has what a program needs, and its token" {
    ok claim web --json --proto tcp+udp --address localhost
    json 'set(d[0]) >= {"id", "generation", "port", "kind", "kept", "holder", "name", "pool", "bindings",
        "created", "life", "degraded", "narrowed", "token", "was_there", "uid", "principal", "project"}'
    json 'd[0]["degraded"] is False and d[0]["pool"] == "default" and len(d[0]["token"]) > 30'
    ok ls --json
    json 'len(d) == 1 and "token" not in d[0]'
}

@test "the length of a lease is shown as it was written" {
    for ttl in 60500ms 90s 10m; do
        ok claim own --port 12345 --ttl "$ttl"
        refused 3 claim --port 12345
        says "a lease of $ttl,"
        ok release own
    done
}

@test "claim --wait takes a port as soon as it is free, and gives up after its time with the holder" {
    start_sleeper
    ok claim first --port 13480 --pid "$STARTED"
    before=$SECONDS
    refused 3 claim second --port 13480 --wait 400ms
    within 2 "$before"
    says 'waited 400ms'
    says "pid $STARTED (sleep)"
    (sleep 0.5 && kill -KILL "$STARTED") &
    ok claim second --port 13480 --wait 30s
    [ "$out" = 13480 ]
    within 5 "$before"
    listen 13481 # a socket without a claim
    refused 3 claim third --port 13481 --wait 100ms
    (sleep 0.3 && kill -KILL "$STARTED") &
    ok claim third --port 13481 --wait 30s
    ok claim --range 13482-13482
    refused 4 claim --range 13482-13482 --wait 100ms
    # What waiting cannot change is refused at once.
    ok get kept --port 13483
    before=$SECONDS
    refused 3 claim kept --port 13484 --wait 1h
    refused 2 claim --wait 1
    refused 2 claim --wait 25h
    refused 2 claim --wait 1s --dry-run
    within 2 "$before"
}

@test "--confirm: what nobody takes over is released again, and what was there before stays" {
    dibs get kept >/dev/null
    for words in "claim new" "claim -n 2 --keep" "get new" "claim new kept --ttl 1h"; do
        # shellcheck disable=SC2086 # words
        run dibs $words --confirm </dev/null
        assert_status 141
        [[ ${lines[0]} =~ ^[0-9]+$ ]]
        run dibs ls --json
        [ "$(grep -o '"name":' <<<"$output" | wc -l)" -eq 1 ]
        assert_output_has '/kept"'
    done
    port=$(echo | dibs claim new --confirm)
    [ "$(dibs get --existing new)" = "$port" ]
}
