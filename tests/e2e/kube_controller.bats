#!/usr/bin/env bats
# shellcheck disable=SC2154 # variables come from what is loaded below
# The controller in a small cluster: a strict API server (support/kube_apiserver.py), real webhooks, a real etcd. Ports are
# claimed, never bound.
load ../support/dibs
load ../support/etcd

setup() {
    dibs_setup
    needs openssl python3
}
teardown() { dibs_teardown; }

cluster() { # cluster CASE
    etcd_start 1
    mkdir "$T/cluster"
    "$DIBS_TEST_SUPPORT/etcd-certificates" "$T/cluster/tls"
    ETCD_DIR=$ETCD_DIR ETCD_PID=${ETCD_PIDS[0]} timeout -k 5 280 python3 "$BATS_TEST_DIRNAME/kube_controller.py" "$1" "$DIBS" "$T/cluster" "$ETCD_URL" ||
        { tail -n 20 "$T"/cluster/*.log >&2; return 1; }
}

@test "a pod's claims are confirmed when it is seen, a copy has its own, and they end with it" { cluster pods; }
@test "an instance of a StatefulSet keeps its port until it is scaled away, a role until its object goes" { cluster named; }
@test "numbers that pods refer to stay reserved while these live, also when the target is gone" { cluster references; }
@test "indexes of Jobs and JobSets have ports of their own until they are over, and can be referred to" { cluster jobs; }
@test "RBG's instances and groups keep what is theirs, and references are the same numbers" { cluster groups; }
@test "RBG with its allocator off: an instance, its pods and all that refers to them have one set of numbers" { cluster rbg_off; }
@test "RBG with its allocator on: numbers that it drew twice are replaced before there is a pod" { cluster rbg_on; }
@test "RBG whose instances dibs does not see: its numbers are claimed, or the pod is refused" { cluster rbg_alone; }
@test "20 refused pods with 8 x 64 ports each leave the pool to the others" { cluster refused; }
@test "a namespace gets no more ports than its quota, whatever becomes of its pods, and keeps what it has" { cluster quota; }
@test "an assignment that nobody signed is refused, and counts for nothing past the webhook" { cluster forged; }
@test "numbers that kube inject has written are claimed, exactly these" { cluster injected; }
@test "another cluster, or another installation, is refused on a ledger" { cluster other; }
@test "numbers of Services and of other pods are never handed out, and errors are reported beside objects" { cluster observed; }
@test "ls, who, explain, node and doctor speak of pods, roles and namespaces" { cluster words; }
@test "an Event on a pod names its ports, or says that it bypassed the webhook" { cluster events; }
@test "kube ls shows pods with their ports, and what the ledger has beside them" { cluster list; }
@test "cut streams, 410, 429, 500 and 403 end nothing by mistake" { cluster faults; }
@test "in a pod it is its service account, and follows when the token or the authority is renewed" {
    needs_root
    unshare --mount true || skip "no mount namespaces"
    cluster account
}
@test "of several controllers one leads, and one that loses the Lease ends nothing" { cluster leaders; }
@test "500 pods that start without a controller have 500 ports, and keep them when it comes" { cluster down; }
@test "an etcd that lost its data is followed by daemon, webhook and controller without a restart, as fast as before" { cluster replaced; }
@test "a webhook that outlives the data of etcd claims nothing until a controller has written all again" { cluster outlived; }
@test "a ledger that is lost is rebuilt from 5,000 pods before the controller is ready" { cluster restart; }
