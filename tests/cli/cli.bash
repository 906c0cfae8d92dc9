# shellcheck shell=bash disable=SC2034,SC2154 # variables that a test reads, or that bats sets
# Shared by the command line tests:   load ../support/dibs; load cli

# The system's own, where a version manager puts another in front that starts slowly.
PYTHON=$(command -v /usr/bin/python3 || command -v python3)

# capture COMMAND...: $code, $out and $errs are its exit code, stdout and stderr.
capture() {
    code=0
    "$@" >"$T/out" 2>"$T/err" || code=$?
    { out=$(<"$T/out") errs=$(<"$T/err"); } 2>/dev/null # bash warns of NUL bytes, and leaves them out
}

# try ARGUMENT...: captures dibs.
try() {
    capture dibs "$@"
}

# not COMMAND...: must fail. (bats does not see a failure after "!".)
not() {
    if "$@"; then
        echo "succeeded, but must not: $*" >&2
        return 1
    fi
}

complain() {
    printf '%s\nexit %s\nstdout: %s\nstderr: %s\n' "$1" "$code" "${out:0:600}" "${errs:0:600}" >&2
    return 1
}

# ok ARGUMENT...: must succeed, and warn of nothing.
ok() {
    try "$@"
    [ "$code" -eq 0 ] || complain "dibs $1 ... failed: ${*:2:12}" || return
    case $errs in *warning*) complain "dibs $* warns" ;; esac
}

# one_line: the last try said one line of an error that people can read, and nothing on stdout.
one_line() {
    local lines LC_ALL=C
    mapfile -t lines <"$T/err"
    [ ! -s "$T/out" ] || complain "an error, but there is something on stdout" || return
    [ "${#lines[@]}" -eq 1 ] || complain "not one line on stderr" || return
    [ "${#errs}" -le 1100 ] || complain "a line of more than 1100 bytes" || return
    [[ $errs != *[[:cntrl:]]* ]] || complain "control characters on stderr" || return
    [[ $errs = 'dibs: '?* ]] || complain "the line does not begin with 'dibs: '"
}

# refused CODE ARGUMENT...: must fail with that code and one clear line.
refused() {
    local want=$1
    shift
    try "$@"
    if [ "$code" -ne "$want" ]; then
        complain "wanted exit $want" || true
    else
        one_line && return
    fi
    printf 'of: dibs %.300s\n' "$*" >&2
    return 1
}

# says TEXT: the last try's stderr has it.
says() {
    case $errs in *"$1"*) ;; *) complain "stderr does not say '$1'" ;; esac
}

# prints TEXT: the last try's stdout has it.
prints() {
    case $out in *"$1"*) ;; *) complain "stdout does not say '$1'" ;; esac
}

# json EXPRESSION: true of the last try's stdout, parsed as `d` by Python.
json() { # one line of valid JSON
    "$PYTHON" -SE -c '
import json, sys
text = open(sys.argv[1], encoding="utf-8").read()
d = json.loads(text)
assert text.endswith("\n") and text.count("\n") == 1, "not one line"
if not eval(sys.argv[2]):
    sys.exit("not true: " + sys.argv[2] + "\nof: " + text[:800])
' "$T/out" "$1"
}

# value EXPRESSION: prints what it is of the last try's stdout.
value() {
    "$PYTHON" -SE -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$T/out" "$1"
}

# held: how many claims there are.
held() {
    sql 'SELECT count(*) FROM claims'
}

# made_no_ledger: none was made; a daemon made its own, so that there it was not asked for anything.
made_no_ledger() {
    if is_served; then nothing_claimed; else [ ! -e "$T/ledger.db" ]; fi
}

# nothing_claimed: no claim, and no event in the history.
nothing_claimed() {
    [ "$(dibs ls --all --json)" = '[]' ] || { dibs ls --all >&2; return 1; }
    [ "$(dibs log --json)" = '[]' ] || { dibs log >&2; return 1; }
}

# run_role ROLE [WORD...]: `dibs run ROLE`, behind these words, in the background, with a command that sleeps. The pid of
# dibs is $STARTED, that of the command, which outlives it, $COMMAND.
run_role() {
    local role=$1 ready=$T/${1//\//-}.pid
    shift
    rm -f "$ready"
    # shellcheck disable=SC2016 # for the shell there
    start "$@" "$DIBS" -q run "$role" -- sh -c 'echo $$ >"$0.new"; mv "$0.new" "$0"; exec sleep 600' "$ready"
    wait_until 10 test -f "$ready" || return 1
    COMMAND=$(cat "$ready")
    echo "$COMMAND" >>"$T/started"
}

# as_uid UID COMMAND...: as another user, without groups.
as_uid() {
    DIBS_SOCKET=$PUBLIC_SOCKET setpriv --reuid="$1" --regid="$1" --clear-groups "${@:2}"
}

as_nobody() {
    as_uid 65534 "$@"
}

# shared_ledger: the test's ledger, for every user; made beforehand so that its mode is ours.
shared_ledger() {
    local folder=$T
    needs_root
    needs setpriv
    as_nobody "$DIBS" version >/dev/null 2>&1 || skip "another user cannot reach the program"
    ok ls
    while [ "$folder" != / ] && [ "$folder" != "$(dirname "${BATS_RUN_TMPDIR:?}")" ]; do
        chmod o+x "$folder" # bats makes its folders private
        folder=$(dirname "$folder")
    done
    chmod 0777 "$T"
    chmod 0666 "$T"/ledger.db*
    as_nobody test -w "$T/ledger.db" || skip "another user cannot reach the test's folder"
}

# lock_ledger: from now on no other process can write.
lock_ledger() {
    mkfifo "$T/hold"
    start sh -c "{ printf '.timeout 5000\nBEGIN IMMEDIATE;\n.system touch $T/locked\n'; cat '$T/hold'; } | sqlite3 '$T/ledger.db'"
    wait_until 10 test -f "$T/locked"
}
unlock_ledger() { # unlock_ledger [NAME]: and claim that
    : >"$T/hold"
    wait_until 10 dibs claim "$@"
    rm -f "$T/hold" "$T/locked"
}
