#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2153,SC2154 # words for other shells; variables of what is loaded below
# The node's side: the daemon of the DaemonSet, with its arguments and capabilities, and containers (pid and mount
# namespaces) that mount nothing but its socket. The examples of docs/KUBERNETES.md run in them, with stand-ins for vllm and
# others that print what they are given.
load ../support/dibs
load ../support/etcd
load ../support/sandbox
bats_require_minimum_version 1.5.0

setup() {
    dibs_setup
    needs_root
    needs python3 setpriv
    top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
    export DIBS_LEDGER=sqlite:$T/node.db
}
teardown() { sandbox_teardown; }

install_py() { timeout -k 5 60 python3 "$BATS_TEST_DIRNAME/kube_install.py" "$@"; }

# node_start: the daemon, ready on return. $NODE_PID; $NODE is how one asks it as an administrator.
node_start() {
    local capabilities words
    mkdir -p "$T/volumes/socket" "$T/volumes/admin"
    chmod 0755 "$T/volumes/socket"
    dibs kube install --print --ledger "${ETCD_URL:-etcd://h:1/x}" >"$T/printed"
    mapfile -d '' -t words < <(install_py start "$T/printed" DaemonSet/dibs-node "$T/volumes")
    capabilities=$(install_py capabilities "$T/printed")
    [ -n "${ETCD_URL:-}" ] || words=("${words[@]/#DIBS_LEDGER=*/DIBS_LEDGER=$DIBS_LEDGER}")
    start setpriv --bounding-set="-all,$capabilities" --inh-caps=-all --no-new-privs env -i "${words[@]}" 2>"$T/node.log"
    NODE_PID=$STARTED
    mapfile -d '' -t words < <(install_py probe "$T/printed" "$T/volumes")
    wait_until 30 dibs "${words[@]}" || { cat "$T/node.log" >&2; return 1; }
    NODE=(dibs --socket "$T/volumes/admin/admin.sock")
}

# pod_start: a container with the socket's folder at /run/dibs, read-only; $SANDBOX.
pod_start() {
    sandbox_start --pid --mount-proc
    in_sandbox "$SANDBOX" sh -c 'mount -t tmpfs tmpfs /run && mkdir /run/dibs && mount --bind "$T/volumes/socket" /run/dibs &&
        mount -o remount,bind,ro /run/dibs'
}
# in_pod SANDBOX UID WORD...: with nothing but these variables.
in_pod() {
    local sandbox=$1 uid=$2
    shift 2
    in_sandbox "$sandbox" setpriv --reuid="$uid" --regid="$uid" --clear-groups env -i PATH="$PUBLIC:$PATH" HOME=/ \
        DIBS_SOCKET=/run/dibs/dibs.sock "$@"
}
claims() { "${NODE[@]}" ls --all --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin)))'; }
has_claims() { [ "$(claims)" -eq "$1" ]; }

@test "two pods that call their ports the same have different ones, until each is ended" {
    etcd_start 1
    public_folder
    node_start
    cd "$PUBLIC"
    local first second
    pod_start
    first=$SANDBOX
    pod_start
    second=$SANDBOX
    for sandbox in "$first" "$second"; do
        start in_pod "$sandbox" 1000 dibs run -p http -- sh -c "echo \$HTTP_PORT >$PUBLIC/port.$sandbox; exec sleep 600"
        wait_until 30 test -s "$PUBLIC/port.$sandbox"
    done
    run ! cmp -s "$PUBLIC/port.$first" "$PUBLIC/port.$second"
    has_claims 2

    # Nobody ends what another has, root in a container neither; the administrators' socket is not to be found.
    run in_pod "$second" 0 dibs release --port "$(cat "$PUBLIC/port.$first")"
    [ "$status" -ne 0 ]
    run in_pod "$second" 0 sh -c 'ls /run/dibs'
    [[ $output = dibs.sock* && $output != *admin* ]]
    run in_pod "$second" 0 touch /run/dibs/other
    [ "$status" -ne 0 ]

    kill -KILL "$first" # with all its processes, as kubelet does it
    wait_until 30 has_claims 1
    kill -KILL "$second"
    wait_until 30 has_claims 0
}

@test "ports of the webhook's pool are left alone on the node, and a pod without its daemon does not run" {
    etcd_start 1
    public_folder
    node_start
    pod_start
    cd "$PUBLIC"
    DIBS_LEDGER=$ETCD_URL node node-2
    on node-2 pool set kube --ranges 20000-20099 --scope cluster
    on node-2 claim --pool kube --port 20007 --keep shop/web
    run in_pod "$SANDBOX" 1000 dibs run -p web=20007 -- true
    assert_status 3 || { cat "$T/node.log" >&2; return 1; }
    run in_pod "$SANDBOX" 1000 dibs run -p web -- sh -c 'echo $WEB_PORT'
    assert_status 0
    end_process "$NODE_PID"
    run in_pod "$SANDBOX" 1000 dibs run -p web -- true
    assert_status 6
}

@test "the examples for vLLM, SGLang, torchrun and Ray get ports of the node, or those of the annotation" {
    local n name words
    public_folder
    node_start
    awk -v out="$T/example" '/^```yaml node$/ { n++; on = 1; next } /^```$/ { on = 0 } on { print > (out "." n) }' "$top/docs/KUBERNETES.md"
    for name in vllm python3 torchrun ray; do # a stand-in: its words, then its variables
        printf '#!/bin/sh\necho "${0##*/} $*"\nenv | grep PORT\n' >"$PUBLIC/$name"
        chmod 0755 "$PUBLIC/$name"
    done
    cd "$PUBLIC"
    pod_start
    : >"$T/seen"
    for n in "$T"/example.*; do
        DIBS_LEDGER=sqlite:$T/inject.db dibs kube inject "$n" >"$n.injected"
        install_py pods "$n.injected" >"$n.pods"
        while read -r words; do
            mapfile -d '' -t words < <(python3 -c 'import json, sys; print("\0".join(json.loads(sys.argv[1])), end="\0")' "$words")
            in_pod "$SANDBOX" 1000 "${words[@]}" </dev/null >>"$T/seen"
        done <"$n.pods"
    done
    python3 - "$T/seen" <<'PY'
import re, sys
text = open(sys.argv[1]).read()
assert not re.search(r"[{}]|\$\(", text), text
runs = re.findall(r"^(vllm|python3|torchrun|ray) (.*)\n((?:\w+=.*\n)*)", text, re.M)
env = [dict(line.split("=", 1) for line in r[2].splitlines()) for r in runs]
assert [r[0] for r in runs] == ["vllm", "python3", "torchrun", "torchrun", "ray", "ray"], runs

def flags(i):
    return {m[1]: m[2] for m in re.finditer(r"(--[\w-]+)[ =]([\d,]+|[\w./-]+:\d+)(?= |$)", runs[i][1])}

vllm, sglang, one, many, head, worker = map(flags, range(6))
assert vllm["--port"] == env[0]["HTTP_PORT"] != env[0]["VLLM_PORT"]
assert len({sglang[f] for f in ("--port", "--nccl-port", "--disaggregation-bootstrap-port")}) == 3
assert one["--master-port"] == env[2]["MASTER_PORT"]
assert many["--rdzv-endpoint"] == "train-0.train:" + env[3]["MASTER_PORT"]
assert worker["--address"] == "ray-head-0.ray-head:" + head["--port"] == "ray-head-0.ray-head:" + env[4]["RAY_PORT"]
for i, n in ((head, 8), (worker, 6)):
    ports = [p for f, v in i.items() if f.endswith("-port") and f != "--port" for p in [v]] + i["--worker-port-list"].split(",")
    assert len(ports) == len(set(ports)) == n + 4, ports
PY
    wait_until 30 has_claims 0
}
