#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Processes of one host that go to etcd themselves. See storm_direct.c.
load ../support/dibs

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "sixteen processes without a daemon on as many ports as they hold have each their own, and none is refused" {
    needs etcd
    run "$BUILD/tests/storm_direct" clients=16 ports=64 rounds="$(long_or 100 1)"
    printf '%s\n' "$output" | sed 's/^/# /' >&3
    assert_status 0
}
