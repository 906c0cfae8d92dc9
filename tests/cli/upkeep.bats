#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# dibs reap, repair, doctor. Ports of this file: 13600-13799 and 100-201 (never bound).
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

k8s_pool() { # the range of the seeds; its warning about browsers' ports is right
    try pool set k8s --ranges 100-200
    [ "$code" -eq 0 ]
}

kinds() { # the kinds of the last repair, counted: "leak 1 restored 4"
    value '" ".join("%s %d" % (k, sum(i["kind"] == k for i in d)) for k in sorted({i["kind"] for i in d}))'
}

# A daemon reaps by itself, at once: nothing would be left to see.
# bats test_tags=unserved
@test "reap ends the claims of dead holders and no others" {
    start_sleeper
    dead=$STARTED
    start_sleeper
    ok claim dead --pid "$dead" --port 13600
    ok claim alive --pid "$STARTED" --port 13601
    ok claim over --ttl 1ms --port 13602
    ok claim leased --port 13603
    ok get kept --port 13604
    end_process "$dead"
    lease_ends 13602
    ok reap --dry-run --json
    json 'sorted(c["port"] for c in d) == [13600, 13602]'
    [ "$(held)" -eq 5 ]
    ok reap
    [ "$(wc -l <"$T/out")" -eq 2 ]
    prints project/dead
    prints "$dead"
    ok ls --json
    json 'sorted(c["port"] for c in d) == [13601, 13603, 13604]'
    ok reap --json
    json 'd == []'
}

@test "a lease that is over lives on while its user listens" {
    ok claim web --port 13610
    listen 13610
    ok renew web --ttl 1ms
    lease_ends 13610
    ok reap --json
    json 'd == []'
    ok ls --json
    json 'd[0]["life"] == "alive"'
    end_process "$STARTED"
    ok reap
    [ "$(held)" -eq 0 ]
}

@test "a dead holder whose socket is still open is an orphan until it closes" {
    # The listener inherits nothing from the holder, but is of the same user and on the claimed port.
    start_sleeper
    ok claim web --pid "$STARTED" --port 13620
    holder=$STARTED
    listen 13620
    end_process "$holder"
    ok reap --json
    json 'd == []'
    ok ls --json
    json 'd[0]["orphan"] is True'
    end_process "$STARTED"
    ok reap
    [ "$(held)" -eq 0 ]
}

@test "reap --stale ends kept claims whose project directory is gone" {
    mkdir "$T/short"
    cd "$T/short"
    ok get web --port 13630
    cd "$T/project"
    ok get web --port 13631
    ok get /shared/db --port 13632
    rmdir "$T/short"
    ok reap --json
    json 'd == []'
    ok reap --stale --dry-run --json
    json '[c["port"] for c in d] == [13630]'
    ok reap --stale --json
    json '[c["port"] for c in d] == [13630]'
    [ "$(held)" -eq 2 ]
}

@test "seeds 32: an empty pool against an empty observation has no findings" {
    k8s_pool
    ok repair --pool k8s --observed /dev/null --json
    json 'd == []'
    says '0 findings'
    ok pool show k8s --json
    json 'd["ranges"] == "100-200" and d["usage"]["static"] == 0'
}

@test "seeds 32: a write that fails is the error of the repair, and nothing is restored" {
    k8s_pool
    ok get web --port 111 --pool k8s
    printf '%s\n' '122 one' '133 two' >"$T/seen"
    sqlite3 "$T/ledger.db" "CREATE TRIGGER broken BEFORE INSERT ON claims WHEN new.port = 133
        BEGIN SELECT RAISE(ABORT, 'test error'); END"
    refused 6 repair --pool k8s --observed "$T/seen"
    says ': test error'
    [ "$(held)" -eq 1 ]
    sqlite3 "$T/ledger.db" 'DROP TRIGGER broken'
    ok repair --pool k8s --observed "$T/seen" --json
    [ "$(kinds)" = 'restored 2 suspect 1' ]
    sqlite3 "$T/ledger.db" "CREATE TRIGGER broken BEFORE DELETE ON claims
        BEGIN SELECT RAISE(ABORT, 'test error'); END"
    sleep 0.01
    refused 6 repair --pool k8s --observed "$T/seen" --grace 5ms
    says ': test error'
    [ "$(held)" -eq 3 ]
    sqlite3 "$T/ledger.db" 'DROP TRIGGER broken'
    ok repair --pool k8s --observed "$T/seen" --grace 5ms --json
    [ "$(kinds)" = 'leak 1' ]
}

@test "seeds 33: a leak is dropped when its grace is over, however often it is seen before" {
    k8s_pool
    ok get leaked --port 111 --pool k8s
    for round in 1 2 3 4; do
        ok repair --pool k8s --observed - --json </dev/null
        json "[(i['kind'], i['port'], i['sightings']) for i in d] == [('suspect', 111, $round)]"
        [ "$(held)" -eq 1 ]
    done
    sleep 0.01
    ok repair --pool k8s --observed - --grace 5ms --json </dev/null
    json '[(i["kind"], i["port"]) for i in d] == [("leak", 111)]'
    [ "$(held)" -eq 0 ]
    for bad in 0s 3 -1s; do refused 2 repair --observed /dev/null "--grace=$bad"; done
}

@test "W4: a port that leaked once has all its grace again" {
    k8s_pool
    for time in first second; do
        ok get "$time" --port 111 --pool k8s
        ok repair --pool k8s --observed /dev/null --grace 5ms
        [ "$(held)" -eq 1 ]
        sleep 0.01
        ok repair --pool k8s --observed /dev/null --grace 5ms
        [ "$(held)" -eq 0 ]
    done
}

@test "a sighting in between restarts the grace" {
    k8s_pool
    ok get web --port 111 --pool k8s
    echo 111 >"$T/seen"
    for list in /dev/null "$T/seen" /dev/null; do
        ok repair --pool k8s --observed "$list" --grace 5ms
        [ "$(held)" -eq 1 ]
        sleep 0.01
    done
    ok repair --pool k8s --observed /dev/null --grace 5ms
    [ "$(held)" -eq 0 ]
}

# As a process of ledger version 1.5 writes it: three sightings, and no time.
# bats test_tags=unserved
@test "sightings without a time, which an older dibs counted, begin a grace" {
    k8s_pool
    ok get web --port 111 --pool k8s
    ok repair --pool k8s --observed /dev/null
    sqlite3 "$T/ledger.db" 'INSERT OR REPLACE INTO sightings(claim, generation, count) SELECT claim, generation, 3 FROM sightings'
    ok repair --pool k8s --observed /dev/null --json
    json '[(i["kind"], i["sightings"]) for i in d] == [("suspect", 4)]'
}

@test "seeds 34: observed ports are restored, out of range and duplicates are reported" {
    k8s_pool
    printf '%s\n' '# services' '111 one' '122 two' '133 two' '201 three' '0 four' '' '111 five' '144 six' >"$T/seen"
    ok repair --pool k8s --observed "$T/seen" --json
    [ "$(kinds)" = 'duplicate 1 out-of-range 1 restored 4' ]
    ok ls --pool k8s --json
    json 'sorted(c["port"] for c in d) == [111, 122, 133, 144]'
    ok pool show k8s --json
    json 'd["usage"]["size"] - d["usage"]["static"] - d["usage"]["dynamic"] == 97'
    ok repair --pool k8s --observed "$T/seen" --json
    [ "$(kinds)" = 'duplicate 1 out-of-range 1' ]
    for port in 111 122 133 144; do refused 3 claim --port "$port" --pool k8s; done
}

@test "a name that is observed on several ports and protocols leaves none of them free" {
    k8s_pool
    ok get two --port 199 --pool k8s
    printf '%s\n' 'tcp * 110 dns' 'udp * 110 dns' 'tcp * 111 dns' '112 project/two' '0 none' >"$T/seen"
    ok repair --pool k8s --observed "$T/seen" --json
    json '[i["kind"] for i in d] == ["restored"] * 4 + ["suspect"]'
    ok ls --all --json
    json 'sorted((c["port"], c["name"], sorted(b["proto"] for b in c["bindings"])) for c in d) == [
        (110, "dns", ["tcp", "udp"]), (111, "dns/111", ["tcp"]), (112, "project/two/112", ["tcp"]),
        (199, "project/two", ["tcp"])]'
    ok repair --pool k8s --observed "$T/seen" --json
    [ "$(kinds)" = 'suspect 1' ]
    printf '[{"port":0,"name":"none"},{"port":111,"proto":"udp","name":"dns"}]' >"$T/seen"
    ok repair --pool k8s --observed "$T/seen" --json
    ok ls --all --port 111 --json
    json 'len(d) == 2 and {b["proto"] for c in d for b in c["bindings"]} == {"tcp", "udp"}'
}

@test "fifty thousand observed lines take seconds, not minutes" {
    seq 10000 59999 >"$T/seen"
    try pool set all --ranges 1-65535 # it overlaps much, and says so
    for findings in 50000 0; do # claimed, and found claimed
        code=0
        (ulimit -t 4 && "$DIBS" repair --pool all --observed "$T/seen" >"$T/out" 2>"$T/err") || code=$?
        [ "$code" -eq 0 ]
        [ "$(wc -l <"$T/out")" -eq "$findings" ]
    done
    [ "$(held)" -eq 50000 ]
}

@test "one line that cannot be claimed blocks no other" {
    k8s_pool
    ok get one --port 199 --pool k8s
    ok claim --declare 112 # a declared port is no claim of the line; the one that is not exclusive stays
    ok claim --port 114 --address 127.0.0.9 --keep --pool k8s
    printf '%s\n' '111 a' '112 project/one' '113 b' '115 c' >"$T/seen"
    ok repair --pool k8s --observed "$T/seen" --json
    json '[(i["port"], i["kind"]) for i in d if i["kind"] != "suspect"] == [(111, "restored"), (112, "restored"),
        (113, "restored"), (115, "restored")]'
}

# withheld PORT: choice does not take it on any address.
withheld() {
    local address
    for address in 127.0.0.1 127.0.0.2 127.0.0.9 '*'; do
        refused 4 claim --range "$1" --address "$address"
    done
}

@test "an observed port that is claimed in part only is exit 1, and choice passes it over on every address" {
    ok pool set seen --ranges 13700-13709
    printf '%s\n' 'tcp 127.0.0.1 13700 a' 'tcp * 13700 b' 'tcp 127.0.0.3 13701 c' >"$T/seen"
    refused_findings --dry-run 'not-restored 1 restored 2'
    [ "$(held)" -eq 0 ]
    refused_findings 'not-restored 1 restored 2'
    json '[(i["address"], i["name"]) for i in d if i["kind"] == "not-restored"] == [("*", "b")]'
    withheld 13700
    refused_findings 'not-restored 1' # the second run finds the same, and adds nothing
    [ "$(held)" -eq 3 ]
    ok claim --range 13701 --address 127.0.0.2 # of a port that is claimed whole, other addresses are free
}

@test "an observed port beside another claim of its number is exit 1, and withheld until nobody observes it" {
    ok pool set seen --ranges 13700-13709
    ok claim other --port 13702 --address 127.0.0.9
    printf '%s\n' 'tcp * 13702 dns' 'udp * 13702 dns' >"$T/seen"
    refused_findings 'not-restored 1 restored 1'
    says '1 port in use could not be claimed'
    withheld 13702
    refused 4 claim --range 13702 --proto udp
    ok release other
    withheld 13702
    ok repair --pool seen --observed "$T/seen" --json # now it can be claimed whole
    [ "$(kinds)" = 'restored 1' ]
    ok repair --pool seen --observed "$T/seen" --json
    json 'd == []'
    ok claim declared --declare 13702 --keep # what the user declares is not the repair's to drop
    ok repair --pool seen --observed /dev/null --grace 5ms
    sleep 0.01
    ok repair --pool seen --observed /dev/null --grace 5ms
    ok ls --names
    [ "$out" = project/declared ]
    ok release declared
    ok claim --range 13702
}

# refused_findings [OPTION] KINDS: repair of the pool "seen" is exit 1 with these findings.
refused_findings() {
    try repair --pool seen --observed "$T/seen" --json "${@:1:$#-1}"
    [ "$code" -eq 1 ] || complain "wanted exit 1" || return
    [ "$(kinds)" = "${*: -1}" ] || complain "not these findings"
}

@test "an observation is JSON, too, and a dry run changes nothing" {
    k8s_pool
    printf '[{"port":150,"proto":"udp","address":"127.0.0.1","name":"dns"},{"port":151}]' >"$T/seen.json"
    ok repair --pool k8s --observed "$T/seen.json" --dry-run --json
    [ "$(kinds)" = 'restored 2' ]
    [ "$(held)" -eq 0 ]
    ok repair --pool k8s --observed "$T/seen.json" --json
    ok ls --json
    json 'sorted((c["port"], c["bindings"][0]["proto"]) for c in d) == [(150, "udp"), (151, "tcp")]'
}

@test "a bad line of an observation is exit 2 with its number, and nothing changes" {
    k8s_pool
    before=$(dibs log --json)
    for line in 65536 -1 1e3 abc 'tcp 127.0.0.1' 'icmp * 111' 'tcp nowhere.example 111' '111 bad name' 'tcp * 111 a b' \
        "$(printf '111 \033x')" '[{}]' '[{"port":65536}]' '[{"port":"1"}]' '[{"port":111,"x":1}]' '[' '{"port":111}'; do
        printf '122 fine\n%s\n' "$line" >"$T/seen"
        case $line in '['* | '{'*) printf '%s' "$line" >"$T/seen" ;; esac
        refused 2 repair --pool k8s --observed "$T/seen"
    done
    printf '111\0\n' >"$T/seen"
    refused 2 repair --pool k8s --observed "$T/seen"
    refused 1 repair --observed "$T/not-there"
    refused 5 repair --pool nowhere --observed /dev/null
    [ "$(dibs log --json)" = "$before" ]
    [ "$(held)" -eq 0 ]
}

@test "repair looks at live sockets: claims them, and leaves held claims alone" {
    ok pool set live --ranges 13650-13659
    listen 13651
    start_sleeper
    ok claim held --pid "$STARTED" --port 13652 --pool live
    ok repair --pool live --dry-run --json
    json 'any(i["port"] == 13651 for i in d)'
    [ "$(held)" -eq 1 ]
    for round in 1 2 3 4; do ok repair --pool live; done
    ok ls --pool live --json
    json '13652 in [c["port"] for c in d]'
    refused 3 claim other --port 13651
    try who 13651
    prints 13651
}

@test "D4: a dead claim that cannot be deleted keeps its port, and neither claims nor the reaper from going on" {
    local holders=()
    for i in 1 2 3 4; do
        start_sleeper
        holders+=("$STARTED")
        ok claim "n$i" --port $((13690 + i)) --pid "$STARTED"
    done
    sqlite3 "$T/ledger.db" "CREATE TRIGGER stuck BEFORE DELETE ON claims WHEN old.port IN (13691, 13693, 13695)
        BEGIN SELECT RAISE(ABORT, 'cannot delete'); END"
    for pid in "${holders[@]}"; do end_process "$pid"; done
    for port in 13692 13694; do # dynamic choice passes over what it cannot end
        ok claim --range 13691-13694
        [ "$out" -eq 13692 ] || [ "$out" -eq 13694 ]
    done
    refused 4 claim --range 13691-13694
    ok claim other --prefer 13691 --range 13690-13691
    [ "$out" -eq 13690 ]
    refused 6 claim --port 13693
    says 'cannot delete'
    ok claim -n 2 --range 13695-13696 --ttl 1s # both end at once
    sleep 1.1
    if ! is_served; then # the daemon reaps by itself
        try reap
        [ "$code" -eq 6 ]
        prints 13696
        says 'cannot delete'
    fi
    reaped() { ! dibs ls --json | grep -q '"port":13696'; }
    wait_until 10 reaped
    [ "$(held)" -eq 6 ] # the three, and three new ones
    sqlite3 "$T/ledger.db" 'DROP TRIGGER stuck'
    held_now() { [ "$(held)" -eq 3 ]; }
    is_served || ok reap
    wait_until 10 held_now
}

@test "doctor accepts a fresh ledger and shows every setting with its source" {
    ok doctor
    prints "$T/ledger.db"
    for setting in ledger ledger-mode mru-file socket sync range pool band order cooldown ttl timeout allow-ephemeral allow-blocked group; do
        grep -q " $setting = " "$T/out"
    done
    grep -q ' ledger = .*(environment)' "$T/out"
    grep -q ' cooldown = 5s (default)' "$T/out"
    ok doctor --cooldown 7s --json
    json 'any("cooldown = 7s (flag)" in f["text"] for f in d) and {f["severity"] for f in d} <= {"ok", "note", "warn"}'
    json 'all(f["advice"] for f in d if f["severity"] != "ok")'
}

# The file itself.
# bats test_tags=unserved
@test "doctor finds a damaged ledger, and --fix sets it aside and keeps what can be read" {
    for i in 1 2 3; do ok get "n$i" --port $((13700 + i)); done
    printf 'not a database, not at all, but long enough' | dd of="$T/ledger.db" conv=notrunc status=none
    refused 6 ls
    refused 6 claim --ledger-mode fallback
    try doctor
    [ "$code" -eq 1 ]
    prints FAIL
    try doctor --fix
    try ls
    [ "$code" -eq 0 ]
    [ -n "$(find "$T" -maxdepth 1 -name 'ledger.db?*' -size +0)" ]
}

# The file itself.
# bats test_tags=unserved
@test "doctor reports a newer ledger and leaves it untouched" {
    ok get web
    sql 'PRAGMA user_version' >/dev/null
    sql "UPDATE meta SET value = 99 WHERE key LIKE '%major%'; PRAGMA user_version = 990000"
    sum=$(sql .dump | sha256sum)
    try ls
    [ "$code" -eq 6 ]
    one_line
    try doctor --fix
    [ "$code" -ne 0 ]
    [ "$(sql .dump | sha256sum)" = "$sum" ]
}
