# shellcheck shell=bash disable=SC2034,SC2154 # variables that bats sets, or that a test reads
# The Node client, for bats files:   load ../support/dibs; load ../support/serve; load ../support/node_client

NODE_CLIENT=$(cd "$BATS_TEST_DIRNAME/../../clients/node" && pwd)

node_client_setup() {
    dibs_setup
    needs node
    [ "$(node -p 'process.versions.node.split(".")[0]')" -ge 18 ] || skip "Node 18 or later is not installed"
}

# with_daemon: from now on every client asks a daemon on the ledger of the test, as an ordinary user does.
with_daemon() {
    serve_start
    export DIBS_SOCKET=$SOCKET
}

# node_tests NAME...: clients/node/test/NAME.test.mjs must pass, several files at once; what fails is shown.
node_tests() {
    run timeout -k 5 "${NODE_TIMEOUT:-240}" node --test "${@/#/$NODE_CLIENT/test/}"
    [ "$status" -eq 0 ] || { printf '%s\n' "$output" | grep -vE '^ *(ok|# Subtest|duration_ms|type:|\.\.\.|---)' >&2; return 1; }
}
