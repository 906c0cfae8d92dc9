#!/usr/bin/env bats
# shellcheck disable=SC2034,SC2154 # variables of what is loaded below
# One damaged record harms itself alone (INV-6).
# Changes the file of the ledger while other processes may have it open.
# bats file_tags=unserved
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "a damaged pool blocks nobody, and can be set again" {
    ok pool set p --ranges 21000-21010
    sql "UPDATE pools SET ranges='junk'"
    ok claim
    refused 5 claim --pool p
    ok pool set p --ranges 21000-21010
    ok claim --pool p
}

@test "an error of the store names the kind of record" {
    ok claim web
    sql "CREATE TRIGGER no_pools BEFORE INSERT ON pools BEGIN SELECT RAISE(ABORT, 'stop'); END"
    refused 6 pool set p --ranges 21000-21010
    says "writing a pool: stop"
    sql "CREATE TRIGGER no_claims BEFORE INSERT ON claims BEGIN SELECT RAISE(ABORT, 'stop'); END"
    refused 6 claim
    says "writing a claim: stop"
}

@test "an event with an absurd number does not stop the following claims" {
    ok claim --keep a
    sql "INSERT INTO events SELECT 9223372036854775807,cursor,time_ms,kind,claim,generation,port,protos,dynamic,actor_uid,actor_pid,principal,name FROM events LIMIT 1"
    ok claim --keep b
    [ "$(held)" -eq 2 ]
}

@test "a damaged name never leads to another's claim, and is mended" {
    web=$(dibs get web)
    ok get db
    sql "UPDATE names SET claim=(SELECT id FROM claims WHERE name LIKE '%/db') WHERE name LIKE '%/web'"
    ok get web
    prints "$web"
    ok release web
    ok ls --json
    json '[c["name"].split("/")[-1] for c in d] == ["db"]'
    ok reap
    ok get web
    prints "$web"
}

@test "doctor has nothing to say against a stored pool" {
    ok pool set p --ranges 21000-21010
    ok doctor
    case $out$errs in *'cannot start a transaction'*) return 1 ;; esac
    case $out in *"pool 'p'"*) ;; *) return 1 ;; esac
}

# blocked PORT: nobody gets it, and explain says why.
blocked() {
    refused 3 claim --port "$1" --address 127.0.0.1
    ok explain "$1" --address 127.0.0.1 --json
    json 'not d["can_claim"] and not d["can_choose"]'
}

# shown_by_all PORT: every command that looks at the port shows that a damaged record has it.
shown_by_all() {
    blocked "$1"
    refused 3 claim --port "$1" --address 127.0.0.1
    says 'damaged record'
    try explain "$1" --address 127.0.0.1
    prints 'damaged record'
    ok who "$1"
    prints 'damaged record'
}

@test "doctor, who, explain and claim agree about the port of a damaged claim" {
    for change in holder=7 "bindings=x''" port=99999 "principal='', kind=9"; do
        port=$(dibs claim --address 127.0.0.1)
        sql "PRAGMA ignore_check_constraints=1; UPDATE claims SET $change WHERE id=(SELECT max(id) FROM claims)"
        shown_by_all "$port"
        try doctor
        prints "port $port: the record of claim"
        prints 'dibs doctor --fix'
        try doctor --fix
        [ "$code" -eq 1 ]
        prints "1 lost or damaged, whose ports are kept"
        blocked "$port"
        ok doctor
        case $out in *"port $port: the record"*) complain 'not mended' ;; esac
    done
    ok claim # and nobody else is harmed
}

@test "doctor, who, explain and claim agree about the port of a claim whose record is lost" {
    port=$(dibs claim --address 127.0.0.1 --proto tcp+udp)
    sql 'DELETE FROM claims'
    shown_by_all "$port"
    refused 3 claim --port "$port" --proto udp --address 127.0.0.1
    try explain "$port" --proto udp --address 127.0.0.1
    prints 'damaged record'
    ok doctor
    prints "port $port: it is blocked by claim"
    try doctor --fix
    [ "$code" -eq 1 ]
    prints '1 claim expected: 0 read, 1 lost or damaged'
    blocked "$port"
}

@test "a claim whose port nothing guards any more is a problem that doctor --fix ends" {
    port=$(dibs claim web --keep)
    sql 'DROP TRIGGER slots_stay; DELETE FROM slots'
    try doctor
    [ "$code" -eq 1 ]
    prints "port $port: claim 1 has it, but nothing keeps it"
    ok doctor --fix
    refused 3 claim --port "$port"
    ok doctor
}

@test "when the claims cannot be read, doctor --fix gives names and owners their ports back" {
    web=$(dibs get web)
    ok get db
    sql 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    page=$(sql "SELECT rootpage FROM sqlite_schema WHERE name='claims'")
    head -c 4096 /dev/zero | tr '\0' '\245' | dd of="$T/ledger.db" bs=4096 seek=$((page - 1)) conv=notrunc status=none
    try doctor --fix
    [ "$code" -eq 1 ]
    prints '2 claims expected: 0 read, 2 lost or damaged, whose ports are kept'
    prints 'not read to the end: claims'
    ok get web
    prints "$web"
    ok release web
    ok ls --json
    json '[(c["name"].split("/")[-1], c["project"].split("/")[-1]) for c in d if c["name"]] == [("db", "project")]'
}

@test "doctor --fix finishes what a killed one began, with the log that this one had set aside" {
    ok claim -n 200 kept --keep
    sql 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    ok get late # only in the log
    truncate -s 16384 "$T/ledger.db"
    # As the killed process leaves it between the renames of the log and of the new file.
    ln "$T/ledger.db" "$T/ledger.db.damaged-20260101T000000Z-1"
    mv "$T/ledger.db-wal" "$T/ledger.db.damaged-20260101T000000Z-1-wal"
    rm "$T/ledger.db-shm"
    mkdir -m 700 "$T/ledger.db.salvage"
    touch "$T/ledger.db.salvage/new" "$T/ledger.db.salvage/new-journal"
    try doctor --fix
    [ "$code" -eq 1 ]
    ok ls --json
    json '"late" in [(c["name"] or "").split("/")[-1] for c in d]'
}

@test "only the owner of a ledger rebuilds it" {
    [ "$(id -u)" -eq 0 ] || skip "not root"
    ok get web
    sql 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    page=$(sql "SELECT rootpage FROM sqlite_schema WHERE name='claims'")
    head -c 4096 /dev/zero | tr '\0' '\245' | dd of="$T/ledger.db" bs=4096 seek=$((page - 1)) conv=notrunc status=none
    chown 65534 "$T"/ledger.db*
    try doctor --fix
    [ "$code" -ne 0 ]
    prints 'belongs to nobody (uid 65534): only that user may rebuild it'
    [ "$(stat -c %u "$T/ledger.db")" -eq 65534 ]
    [ ! -e "$T/ledger.db.salvage" ]
}

@test "doctor --fix withholds the ports of every pool on which there are sockets" {
    listen 0
    try pool set p --ranges "$LISTENED-$LISTENED" # warns: it is an ephemeral port
    sql 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    for table in claims slots; do
        page=$(sql "SELECT rootpage FROM sqlite_schema WHERE name='$table'")
        head -c 4096 /dev/zero | tr '\0' '\245' | dd of="$T/ledger.db" bs=4096 seek=$((page - 1)) conv=notrunc status=none
    done
    try doctor --fix
    [ "$code" -eq 1 ]
    prints 'not read to the end: claims, slots; an unknown number of claims is missing'
    prints "port $LISTENED: in use by pid $STARTED"
    ok ls --pool p --json
    json "[(c['port'], c['holder']['pid']) for c in d] == [($LISTENED, $STARTED)]"
}

@test "a name whose record is damaged says what helps, and has its port again afterwards" {
    web=$(dibs get web)
    sql "PRAGMA ignore_check_constraints=1; UPDATE claims SET bindings=x''"
    refused 3 get web
    says 'dibs doctor --fix'
    try doctor --fix
    [ "$code" -eq 1 ]
    prints '1 claim expected: 0 read, 1 lost or damaged'
    ok get web
    prints "$web"
    ok release web
    ok ls --json
    json '[c for c in d if c["name"]] == []' # a server of another program may be recorded
}

@test "doctor reports claims that conflict until one is released" {
    ok claim a --keep --port 21301 --address 127.0.0.1
    ok claim b --keep --port 21302 --address 0.0.0.0
    sql 'DROP TRIGGER slots_stay; UPDATE claims SET port=21301'
    try doctor
    [ "$code" -eq 1 ]
    prints 'port 21301: claim 2 conflicts with claim 1'
    try doctor --fix
    [ "$code" -eq 1 ]
    prints 'port 21301: claim 2 conflicts with claim 1'
    ok release b
    ok doctor
    refused 3 claim --port 21301 --address 127.0.0.1
}

@test "doctor reports a lost trigger, and --fix restores it" {
    ok get web
    sql 'DROP TRIGGER slots_stay_as_they_are'
    try doctor
    [ "$code" -eq 1 ]
    prints 'triggers'
    ok doctor --fix
    ok doctor
    not sql 'UPDATE slots SET exclusive=0'
}

@test "doctor reports names that lead elsewhere, and two claims with one name" {
    web=$(dibs get web)
    ok get db
    sql "UPDATE names SET name='lost' WHERE name LIKE '%/web'"
    try doctor
    [ "$code" -eq 1 ]
    prints "port $web: claim 1 is called 'project/web', but that name leads elsewhere"
    ok doctor --fix
    ok get web
    prints "$web"
    sql "UPDATE claims SET name='project/web' WHERE name='project/db'"
    try doctor
    prints 'has the same name as claim 1'
}

@test "a ledger of a format before 1.3 is refused, and rebuilt by doctor --fix with its claims" {
    ok get web --port 21311
    sql "DROP TRIGGER slots_stay; DROP TRIGGER slots_stay_as_they_are; DROP TABLE answers;
        ALTER TABLE names DROP COLUMN project; $(older_ledger 1000)"
    refused 6 get web
    says 'unknown version 1000'
    ok doctor --fix
    ok get /project/web
    prints 21311
}

@test "pages that point back end a listing with an error, not in an endless one" {
    ok claim web -n 600 --keep --range 13000-13999
    sqlite3 "$T/ledger.db" "PRAGMA wal_checkpoint(TRUNCATE)"
    python3 - "$T/ledger.db" <<'END'
import sqlite3, struct, sys
db = sqlite3.connect(sys.argv[1])
roots = [row[0] for row in db.execute("SELECT rootpage FROM sqlite_schema WHERE name IN ('claims', 'events', 'slots')")]
db.close()
data = bytearray(open(sys.argv[1], "rb").read())
for root in roots:  # every child of the root becomes its first one
    at = (root - 1) * 4096
    assert data[at] in (2, 5), "no inner page"
    n = struct.unpack(">H", data[at + 3:at + 5])[0]
    cells = [at + struct.unpack(">H", data[at + 12 + 2 * i:at + 14 + 2 * i])[0] for i in range(n)]
    first = data[cells[0]:cells[0] + 4]
    for cell in cells + [at + 8]:
        data[cell:cell + 4] = first
open(sys.argv[1], "wb").write(data)
END
    for command in "ls --all" reap "snapshot export"; do
        # shellcheck disable=SC2086 # words
        refused 6 $command
        grep -q 'are not in order' "$T/err"
        grep -q 'doctor --fix' "$T/err"
    done
    try doctor --fix # names and events still have all of them
    [ "$code" -eq 1 ]
    prints 'at least 600 claims expected'
    prints 'not read to the end: claims, events, slots'
    ok ls --all --json
    json 'len([c for c in d if c["port"] in range(13000, 14000)]) == 600'
}

# flip FILE AFTER BYTES: flips a bit of the first place of BYTES (hex) from the offset AFTER on.
flip() {
    python3 - "$@" <<'END'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[data.index(bytes.fromhex(sys.argv[3]), int(sys.argv[2]))] ^= 4
open(sys.argv[1], "wb").write(data)
END
}

@test "doctor finds an index entry that hides a claim" {
    ok claim --keep a --port 13103
    ok claim --keep b --port 13104
    sql 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    page=$(sql "SELECT rootpage FROM sqlite_schema WHERE name='slots'")
    flip "$T/ledger.db" $(((page - 1) * 4096)) 3330 # 13104 becomes 14128, behind 13103 as before
    try doctor
    [ "$code" -eq 1 ]
    prints 'port 13104: claim 2 has it, but nothing keeps it'
    flip "$T/ledger.db" $(((page - 1) * 4096)) 3730
    flip "$T/ledger.db" $(((page - 1) * 4096)) 332f # 13103 becomes 14127, behind 13104
    try doctor
    [ "$code" -eq 1 ]
    prints 'row not in PRIMARY KEY order for slots'
}

@test "a commit that is lost as a whole cannot be seen, and doctor says so" {
    ok claim --keep a --port 13103
    sql 'PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    ok claim --keep b --port 13104
    ok claim --keep c --port 13105
    flip "$T/ledger.db-wal" 0 3330 # SQLite drops this commit and all later ones
    rm "$T/ledger.db-shm"
    ok ls --json
    json '[c["port"] for c in d] == [13103]'
    ok doctor
    prints 'No check sees a commit that was lost as a whole'
}

@test "slots that cannot be used beside claims that cannot be read are a loss that is reported" {
    for n in 1 2 3; do ok claim --keep --port 1310$n; done # without names, so that events alone have the ports
    sql 'DELETE FROM events WHERE port=13102; PRAGMA wal_checkpoint(TRUNCATE)' >/dev/null
    page=$(sql "SELECT rootpage FROM sqlite_schema WHERE name='claims'")
    head -c 4096 /dev/zero | tr '\0' '\245' | dd of="$T/ledger.db" bs=4096 seek=$((page - 1)) conv=notrunc status=none
    page=$(sql "SELECT rootpage FROM sqlite_schema WHERE name='slots'")
    dd if=/dev/zero of="$T/ledger.db" bs=1 count=200 seek=$((page * 4096 - 200)) conv=notrunc status=none # their records
    try doctor --fix
    [ "$code" -eq 1 ]
    prints 'not read to the end: claims, slots; an unknown number of claims is missing'
    refused 3 claim --port 13101
    refused 3 claim --port 13103
    ok claim --port 13102
}
