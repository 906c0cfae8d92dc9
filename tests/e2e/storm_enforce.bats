#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Enforced claims while daemon, dibs run and commands are killed at random moments. See storm_enforce.py.
# shellcheck disable=SC2154 # the support files set variables
load ../support/dibs
load ../support/sandbox

setup() {
    dibs_setup
    needs_root
    needs setpriv
    public_folder
    cp "$DIBS_TEST_SUPPORT/bind_once.py" "$PUBLIC"
}
teardown() { sandbox_teardown; }

@test "whatever is killed, no stranger binds an enforced port, and nothing stays behind" {
    run timeout 900 "$BATS_TEST_DIRNAME/storm_enforce.py" "$DIBS" "$PUBLIC/bind_once.py" "$PUBLIC" "$(long_or 200 20)"
    printf '%s\n' "$output" | sed 's/^/# /' >&3
    assert_status 0
}
