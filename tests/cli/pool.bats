#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# dibs pool. Ports of this file: 13400-13499.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "without a word it lists the default pool" {
    ok pool
    prints 20000-32767
    ok pool ls --json
    json 'len(d) == 1 and d[0]["name"] == "default" and d[0]["ranges"] == "20000-32767"'
    ok pool --names
    [ "$out" = default ]
}

@test "D21: the manual says which the default range is, and why" {
    ok pool show default --json
    ranges=$(value 'd["ranges"]')
    for page in help man; do
        if [ $page = man ]; then "$DIBS" help --format man pool >"$T/out"; else ok help pool; fi
        tr -s '\n ' ' ' <"$T/out" | sed 's/\\-/-/g' >"$T/flat"
        grep -qF "is $ranges, unless" "$T/flat"
        grep -q 'below the range from which systems take the ports of outgoing connections' "$T/flat"
    done
}

@test "set makes a pool, changes only what is given, and rm removes it" {
    ok pool set tests --ranges 13400-13409,13420 --cooldown 10s --order lowest --band 3 --scope host
    ok pool show tests --json
    json 'd["ranges"] == "13400-13409,13420-13420" and d["cooldown_ms"] == 10000 and d["order"] == "lowest"'
    json 'd["band"] == "3" and d["scope"] == "host" and d["usage"]["size"] == 11'
    ok pool set tests --band off
    ok pool show tests --json
    json 'd["ranges"] == "13400-13409,13420-13420" and d["band"] == "off" and d["order"] == "lowest"'
    ok pool rm tests
    refused 5 pool show tests
    refused 5 pool rm tests
    refused 5 claim --pool tests
}

@test "usage counts static, dynamic, available and withheld" {
    ok pool set tests --ranges 13430-13439
    ok claim --port 13439 --pool tests
    ok claim -n 3 --pool tests
    dynamic=$(head -1 "$T/out")
    ok pool show tests --json
    json 'd["usage"] == {"size": 10, "band": 0, "static": 1, "dynamic": 3, "available": 6, "withheld": 0}'
    ok release "$dynamic"
    ok pool show tests --json
    json 'd["usage"]["dynamic"] == 2 and d["usage"]["available"] == 7'
}

@test "a pool with claims is not removed, and its name stays known" {
    ok pool set tests --ranges 13440-13449
    ok claim web --pool tests
    try pool rm tests
    [ "$code" -eq 3 ] || [ "$code" -eq 1 ]
    says 'still has 1 claim; release it first'
    one_line
    ok release web
    ok pool rm tests
}

@test "claims outside of a changed range stay, and are reported" {
    ok pool set tests --ranges 13450-13459
    ok claim web --pool tests
    port=$out
    ok pool set tests --ranges 13460-13469
    says "1 claim of pool 'tests' is outside of its ranges now, and stays: $port"
    ok claim web --pool tests
    [ "$out" = "$port" ]
    ok claim --pool tests
    [ "$out" -ge 13460 ]
}

@test "the default pool can be changed and reset" {
    ok pool set default --ranges 13470-13471
    ok claim -n 2
    refused 4 claim
    ok release --all-mine
    ok pool rm default
    ok pool show default --json
    json 'd["ranges"] == "20000-32767"'
    ok pool rm default # as it is already
    ok log --json
    json '[e["what"] for e in d].count("pool") == 2'
}

@test "bad pools are refused and nothing is stored" {
    refused 2 pool set
    refused 2 pool set tests
    refused 2 pool set tests --ranges 5-1
    refused 2 pool set tests --ranges 0-5
    refused 2 pool set tests --ranges 13400-70000
    refused 2 pool set tests --ranges 13400-13409 --band -1
    refused 2 pool set tests --ranges 13400-13409 --band 70000
    refused 2 pool set tests --ranges 13400-13409 --order sideways
    says "--order: 'sideways' is none of: stride, dcp-stride, random, lowest"
    refused 2 pool set tests --ranges 13400-13409 --cooldown 5
    refused 2 pool set tests --ranges 13400-13409 --scope galaxy
    refused 2 pool set 'bad name' --ranges 13400-13409
    refused 2 pool set "$(printf 'p%.0s' {1..300})" --ranges 13400-13409
    refused 2 pool shrink tests
    refused 2 pool show
    refused 2 pool rm
    refused 2 pool rm a b
    refused 2 pool ls tests
    refused 2 pool ls --order lowest
    says 'has no option --order'
    says 'dibs pool set'
    ok pool --names
    [ "$out" = default ]
    nothing_claimed
}

@test "doctor reports a pool that overlaps the ephemeral range" {
    read -r first last </proc/sys/net/ipv4/ip_local_port_range
    try pool set risky --ranges "$first-$((first + 9))"
    [ "$code" -eq 0 ]
    says "pool 'risky' overlaps the kernel's ephemeral range: dynamic choice leaves out 10 of its 10 ports"
    try doctor
    prints ephemeral
    prints risky
    ok pool show risky --json
    json 'd["usage"]["withheld"] == 10 and d["usage"]["available"] == 0'
    [ "$last" -gt "$first" ]
}

@test "the pools of a shared ledger are its owner's to change" {
    shared_ledger
    ok pool set p --ranges 13490-13495
    capture as_nobody "$DIBS" pool set p --ranges 13490-13491
    [ "$code" -eq 7 ]
    capture as_nobody "$DIBS" pool rm p
    [ "$code" -eq 7 ]
    ok snapshot export
    sed 's/13490-13495/13490-13492/' "$T/out" >"$T/changed.json"
    not cmp -s "$T/out" "$T/changed.json"
    as_nobody "$DIBS" snapshot import - <"$T/out"
    capture as_nobody "$DIBS" snapshot import - <"$T/changed.json"
    [ "$code" -eq 7 ]
    ok pool show p --json
    json 'd["ranges"] == "13490-13495"'
    port=$(as_nobody "$DIBS" claim --pool p)
    [ "$port" -ge 13490 ]
}

# To a daemon its own user is the owner, even if the file's owner changes later.
# bats test_tags=unserved
@test "a user with write access to a shared ledger's file may change its pools" {
    shared_ledger
    chown 65534 "$T/ledger.db"
    as_nobody "$DIBS" pool set p --ranges 13490-13491
}
