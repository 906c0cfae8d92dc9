# shellcheck shell=bash disable=SC2034,SC2154 # variables that bats sets, or that a test reads
# Namespaces for bats files:   load ../support/dibs; load ../support/sandbox
#
# A sandbox is a set of namespaces that lasts as long as one idle process. Mounts, sockets and processes of a
# sandbox end with it, so nothing of a failed test stays behind. All of it needs root.

# sandbox_start [UNSHARE OPTION]...: a sandbox with a mount namespace of its own, and what the options ask for.
# $SANDBOX is the pid, as seen from here, of its idle process; with --pid it is the init of the sandbox.
sandbox_start() {
    start unshare --mount --fork --kill-child "$@" sleep 600
    local starter=$STARTED
    wait_until 10 sandbox_is_ready "$starter" || return 1
    SANDBOX=$(child_of "$starter")
}

# sandbox_start_in SANDBOX [UNSHARE OPTION]...: the same, inside of another sandbox.
sandbox_start_in() {
    local outer=$1 starter
    shift
    start nsenter --all --target "$outer" -- unshare --mount --fork --kill-child "$@" sleep 600
    starter=$STARTED
    wait_until 10 sandbox_is_ready "$starter" || return 1
    SANDBOX=$(child_of "$starter")
    echo "$SANDBOX" >>"$T/started"
}

# The youngest generation below a process: nsenter and unshare have one child each.
child_of() {
    local pid=$1 next
    while next=$(cat "/proc/$pid/task/$pid/children" 2>/dev/null) && [ -n "$next" ]; do pid=${next%% *}; done
    [ "$pid" != "$1" ] && echo "$pid"
}

sandbox_is_ready() {
    local pid
    pid=$(child_of "$1") && [ "$(cat "/proc/$pid/comm")" = sleep ]
}

# enter_sandbox SANDBOX: ENTER becomes the words before a command. Without a pid namespace of the sandbox's own the
# command must be our child, so that it can be ended by its pid.
enter_sandbox() {
    ENTER=(nsenter --all --target "$1" --wdns="$PWD")
    [ "$(readlink "/proc/$1/ns/pid")" != "$(readlink /proc/self/ns/pid)" ] || ENTER+=(--no-fork)
}

# in_sandbox SANDBOX COMMAND...: in all its namespaces, in our working directory.
in_sandbox() {
    local ENTER
    enter_sandbox "$1"
    shift
    "${ENTER[@]}" -- timeout -k 5 "${DIBS_TEST_TIMEOUT:-60}" "$@"
}

# start_in_sandbox SANDBOX COMMAND...: in the background; ends with the sandbox at the latest.
start_in_sandbox() {
    local ENTER
    enter_sandbox "$1"
    shift
    start "${ENTER[@]}" -- "$@"
}

# sleeper_in SANDBOX: an idle process there; $INSIDE is its pid there, $OUTSIDE its pid here.
sleeper_in() {
    rm -f "$T/sleeper"
    # shellcheck disable=SC2016 # for the shell there
    start_in_sandbox "$1" bash -c 'echo $$ >"$T/sleeper"; exec sleep 600' # without a child, which child_of() might find
    local starter=$STARTED
    wait_until 10 test -s "$T/sleeper" || return 1
    INSIDE=$(cat "$T/sleeper")
    OUTSIDE=$(child_of "$starter") || OUTSIDE=$starter
    wait_until 10 grep -q sleep "/proc/$OUTSIDE/comm" || return 1
    echo "$OUTSIDE" >>"$T/started"
}

# public_folder: $PUBLIC, where every user may write, with copies of the programs, $PUBLIC/dibs among them. The places
# of a test and of a build are often closed to others.
public_folder() {
    PUBLIC=$(mktemp -d "${TMPDIR:-/tmp}/dibs-e2e.XXXXXX")
    echo "$PUBLIC" >>"$T/public"
    chmod 1777 "$PUBLIC"
    install -m 0755 "$DIBS" "$DIBS-serve" "$DIBS-kube" "$DIBS-bpf" "$PUBLIC"
}

sandbox_teardown() {
    local folder
    dibs_teardown
    [ -f "${T:-}/public" ] || return 0
    while read -r folder; do rm -rf "$folder"; done <"$T/public"
}

# as_user UID COMMAND...
as_user() {
    local uid=$1
    shift
    HOME=$PUBLIC/home.$uid XDG_STATE_HOME=$PUBLIC/state.$uid XDG_CONFIG_HOME=$PUBLIC/config.$uid \
        XDG_RUNTIME_DIR=$PUBLIC/run.$uid setpriv --reuid="$uid" --regid="$uid" --clear-groups \
        timeout -k 5 60 "$@"
}

# listen_as UID PORT [tcp|udp] [ADDRESS]: as `listen`, by another user; needs public_folder.
listen_as() {
    local uid=$1 ready=$PUBLIC/listen.$RANDOM$RANDOM
    start setpriv --reuid="$uid" --regid="$uid" --clear-groups \
        /usr/bin/python3 -c "$(cat "$DIBS_TEST_SUPPORT/listen.py")" "$2" "${3:-tcp}" "${4:-127.0.0.1}" "$ready"
    wait_until 10 test -f "$ready"
}

# listen_in SANDBOX PORT [tcp|udp] [ADDRESS]
listen_in() {
    local sandbox=$1 ready=$T/listen.$RANDOM$RANDOM
    start_in_sandbox "$sandbox" "$DIBS_TEST_SUPPORT/listen.py" "$2" "${3:-tcp}" "${4:-0.0.0.0}" "$ready"
    wait_until 10 test -f "$ready"
}

# field NAME: of the first claim in the JSON of standard input.
field() {
    python3 -c 'import json, sys
claims = json.load(sys.stdin)
print(claims[0][sys.argv[1]] if claims else "none")' "$1"
}

# state PORT: alive, dead, unknown, orphan, kept; none when nobody has it. The way people see it.
state() {
    dibs ls --json --port "$1" | python3 -c 'import json, sys
claims = json.load(sys.stdin)
for c in claims[:1]:
    print("orphan" if c["orphan"] else c["life"] if c["holder"] else "kept")
if not claims:
    print("none")'
}

has_state() { # has_state PORT STATE
    [ "$(state "$1")" = "$2" ] || { echo "port $1 is $(state "$1"), not $2" >&2; return 1; }
}

# one_line: standard error of the last run_apart is one line of the program's.
one_line() {
    if [ "$(wc -l <"$T/stderr")" -eq 1 ] && grep -q '^dibs: ' "$T/stderr"; then return 0; fi
    echo "not one line:" >&2
    cat "$T/stderr" >&2
    return 1
}

# run_apart COMMAND...: $status, $output (stdout), and stderr in $T/stderr and $stderr.
run_apart() {
    status=0
    output=$("$@" 2>"$T/stderr") || status=$?
    stderr=$(cat "$T/stderr")
}

# refused CODE TEXT COMMAND...: exits so, prints nothing, says it in one line that has TEXT.
refused() {
    local code=$1 text=$2
    shift 2
    run_apart "$@"
    [ "$status" -eq "$code" ] || { printf 'exit %s, wanted %s: %s\n%s\n' "$status" "$code" "$*" "$stderr" >&2; return 1; }
    [ -z "$output" ] || { echo "it printed: $output" >&2; return 1; }
    one_line || return 1
    case $stderr in *"$text"*) ;; *) printf 'no "%s" in: %s\n' "$text" "$stderr" >&2; return 1 ;; esac
}
