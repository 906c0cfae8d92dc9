#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A ledger in trouble: a clear line, the right exit code, and nothing lost that was readable.
# shellcheck disable=SC2030,SC2031,SC2154 # every test is a subshell; run_apart sets stderr
load ../support/dibs
load ../support/sandbox

setup() {
    dibs_setup
    export DIBS_MRU_FILE=$T/mru/recent
    FALLBACK=--ledger-mode=fallback
}

teardown() { sandbox_teardown; }

# ---- file systems ----

# disk_start [MOUNT OPTION]...: a sandbox ($SANDBOX) with a file system of its own at $T/disk, and the ledger there.
disk_start() {
    needs_root
    mkdir -p "$T/disk"
    export DIBS_LEDGER=sqlite:$T/disk/ledger.db
    sandbox_start
    in_sandbox "$SANDBOX" mount "$@" "$T/disk"
}

ext4_image() { # ext4_image MKFS OPTION...
    truncate -s 2M "$T/image"
    mkfs.ext4 -q -m 0 "$@" "$T/image"
}

there() { in_sandbox "$SANDBOX" "$DIBS" "$@"; }

fill_disk() { # may be called again
    in_sandbox "$SANDBOX" dd if=/dev/zero bs=64k oflag=append conv=notrunc of="$T/disk/fill" 2>/dev/null || true
    in_sandbox "$SANDBOX" dd if=/dev/zero bs=512 oflag=append conv=notrunc of="$T/disk/fill.rest" 2>/dev/null || true
}

clear_disk() { in_sandbox "$SANDBOX" rm -f "$T/disk/fill" "$T/disk/fill.rest"; }

# In fallback mode only what asks for nothing but some port is answered, and says so; all else is exit 6.
only_simple_claims_are_degraded() { # TEXT COMMAND
    local text=$1
    shift
    run_apart "$@" claim "$FALLBACK"
    assert_status 0
    [[ $output =~ ^[0-9]+$ ]]
    one_line
    [[ $stderr = *degraded*"$text"* ]]
    run_apart "$@" claim "$FALLBACK" --json
    assert_status 0
    [[ $output = *'"degraded":true'* ]]
    refused 6 "$text" "$@" claim "$FALLBACK" web
    refused 6 "$text" "$@" claim "$FALLBACK" --keep
    refused 6 "$text" "$@" claim "$FALLBACK" --port "$(python3 "$DIBS_TEST_SUPPORT/free_port.py")"
    refused 6 "$text" "$@" get "$FALLBACK" other
    refused 6 "$text" "$@" claim # strict
}

# Never degraded, whatever is asked for.
nothing_is_degraded() { # TEXT COMMAND
    local text=$1 mode
    shift
    for mode in strict fallback; do
        refused 6 "$text" "$@" claim --ledger-mode=$mode
        refused 6 "$text" "$@" claim --ledger-mode=$mode web
        refused 6 "$text" "$@" ls --ledger-mode=$mode
    done
    [ ! -e "$T/mru" ]
}

full_at_creation() {
    fill_disk
    only_simple_claims_are_degraded "free some space" there
    clear_disk
    run there claim web --keep
    assert_status 0
}

filled_later() {
    local before after port n
    there claim -n 20 web --keep >"$T/ports"
    before=$(there ls)
    fill_disk
    for n in $(seq 60); do # what the log's last block still holds may be used up
        there claim --ttl 1s >/dev/null 2>&1 || break
    done
    [ "$n" -lt 60 ]
    before=$(there ls --names)
    only_simple_claims_are_degraded "free some space" there
    after=$(there ls --names) # reading goes on, and nothing is half-written
    [ "$before" = "$after" ]
    [ "$(there get web/7)" = "$(sed -n 8p "$T/ports")" ]
    refused 6 "free some space" there release web/7
    run there doctor
    assert_status 1
    assert_output_has "free some space"
    clear_disk
    [ "$(there get web/7)" = "$(sed -n 8p "$T/ports")" ]
    run there claim web/7 web/8 more --keep
    assert_status 0
    [ "$(there ls --names | grep -c web/)" = 20 ]
    [ "$(in_sandbox "$SANDBOX" sqlite3 "$T/disk/ledger.db" 'PRAGMA integrity_check')" = ok ]
}

@test "a full tmpfs at creation" {
    disk_start -t tmpfs -o size=1m dibs
    full_at_creation
}

@test "a tmpfs that fills up later" {
    disk_start -t tmpfs -o size=1m dibs
    filled_later
}

@test "a full ext4 at creation" {
    needs_root
    ext4_image -b 4096 -O ^has_journal
    disk_start -o loop "$T/image"
    full_at_creation
}

@test "an ext4 that fills up later" {
    needs_root
    ext4_image -b 4096 -O ^has_journal
    disk_start -o loop "$T/image"
    filled_later
}

@test "a full ext4 with small blocks is an error, not a signal, and nothing is lost" {
    local n command
    needs_root
    ext4_image -b 1024 -O has_journal # what was freed just now is not free yet
    disk_start -o loop "$T/image"
    there claim -n 20 web --keep >"$T/ports"
    fill_disk
    for n in 1 2 3; do
        for command in "claim --ttl 1s" "ls" "get web/3" "reap" "claim $FALLBACK"; do
            # shellcheck disable=SC2086 # several words
            run_apart there $command
            [ "$status" -eq 0 ] || { [ "$status" -eq 6 ] && [[ $stderr = *"free some space"* ]]; } ||
                { echo "$command: exit $status, $stderr" >&2; return 1; }
        done
    done
    refused 6 "free some space" there claim web/20
    clear_disk
    [ "$(for n in $(seq 0 19); do there get "web/$n"; done)" = "$(cat "$T/ports")" ]
    [ "$(in_sandbox "$SANDBOX" sqlite3 "$T/disk/ledger.db" 'PRAGMA integrity_check')" = ok ]
}

@test "a degraded answer is no port that the readable ledger of a full disk has" {
    disk_start -t tmpfs -o size=1m dibs
    there claim --range 20000-20009 -n 9 --keep >"$T/ports"
    fill_disk
    until ! there claim --range 20100-20999 >/dev/null 2>&1; do :; done
    run_apart there claim "$FALLBACK" --range 20000-20009
    assert_status 0
    [ "$(grep -cx "$output" "$T/ports")" = 0 ]
    run_apart there claim "$FALLBACK" --range 20000-20009 -n 2
    assert_status 4
}

# furnish_nine COMMAND: $T/ports are nine of the ten of $RANGE, whose names are /web/1 to /web/9.
furnish_nine() {
    local n
    RANGE=15200-15209 # outside of every pool that other tests choose from
    for n in 1 2 3 4 5 6 7 8 9; do "$@" claim "/web/$n" --range $RANGE --keep || return 1; done >"$T/ports"
}

# A user who may not write the ledger still sees everything in it, and gets no port that it has.
reads_only() { # COMMAND
    local port
    port=$(sed -n 4p "$T/ports")
    [ "$("$@" ls --names | grep -c web/)" = 9 ]
    [ "$("$@" get /web/4)" = "$port" ]
    [ "$("$@" log | wc -l)" -ge 9 ]
    run_apart "$@" who "$port"
    assert_output_has web/4
    run_apart "$@" explain "$port"
    assert_output_has web/4
    run_apart "$@" doctor
    assert_status 1
    assert_output_has "can only be read"
    refused 6 "make it writable" "$@" get /web/10
    refused 6 "make it writable" "$@" release /web/4
    refused 6 "make it writable" "$@" claim --range $RANGE
    rm -rf "$T/mru" # what was given before is no reason to pass a port over
    run_apart "$@" claim "$FALLBACK" --range $RANGE
    assert_status 0
    [[ $stderr = *degraded*"make it writable"* ]]
    [ "$(grep -cx "$output" "$T/ports")" = 0 ]
    run_apart "$@" claim "$FALLBACK" --range $RANGE
    assert_status 4
}

@test "a ledger on a read-only file system is read, with its log and without" {
    disk_start -t tmpfs -o size=1m dibs
    furnish_nine there
    there claim /other --port 15210 --keep # after the ninth claim the log may just have been emptied
    in_sandbox "$SANDBOX" test -s "$T/disk/ledger.db-wal"
    in_sandbox "$SANDBOX" mount -o remount,ro "$T/disk"
    reads_only there
    in_sandbox "$SANDBOX" mount -o remount,rw "$T/disk"
    in_sandbox "$SANDBOX" sqlite3 "$T/disk/ledger.db" 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    in_sandbox "$SANDBOX" rm -f "$T/disk/ledger.db-wal" "$T/disk/ledger.db-shm"
    in_sandbox "$SANDBOX" mount -o remount,ro "$T/disk"
    reads_only there
}

@test "a log without its index cannot be read where none can be made: nothing of it is shown" {
    disk_start -t tmpfs -o size=1m dibs
    furnish_nine there
    there claim /other --port 15210 --keep # after the ninth claim the log may just have been emptied
    in_sandbox "$SANDBOX" test -s "$T/disk/ledger.db-wal"
    in_sandbox "$SANDBOX" rm "$T/disk/ledger.db-shm"
    in_sandbox "$SANDBOX" mount -o remount,ro "$T/disk"
    refused 6 "make it writable" there ls
    refused 6 "make it writable" there get /web/4
}

@test "a claim is not called ended when the index of the log cannot be made" {
    disk_start -t tmpfs -o size=1m,nr_inodes=16 dibs
    furnish_nine there
    there claim /other --port 15210 --keep
    in_sandbox "$SANDBOX" rm "$T/disk/ledger.db-shm"
    # shellcheck disable=SC2016 # for the shell there
    in_sandbox "$SANDBOX" sh -c 'for i in $(seq 30); do touch "$1/$i" 2>/dev/null || exit 0; done; exit 1' - "$T/disk"
    refused 6 "make it writable" there release /web/4
    in_sandbox "$SANDBOX" rm "$T/disk/1"
    [ "$(there ls --all --names | grep -c web/)" = 9 ]
}

@test "a ledger of an older format that cannot be brought up to date is read as it is" {
    disk_start -t tmpfs -o size=1m dibs
    furnish_nine there
    in_sandbox "$SANDBOX" sqlite3 "$T/disk/ledger.db" "$(older_ledger 1003)"
    in_sandbox "$SANDBOX" mount -o remount,ro "$T/disk"
    reads_only there
    in_sandbox "$SANDBOX" mount -o remount,rw "$T/disk"
    [ "$(there ls --all --names | grep -c web/)" = 9 ]
}

@test "a file and a folder that only their owner may write are read by others" {
    needs_root
    public_folder
    cd "$PUBLIC"
    as_nobody() { as_user 65534 "$PUBLIC/dibs" "$@"; }
    mkdir -m 0755 "$PUBLIC/open"
    export DIBS_LEDGER=sqlite:$PUBLIC/open/ledger.db DIBS_MRU_FILE=$PUBLIC/mru.nobody/recent
    furnish_nine dibs
    chmod 0644 "$PUBLIC"/open/*
    [ "$(as_nobody ls --all --names | grep -c web/)" = 9 ]
    refused 6 "make it writable" as_nobody claim
    run_apart as_nobody claim "$FALLBACK" --range $RANGE
    assert_status 0
    [ "$(grep -cx "$output" "$T/ports")" = 0 ]
    # what its owner does meanwhile is seen
    dibs claim /more --keep
    chmod 0644 "$PUBLIC"/open/*
    [ "$(as_nobody ls --all --names | grep -c more)" = 1 ]
}

@test "a read-only file system, before and after the ledger was made" {
    disk_start -t tmpfs -o size=1m dibs
    in_sandbox "$SANDBOX" mount -o remount,ro "$T/disk"
    only_simple_claims_are_degraded "make it writable" there
    in_sandbox "$SANDBOX" mount -o remount,rw "$T/disk"
    there claim web --keep >"$T/port"
    in_sandbox "$SANDBOX" mount -o remount,ro "$T/disk"
    only_simple_claims_are_degraded "make it writable" there
    in_sandbox "$SANDBOX" mount -o remount,rw "$T/disk"
    [ "$(there get web)" = "$(cat "$T/port")" ]
}

@test "a read-only bind mount of a ledger that others write" {
    needs_root
    dibs claim web --keep >"$T/port"
    mkdir "$T/disk"
    sandbox_start
    in_sandbox "$SANDBOX" mount --bind "$T" "$T"
    in_sandbox "$SANDBOX" mount -o remount,bind,ro "$T"
    [ "$(there get web)" = "$(cat "$T/port")" ]
    refused 6 "make it writable" there claim
    dibs claim more --keep >"$T/more" # by others, meanwhile
    [ "$(there get more)" = "$(cat "$T/more")" ]
    [ "$(dibs get web)" = "$(cat "$T/port")" ]
}

@test "a ledger that is mounted without its directory is refused: it would have another log" {
    needs_root
    mkdir "$T/behind"
    DIBS_LEDGER=sqlite:$T/behind/ledger.db dibs claim web --keep --port 23333
    mkdir -p "$T/disk"
    : >"$T/disk/ledger.db"
    sandbox_start
    in_sandbox "$SANDBOX" mount --bind "$T/behind/ledger.db" "$T/disk/ledger.db"
    export DIBS_LEDGER=sqlite:$T/disk/ledger.db
    nothing_is_degraded "mount its directory instead" there
    refused 6 "mount its directory instead" there claim --port 23333
    in_sandbox "$SANDBOX" umount "$T/disk/ledger.db"
    in_sandbox "$SANDBOX" mount --bind "$T/behind" "$T/disk"
    [ "$(there get web)" = 23333 ]
    refused 3 web there claim --port 23333
}

@test "a FUSE file system may be shared with other hosts and is refused, and stays untouched" {
    needs_root
    needs bindfs
    mkdir -p "$T/disk" "$T/behind"
    export DIBS_LEDGER=sqlite:$T/disk/ledger.db
    sandbox_start --pid --mount-proc # the server ends with the sandbox
    start_in_sandbox "$SANDBOX" bindfs -f "$T/behind" "$T/disk"
    wait_until 10 in_sandbox "$SANDBOX" mountpoint -q "$T/disk"
    nothing_is_degraded "network file system (FUSE)" there
    [ -z "$(ls -A "$T/behind")" ]
    run there doctor
    assert_status 1
    assert_output_has "name a local place with DIBS_LEDGER"
    # the same for a ledger that came there from elsewhere
    DIBS_LEDGER=sqlite:$T/behind/ledger.db dibs claim web --keep
    cp "$T/behind/ledger.db" "$T/copy"
    nothing_is_degraded "network file system (FUSE)" there
    cmp "$T/behind/ledger.db" "$T/copy"
}

# ---- places ----

@test "a directory in place of the file" {
    mkdir "$T/ledger.db"
    nothing_is_degraded "DIBS_LEDGER" dibs
    rmdir "$T/ledger.db"
}

@test "a parent that is a file, and one that cannot be made" {
    : >"$T/file"
    export DIBS_LEDGER=sqlite:$T/file/below/ledger.db
    only_simple_claims_are_degraded "create its directory" dibs
    export DIBS_LEDGER=sqlite:/proc/nowhere/ledger.db
    only_simple_claims_are_degraded "create its directory" dibs
}

@test "missing parents are made, closed to others" {
    export DIBS_LEDGER=sqlite:$T/a/b/ledger.db
    run dibs claim
    assert_status 0
    [ "$(stat -c %a "$T/a" "$T/a/b" "$T/a/b/ledger.db" | xargs)" = "700 700 600" ]
}

@test "no permission for the directory, for the file" {
    needs_root
    public_folder
    cd "$PUBLIC"
    as_nobody() { as_user 65534 "$PUBLIC/dibs" "$@"; }
    mkdir -m 0700 "$PUBLIC/closed"
    export DIBS_MRU_FILE=$PUBLIC/mru.nobody/recent
    export DIBS_LEDGER=sqlite:$PUBLIC/closed/ledger.db
    only_simple_claims_are_degraded "make it writable" as_nobody
    mkdir -m 0755 "$PUBLIC/open"
    export DIBS_LEDGER=sqlite:$PUBLIC/open/ledger.db
    only_simple_claims_are_degraded "make it writable" as_nobody
    dibs claim web --keep >"$T/port"
    only_simple_claims_are_degraded "make it writable" as_nobody
    chmod 0644 "$PUBLIC/open/ledger.db"*
    only_simple_claims_are_degraded "make it writable" as_nobody
    chmod 0666 "$PUBLIC/open/ledger.db"* # but the directory is root's
    run as_nobody claim
    [ "$status" -eq 0 ] || [ "$status" -eq 6 ]
    [ "$(dibs get web)" = "$(cat "$T/port")" ]
}

# ---- damaged contents ----

# furnish: 120 claims of every kind of holder, their JSON (tokens too) in $T/claims.
furnish() {
    start_sleeper
    HOLDER=$STARTED
    dibs claim -n 60 --json kept --keep >"$T/part.1"
    dibs claim -n 30 --json held --pid "$HOLDER" >"$T/part.2"
    dibs claim -n 30 --json leased --ttl 1h >"$T/part.3"
    python3 -c 'import json, sys
claims = [c for f in sys.argv[1:] for c in json.load(open(f))]
for c in claims:
    print(c["id"], c["port"], c["name"], c["token"])' "$T"/part.* >"$T/claims"
    [ "$(wc -l <"$T/claims")" = 120 ]
    sql 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
}

# still_there FILE: each claim of the list has its port, name and token. Renewing or transferring by token is
# what proves a token; a dry look would not.
still_there() {
    python3 - "$1" <<'PY'
import json, os, subprocess, sys
listed = {c["name"]: c for c in json.loads(subprocess.check_output([os.environ["DIBS"], "ls", "--json"]))}
bad = 0
for line in open(sys.argv[1]):
    _, port, name, token = line.split()
    c = listed.get(name)
    if not c or c["port"] != int(port):
        print("lost:", name, port, c and c["port"], file=sys.stderr); bad += 1
        continue
    done = subprocess.run([os.environ["DIBS"], "release", "--token", token, "--json"], capture_output=True, text=True)
    if done.returncode or json.loads(done.stdout) not in (1, {"released": 1}):
        print("token:", name, done, file=sys.stderr); bad += 1
sys.exit(bad > 0)
PY
}

# page_of TABLE: a leaf page in the middle of the table.
page_of() {
    sql "SELECT pageno FROM dbstat WHERE name='$1' AND pagetype='leaf' ORDER BY path LIMIT 1 OFFSET
         (SELECT count(*)/2 FROM dbstat WHERE name='$1' AND pagetype='leaf')"
}

spoil_page() {
    local size
    size=$(sql 'PRAGMA page_size')
    python3 - "$T/ledger.db" "$1" "$size" <<'PY'
import sys
path, page, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with open(path, "r+b") as f:
    f.seek((page - 1) * size)
    f.write(b"\x55" * size)
PY
}

@test "one corrupted row harms that row alone, whatever is wrong with it" {
    local change n=0
    furnish
    for change in "port=99999" "holder=7" "bindings=x'0102030405'" "bindings=x''" "name='bad' || char(10) || 'name'" \
        "secret=x'00'" "generation=-5" "kind=9" "boot_id=''" "principal=''" "kept=0, holder=0" "pid=-1, holder=1"; do
        n=$((n + 1))
        sed -n "$((n * 7))p" "$T/claims" >>"$T/spoilt"
        sql "PRAGMA ignore_check_constraints=1; UPDATE claims SET $change WHERE id=$(sed -n "$((n * 7))p" "$T/claims" | cut -d' ' -f1)"
    done
    grep -vxFf "$T/spoilt" "$T/claims" >"$T/whole"
    run dibs claim other --keep
    assert_status 0
    run dibs ls --names
    assert_status 0
    run dibs reap
    assert_status 0
    run dibs doctor
    assert_output_has "12 in disorder"
    run dibs doctor --fix
    assert_status 1
    assert_output_has "121 claims expected: 109 read, 12 lost or damaged, whose ports are kept"
    # the ports of the spoilt ones stay blocked: nobody knows who uses them
    while read -r _ port _; do
        run dibs claim --port "$port"
        assert_status 3
    done <"$T/spoilt"
    still_there "$T/whole"
    [ "$(sql 'PRAGMA integrity_check')" = ok ]
}

@test "a damaged row does not stop a claim of its own name, its port, or a listing in JSON" {
    dibs claim web --keep >"$T/port"
    sql "PRAGMA ignore_check_constraints=1; UPDATE claims SET holder=7"
    run dibs claim --port "$(cat "$T/port")"
    assert_status 3
    run_apart dibs ls --json
    assert_status 0
    python3 -c 'import json, sys; json.loads(sys.argv[1])' "$output"
    run dibs get web
    [ "$status" -ne 134 ] && [ "$status" -ne 139 ]
    run dibs claim next --keep
    assert_status 0
}

# after_fix [TEXT]...: what doctor --fix must leave behind. With TEXT something is lost, and it says so.
after_fix() {
    local aside text
    refused_or_fine() { [ "$status" -eq 0 ] || { [ "$status" -eq 6 ] && [[ $stderr = *"dibs doctor --fix"* ]]; }; }
    run_apart dibs ls
    refused_or_fine
    run dibs doctor
    assert_status 1
    assert_output_has "dibs doctor --fix"
    cp "$T/ledger.db" "$T/spoilt.db"
    run dibs doctor --fix
    assert_status $(($# > 0))
    assert_output_has "the damaged file is now"
    for text in "$@"; do assert_output_has "$text"; done
    aside=("$T"/ledger.db.damaged-*Z-[0-9])
    cmp "$T/spoilt.db" "${aside[0]}"
    [ "$(sql 'PRAGMA integrity_check')" = ok ]
    run dibs doctor
    assert_status 0
    run dibs claim after --keep
    assert_status 0
}

@test "a corrupted page of claims: the rest keeps port, name and token, and the lost ones stay blocked" {
    furnish
    sql "SELECT id FROM claims" | sort >"$T/ids"
    spoil_page "$(page_of claims)"
    # what can be read from both ends of the damage
    { sql "SELECT id FROM claims ORDER BY id" 2>/dev/null || true; sql "SELECT id FROM claims ORDER BY id DESC" 2>/dev/null || true; } |
        sort -u >"$T/readable"
    [ "$(wc -l <"$T/readable")" -gt 50 ] && [ "$(wc -l <"$T/readable")" -lt 120 ]
    awk 'NR == FNR { keep[$1]; next } $1 in keep' "$T/readable" "$T/claims" >"$T/whole"
    grep -vxFf "$T/whole" "$T/claims" >"$T/lost"
    after_fix "120 claims expected: $(wc -l <"$T/whole") read, $(wc -l <"$T/lost") lost" "not read to the end: claims"
    while read -r _ port _; do
        run dibs claim --port "$port"
        assert_status 3
    done <"$T/lost"
    still_there "$T/whole"
}

@test "a corrupted page of slots: every claim keeps port, name and token" {
    furnish
    spoil_page "$(page_of slots)"
    after_fix
    still_there "$T/claims"
}

@test "a corrupted page of names or events: every claim keeps port, name and token" {
    furnish
    cp "$T/ledger.db" "$T/good.db"
    spoil_page "$(page_of names)"
    after_fix "not read to the end: names" "every claim is accounted for"
    still_there "$T/claims"
    rm -f "$T"/ledger.db*
    cp "$T/good.db" "$T/ledger.db"
    spoil_page "$(page_of events)"
    after_fix "not read to the end: events" "every claim is accounted for"
    still_there "$T/claims"
}

@test "a truncated file: what is before the cut is saved" {
    local size pages
    furnish
    size=$(sql 'PRAGMA page_size')
    pages=$(sql 'PRAGMA page_count')
    sqlite3 -quote "$T/ledger.db" 'SELECT * FROM claims' | sort >"$T/rows.before"
    truncate -s $((size * pages * 3 / 4 + size / 2)) "$T/ledger.db" # in the middle of a page
    for mode in strict fallback; do refused 6 "dibs doctor --fix" dibs claim --ledger-mode=$mode; done
    # Another program reads the rest from both ends; zeros stand for the part that was cut off.
    cp "$T/ledger.db" "$T/filled.db"
    truncate -s $((size * pages)) "$T/filled.db"
    for order in ASC DESC; do sqlite3 -quote "$T/filled.db" "SELECT * FROM claims ORDER BY id $order" 2>/dev/null || true; done |
        sort -u | comm -12 - "$T/rows.before" | cut -d, -f1 >"$T/readable" # whole rows: one may be cut in two
    awk 'NR == FNR { keep[$1]; next } $1 in keep' "$T/readable" "$T/claims" >"$T/whole"
    [ "$(wc -l <"$T/whole")" -gt 20 ]
    after_fix "120 claims expected: $(wc -l <"$T/whole") read, $((120 - $(wc -l <"$T/whole"))) lost" \
        "not read to the end: claims" "the file has $((pages * 3 / 4 + 1)) of its $pages pages"
    # The ports of the others stay: slots of them are left.
    while read -r _ port _; do refused 3 "" dibs claim --port "$port"; done <"$T/claims"
    still_there "$T/whole"
}

@test "live sockets of a ledger that is lost whole are recorded again" {
    local port
    furnish
    port=$(dibs claim server --pid "$HOLDER")
    listen "$port"
    head -c 50000 /dev/urandom >"$T/ledger.db"
    rm -f "$T"/ledger.db-*
    for mode in strict fallback; do refused 6 "dibs doctor --fix" dibs claim --ledger-mode=$mode; done
    after_fix "ports of living holders may be free now" "port $port: in use by pid"
    run dibs claim --port "$port"
    assert_status 3
    [ "$(sql "SELECT count(*) FROM claims WHERE port=$port")" = 1 ]
}

@test "garbage, and a header cut short, are set aside and replaced" {
    head -c 30 /dev/urandom >"$T/ledger.db"
    nothing_is_degraded "dibs doctor --fix" dibs
    after_fix "ports of living holders may be free now"
    rm -f "$T"/ledger.db*
    furnish
    truncate -s 60 "$T/ledger.db"
    nothing_is_degraded "dibs doctor --fix" dibs
    after_fix "ports of living holders may be free now"
}

@test "an empty file is a ledger that has not been made yet" {
    : >"$T/ledger.db"
    run dibs claim web --keep
    assert_status 0
    [ "$(sql 'PRAGMA user_version')" = "$LEDGER_VERSION" ]
}

@test "an emptied file beside a log that still has the claims is damage, not a new ledger" {
    dibs claim -n 5 web --keep >"$T/ports"
    [ -s "$T/ledger.db-wal" ]
    truncate -s 0 "$T/ledger.db"
    nothing_is_degraded "dibs doctor --fix" dibs
    [ -s "$T/ledger.db-wal" ]
    run dibs doctor --fix
    assert_status 0
    assert_output_has "rebuilt with 5 claims"
    [ "$(sql 'PRAGMA integrity_check')" = ok ]
    [ "$(for n in 0 1 2 3 4; do dibs get web/$n; done)" = "$(cat "$T/ports")" ]
}

@test "a log that was removed while another process uses it is damage, not a missing ledger" {
    dibs claim web --keep
    start python3 -c 'import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1])
db.execute("SELECT count(*) FROM claims").fetchone()
open(sys.argv[2], "w").close()
time.sleep(600)' "$T/ledger.db" "$T/read"
    wait_until 10 test -f "$T/read"
    rm "$T/ledger.db-wal"
    nothing_is_degraded "a part of it or of its log was removed while it was in use" dibs
    refused 6 "release it again" dibs release "$FALLBACK" web
}

@test "a newer major is refused and left untouched, by doctor --fix too; a newer minor is used" {
    furnish
    sql 'PRAGMA user_version=2000; PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    cp "$T/ledger.db" "$T/copy"
    nothing_is_degraded "version 2.0" dibs
    refused 6 "Use a newer dibs" dibs claim
    run dibs doctor --fix
    assert_status 1
    assert_output_has "version 2.0"
    cmp "$T/ledger.db" "$T/copy"
    sql "PRAGMA user_version=$((LEDGER_VERSION + 1)); PRAGMA wal_checkpoint(TRUNCATE)" >/dev/null
    run dibs claim web --keep
    assert_status 0
    [ "$(sql 'PRAGMA user_version')" = $((LEDGER_VERSION + 1)) ]
}

@test "a newer major that is still in the log alone is refused too" {
    furnish
    sqlite3 -batch "$T/ledger.db" '.dbconfig no_ckpt_on_close on' 'PRAGMA user_version=3001' >/dev/null
    [ -s "$T/ledger.db-wal" ]
    nothing_is_degraded "version 3.1" dibs
    [ "$(sql 'PRAGMA user_version')" = 3001 ]
}

@test "another program's database is left as it is" {
    sql 'CREATE TABLE mail(id); INSERT INTO mail VALUES(7)'
    cp "$T/ledger.db" "$T/copy"
    nothing_is_degraded "another program" dibs
    run dibs doctor --fix
    assert_status 1
    assert_output_has "another program"
    cmp "$T/ledger.db" "$T/copy"
    sql 'PRAGMA application_id=4711; PRAGMA user_version=1000'
    cp "$T/ledger.db" "$T/copy"
    nothing_is_degraded "another program" dibs
    run dibs doctor --fix
    assert_status 1
    cmp "$T/ledger.db" "$T/copy"
    # its marks in the log alone
    rm -f "$T"/ledger.db*
    sqlite3 -batch "$T/ledger.db" 'PRAGMA journal_mode=WAL' '.dbconfig no_ckpt_on_close on' \
        'CREATE TABLE mail(id); PRAGMA application_id=4711; PRAGMA user_version=5' >/dev/null
    [ -s "$T/ledger.db-wal" ]
    nothing_is_degraded "another program" dibs
    [ "$(sql 'SELECT count(*) FROM sqlite_master')" = 1 ]
}

@test "a lost table, column, key or mark is damage at once, and doctor --fix saves every claim" {
    local change
    dibs claim -n 5 web --keep >"$T/ports"
    sql 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    cp "$T/ledger.db" "$T/good.db"
    for change in "DROP TABLE slots" "DROP TABLE events" "DROP TABLE pools" "DELETE FROM meta" "ALTER TABLE claims RENAME TO claim" \
        "ALTER TABLE names DROP COLUMN used_ms" "CREATE TABLE s AS SELECT * FROM slots; DROP TABLE slots; ALTER TABLE s RENAME TO slots" \
        "PRAGMA application_id=0" "PRAGMA application_id=4711" "PRAGMA user_version=1002" "PRAGMA user_version=-5" \
        "PRAGMA user_version=0; PRAGMA application_id=0"; do
        rm -f "$T"/ledger.db*
        cp "$T/good.db" "$T/ledger.db"
        sql "$change; PRAGMA wal_checkpoint(TRUNCATE)" >/dev/null
        echo "after: $change" >&2
        nothing_is_degraded "dibs doctor --fix" dibs
        case $change in
        'DROP TABLE '[ep]*) after_fix "not read to the end: ${change#DROP TABLE }" "every claim is accounted for" ;;
        *'RENAME TO claim')
            after_fix "5 claims expected: 0 read, 5 lost"
            continue # their slots keep the ports
            ;;
        *) after_fix ;;
        esac
        [ "$(for n in 0 1 2 3 4; do dibs get web/$n; done)" = "$(cat "$T/ports")" ]
        refused 3 "" dibs claim --port "$(head -1 "$T/ports")"
    done
}

@test "columns that a newer minor or the owner added to the tables are no damage" {
    dibs claim web --keep >"$T/port"
    sql "ALTER TABLE claims ADD COLUMN note TEXT; CREATE INDEX mine ON claims(port); CREATE TABLE notes(x)"
    [ "$(dibs get web)" = "$(cat "$T/port")" ]
    run dibs claim other --keep
    assert_status 0
    run dibs doctor
    assert_status 0
}

@test "a ledger locked by somebody else is exit 6 within the deadline, never degraded" {
    dibs claim web --keep
    start python3 -c 'import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
open(sys.argv[2], "w").close()
time.sleep(600)' "$T/ledger.db" "$T/locked"
    wait_until 10 test -f "$T/locked"
    for mode in strict fallback; do
        local before=$SECONDS
        refused 6 "another process holds it" dibs claim --ledger-mode=$mode --timeout 500ms
        within 1 "$before"
    done
    run dibs ls --names # readers do not wait
    assert_status 0
}
