#!/usr/bin/env bats
# The module for Go at length: claims that are cancelled at random moments, a daemon that is stopped and killed in the
# middle, 32 goroutines. The long form is compiled with Go's race detector.
load ../support/dibs
load ../support/go

setup() { go_setup; }
teardown() { dibs_teardown; }

@test "clients in Go lose no claim and leave none behind" {
    local what
    read -ra what <<<"$(long_or '-race ./...' '-run TestTheDaemonRestartsInTheMiddle .')"
    go_test -v "${what[@]}"
    grep -q '^--- PASS: TestTheDaemonRestartsInTheMiddle' "$T/go.log"
}
