#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Clients of four hosts in one pool of a cluster whose members die and stop. See storm_etcd.c.
load ../support/dibs

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "in a storm of four hosts over an etcd whose members die, stop and lose data no port has two holders, none is lost and none is leaked" {
    needs etcd
    run "$BUILD/tests/storm_etcd" clients=16 ports="$(long_or 2768 300)" seconds="$(long_or 60 6)"
    printf '%s\n' "$output" | sed 's/^/# /' >&3
    assert_status 0
}

@test "in a storm of four hosts that are cut off and joined again their ports are free for others after their TTL and not before" {
    needs etcd ip nsenter
    needs_root
    run "$BUILD/tests/storm_etcd" clients=16 ports="$(long_or 2768 300)" seconds="$(long_or 60 6)" cut=1
    printf '%s\n' "$output" | sed 's/^/# /' >&3
    assert_status 0
}
