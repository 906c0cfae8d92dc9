#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# Coding agents on `dibs mcp`, with the official client of MCP. Ports of this file: the default pool.
load ../support/dibs
load ../support/npm
load ../support/serve
load ../support/two_servers

setup() {
    dibs_setup
    needs_npm
    needs git curl
    mkdir "$T/trees" "$T/agents"
    two_servers "$T/trees/shop"
    cd "$T/agents" || return 1
    npm_install
    cp "$BATS_TEST_DIRNAME/agents.mjs" .
}
teardown() {
    local tree
    for tree in "$T"/trees/*; do (cd "$tree" && dibs -q stop) || true; done
    dibs_teardown
}

agents() { # agents ROLE TREE...
    timeout -k 5 180 node agents.mjs "$@" >"$T/report" 2>"$T/agents.err" || { cat "$T/agents.err" >&2; return 1; }
}

three_trees() {
    repository "$T/trees/shop"
    git -C "$T/trees/shop" worktree add -q -b fix "$T/trees/shop-fix"
    git -C "$T/trees/shop" worktree add -q -b idea "$T/trees/shop-idea"
    trees=("$T"/trees/shop "$T"/trees/shop-fix "$T"/trees/shop-idea)
}

# What works in the trees, besides this test.
left() { find /proc/[0-9]*/cwd -maxdepth 0 -lname "$T/trees/*" 2>/dev/null; }

# The claims of the second agent stayed, kept; nothing else did.
assert_only_kept() {
    lease_ends "$(member_of_report kept.scratch)"
    dibs -q reap
    dibs ls --all --json >"$T/left.json"
    /usr/bin/python3 - "$T/report" "$T/left.json" "$T/trees/shop-fix" <<'PY'
import json, sys
report, left = (json.load(open(path)) for path in sys.argv[1:3])
assert all(c["kept"] and not c["holder"] and c["project"] == sys.argv[3] for c in left), left
wanted = {port for name, port in report["kept"].items() if name != "scratch"}
assert {c["port"] for c in left} == wanted and len(left) == 3, (left, wanted)
PY
    [ -z "$(left)" ] || { left >&2; return 1; }
}
member_of_report() { output=$(<"$T/report") member "$1"; }

@test "the official client understands every answer, makes many calls at once, gives one up, and tells its roots" {
    agents client "$T/trees/shop"
    [ "$(dibs ls --all --json)" = "[]" ]
}

@test "the same through a daemon, which is restarted between two calls" {
    serve_start
    export DIBS_SOCKET=$ADMIN DAEMON T DIBS
    cat >"$T/restart" <<'END'
if [ "$1" = stop ]; then
    kill -KILL "$DAEMON"
    while [ -d "/proc/$DAEMON" ] && ! grep -q '^State:.Z' "/proc/$DAEMON/status"; do sleep 0.02; done
else
    DIBS_SOCKET=none "$DIBS" serve --socket "$T/dibs.sock" --admin-socket "$T/admin.sock" 2>>"$T/serve.log" 3>&- &
    echo $! >>"$T/started"
fi
END
    RESTART=". $T/restart" agents client "$T/trees/shop"
    [ "$(dibs ls --all --json)" = "[]" ]
}

@test "three agents in three work trees, at once: up, serve, test, one is killed, down; nothing is shared or left" {
    three_trees
    agents session "${trees[@]}"
    assert_only_kept
}

@test "the same three agents through a daemon" {
    serve_start
    export DIBS_SOCKET=$ADMIN
    three_trees
    agents session "${trees[@]}"
    assert_only_kept
}
