#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# Commands that change nothing: ls, who, explain, assert, log. Ports of this file: 13200-13399.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

# is_not_alive PORT: its claim is a dead holder's, or has ended already.
is_not_alive() {
    ok ls && not grep -q "^$1 .* alive " "$T/out"
}

@test "ls shows a row for each claim with its state" {
    start_sleeper
    ok claim a --port 13200
    ok claim b --port 13201 --pid "$STARTED"
    ok get c --port 13202
    ok claim d --declare 13203
    ok ls
    [ "$(wc -l <"$T/out")" -eq 5 ]
    grep -q '^13200 .*project/a .*lease.* alive ' "$T/out"
    grep -q "^13201 .*project/b .*$STARTED.* alive " "$T/out"
    grep -q '^13202 .*project/c .* kept ' "$T/out"
    grep -q '^13203 .*project/d ' "$T/out"
    end_process "$STARTED"
    wait_until 10 is_not_alive 13201
}

@test "ls --json is a list of claims with everything but tokens" {
    ok ls --json
    json 'd == []'
    ok claim a --port 13210 --proto tcp+udp
    ok get b
    ok ls --json
    json 'len(d) == 2 and d[0]["port"] == 13210 and len(d[0]["bindings"]) == 2 and d[0]["life"] == "alive"'
    json 'all("token" not in c for c in d)'
    not grep -q secret "$T/out"
}

@test "ls takes a port, a prefix of a name, a pool and a protocol" {
    ok pool set other --ranges 13220-13229
    ok claim web/a web/b webs
    ok claim u --port 13230 --proto udp
    ok claim o --pool other
    ok ls web --json
    json 'len(d) == 2'
    ok ls /project --json
    json 'len(d) == 5'
    ok ls 13230 --json
    json 'len(d) == 1 and d[0]["name"] == "project/u"'
    ok ls --port 13230 --names
    prints project/u
    ok ls --proto udp --json
    json 'len(d) == 1'
    ok ls --pool other --json
    json 'len(d) == 1 and d[0]["name"] == "project/o"'
    ok ls nothing --json
    json 'd == []'
    ok ls --pool nowhere --json
    json 'd == []'
}

@test "ls --audit shows the real listener, also without a claim" {
    listen 13240
    server=$STARTED
    listen 13241
    stranger=$STARTED
    ok pool set audit --ranges 13240-13249
    ok claim mine --pid "$server" --declare 13240 --pool audit
    ok ls --audit --pool audit --json
    json '[c["port"] for c in d["claims"]] == [13240] and [s["port"] for s in d["unclaimed"]] == [13241]'
    json "'$stranger' in d['unclaimed'][0]['text'] and '$server' in str(d['claims'])"
    ok ls --audit --pool audit
    grep -q "^13241 .*unclaimed.*$stranger" "$T/out"
    [ "$(held)" -eq 1 ]
}

@test "names with blanks or escapes never reach the terminal raw" {
    refused 2 claim "$(printf 'a\033[31mb')"
    refused 2 claim 'a b'
    nothing_claimed
}

@test "who shows the claim and the socket's owner" {
    listen 13250
    ok claim web --declare 13250 --pid "$STARTED"
    ok who 13250
    [ "$(grep -c "^[cs]" "$T/out")" -eq 2 ] # and a line with what else is known of the process
    prints project/web
    prints "$STARTED"
    ok who 13250 --json
    json "d['port'] == 13250 and len(d['claims']) == 1 and d['sockets'][0]['pid'] == $STARTED"
    json 'd["sockets"][0]["relation"] == "holder" and "token" not in d["claims"][0]'
}

@test "who shows the command line and the directory, and that a child of the holder listens" {
    start bash -c 'python3 "$1" 13360 tcp 127.0.0.1 "$T/ready" & echo $! >>"$T/started"; wait' - "$DIBS_TEST_SUPPORT/listen.py"
    holder=$STARTED
    wait_until 10 test -e "$T/ready"
    ok claim web --pid "$holder" --declare 13360
    ok who 13360
    prints ": descendant"
    grep -q "^        .*in $T/project: .*python3 .*listen.py 13360 tcp 127.0.0.1 $T/ready" "$T/out"
    ok who 13360 --json
    json 'd["sockets"][0]["relation"] == "descendant" and d["sockets"][0]["below"] and d["sockets"][0]["holders"]'
    json 'd["sockets"][0]["directory"] == "'"$T"'/project" and "listen.py 13360" in d["sockets"][0]["arguments"]'
    json 'd["sockets"][0]["user"].endswith("(uid '"$(id -u)"')") or d["sockets"][0]["user"] == "uid '"$(id -u)"'"'
}

@test "who leaves the pool out where there is none" {
    ok claim outside --port 13255
    ok who 13255
    prints "project/outside"
    case $out in *", pool"*) false ;; esac
    ok claim inside --range 13256
    ok who 13256
    prints "pool 13256"
}

@test "who reports a foreign socket, an unclaimed one, and none at all" {
    listen 13260 udp
    ok who 13260
    prints unclaimed
    prints udp
    refused 5 who 13260 --proto tcp
    refused 5 who 13261
    start_sleeper
    ok claim web --declare 13260 --proto udp --pid "$STARTED"
    ok who 13260 --json
    json 'd["sockets"][0]["relation"] not in ("holder", "unclaimed")'
}

@test "explain says why a port cannot be had, and exits with 0" {
    ok explain 13270
    prints 'can be claimed'
    ok claim web --port 13270
    ok explain 13270
    prints 'cannot be claimed'
    prints project/web
    ok explain 13270 --json
    json 'd["can_claim"] is False and d["reasons"][0]["kind"] == "claimed" and d["reasons"][0]["advice"]'
    ok explain 13270 --proto udp --json
    json 'd["can_claim"]'
    listen 13271
    ok explain 13271 --address 127.0.0.1 --json
    json "not d['can_claim'] and d['reasons'][0]['kind'] == 'foreign' and '$STARTED' in str(d['reasons'])"
    ok explain 13271 --address 127.0.0.2 --json
    json 'd["can_claim"]'
}

@test "explain says that this host does not have an address, as claim does" {
    for address in 192.0.2.1 fe80::1; do
        ok explain 13279 --address "$address" --json
        json 'not d["can_claim"] and not d["can_choose"] and d["reasons"][0]["kind"] == "unusable"'
    done
    refused 1 claim --port 13279 --address 192.0.2.1
    refused 2 claim --port 13279 --address fe80::1
}

@test "a socket that does not listen is in the way, for who and explain as for claim" {
    for how in bound connected; do
        local port=$((13272 + ${#how}))
        listen "$port" "$how"
        refused 3 claim --port "$port" --address 127.0.0.1
        ok explain "$port" --address 127.0.0.1 --json
        json 'not d["can_claim"] and d["reasons"][0]["kind"] == "foreign"'
        [ "$how" = bound ] && ! kernel_shows_bound_sockets && continue
        json "'pid $STARTED ' in d['reasons'][0]['text'] and 'does not listen' in d['reasons'][0]['text']"
        refused 3 claim --port "$port" --address 127.0.0.1
        grep -q "pid $STARTED " "$T/err"
        ok who "$port" --json
        json "d['sockets'][0]['pid'] == $STARTED and not d['sockets'][0]['serves']"
        ok explain "$port" --address 127.0.0.2 # another address is free for both
        prints 'can be claimed'
    done
}

@test "neither a claim of another address nor a dead one hides a socket that does not listen" {
    for how in bound connected; do
        local port=$((13281 + ${#how}))
        listen "$port" "$how" 127.0.0.2
        ok claim "beside-$how" --port "$port" --address 127.0.0.1 --keep
        ok explain "$port" --address 127.0.0.2 --json
        json 'not d["can_claim"] and "foreign" in [r["kind"] for r in d["reasons"]]'
        refused 3 claim --port "$port" --address 127.0.0.2
        ok explain "$port" --address 127.0.0.3 --json
        json 'd["can_claim"]'
        port=$((port + 1))
        start_sleeper
        ok claim "dead-$how" --port "$port" --pid "$STARTED"
        end_process "$STARTED"
        listen "$port" "$how" 127.0.0.2
        ok explain "$port" --json
        json 'not d["can_claim"] and "foreign" in [r["kind"] for r in d["reasons"]]'
        refused 3 claim --port "$port"
    done
}

@test "explain says when dynamic choice takes a port that has claims of other addresses" {
    ok claim a --port 13295 --address 127.0.0.1 --keep
    ok claim b --declare 13296 --address 127.0.0.1 --keep
    for port in 13295 13296; do
        ok explain "$port" --range 13295-13296 --address 127.0.0.2 --json
        json 'd["can_choose"] and "can still take it" in d["reasons"][0]["text"]'
        ok claim --range "$port" --address 127.0.0.2 --dry-run
        ok explain "$port" --range 13295-13296 --address :: --json
        json 'not d["can_choose"]'
        refused 4 claim --range "$port" --address ::
    done
    ok explain 13296 --range 13295-13296 --address 127.0.0.1 --json
    json 'd["can_claim"] and not d["can_choose"] and d["reasons"][0]["kind"] == "declared"'
    refused 4 claim --range 13296 --address 127.0.0.1
}

@test "of many claims on one port explain shows the one that stands in the way" {
    for n in {1..18}; do ok claim --port 13299 --address 127.0.1."$n" --keep; done
    ok explain 13299 --address 127.0.1.18 --json
    json 'not d["can_claim"] and d["cut"]'
    refused 3 claim --port 13299 --address 127.0.1.18
    ok explain 13299 --address 127.0.1.19 --json
    json 'd["can_claim"]'
}

kernel_shows_bound_sockets() { [ "$(printf '%s\n' 6.8 "$(uname -r)" | sort -V | head -n 1)" = 6.8 ]; }

@test "a claim of one address does not hide a socket that is in the way of another" {
    listen 13290 tcp 0.0.0.0
    ok claim --declare 13290
    ok explain 13290 --address 127.0.0.2 --json
    json 'not d["can_claim"] and "foreign" in [r["kind"] for r in d["reasons"]]'
    listen 13291 tcp 127.0.0.3
    ok claim --port 13291 --address 127.0.0.1 --keep
    ok explain 13291 --address 127.0.0.3 --json
    json 'not d["can_claim"] and "foreign" in [r["kind"] for r in d["reasons"]]'
    refused 3 claim --port 13291 --address 127.0.0.3
}

@test "explain reports ephemeral, reserved, browser, outside, band, declared and cooling" {
    read -r first _ </proc/sys/net/ipv4/ip_local_port_range
    ok explain $((first + 5)) --json
    json 'd["can_claim"] and not d["can_choose"] and "ephemeral" in [r["kind"] for r in d["reasons"]]'
    ok explain 6667 --json
    json '"browser" in [r["kind"] for r in d["reasons"]] and "outside" in [r["kind"] for r in d["reasons"]]'
    ok pool set small --ranges 13280-13319
    ok explain 13281 --pool small --json
    json '[r["kind"] for r in d["reasons"]] == ["band"]'
    ok claim d --declare 13311
    ok explain 13311 --pool small --json
    json '"declared" in [r["kind"] for r in d["reasons"]] and not d["can_choose"]'
    ok claim --pool small --cooldown 1m
    port=$out
    ok release "$port"
    ok explain "$port" --pool small --cooldown 1m --json
    json '"cooling" in [r["kind"] for r in d["reasons"]]'
    refused 5 explain 13281 --pool nowhere
}

@test "assert is content when the holder listens" {
    listen 13320
    ok claim web --pid "$STARTED" --declare 13320
    ok assert web
    [ "$out" = 13320 ]
    ok assert 13320 --json
    json "d['pid'] == $STARTED and d['port'] == 13320"
}

@test "assert is content when a child of the holder listens" {
    start sh -c "'$DIBS_TEST_SUPPORT/listen.py' 13330 tcp 127.0.0.1 '$T/ready' & echo \$! >>'$T/started'; wait"
    wait_until 10 test -f "$T/ready"
    ok claim web --pid "$STARTED" --declare 13330
    ok assert web
    [ "$out" = 13330 ]
}

@test "assert is exit 3 when a stranger listens, or nobody, and 5 without a claim" {
    refused 5 assert web
    start_sleeper
    ok claim web --pid "$STARTED" --port 13340
    refused 3 assert web
    says "no process listens"
    listen 13340
    refused 3 assert web
    says "$STARTED"
}

@test "assert of a lease accepts a listener of the same user" {
    ok claim web --port 13350
    listen 13350
    ok assert web
}

@test "assert of a kept port that nobody holds looks for a process of the project" {
    ok get web --port 13352
    mkdir -p "$T/neighbour" below
    (cd below && listen 13352 && echo "$STARTED" >"$T/pid")
    ok assert web
    ok who 13352
    grep -q '^socket .*: project$' "$T/out"
    end_process "$(cat "$T/pid")"
    (cd "$T/neighbour" && listen 13352 && echo "$STARTED" >"$T/pid")
    refused 3 assert web
    says "$(cat "$T/pid")"
    ok who 13352
    grep -q '^socket .*: same-user$' "$T/out"
}

@test "assert of a lease refuses another user's listener" {
    shared_ledger
    ok claim web --port 13351
    ready=$T/project/ready
    chmod 0777 "$T/project"
    start setpriv --reuid=65534 --regid=65534 --clear-groups "$PYTHON" -SE "$DIBS_TEST_SUPPORT/listen.py" 13351 tcp \
        127.0.0.1 "$ready"
    wait_until 5 test -f "$ready" || skip "another user cannot run the listener"
    refused 3 assert web
    says 65534
}

@test "assert looks at the protocol that was claimed" {
    ok claim dns --port 13360 --proto udp
    listen 13360 tcp
    refused 3 assert dns
    listen 13360 udp
    ok assert dns
}

@test "log shows every change in order, newest last" {
    ok claim web --port 13370
    ok renew web
    ok transfer web --keep
    ok release web
    ok pool set p --ranges 13380-13389
    ok log --json
    json '[e["what"] for e in d] == ["claimed", "renewed", "transferred", "released", "pool"]'
    json 'all(a["seq"] < b["seq"] for a, b in zip(d, d[1:])) and d[0]["name"] == "project/web"'
    ok log
    [ "$(wc -l <"$T/out")" -eq 6 ]
    ok log -n 2 --json
    json '[e["what"] for e in d] == ["released", "pool"]'
    ok log --since 1 -n 2 --json
    json '[e["what"] for e in d] == ["renewed", "transferred"]'
    ok log --name web --json
    json 'len(d) == 4'
    ok log --port 13370 --json
    json 'len(d) == 4'
    ok log --since 1000000 --json
    json 'd == []'
}

@test "no listing and no history has a token" {
    dibs claim --json web >"$T/out"
    secret=$(value 'd[0]["token"].split(".")[2]')
    port=$(value 'd[0]["port"]')
    for command in 'ls' 'ls --json' 'log' 'log --json' "who $port --json" "explain $port --json" \
        'snapshot export' 'doctor --json' 'get web'; do
        # shellcheck disable=SC2086 # several words
        ok $command
        not grep -qF "$secret" "$T/out"
    done
}

@test "who, explain and assert take a port with a colon, and the name of a claim" {
    ok get web --port 13330
    for what in 13330 :13330 web project/web /project/web; do
        ok who "$what"
        prints 'claim   tcp *:13330  project/web'
        ok explain "$what"
        prints 'port 13330 cannot be claimed'
        refused 3 assert "$what"
    done
    ok get dns --port 13331 --proto udp --address 127.0.0.1
    ok explain dns # with its protocol and address
    prints 'port 13331 cannot be claimed'
    ok claim -n 2 job
    refused 2 who job
    says 'project/job/0, project/job/1'
    ok release job/1
    ok who job
    for what in nobody :x x: '::1' :0 :99999; do
        try who "$what"
        [ "$code" -eq 5 ] || [ "$code" -eq 2 ]
    done
    refused 5 who nobody
    refused 2 who :99999
}
