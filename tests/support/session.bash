# shellcheck shell=bash disable=SC2034,SC2154 # variables that bats sets, or that a test reads
# What a user types, for bats files:   load ../support/dibs; load ../support/session
#
# A test takes the text from the page. A recipe is a section of docs/RECIPES.md: a block whose fence names a file
# (```js server.js) is that file, a block "sh recipe" is typed into a terminal.

DOCS=$BATS_TEST_DIRNAME/../../docs

session_setup() {
    dibs_setup
    mkdir -p "$T/bin"
    ln -s "$DIBS" "$T/bin/dibs"
    PATH=$T/bin:/usr/bin:$PATH # Debian's programs before those that somebody else has installed
    export TERM=xterm SHELL=/bin/bash
}

# End every process of the sessions that a test began: a closed terminal alone does not end a daemon.
session_teardown() {
    local pid
    while read -r pid; do
        # shellcheck disable=SC2046 # a list of pids
        kill -KILL $(ps -o pid= -s "$pid") 2>/dev/null || true
    done < <(cat "$T/sessions" 2>/dev/null)
    dibs_teardown
}

# recipe TITLE [PAGE]: write the files of that section here, and its commands to $T/recipe.1, $T/recipe.2, ...
recipe() {
    rm -f "$T"/recipe.*
    awk -v title="## $1" -v out="$T/recipe" '
        /^```/ && on { on = 0; next }
        /^## / && !on { here = ($0 == title) }
        /^```/ { on = 1; to = ""
                 if (here && $0 == "```sh recipe") to = out "." ++n
                 else if (here && NF == 2) { to = $2; if (to == "systemd") to = "" }
                 next }
        on && to != "" { print > to }' "${2:-$DOCS/RECIPES.md}"
    [ -s "$T/recipe.1" ] || { echo "no recipe has the title: $1" >&2; return 1; }
}

# type_in N: the N-th block of the recipe, to its end, in a session of its own. As after `run`: $output, $lines, $status.
type_in() {
    : >"$T/typed"
    # Appended: no process can write over what another one has said.
    start setsid timeout -k 5 60 bash -eu "$T/recipe.$1" >>"$T/typed" 2>&1
    echo "$STARTED" >>"$T/sessions"
    status=0
    wait "$STARTED" || status=$?
    output=$(cat "$T/typed")
    mapfile -t lines <"$T/typed"
}

# terminal NAME COMMAND...: in the background on a terminal of its own; what it shows is in $T/NAME.screen.
terminal() {
    local name=$1 words
    shift
    printf -v words '%q ' "$@"
    mkfifo "$T/$name.keys"
    # When `script` ends, the terminal hangs up, as a window that is closed.
    # A shell without job control lets programs in the background ignore Ctrl-C.
    script -qfec "exec env --default-signal=INT,QUIT $words" "$T/$name.screen" <>"$T/$name.keys" >/dev/null 3>&- &
    STARTED=$!
    echo "$STARTED" | tee "$T/$name.terminal" >>"$T/started"
    wait_until 10 has_child "$STARTED"
    ps -o pid= --ppid "$STARTED" >>"$T/sessions"
}
has_child() { [ -n "$(ps -o pid= --ppid "$1")" ]; }

# press_ctrl_c NAME: and wait until the command has ended; its exit code is $status.
press_ctrl_c() {
    local pid
    pid=$(cat "$T/$1.terminal")
    printf '\003' 1<>"$T/$1.keys"
    wait_until 15 has_ended "$pid" || { cat "$T/$1.screen" >&2; return 1; }
    status=0
    wait "$pid" || status=$?
}
has_ended() { [ ! -d "/proc/$1" ] || [ "$(ps -o stat= -p "$1")" = Z ]; }

# serves NAME [TEXT]: the server of that name answers, with TEXT in it.
serves() {
    local port
    port=$(dibs get -q "$1") && curl -sf --max-time 5 "http://localhost:$port/" | grep -qF -- "${2:-}"
}
