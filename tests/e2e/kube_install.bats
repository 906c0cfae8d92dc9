#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# contrib/k8s and `dibs kube install --print`: rendered by the real kubectl, and run. What is checked of the objects is in
# kube_install.py.
load ../support/dibs
load ../support/etcd
load ../support/sandbox
bats_require_minimum_version 1.5.0

setup() {
    dibs_setup
    top=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
}
teardown() { sandbox_teardown; }

install_py() { timeout -k 5 240 python3 "$BATS_TEST_DIRNAME/kube_install.py" "$@"; }
render() { # render [FOLDER]: offline, and without anybody's configuration
    needs kubectl python3
    KUBECONFIG=/dev/null timeout -k 5 60 kubectl kustomize "${1:-$top/contrib/k8s}"
}
printed() { # printed [OPTION]...
    dibs kube install --print --ledger "${ETCD_URL:-etcd://h1:2379,h2:2379/prod}" "$@"
}
# container WORKLOAD [FOLDER]: $WORDS start it: variables, program, arguments. Its volumes are in FOLDER ($T/volumes).
container() {
    mapfile -d '' -t WORDS < <(install_py start "$T/printed" "$1" "${2:-$T/volumes}")
    [ ${#WORDS[@]} -gt 5 ]
}
# start_alone WORD...: as a container's user, who can read the volumes at /mnt and write nothing, without a right.
start_alone() {
    # shellcheck disable=SC2016 # for the shell there
    start env -i T="$T" unshare --mount sh -c 'mount --bind "$T/volumes" /mnt && mount -o remount,bind,ro / && cd / &&
        exec setpriv --reuid=65532 --regid=65532 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
            env -i "$@"' alone "$@"
}

@test "the base is rendered by kubectl, and every object is as it must be" {
    render >"$T/rendered"
    install_py rules "$T/rendered"
}

@test "install prints the objects of the base, in whichever namespace" {
    render >"$T/rendered"
    printed >"$T/printed"
    install_py same "$T/rendered" "$T/printed"
    printed --namespace ports >"$T/other"
    printed --api-server 10.0.0.0/28 --api-server fd00::1/128 >"$T/closed"
    diff "$T/printed" "$T/closed" | grep -E '^>' | grep -vE 'ca(Bundle|\.crt)|tls\.|installation: ' >"$T/from"
    [ "$(sed 's/^> *//' "$T/from")" = 'ingress: [{"from":[{"ipBlock":{"cidr":"10.0.0.0/28"}},{"ipBlock":{"cidr":"fd00::1/128"}}],"ports":[{"protocol":"TCP","port":"https"}]}]' ]
    install_py moved "$T/printed" "$T/other" dibs ports
}

@test "install prints for the version of a cluster only what its API server knows" {
    printed >"$T/printed"
    local minor
    for minor in 20 21 26 27 28 32; do
        run --separate-stderr printed --kubernetes "1.$minor"
        assert_status 0
        [ "$(grep -c 'kubectl label namespace kube-system' <<<"$stderr")" = "$((minor < 21))" ]
        printf '%s\n' "$output" >"$T/other"
        install_py older "$T/printed" "$T/other" "$minor"
    done
    run ! grep -q 'matchConditions:' <(printed --kubernetes v1.26.3+k3s1)
    run printed --kubernetes 1.19
    assert_status 2
    assert_output_has "1.20 is the lowest version"
    for version in 1 1. 2.30 1.x 1.26x latest; do
        run printed --kubernetes "$version"
        assert_status 2
        assert_output_has "is not a version of Kubernetes"
    done
}

# block WORDS OUT: the example of docs/KUBERNETES.md behind "```WORDS".
block() {
    awk -v begin="\`\`\`$1" '$0 == "```" { on = 0 } on { print } $0 == begin { on = 1 }' "$top/docs/KUBERNETES.md" >"$2"
    [ -s "$2" ]
}

@test "the documented overlay for cert-manager renders, and the webhook's certificate is for its Service" {
    local file
    mkdir "$T/overlay"
    cp -r "$top/contrib/k8s" "$T/k8s"
    for file in kustomization patches certificate; do block "yaml overlay $file.yaml" "$T/overlay/$file.yaml"; done
    render "$T/overlay" >"$T/rendered" 2>"$T/warnings"
    render >"$T/base"
    install_py overlay "$T/base" "$T/rendered"
}

@test "the documented host without Kubernetes can start, and its kubeconfig is read" {
    needs openssl
    mkdir "$T/bin"
    ln -s "$DIBS" "$T/bin/dibs"
    block "sh outside" "$T/host.sh"
    (cd "$T" && PATH=$T/bin:$PATH timeout 60 bash -eu host.sh) >"$T/out" 2>&1 || { cat "$T/out" >&2; return 1; }
    grep -q 'it could start' "$T/out"
    block "yaml outside" "$T/kubeconfig"
    echo token >"$T/token"
    cp "$T/tls.crt" "$T/kube-ca.crt"
    sed -i "s|/etc/dibs/|$T/|; s|https://api.example:6443|https://127.0.0.1:1|" "$T/kubeconfig"
    run dibs kube ls --kubeconfig "$T/kubeconfig"
    assert_status 6
    assert_output_has "https://127.0.0.1:1: cannot be reached"
}

@test "the documented check of templates asks the installed webhook" {
    block "yaml templates" "$T/templates"
    render >"$T/rendered"
    install_py templates "$T/rendered" "$T/templates"
}

@test "an overlay replaces the image, and install writes the requested one" {
    needs kubectl
    mkdir "$T/overlay"
    cp -r "$top/contrib/k8s" "$T/base"
    # `bases`: kubectl 1.20 reads no folder as a resource, later ones read both.
    printf '%s\n' 'bases: [../base]' 'images: [{name: dibs, newName: registry.example/dibs, newTag: "7"}]' \
        >"$T/overlay/kustomization.yaml"
    render "$T/overlay" >"$T/rendered" 2>"$T/warnings"
    [ "$(grep -c 'image: registry.example/dibs:7$' "$T/rendered")" -eq 3 ]
    printed --image registry.example/dibs:7 >"$T/printed"
    install_py same "$T/rendered" "$T/printed"
}

@test "a controller requests from the API server exactly what it is allowed" {
    needs openssl
    render >"$T/rendered"
    etcd_start 1
    mkdir "$T/cluster"
    "$DIBS_TEST_SUPPORT/etcd-certificates" "$T/cluster/tls"
    install_py rights "$T/rendered" "$DIBS" "$T/cluster" "$ETCD_URL" || { tail -n 20 "$T"/cluster/*.log >&2; return 1; }
}

@test "the webhook's container serves with the printed certificate, for the Service's name, what the configuration sends" {
    needs_root
    needs python3 openssl curl
    etcd_start 1
    mkdir -p "$T/volumes/tls" "$T/volumes/installation"
    printed --namespace ports --start-port 21000 --port-range 50 >"$T/printed"
    install_py tls "$T/printed" "$T/volumes/tls"
    mv "$T/volumes/tls/installation" "$T/volumes/installation/"
    for file in installation/installation tls/tls.key; do
        chmod 0440 "$T/volumes/$file" # defaultMode
        chgrp 65532 "$T/volumes/$file" # fsGroup
    done
    cd "$T/volumes/tls"
    cmp bundle ca.crt
    openssl verify -x509_strict -purpose sslserver -verify_hostname dibs-webhook.ports.svc -CAfile bundle tls.crt
    run ! openssl verify -verify_hostname dibs-webhook.dibs.svc -CAfile bundle tls.crt

    container Deployment/dibs-webhook
    run env -i "${WORDS[@]}" --check-config
    assert_status 0
    local port
    port=$("$DIBS_TEST_SUPPORT/free_port.py")
    container Deployment/dibs-webhook /mnt
    start_alone "${WORDS[@]/#--listen=*/--listen=127.0.0.1:$port}" 2>"$T/webhook.log"
    curl=(curl -sf --noproxy '*' --max-time 10 --cacert "$T/volumes/tls/bundle" --resolve "dibs-webhook.ports.svc:$port:127.0.0.1")
    url=https://dibs-webhook.ports.svc:$port
    wait_until 30 "${curl[@]}" "$url/healthz" || { cat "$T/webhook.log" >&2; return 1; }
    run ! "${curl[@]}" "$url/readyz"
    DIBS_LEDGER=$ETCD_URL node beside
    # As a controller marks the pool.
    on beside snapshot export >"$T/snapshot"
    python3 -c '
import json, sys
snapshot = json.load(sys.stdin)
for pool in snapshot["pools"]:
    pool["rebuilt"] = pool["name"] == "kube"
json.dump(snapshot, sys.stdout)' <"$T/snapshot" | on beside snapshot import -
    wait_until 30 "${curl[@]}" "$url/readyz" || { cat "$T/webhook.log" >&2; return 1; }

    # It knows each annotation that the match condition lets through, and these are all that it knows.
    install_py keys "$T/printed" >"$T/keys"
    own='^dibs.dev/(claim|assigned|signature)$'
    [ "$(grep -cE "$own" "$T/keys")" -eq 3 ]
    grep -ohE '"[a-z0-9.-]+/[a-z-]+"' "$top"/src/workload/{annotation,discovery}.h | tr -d '"' | sort |
        diff - <(grep -vE "$own" "$T/keys" | sort)
    while read -r key; do
        if [[ $key =~ $own ]]; then # brought without a signature
            continue
        fi
        install_py review "$key" >"$T/review"
        "${curl[@]}" "$url$(install_py path "$T/printed")" -H 'Content-Type: application/json' --data-binary "@$T/review" >"$T/answer"
        grep -q '"allowed":true' "$T/answer"
        grep -q '"patch":"' "$T/answer"
    done <"$T/keys"
    on beside ls --all --pool kube --json | python3 -c '
import json, sys
assert sorted(21000 <= c["port"] < 21050 for c in json.load(sys.stdin)) == [True, True]'
}

@test "the controller's container starts with its arguments" {
    needs python3
    printed >"$T/printed"
    mkdir -p "$T/volumes/installation" "$T/tls"
    install_py tls "$T/printed" "$T/tls"
    (umask 077 && cp "$T/tls/installation" "$T/volumes/installation/")
    container Deployment/dibs-controller
    # Without a cluster it says that there is none: its options and settings were read before.
    run env -i "${WORDS[@]/#--metrics-listen=*/--metrics-listen=127.0.0.1:0}"
    assert_status 2
    assert_output_has KUBERNETES_SERVICE_HOST
}

@test "certificates of the last time are kept when they are handed over" {
    needs python3
    printed >"$T/first"
    printed >"$T/second"
    run ! cmp -s "$T/first" "$T/second"
    sed -n '/^kind: Secret/,$p' "$T/first" >"$T/secret"
    printed --secret "$T/secret" | cmp - "$T/first"
    printed --secret - <"$T/secret" | cmp - "$T/first"
    sed '/^---/,$d' "$T/secret" >"$T/tls"
    printed --secret "$T/tls" 2>"$T/note" >"$T/second" # of a version that made no installation
    grep -q 'has no Secret dibs-installation: a new installation is made' "$T/note"
    [ "$(diff "$T/first" "$T/second" | grep -c '^>   installation: ')" -eq 1 ]
    echo 'data: {}' >"$T/secret"
    run printed --secret "$T/secret"
    assert_status 2
    assert_output_has "ca.crt"
}

@test "impossible options are refused, and nothing is printed" {
    local etcd=etcd://h:2379/p
    for words in "" "--print" "--print --ledger sqlite:$T/x" "--print --ledger $etcd --namespace Shop" \
        "--print --ledger $etcd --image a,b" "--print --ledger $etcd --start-port 65530" "--print --ledger $etcd more" \
        "--print --ledger $etcd --strategy best" "--print --ledger $etcd --listen :1" "--print --ledger $etcd --api-server 10.0.0.1" "--print --ledger $etcd --json"; do
        # shellcheck disable=SC2086 # words
        run --separate-stderr dibs kube install $words
        assert_status 2
        [ -z "$output" ] && [ -n "$stderr" ]
    done
}

@test "the image has every library that the programs load, and the user of its pods" {
    needs dpkg-query readelf
    [ "${DIBS_TEST_SANITIZE:-none}" = none ] || skip "the sanitizer brings libraries of its own"
    local libraries package
    mapfile -t libraries < <(readelf -d "$DIBS-serve-etcd" "$DIBS-kube" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u)
    dpkg-query -S "${libraries[@]/#/*/}" | cut -d: -f1 | sort -u | grep -vE '^lib(c6|gcc)' >"$T/packages"
    [ "$(wc -l <"$T/packages")" -ge 6 ]
    while read -r package; do
        grep -qw -- "$package" "$top/contrib/k8s/Containerfile" || { echo "$package is missing" >&2; return 1; }
    done <"$T/packages"
    [ "$(sed -n 's/^USER \([0-9]*\):.*/\1/p' "$top/contrib/k8s/Containerfile")" = "$(sed -n 's/^ *runAsUser: //p' "$top/contrib/k8s/webhook.yaml")" ]
}
