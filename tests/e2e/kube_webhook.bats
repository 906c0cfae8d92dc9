#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# The admission webhook as a process: reviews over real TLS, two replicas on one real etcd. What each review means is in
# unit/test_kube_*.c. Ports are claimed, never bound.
load ../support/dibs
load ../support/etcd

setup() {
    dibs_setup
    needs openssl python3
    make_certificate tls
    (umask 077 && printf 'id test\nkey %s\n' 0123456789abcdef0123456789abcdef >"$T/installation")
    REPLICAS=() PORTS=()
}
teardown() { dibs_teardown; }

# make_certificate NAME: $T/NAME.cert and .key, in one step each.
make_certificate() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -keyout "$T/new.key" \
        -out "$T/new.cert" -subj "/CN=dibs-$RANDOM" -addext subjectAltName=IP:127.0.0.1 2>"$T/openssl.log"
    mv "$T/new.key" "$T/$1.key"
    mv "$T/new.cert" "$T/$1.cert"
}

# hook_start: one more replica, ready on return; its log is $T/hook.N.log.
hook_start() {
    local n=${#REPLICAS[@]} port try
    for try in 1 2 3 4 5; do # somebody may take the port before it does
        port=$("$DIBS_TEST_SUPPORT/free_port.py")
        DIBS_NODE=hook$n start "$DIBS" kube webhook --listen "127.0.0.1:$port" --tls-cert "$T/tls.cert" \
            --tls-key "$T/tls.key" --installation "$T/installation" --template 'RoleInstance=spec.components[].template' 2>"$T/hook.$n.log"
        REPLICAS[n]=$STARTED
        PORTS[n]=$port
        wait_until 30 hook_is_up "$n" || { cat "$T/hook.$n.log" >&2; return 1; }
        if kill -0 "$STARTED" 2>/dev/null; then return 0; fi
        grep -q 'listening on' "$T/hook.$n.log" || { cat "$T/hook.$n.log" >&2; return 1; }
    done
    return 1
}
# Up, or gone.
hook_is_up() {
    ! kill -0 "${REPLICAS[$1]}" 2>/dev/null || get "$1" /readyz
}
get() { # get N PATH
    curl -sf --noproxy '*' --max-time 5 --cacert "$T/tls.cert" "https://127.0.0.1:${PORTS[$1]}$2"
}
hook() { # hook CASE
    timeout -k 5 240 python3 "$BATS_TEST_DIRNAME/kube_webhook.py" "$1" "$T/tls.cert" "${PORTS[@]}"
}
two_replicas() {
    etcd_start 1
    export DIBS_LEDGER=$ETCD_URL
    node beside
    hook_start
    hook_start
}

@test "500 pods at once through two replicas have 500 ports, and a repeated request through the other changes nothing" {
    two_replicas
    hook many
    on beside ls --all --pool kube --json >"$T/claims.json"
    python3 - "$T/claims.json" <<'PY'
import json, sys
claims = json.load(open(sys.argv[1]))
claims = claims.get("claims", claims) if isinstance(claims, dict) else claims
ports = [c["port"] for c in claims]
assert len(ports) == len(set(ports)) == 500, (len(ports), len(set(ports)))
# No longer than the API server may take, with half as much again: refused pods hold their ports for as long.
assert {c["holder"]["ttl_ms"] for c in claims} == {90000}
PY
}

@test "copies get ports of their own, and the rules of a review hold on every replica" {
    two_replicas
    hook copies
    hook rules
    run on beside ls --all --pool kube
    [[ $output != *dry* ]]
}

@test "a malformed review is a 400 and claims nothing" {
    hook_start
    hook bad
}

@test "a certificate that changes is used without a restart, and by SIGHUP at once" {
    hook_start
    make_certificate tls
    wait_until 20 get 0 /healthz # with the new one as the authority
    make_certificate tls
    kill -HUP "${REPLICAS[0]}"
    wait_until 20 get 0 /healthz
    openssl req -new -key "$T/tls.key" -subj /CN=x | openssl x509 -req -signkey "$T/tls.key" -days -1 -out "$T/old.cert" 2>/dev/null
    cp "$T/tls.cert" "$T/good.cert"
    mv "$T/old.cert" "$T/tls.cert"
    wait_until 20 grep -q 'the certificate is not valid.*expired at' "$T/hook.0.log"
    cp "$T/good.cert" "$T/new.cert"
    mv "$T/new.cert" "$T/tls.cert"
    wait_until 20 get 0 /healthz
    echo nonsense >"$T/tls.cert.bad"
    cp "$T/tls.cert" "$T/good.cert"
    mv "$T/tls.cert.bad" "$T/tls.cert"
    wait_until 20 grep -q 'the certificate cannot be read again' "$T/hook.0.log"
    mv "$T/good.cert" "$T/tls.cert"
    get 0 /healthz # the one before stayed
}

@test "without its ledger a replica refuses with a reason, in time, and goes on when it is back" {
    two_replicas
    etcd_kill 0
    run hook create
    [ "$status" -eq 0 ]
    [[ $output == 503* ]]
    run get 0 /readyz
    [ "$status" -ne 0 ]
    get 0 /healthz
    etcd_member 0
    wait_until 60 get 0 /readyz
    wait_until 30 is_allowed # by whichever replica is asked
}
is_allowed() { [ "$(hook create)" = allowed ]; }

@test "SIGTERM ends it with success, and what it was asked before is answered" {
    needs ss
    etcd_start 1
    export DIBS_LEDGER=$ETCD_URL
    hook_start
    kill -STOP "${ETCD_PIDS[0]}"
    start_hook_create
    wait_until 20 is_asked "${ETCD_PORTS[0]}"
    kill -TERM "${REPLICAS[0]}"
    kill -CONT "${ETCD_PIDS[0]}"
    wait "$STARTED"
    [ "$(cat "$T/created")" = allowed ]
    wait "${REPLICAS[0]}"
    grep -q 'msg=stopping' "$T/hook.0.log"
}
start_hook_create() {
    start timeout -k 5 60 python3 "$BATS_TEST_DIRNAME/kube_webhook.py" create "$T/tls.cert" "${PORTS[0]}" >"$T/created"
}
# Does something wait to be read by the server of the port?
is_asked() {
    ss -Htn state established "sport = :$1" | grep -q '^[1-9]'
}

@test "flags are checked before anything is served" {
    local bad
    for bad in '--start-port 0' '--start-port 65536' '--port-range 0' '--start-port 60000 --port-range 6000' \
        '--pending 1s' '--template x' '--template =x' '--release' '--listen nowhere'; do
        # shellcheck disable=SC2086 # words
        run "$DIBS" kube webhook --tls-cert "$T/tls.cert" --tls-key "$T/tls.key" --installation "$T/installation" $bad
        [ "$status" -eq 2 ]
    done
    run "$DIBS" kube webhook --tls-cert "$T/tls.cert" --tls-key "$T/tls.key" --installation "$T/installation" --strategy best
    [ "$status" -eq 2 ]
    [[ $output == *'unsupported port allocator strategy: best'* ]]
    run "$DIBS" kube webhook
    [ "$status" -eq 2 ]
    [[ $output == *--tls-cert* ]]
    run "$DIBS" kube webhook --tls-cert "$T/tls.cert" --tls-key "$T/tls.key" --check-config
    [ "$status" -eq 2 ]
    [[ $output == *'--installation FILE is needed'* ]]
    run "$DIBS" kube inject --tls-key x y
    [ "$status" -eq 2 ]
    [[ $output == *'has no option --tls-key'* ]]
    run "$DIBS" kube webhook --tls-cert "$T/tls.cert" --tls-key "$T/tls.key" --installation "$T/installation" --strategy random --check-config
    [ "$status" -eq 0 ]
}

@test "RBG's flags and their defaults are accepted" {
    local flags=(--enable-port-allocator=true --port-allocate-strategy=random --start-port=30000 --port-range=5000)
    run "$DIBS" kube webhook --tls-cert "$T/tls.cert" --tls-key "$T/tls.key" --installation "$T/installation" "${flags[@]}" --check-config
    [ "$status" -eq 0 ]
    run "$DIBS" kube webhook --tls-cert "$T/tls.cert" --tls-key "$T/tls.key" --installation "$T/installation" --port-allocate-strategy best
    [ "$status" -eq 2 ]
    [[ $output == *'unsupported port allocator strategy: best'* ]]
    run "$DIBS" kube webhook --strategy random --port-allocate-strategy random
    [ "$status" -eq 2 ]
    [[ $output == *"'--strategy' is given twice"* ]]
    run "$DIBS" kube install --print --ledger etcd://127.0.0.1:1/x "${flags[@]:1}"
    [ "$status" -eq 0 ]
    [[ $output == *'strategy: "random"'* || $output == *'strategy: random'* ]]
}

@test "a check writes nothing, and a replica that asks for another pool than there is does not start" {
    local flags=(--tls-cert "$T/tls.cert" --tls-key "$T/tls.key" --installation "$T/installation")
    run "$DIBS" kube webhook "${flags[@]}" --check-config --start-port 25000 --port-range 100
    [ "$status" -eq 0 ]
    [ ! -e "${DIBS_LEDGER#sqlite:}" ]
    chmod 644 "$T/tls.key"
    run "$DIBS" kube webhook "${flags[@]}" --check-config
    [ "$status" -eq 7 ]
    [[ $output = *"private key $T/tls.key has mode 0644"* ]]
    chmod 600 "$T/tls.key"
    openssl req -new -key "$T/tls.key" -subj /CN=x | openssl x509 -req -signkey "$T/tls.key" -days -1 -out "$T/old.cert" 2>/dev/null
    run "$DIBS" kube webhook --tls-cert "$T/old.cert" "${flags[@]:2}" --check-config
    [ "$status" -eq 2 ]
    [[ $output = *"certificate $T/old.cert expired at"* ]]
    dibs pool set kube --ranges 32000-32999
    run "$DIBS" kube webhook "${flags[@]}" --listen 127.0.0.1:1 --start-port 25000 --port-range 100 --strategy random
    [ "$status" -eq 2 ]
    [[ $output == *"'kube' has ports 32000-32999 (232 of them withheld here) and order stride"*'ask for 25000-25099 (0 withheld) and random'* ]]
    [[ $output == *"dibs pool set kube --ranges 25000-25099 --order random"* ]]
    # Without the options the pool is used as it is: the port is what it fails for.
    run "$DIBS" kube webhook "${flags[@]}" --listen 203.0.113.1:1
    [ "$status" -ne 0 ]
    [[ $output != *"dibs pool set"* ]]
}
