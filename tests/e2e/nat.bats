#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # the inner shell's words; and what is loaded below
# Ports that NAT rules publish without a socket. Each test has a network namespace of its own, with its own rules.
load ../support/dibs
load ../support/serve
load ../support/sandbox
load ../cli/cli

setup() {
    dibs_setup
    unshare --net true 2>/dev/null || skip "needs root"
}
teardown() { sandbox_teardown; }

# inside NAME: run a function of this file in a network namespace of its own.
inside() {
    declare -f "$1" is_free published_by >"$T/steps"
    unshare --net bash -c 'ip link set lo up; ip addr add 10.9.9.1/24 dev lo
        set -eE; trap "echo failed at line \$LINENO: \$BASH_COMMAND >&2" ERR
        for part in support/dibs support/serve support/sandbox cli/cli; do . "$DIBS_TEST_SUPPORT/../$part.bash"; done
        . "$T/steps"; '"$1"
}
export DIBS_TEST_SUPPORT

# is_free PORT [OPTION]... ; published_by TEXT PORT [OPTION]...: refused, and the rule is named
is_free() {
    ok claim --dry-run --port "$@"
}
published_by() {
    refused 3 claim --dry-run --port "${@:2}"
    says "by a NAT rule: $1"
}

at_once() {
    is_free 21000
    nft -f - <<'N'
table ip t {
    chain web { }
    chain pre { type nat hook prerouting priority -100; jump web; }
}
N
    is_free 21000
    nft add rule ip t web tcp dport 21000 counter dnat to 10.0.0.5:80
    published_by "table ip t, chain web: dnat to 10.0.0.5:80" 21000
    is_free 21000 --proto udp
    is_free 21001
    is_free 21000 --address ::1 # the table is IPv4's
    published_by "table ip t, chain web: dnat to 10.0.0.5:80" 21000 --address 10.9.9.1
    refused 4 claim --range 21000-21000
    for _ in 1 2 3 4; do # what is published is passed over
        ok claim --range 21000-21004
        [ "$out" -ne 21000 ]
    done
    ok who 21000
    [ "$out" = "nat     tcp 0.0.0.0:21000  table ip t, chain web: dnat to 10.0.0.5:80" ]
    ok who 21000 --json
    json 'd["claims"] == d["sockets"] == [] and d["nat"][0]["text"].endswith("dnat to 10.0.0.5:80")'
    refused 5 who 21000 --proto udp
    ok explain 21000
    prints "port 21000 cannot be claimed"
    prints "nat: published on tcp 0.0.0.0 by a NAT rule: table ip t, chain web: dnat to 10.0.0.5:80"
    ok explain 21000 --json
    json 'not d["can_claim"] and d["reasons"][0]["kind"] == "nat" and len(d["nat"]) == 1'
    nft flush chain ip t web
    is_free 21000
    refused 5 who 21000
    ok claim web --port 21000 --keep
    nft add rule ip t web tcp dport 21000 dnat to 10.0.0.5:80 # the claim's user publishes a container on it
    ok ls --audit
    prints "a NAT rule"
    ok ls --audit --json
    json 'd["claims"][-1]["nat"][0]["port"] == 21000'
    ok claim web --port 21000 --keep # its name has it, whatever is there
    ok release web
    nft flush chain ip t web
    nft add rule ip t web tcp dport 21000 drop # no NAT
    nft add rule ip t web tcp sport 21000 redirect
    nft add rule ip t web meta l4proto tcp redirect to :8080 # every port: none in particular
    is_free 21000
}
@test "a port with a dnat rule is not to be had, and is the moment the rule is gone" {
    inside at_once
}

audited() {
    nft -f - <<'N'
table ip t {
    chain web {
        tcp dport 21200 dnat to 10.0.0.5:80
        tcp dport { 21201-21203 } dnat to 10.0.0.6
        udp dport 21200 redirect to :53
        ip daddr 10.77.0.1 tcp dport 21204 dnat to 10.0.0.5 # another host's
        tcp dport 21205 dnat to 10.0.0.7
        tcp dport 21999 dnat to 10.0.0.8 # outside of the pool
    }
    chain pre { type nat hook prerouting priority -100; jump web; }
}
N
    ok pool set small --ranges 21200-21299
    ok claim --declare 21201 --keep
    listen 21205 # a userland proxy: one use of the port
    ok ls --audit --all --pool small
    prints "published without a claim by a NAT rule: table ip t, chain web: dnat to 10.0.0.5:80"
    ok ls --audit --all --pool small --json
    json '[(u["proto"], u["port"], u["text"].split("rule: ")[1]) for u in d["unclaimed"] if "NAT" in u["text"]] == [
        ("tcp", 21200, "table ip t, chain web: dnat to 10.0.0.5:80"),
        ("tcp", 21202, "table ip t, chain web: dnat to 10.0.0.6"),
        ("tcp", 21203, "table ip t, chain web: dnat to 10.0.0.6"),
        ("udp", 21200, "table ip t, chain web: redirect to :53")]'
    json '[u["port"] for u in d["unclaimed"] if "NAT" not in u["text"]] == [21205]'
    ok repair --pool small # it claims none of them: no process holds them
    prints "unclaimed tcp 0.0.0.0 21200 -: published without a claim by a NAT rule: table ip t, chain web"
    nft flush chain ip t web
    ok ls --audit --all --pool small --json
    json 'not [u for u in d["unclaimed"] if "NAT" in u["text"]]'
}
@test "the audit lists published ports without a claim, with their rules" {
    inside audited
}

every_form() {
    nft -f - <<'N'
table inet u {
    map m { type inet_service : ipv4_addr . inet_service; elements = { 21010 : 10.1.1.1 . 80, 21011 : 10.1.1.2 . 81 } }
    map v { type ipv4_addr . inet_proto . inet_service : verdict; flags interval; elements = { 10.9.9.1 . tcp . 21020-21024 : goto svc, 10.9.9.1 . udp . 21026 : goto svc } }
    set s { type inet_service; flags interval; elements = { 21030-21033, 21040 } }
    chain svc { dnat ip to 10.5.5.5
    }
    chain out {
        type nat hook output priority -100;
        dnat ip to tcp dport map @m
        ip daddr . ip protocol . th dport vmap @v
        tcp dport @s redirect to :1
        ip6 daddr ::1 tcp dport 21050 dnat to [fd00::1]:80
        tcp sport 5 tcp dport 21060 redirect
        udp dport 21061-21063 ip daddr 10.9.9.1 redirect
        ip daddr 10.77.0.1 tcp dport 21064 dnat to 10.1.1.1
        tcp dport { 21070, 21072-21073 } dnat ip to 10.5.5.6
        tcp dport vmap { 21080 : goto svc, 21081 : drop }
    }
    chain filter { type filter hook input priority 0; tcp dport 21090 jump never; }
    chain never { tcp dport 21091 drop; }
}
N
    for port in 21009 21012 21019 21025 21029 21034 21039 21041 21064 21071 21074 21081 21090 21091; do is_free $port; done
    for port in 21020 21024 21030 21033 21040 21050 21060 21070 21072 21073 21080; do
        published_by "table inet u, chain out: " $port || { echo "port $port"; return 1; }
    done
    published_by "table inet u, chain out: dnat to 10.1.1.1:80" 21010
    published_by "table inet u, chain out: dnat to 10.1.1.2:81" 21011
    published_by "table inet u, chain out: dnat to [fd00::1]:80" 21050 --address ::1
    published_by "table inet u, chain out: redirect" 21062 --proto udp --address 10.9.9.1
    is_free 21020 --proto udp
    is_free 21020 --address 127.0.0.1
    is_free 21050 --address 127.0.0.1
    is_free 21062 --proto udp --address 127.0.0.1
}
@test "sets, ranges, maps, verdict maps and addresses of nftables" {
    inside every_form
}

by_iptables() {
    iptables-nft -t nat -N DOCKER
    iptables-nft -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
    iptables-nft -t nat -A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
    iptables-nft -t nat -A DOCKER ! -i docker0 -p tcp --dport 21100 -j DNAT --to-destination 172.17.0.2:80
    iptables-nft -t nat -A DOCKER -p udp -m multiport --dports 21101,21103:21105 -j REDIRECT --to-ports 99
    ip6tables-nft -t nat -A PREROUTING -p tcp -d ::1 --dport 21110 -j DNAT --to '[fd00::1]:80'
    published_by "table ip nat, chain DOCKER: dnat to 172.17.0.2:80" 21100
    is_free 21101
    for port in 21101 21103 21105; do
        published_by "table ip nat, chain DOCKER: redirect to :99" $port --proto udp
    done
    is_free 21102 --proto udp
    published_by "table ip6 nat, chain PREROUTING: dnat to [fd00::1]:80" 21110
    is_free 21110 --address 127.0.0.1
    iptables-nft -t nat -F DOCKER
    is_free 21100
}
@test "rules of iptables-nft, as a container engine makes them" {
    inside by_iptables
}

by_legacy() {
    is_free 21200
    [ ! -s /proc/net/ip_tables_names ] # looking makes no table
    iptables-legacy -t nat -N CNI-DN
    iptables-legacy -t nat -A PREROUTING -m addrtype --dst-type LOCAL -j CNI-DN
    is_free 21200
    iptables-legacy -t nat -A CNI-DN -p tcp --dport 21200 -j DNAT --to-destination 10.0.0.1:80
    iptables-legacy -t nat -A CNI-DN -p tcp -d 10.9.9.1 -m multiport --dports 21201,21203:21204 -j REDIRECT --to-ports 99
    ip6tables-legacy -t nat -A OUTPUT -p udp --dport 21210:21212 -j DNAT --to-destination '[fd00::1]:80'
    published_by "table nat of iptables-legacy, chain CNI-DN: dnat to 10.0.0.1:80" 21200
    for port in 21201 21203 21204; do
        published_by "table nat of iptables-legacy, chain CNI-DN: redirect to :99" $port
    done
    is_free 21202
    is_free 21205
    is_free 21201 --address 127.0.0.1
    published_by "table nat of ip6tables-legacy, chain OUTPUT: dnat to [fd00::1]:80" 21211 --proto udp
    ok who 21200
    prints "table nat of iptables-legacy, chain CNI-DN: dnat to 10.0.0.1:80"
    iptables-legacy -t nat -D CNI-DN -p tcp --dport 21200 -j DNAT --to-destination 10.0.0.1:80
    is_free 21200
    iptables-legacy -t nat -F
    is_free 21201
}
@test "rules of iptables-legacy" {
    unshare --net iptables-legacy -t nat -S >/dev/null 2>&1 || skip "this kernel has no iptables-legacy"
    inside by_legacy
}

through_a_daemon() {
    public_folder
    SOCKET_DIR=$PUBLIC
    chmod 0755 "$PUBLIC"
    serve_start
    nft -f - <<'N'
table ip t {
    chain pre { type nat hook prerouting priority -100; tcp dport 21300 dnat to 10.0.0.5:80; }
}
N
    ASK_BY=(as_user 65534)
    ask /v1/ports/tcp/21300
    assert_code 200
    [ "$(member nat.0.text)" = "table ip t, chain pre: dnat to 10.0.0.5:80" ]
    [ "$(member reasons.0.kind)" = nat ]
    ask --json '{"port": 21300, "mode": "required"}' /v1/claims
    assert_code 409
    [ "$(member blocker.relation)" = nat ]
    [ "$(member blocker.port)" = 21300 ]
    iptables-legacy -t nat -A OUTPUT -p tcp --dport 21301 -j REDIRECT --to-ports 99 || true
    if [ -s /proc/net/ip_tables_names ]; then
        sleep 1.1 # the daemon looks for a first table once a second
        ask --json '{"port": 21301, "mode": "required"}' /v1/claims
        assert_code 409
        iptables-legacy -t nat -F
        ask --json '{"port": 21301, "mode": "required"}' /v1/claims
        assert_code 201
    fi
    nft delete table ip t
    ask --json '{"port": 21300, "mode": "required"}' /v1/claims
    assert_code 201
}
@test "an ordinary user's claim through root's daemon knows them, and every change at once" {
    inside through_a_daemon
}

unseen() {
    public_folder
    nft -f - <<'N'
table ip t {
    chain pre { type nat hook prerouting priority -100; tcp dport 21300 dnat to 10.0.0.5:80; }
}
N
    ok doctor
    prints "1 port or range published by NAT rules"
    capture as_user 65534 env DIBS_LEDGER="sqlite:$PUBLIC/u.db" XDG_STATE_HOME="$PUBLIC" HOME="$PUBLIC" "$DIBS" doctor
    prints "ports that NAT rules publish are not seen: that needs CAP_NET_ADMIN"
    capture as_user 65534 env DIBS_LEDGER="sqlite:$PUBLIC/u.db" XDG_STATE_HOME="$PUBLIC" HOME="$PUBLIC" "$DIBS" claim --port 21300
    [ "$code" -eq 0 ]
}
@test "where the rules cannot be read, doctor says so" {
    inside unseen
}

remembered() {
    nft add table ip t
    nft 'add chain ip t pre { type nat hook prerouting priority -100; }'
    is_free 21500
    [ ! -e "$T/ledger.db-nat" ] # few rules are read as fast as a file
    for port in {21500..21540}; do echo "add rule ip t pre tcp dport $port dnat to 10.0.0.5:80"; done | nft -f -
    published_by "table ip t, chain pre: dnat to 10.0.0.5:80" 21500
    [ "$(stat -c '%U %a' "$T/ledger.db-nat")" = "root 600" ]
    rules_read() { strace -f -e trace=sendto "$DIBS" who "$1" 2>&1 >"$T/out" | grep -c GETRULE; }
    [ "$(rules_read 21541)" -eq 0 ]
    [ "$(rules_read 21540)" -eq 1 ] # the file has the ports, the rules have the text
    grep -q "tcp 0.0.0.0:21540  table ip t, chain pre: dnat to 10.0.0.5:80" "$T/out"
    nft add rule ip t pre tcp dport 21541 dnat to 10.0.0.5:80
    [ "$(rules_read 21542)" -eq 1 ] # another generation
    [ "$(rules_read 21542)" -eq 0 ]
    published_by "table ip t, chain pre: " 21541
    for damage in '$d' 's/.*//'; do # what is not as written is read again
        sed -i "$damage" "$T/ledger.db-nat"
        ok who 21541
        published_by "table ip t, chain pre: " 21541
    done
    chmod 0666 "$T/ledger.db-nat" # anybody might have written it
    [ "$(rules_read 21542)" -eq 1 ]
    nft flush chain ip t pre
    is_free 21541
    unshare --net "$DIBS" claim --dry-run --port 21540 # the rules of another network namespace
}

remembered_a_second() {
    for port in {21600..21640}; do iptables-legacy -t nat -A PREROUTING -p tcp --dport "$port" -j REDIRECT --to-ports 99; done
    is_read() { strace -f -e trace=getsockopt "$DIBS" who 21641 2>&1 | grep -q GET_ENTRIES; }
    is_read
    is_not_read() { ! is_read; } # a second is over soon on a busy machine
    wait_until 10 is_not_read
    published_by "table nat of iptables-legacy, chain PREROUTING: redirect to :99" 21640
    iptables-legacy -t nat -D PREROUTING 1 # the table's size
    is_read
    is_free 21600
    sed -i '$d' "$T/ledger.db-nat4"
    is_read
    iptables-legacy -t nat -R PREROUTING 1 -p tcp --dport 21641 -j REDIRECT --to-ports 99 # of the same size
    is_published() { dibs claim --dry-run --port 21641; [ $? -eq 3 ]; }
    wait_until 10 is_published
}
# bats test_tags=unserved
@test "a command finds the ports of many rules in a file, until they change" { # a daemon remembers them itself
    command -v strace >/dev/null || skip "needs strace"
    inside remembered
}
# bats test_tags=unserved
@test "of many rules of iptables-legacy a file is valid for a second, or until the table's size changes" { # as above
    command -v strace >/dev/null || skip "needs strace"
    unshare --net iptables-legacy -t nat -S >/dev/null 2>&1 || skip "this kernel has no iptables-legacy"
    inside remembered_a_second
}

by_ipvs() {
    ipvsadm -A -t 10.9.9.1:21400 -s rr
    published_by "IPVS: a virtual service, see 'ipvsadm -Ln'" 21400
    is_free 21401
}
@test "a virtual service of IPVS" {
    [ -e /proc/net/ip_vs ] || skip "this kernel has no IPVS"
    command -v ipvsadm >/dev/null || skip "there is no ipvsadm"
    inside by_ipvs
}
