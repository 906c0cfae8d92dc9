#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# Where a claim is: addresses, ranges, pools, bands, orders. Ports of this file: 12500-12999.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "every form of an address is understood and normalised" {
    needs ip
    ip -6 addr show dev lo 2>/dev/null | grep -q ::1 || skip "this host has no IPv6"
    port=12500
    while read -r form want; do
        ok claim --port $port --address "$form" --json
        json "' '.join(b['address'] for b in d[0]['bindings']) == '${want//_/ }'"
        port=$((port + 1))
    done <<'END'
* *
:: *
0.0.0.0 0.0.0.0
127.0.0.1 127.0.0.1
::1 ::1
[::1] ::1
::ffff:127.0.0.1 127.0.0.1
localhost 127.0.0.1_::1
END
}

@test "localhost covers both loopbacks" {
    ok claim a --port 12510 --address localhost
    refused 3 claim b --port 12510 --address 127.0.0.1
    ok claim c --port 12510 --address 127.0.0.2
    refused 3 claim d --port 12510 --address 0.0.0.0
}

@test "several addresses are one claim" {
    ok claim --port 12520 --address 127.0.0.1 --address 127.0.0.3 --proto tcp,udp --json
    json 'len(d) == 1 and len(d[0]["bindings"]) == 4'
    ok claim --port 12520 --address 127.0.0.2
    refused 3 claim --port 12520 --address 127.0.0.3 --proto udp
    refused 2 claim --port 12521 --proto tcp+udp --address 127.0.0.1 --address 127.0.0.2 --address 127.0.0.3 \
        --address 127.0.0.4 --address 127.0.0.5
}

@test "a wildcard and an address of it conflict, and the own wildcard is called so" {
    ok claim all --port 12530
    refused 3 claim one --port 12530 --address 127.0.0.1
    says wildcard
    try claim one --port 12530 --address 127.0.0.1 --json
    [ "$code" -eq 3 ]
    [ -z "$out" ]
    cp "$T/err" "$T/out"
    json 'd["error"]["blocker"]["relation"] == "own_wildcard" and d["error"]["exit"] == 3'
    ok claim six --port 12531 --address 0.0.0.0
    refused 3 claim seven --port 12531 --address ::
}

@test "the wildcards of both families are one claim, as 0.0.0.0 and an IPv6-only :: beside it" {
    ok claim both --port 12540 --address 0.0.0.0 --address :: --json
    json '[b["address"] for b in d[0]["bindings"]] == ["*"]'
    ok claim both --port 12540 --address :: --address 0.0.0.0 --json
    json 'd[0]["was_there"]'
    refused 3 claim other --port 12540 --address 127.0.0.1
    refused 3 claim other --port 12540 --address ::1
    listen 12541 tcp 0.0.0.0
    refused 3 claim other --port 12541 --address 0.0.0.0 --address ::
    refused 2 claim other --address 0.0.0.0 --address ::1 --address ::
    refused 2 claim other --address 0.0.0.0 --address 127.0.0.1
    printf 'roles: {web: {ports: [{name: http, address: [0.0.0.0, "::"]}]}}\n' >dibs.yaml
    ok up
    ok plan --json
    json '[c["change"] for c in d] == ["keep"]'
}

@test "host names, zones and nonsense are no addresses" {
    for address in example.org 127.0.0.256 1.2.3 ::1::2 fe80::1%lo '[::1' 127.0.0.1:80 0x7f.1 ' 127.0.0.1'; do
        refused 2 claim --address "$address"
    done
    refused 1 claim --address 192.0.2.77 # TEST-NET-1: well-formed, of no interface here
    nothing_claimed
}

@test "a link-local address is refused at once, with and without its interface" {
    for address in fe80::1%lo fe80::1 febf::1; do
        refused 2 claim --address "$address"
        says "cannot be claimed"
    done
    nothing_claimed
    ok claim --declare 12590 --address fe80::1 # nobody has to bind it
}

@test "protocols are tcp, udp and sctp" {
    for proto in icmp TCP+ +tcp tcp++udp 'tcp,,' 6 'tcp udp'; do
        refused 2 claim --proto "$proto"
    done
    nothing_claimed
}

@test "SCTP is claimed where the kernel has it" {
    "$PYTHON" -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132)' 2>/dev/null ||
        skip "this kernel has no SCTP"
    ok claim --proto sctp --range 12540-12549
}

@test "a range is a list of numbers, spans and counts" {
    ok claim -n 7 --range '12550, 12552-12553,12560+3'
    [ "$(sort "$T/out" | tr '\n' ' ')" = '12550 12552 12553 12560 12561 12562 12563 ' ]
    refused 4 claim --range 12550,12552-12553,12560+3
    says 12550
}

@test "a pool gives its ports, its low band last" {
    ok pool set small --ranges 12570-12609 --order lowest
    ok claim --pool small
    [ "$out" = 12586 ] # 40 ports: a band of 16
    ok claim -n 23 --pool small
    ok claim --pool small
    [ "$out" = 12570 ]
    ok claim --pool small --band off
    ok claim --pool small --json
    json 'd[0]["pool"] == "small"'
}

@test "bands on, off and on again change nothing that is stored" {
    ok pool set small --ranges 12610-12649 --order lowest
    ok claim --pool small
    [ "$out" = 12626 ]
    ok claim --pool small --band off
    [ "$out" = 12610 ]
    before=$(sql 'SELECT * FROM slots')
    ok pool set small --band off
    ok pool set small --band auto
    [ "$(sql 'SELECT * FROM slots')" = "$before" ]
    ok claim -n 38 --pool small
    refused 4 claim --pool small --band off
    [ "$(sql 'SELECT count(DISTINCT port) FROM claims')" -eq 40 ]
}

@test "a pool that is not there is not found" {
    refused 5 claim --pool nowhere
    says nowhere
    DIBS_POOL=nowhere refused 5 claim
    nothing_claimed
}

@test "DIBS_RANGE is the range of the default pool, --pool of the settings another pool" {
    DIBS_RANGE=12650-12659 ok claim -n 10
    [ "$(sort "$T/out" | head -1)" = 12650 ]
    [ "$(sort "$T/out" | tail -1)" = 12659 ]
    DIBS_RANGE=12650-12659 refused 4 claim
    ok pool set mine --ranges 12660-12662
    DIBS_POOL=mine ok claim
    [ "$out" -ge 12660 ]
    [ "$out" -le 12662 ]
}

@test "every order hands out the whole pool without a repetition" {
    for order in stride dcp-stride random lowest; do
        ok claim -n 30 --range 12670-12699 --order $order
        [ "$(sort -u "$T/out" | wc -l)" -eq 30 ]
        ok release --all-mine
    done
    refused 2 claim --order sideways
}

@test "a released port rests: others of its band come first" {
    rest='--range 12700-12703 --order lowest --cooldown 1m'
    # shellcheck disable=SC2086 # several words
    {
        ok claim $rest
        [ "$out" = 12700 ]
        ok release 12700
        ok claim $rest
        [ "$out" = 12701 ]
        ok claim own $rest
        own=$out
        ok release own
        ok claim $rest
        [ "$out" != "$own" ]
        ok claim own $rest
        [ "$out" = "$own" ]
        ok claim $rest # no capacity is lost
        refused 4 claim $rest
    }
}

@test "ephemeral ports are chosen only when that is allowed" {
    read -r first last </proc/sys/net/ipv4/ip_local_port_range
    range=$((first + 1000))-$((first + 1009))
    [ $((first + 1009)) -le "$last" ]
    refused 4 claim --range $range
    says ephemeral
    ok claim --range $range --allow-ephemeral
    ok claim --port $((first + 1020)) # a requested number is possible
}

@test "ports that browsers refuse are not chosen for tcp" {
    refused 4 claim --range 6665-6669
    says '--allow-blocked adds up to 5'
    ok claim --range 6665-6669 --proto udp
    ok claim --port 6666
}

@test "ports that browsers refuse are chosen when that is allowed, by flag or setting" {
    ok explain 6667 --range 6665-6669 --allow-blocked --json
    json '"browser" in [r["kind"] for r in d["reasons"]] and d["can_choose"]'
    ok explain 6667 --range 6665-6669 --json
    json 'not d["can_choose"]'
    ok claim --range 6665-6669 --allow-blocked
    DIBS_ALLOW_BLOCKED=yes ok claim --range 6665-6669
    mkdir -p "$XDG_CONFIG_HOME/dibs"
    echo 'allow-blocked: true' >"$XDG_CONFIG_HOME/dibs/dibs.yaml"
    ok claim --range 6665-6669
    refused 4 claim -n 3 --range 6665-6669
    case $errs in *--allow-blocked*) complain 'advises what is already set' ;; esac
}
