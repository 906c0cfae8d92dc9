#!/usr/bin/env bats
# shellcheck disable=SC2154 # variables come from what is loaded below
# Pods come and go through two webhooks while these and the controller are killed. Seed: DIBS_TEST_SEED.
load ../support/dibs
load ../support/etcd

setup() {
    dibs_setup
    needs openssl python3
}
teardown() { dibs_teardown; }

cluster() { # cluster CASE SECONDS
    etcd_start 1
    mkdir "$T/cluster"
    "$DIBS_TEST_SUPPORT/etcd-certificates" "$T/cluster/tls"
    timeout -k 5 "$2" python3 "$BATS_TEST_DIRNAME/kube_controller.py" "$1" "$DIBS" "$T/cluster" "$ETCD_URL" ||
        { tail -n 20 "$T"/cluster/*.log >&2; return 1; }
}

@test "no port is two pods' at any moment, and nothing is left of those that are gone" { cluster storm "$(long_or 400 120)"; }

# In its long form for ten times as long as claims are pending.
@test "without a controller no port is two pods', and none has ended" { cluster absent "$(long_or 1800 120)"; }
