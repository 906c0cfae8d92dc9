# shellcheck shell=bash disable=SC2034,SC2154 # variables that bats sets, or that a test reads
# The Python client, for bats files:   load ../support/dibs; load ../support/serve; load ../support/python_client

PYTHON_CLIENT=$(cd "$BATS_TEST_DIRNAME/../../clients/python" && pwd)
PYTHON=/usr/bin/python3 # that of Debian's pytest, also where another one is first in PATH

python_client_setup() {
    dibs_setup
    "$PYTHON" -c 'import pytest, xdist' 2>/dev/null || skip "pytest and its xdist are not installed"
    export PYTHONPATH=$PYTHON_CLIENT/src PYTHONDONTWRITEBYTECODE=1
}

# with_daemon: from now on every client asks a daemon on the ledger of the test, as an ordinary user does.
with_daemon() {
    serve_start
    export DIBS_SOCKET=$SOCKET
}

# python_tests [FILE|OPTION]...: must pass; what fails is shown.
python_tests() {
    local words=("${@/#test_/$PYTHON_CLIENT/tests/test_}")
    run timeout -k 5 "${PYTHON_TIMEOUT:-300}" "$PYTHON" -m pytest -q -p no:cacheprovider --rootdir "$PYTHON_CLIENT" \
        --basetemp "$T/py" "${words[@]}"
    assert_status 0
}
