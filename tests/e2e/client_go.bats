#!/usr/bin/env bats
# The module for Go (clients/go): its tests, and the examples of its pages. storm_client_go.bats has the long form.
load ../support/dibs
load ../support/go

setup() { go_setup; }
teardown() { dibs_teardown; }

@test "the module for Go is formatted, and vet finds nothing" {
    cd "$MODULE"
    run gofmt -l .
    assert_status 0
    [ -z "$output" ] || { echo "gofmt: $output" >&2; return 1; }
    run go vet ./...
    assert_status 0
    [ "$(grep -c require go.mod)" -eq 0 ] # no dependency
}

@test "the module for Go does everything with a daemon and without one" {
    go_test -v ./...
    # Each test of both kinds really ran in both.
    with=$(grep -c '^    --- PASS: .*/daemon ' "$T/go.log")
    without=$(grep -c '^    --- PASS: .*/program ' "$T/go.log")
    [ "$with" -ge 25 ] && [ "$with" -eq "$without" ] || { echo "$with with a daemon, $without without" >&2; return 1; }
    [ "$(grep -c '^--- PASS: Example' "$T/go.log")" -ge 7 ]
}

@test "without the program the module's tests say that they are skipped" {
    unset DIBS
    PATH=/usr/bin:/bin DIBS=/nowhere/dibs go_run test -count=1 -run 'TestGetKeeps|Example' -v "$MODULE" >"$T/go.log" 2>&1
    grep -q '^    --- SKIP: TestGetKeeps.*/daemon' "$T/go.log"
    [ "$(grep -cE '^ +--- PASS|Example' "$T/go.log")" -eq 0 ]
}

@test "the examples of the pages compile and run, with a daemon and without one" {
    for page in "$MODULE/README.md" "$SOURCE/docs/CLIENTS.md"; do
        go_example "$page"
        run dibs_example
        assert_status 0
        dibs_serve
        run dibs_example
        assert_status 0
        [ -n "$output" ]
        export DIBS_SOCKET=none
    done
}
