# shellcheck shell=bash disable=SC2034,SC2154 # variables that bats sets, or that a test reads
# Helpers for bats files:   load ../support/dibs
#
#   setup() { dibs_setup; }        teardown() { dibs_teardown; }
#
# $DIBS is the program, $BUILD the build folder; both come from `make test`. Each test gets a ledger,
# a home and a working directory of its own under $BATS_TEST_TMPDIR.

DIBS_TEST_SUPPORT=$(dirname "${BASH_SOURCE[0]}")
[[ $DIBS_TEST_SUPPORT = /* ]] || DIBS_TEST_SUPPORT=$PWD/$DIBS_TEST_SUPPORT

dibs_setup() {
    local name
    DIBS=${DIBS:?path of the program: run the tests with make test}
    [[ $DIBS = /* ]] || DIBS=$PWD/$DIBS
    for name in "${!DIBS_@}"; do # nothing of the caller's settings
        case $name in DIBS_TEST_*) ;; *) unset "$name" ;; esac
    done
    T=$BATS_TEST_TMPDIR
    export DIBS T HOME=$T/home
    export XDG_STATE_HOME=$T/state XDG_CONFIG_HOME=$T/config XDG_RUNTIME_DIR=$T/runtime XDG_CACHE_HOME=$T/cache
    export DIBS_LEDGER=sqlite:$T/ledger.db DIBS_LEDGER_MODE=strict DIBS_SOCKET=none
    PUBLIC_SOCKET=none # as DIBS_SOCKET, for other users than that of the test
    mkdir -p "$HOME" "$XDG_CONFIG_HOME" "$T/project" "$XDG_STATE_HOME" "$XDG_RUNTIME_DIR"
    chmod 0700 "$XDG_STATE_HOME" "$XDG_RUNTIME_DIR"
    cd "$T/project" || return 1
    : >"$T/started"
    if is_served; then dibs_serve; fi
}

is_served() {
    [ "${DIBS_TEST_SERVED:-}" = 1 ]
}

# The same tests once more through a daemon: it has the ledger, and every dibs asks it over the administrators'
# socket, because root is one without a daemon, too. What a dibs does with the ledger itself cannot be served:
# such a test has the tag "unserved" (see CONTRIBUTING.md).
dibs_serve() {
    local STARTED
    PUBLIC_SOCKET=$T/served.$RANDOM # of each ledger its own
    export DIBS_SOCKET=$PUBLIC_SOCKET.admin
    start "$DIBS" serve --socket "$PUBLIC_SOCKET" --admin-socket "$DIBS_SOCKET" 2>"$PUBLIC_SOCKET.log"
    wait_until 10 "$DIBS" ls || { cat "$PUBLIC_SOCKET.log" >&2; return 1; }
}

# End the processes of `start` and `listen` by pid, and wait for them.
dibs_teardown() {
    local pid
    [ -f "${T:-}/started" ] || return 0
    while read -r pid; do
        kill -KILL "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done <"$T/started"
}

# The program under test, bounded: a test that does not end must fail with a message.
dibs() {
    timeout -k 5 "${DIBS_TEST_TIMEOUT:-60}" "$DIBS" "$@"
}

# start COMMAND...: in the background, ended by dibs_teardown. Its pid is $STARTED. (Not in a subshell.)
start() {
    "$@" 3>&- &
    STARTED=$!
    echo "$STARTED" >>"$T/started"
}

# A process that does nothing until it is ended; its pid is $STARTED.
start_sleeper() {
    start sleep 600
    wait_until 10 grep -qx sleep "/proc/$STARTED/comm" # no shell any more
}

# end_process PID: kill by SIGKILL and wait until it is no more, not even a zombie.
end_process() {
    kill -KILL "$1"
    wait "$1" 2>/dev/null || true
}

# A busy machine may stand still for so many seconds: added to every time limit.
STALL=20

# wait_until SECONDS COMMAND...: until the command succeeds; fails after that long.
wait_until() {
    local end=$((SECONDS + $1 + STALL))
    shift
    until "$@" >/dev/null 2>&1; do
        [ $SECONDS -lt "$end" ] || { echo "not within the time: $*" >&2; return 1; }
        sleep 0.02
    done
}

# within SECONDS BEGAN: not more seconds than that have passed since $SECONDS was BEGAN.
within() {
    [ $((SECONDS - $2)) -le $(($1 + STALL)) ] || { echo "$((SECONDS - $2)) seconds instead of $1" >&2; return 1; }
}

# lease_ends PORT...: wait until the leases on these ports are over; a daemon ends their claims at once, unless a socket is
# bound there.
lease_ends() {
    local port
    for port; do wait_until 10 lease_is_over "$port" || return 1; done
}
lease_is_over() {
    local claims
    claims=$(dibs ls --all --port "$1" --json) || return
    [ "$claims" = '[]' ] || dibs ls --all --port "$1" | grep -q 'lease, ended'
}

# listen PORT [tcp|udp] [ADDRESS]: a real socket of another process (pid $STARTED), ready on return.
# PORT 0 asks the kernel; the port is then in $LISTENED.
listen() {
    local ready=$T/listen.$RANDOM$RANDOM
    start "$DIBS_TEST_SUPPORT/listen.py" "$1" "${2:-tcp}" "${3:-127.0.0.1}" "$ready"
    wait_until 10 test -f "$ready" || return 1
    LISTENED=$(cat "$ready")
}

# long_or LONG SHORT: LONG in `make storm`, SHORT in `make test`.
long_or() {
    if [ "${DIBS_TEST_LONG:-}" = 1 ]; then echo "$1"; else echo "$2"; fi
}

needs_root() {
    [ "$(id -u)" -eq 0 ] || skip "needs root"
}

needs() { # needs COMMAND...
    local command
    for command; do command -v "$command" >/dev/null || skip "$command is not installed"; done
}

# repository DIRECTORY: a git repository with one commit, of all that is there already.
repository() {
    needs git
    git init -q -b main "$1"
    git -C "$1" add .
    git -C "$1" -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m first
}

# ten_trees DIRECTORY: its work trees beside it, one of them without a branch; all ten are in $trees.
ten_trees() {
    local i at
    at=$(dirname "$1")
    trees=("$1")
    for i in 1 2 3 4 5 6 7 8; do
        git -C "$1" worktree add -q -b "feature/$i" "$at/tree-$i"
        trees+=("$at/tree-$i")
    done
    git -C "$1" worktree add -q --detach "$at/tree-9"
    trees+=("$at/tree-9")
}

# assert_status CODE: of the last `run`, with its output when it differs.
assert_status() {
    [ "$status" -eq "$1" ] || { printf 'exit %s, wanted %s\n%s\n' "$status" "$1" "$output" >&2; return 1; }
}

# assert_output_has TEXT: the output of the last `run` has it somewhere.
assert_output_has() {
    case $output in *"$1"*) ;; *) printf 'no "%s" in:\n%s\n' "$1" "$output" >&2; return 1 ;; esac
}

# sql STATEMENT: what the ledger holds, from outside.
sql() {
    sqlite3 -batch "$T/ledger.db" "$1"
}

# The format of the ledgers that the program makes, and the SQL that makes one of it one of an older format: the
# migrations backwards (src/store/sqlite/schema.c).
LEDGER_VERSION=1008
older_ledger() { # older_ledger VERSION
    local version column
    version=$1
    for column in 1008:as_port 1007:hold 1005:keeper 1005:run 1004:env; do
        [ "$version" -ge "${column%:*}" ] || echo "ALTER TABLE claims DROP COLUMN ${column#*:};"
    done
    [ "$version" -ge 1006 ] || echo 'ALTER TABLE sightings DROP COLUMN since_ms; DROP TABLE facts;'
    [ "$version" -ge 1005 ] || echo 'ALTER TABLE pools DROP COLUMN rebuilt;'
    echo "PRAGMA user_version=$version;"
}
