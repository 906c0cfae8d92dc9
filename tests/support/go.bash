# shellcheck shell=bash disable=SC2034,SC2154 # variables that bats sets, or that a test reads
# The module for Go for bats files:   load ../support/dibs; load ../support/go

# go_setup: as dibs_setup; $MODULE is the folder of the module. Nothing is fetched, and what is compiled is kept for the
# next run of the same build.
go_setup() {
    dibs_setup
    needs go gofmt
    SOURCE=${SOURCE:-$(realpath "$BATS_TEST_DIRNAME/../..")}
    MODULE=$SOURCE/clients/go
    export GOCACHE=${BUILD:?path of the build: run the tests with make test}/go-cache GOPATH=$T/go GOFLAGS=-mod=mod \
        GOPROXY=off GOTOOLCHAIN=local
}

# go_run ARGUMENT...: in the module, and in a network where nobody else has the ports of its tests.
go_run() (
    cd "$MODULE" && exec "$DIBS_TEST_SUPPORT/own-network" timeout -k 5 "${DIBS_TEST_TIMEOUT:-3000}" go "$@" 3>&-
)

# go_test ARGUMENT...: with all output in $T/go.log, shown when it fails. Nothing may be skipped, but for the lack of root.
go_test() {
    go_run test -count=1 -timeout 45m "$@" >"$T/go.log" 2>&1 || { grep -v '^ *--- PASS\|^=== ' "$T/go.log" >&2; return 1; }
    [ "$(id -u)" -ne 0 ] || ! grep '^ *--- SKIP' -A 2 "$T/go.log" >&2
}

# go_example PAGE: compile the program of the page to $T/example.
go_example() {
    mkdir -p "$T/example.d"
    awk '/^```go$/ { on = 1; n++; next } /^```/ { on = 0 } on { print > "main.go" } END { exit n != 1 }' "$1" ||
        { echo "not one program in $1" >&2; return 1; }
    mv main.go "$T/example.d/"
    printf 'module example\n\ngo 1.19\n\nrequire dibs.dev/go/dibs v0.0.0\n\nreplace dibs.dev/go/dibs => %s\n' "$MODULE" \
        >"$T/example.d/go.mod"
    (cd "$T/example.d" && go vet . && go build -o "$T/example" . && gofmt -l . | wc -c | grep -qx 0)
}
dibs_example() { timeout -k 5 60 "$T/example"; }
