#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Bands on, off and on again over one ledger (INV-8, K10). In a network namespace of its own, so that every
# port of the range is free for sure.
load ../support/dibs
load ../support/sandbox

setup() {
    dibs_setup
    needs_root
    sandbox_start --net
    in_sandbox "$SANDBOX" ip link set lo up
    export DIBS_RANGE=30000-30128 # 129 ports: band 16, first dynamic 30016
}

teardown() { sandbox_teardown; }

here() { in_sandbox "$SANDBOX" "$DIBS" "$@"; }

with_band() { # with_band BAND ARGUMENT...
    local band=$1
    shift
    in_sandbox "$SANDBOX" env DIBS_BAND="$band" "$DIBS" "$@"
}

# Claims and slots, byte for byte.
rows() { sqlite3 -batch "$T/ledger.db" '.dump claims' '.dump slots'; }

# all_of FIRST LAST: standard input is these numbers, each once.
all_of() { diff <(sort -n) <(seq "$1" "$2"); }

@test "K10: dynamic ports come from the upper band, 30086 first, and spill when it is exhausted" {
    export DIBS_RANGE=30000-32767
    run here claim --dry-run --port 30085
    assert_status 0
    run in_sandbox "$SANDBOX" env DIBS_ORDER=lowest "$DIBS" claim --keep
    assert_status 0
    [ "$output" = 30086 ]
    here claim -n 2681 --keep >"$T/upper"
    { cat "$T/upper"; echo 30086; } | all_of 30086 32767
    here claim -n 86 --keep >"$T/lower"
    all_of 30000 30085 <"$T/lower"
    refused 4 "" here claim --keep
}

@test "the whole range can be had with bands and without" {
    for band in auto off 16 128; do
        export DIBS_LEDGER=sqlite:$T/$band.db
        with_band "$band" claim -n 129 --keep | all_of 30000 30128
        refused 4 "" with_band "$band" claim --keep
        with_band "$band" release --all-mine 2>/dev/null
    done
}

@test "a static claim in the upper band and dynamic claims in the lower one are left alone by any setting" {
    here claim --port 30100 --keep
    with_band off claim -n 60 --keep >"$T/off"
    [ "$(awk '$1 < 30016' "$T/off" | wc -l)" -gt 0 ] || echo "# no dynamic port in the lower band" >&3
    rows >"$T/before"
    for band in auto off 100 auto off; do
        with_band "$band" ls >/dev/null
        with_band "$band" pool >/dev/null
        with_band "$band" explain 30005 >/dev/null || true
        with_band "$band" claim --dry-run >/dev/null
        with_band "$band" reap 2>/dev/null
        with_band "$band" doctor >/dev/null
        rows >"$T/after"
        cmp "$T/before" "$T/after"
    done
    { cat "$T/off"; echo 30100; with_band auto claim -n 68 --keep; } | all_of 30000 30128
}

@test "rows stay byte for byte while claims are made on, off and on again, and no port is given twice" {
    with_band auto claim -n 40 --keep >"$T/got"
    [ "$(sort -n "$T/got" | head -1)" -ge 30016 ]
    rows | grep 'INTO claims' | sort >"$T/first"
    with_band off claim -n 40 --keep >>"$T/got"
    rows | grep 'INTO claims' | sort >"$T/second"
    [ -z "$(comm -23 "$T/first" "$T/second")" ] # every row of then is there, unchanged
    with_band auto claim -n 49 --keep >>"$T/got"
    rows | grep 'INTO claims' | sort >"$T/third"
    [ -z "$(comm -23 "$T/second" "$T/third")" ]
    all_of 30000 30128 <"$T/got"
    refused 4 "" with_band off claim --keep
}

@test "processes with opposite settings share a ledger: full capacity, no duplicate" {
    local band n=0
    worker() {
        local port
        while port=$(DIBS_BAND=$1 timeout 30 "$DIBS" claim --keep 2>"$T/error.$2"); do echo "$port"; done >"$T/got.$2"
        echo $? >"$T/end.$2"
    }
    export -f worker
    local pids=()
    for band in auto off 64 off auto 0 128 auto; do
        n=$((n + 1))
        start_in_sandbox "$SANDBOX" bash -c 'worker "$@"' worker "$band" "$n"
        pids+=("$STARTED")
    done
    wait "${pids[@]}"
    cat "$T"/got.* | all_of 30000 30128
    for n in 1 2 3 4 5 6 7 8; do grep -q "exhausted\|no free port\|no port" "$T/error.$n"; done
    [ "$(sql 'SELECT count(DISTINCT port) FROM claims')" = 129 ]
    [ "$(sql 'PRAGMA integrity_check')" = ok ]
}

@test "with a band the lower ports are used only after the upper ones, whichever ports others took" {
    with_band off claim -n 15 --keep >"$T/off" # fewer than the lower band has: one of its ports is left
    local upper
    upper=$((113 - $(awk '$1 >= 30016' "$T/off" | wc -l)))
    with_band auto claim -n "$upper" --keep >"$T/upper"
    [ "$(sort -n "$T/upper" | head -1)" -ge 30016 ]
    with_band auto claim --keep >"$T/lower"
    [ "$(cat "$T/lower")" -lt 30016 ]
}
