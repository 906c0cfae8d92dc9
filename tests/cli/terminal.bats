#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# What a person sees on a terminal: a real one, made for each command. Ports of this file: 13700-13799.
load ../support/dibs
load cli

setup() {
    dibs_setup
    unset NO_COLOR COLUMNS
    export TERM=xterm
}
teardown() { dibs_teardown; }

# terminal COLUMNS ARGUMENT...: captures dibs on a terminal; all that it writes is in $out.
terminal() {
    capture "$DIBS_TEST_SUPPORT/on_terminal.py" "$1" "$DIBS" "${@:2}"
}

# fits COLUMNS: no line of the last output is wider on a terminal, where some characters take two columns.
fits() {
    "$PYTHON" -SE - "$T/out" "$1" <<'END'
import re, sys, unicodedata
for line in open(sys.argv[1], encoding="utf-8"):
    shown = re.sub("\033\\[[0-9;]*[mK]", "", line.rstrip("\n"))
    width = sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in shown)
    if width > int(sys.argv[2]):
        sys.exit(f"{width} columns: {shown}")
END
}

# aligned: in each line of the last output the cell of the column STATE begins where its title does.
aligned() {
    "$PYTHON" -SE - "$T/out" <<'END'
import sys, unicodedata
lines = open(sys.argv[1], encoding="utf-8").read().splitlines()
def columns(text):
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 0 if unicodedata.combining(c) else 1 for c in text)
at = columns(lines[0][: lines[0].index("STATE")])
for line in lines[1:]:
    found = [i for i in range(len(line)) if columns(line[:i]) == at]
    if not found or not line[found[0]:].startswith(("alive", "kept", "dead")):
        sys.exit(f"not at column {at}: {line}")
END
}

# A name as long as a path of a deep project has.
LONG=a-service-with-a-long-name/of-a-role-with-a-long-name/component/a-port-with-a-long-name

@test "a table fits the terminal: columns are left out by rank, then long cells are cut in the middle" {
    ok get web --port 13700
    ok get "$LONG" --port 13701
    for columns in 132 80 60 40; do
        terminal "$columns" ls
        [ "$code" -eq 0 ]
        fits "$columns"
        [ "$(wc -l <"$T/out")" -eq 3 ]
        prints "PORT"
        prints "NAME"
        prints "project/web "
        grep -q '^13701 .*project/a-.*\.\.\..*-name' "$T/out"
    done
    terminal 80 ls
    prints STATE
    for title in POOL KIND; do not grep -q "$title" "$T/out"; done
    terminal 300 ls
    for title in PORT PROTO ADDRESS NAME KIND HOLDER STATE SINCE POOL; do prints "$title"; done
    prints "project/$LONG "
}

@test "the other tables fit as well" {
    ok pool set a-pool-with-a-long-name --ranges 13710-13712,13714-13716,13718-13720,13722-13724,13726-13728
    ok get "$LONG" --pool a-pool-with-a-long-name
    for command in log pool 'ls --audit --pool a-pool-with-a-long-name'; do
        # shellcheck disable=SC2086 # several words
        terminal 70 $command
        [ "$code" -eq 0 ]
        fits 70
        prints ...
    done
}

@test "everything is printed where there is no terminal, whatever COLUMNS says" {
    ok get "$LONG" --port 13730
    COLUMNS=40 ok ls
    for title in PORT PROTO ADDRESS NAME KIND HOLDER STATE SINCE POOL; do prints "$title"; done
    prints "project/$LONG "
    not grep -q $'\033' "$T/out"
}

@test "wide characters and marks that combine count as the columns that they take" {
    for command in 服务 nai$'\xcc\x88've plain; do
        cp "$(command -v sleep)" "$T/$command"
        start "$T/$command" 600
        wait_until 10 grep -qx "$command" "/proc/$STARTED/comm"
        ok claim "$(printf 'of-%s' "$STARTED")" --pid "$STARTED"
    done
    ok ls
    prints '(服务)'
    aligned
    NO_COLOR=1 terminal 120 ls
    fits 120
    aligned
}

@test "states have colours on a terminal that knows them, unless NO_COLOR is set" {
    ok get web --port 13740
    terminal 120 ls
    prints $'\033[36mkept\033[0m'
    terminal 120 doctor
    prints $'\033[32mok\033[0m'
    terminal 120 explain 13740
    prints $'port 13740 \033[31mcannot be claimed\033[0m'
    listen 13741
    terminal 120 who 13741
    prints $'\033[33munclaimed\033[0m'
    NO_COLOR='' terminal 120 ls # https://no-color.org: only if it is not empty
    prints $'\033[36mkept'
    NO_COLOR=1 terminal 120 ls
    not grep -q $'\033' "$T/out"
    TERM=dumb terminal 120 ls
    not grep -q $'\033' "$T/out"
    (unset TERM && terminal 120 ls && not grep -q $'\033' "$T/out")
}
