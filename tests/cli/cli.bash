# shellcheck shell=bash disable=SC2034,SC2154 # variables that a test reads, or that bats sets
# What the command line tests share:   load ../support/dibs; load cli

# try ARGUMENT...: runs dibs; $code, $out and $errs are its exit code, stdout and stderr.
try() {
    code=0
    dibs "$@" >"$T/out" 2>"$T/err" || code=$?
    out=$(tr -d '\0' <"$T/out")
    errs=$(tr -d '\0' <"$T/err")
}

complain() {
    printf '%s\nexit %s\nstdout: %s\nstderr: %s\n' "$1" "$code" "${out:0:600}" "${errs:0:600}" >&2
    return 1
}

# ok ARGUMENT...: must succeed, and warn of nothing.
ok() {
    try "$@"
    [ "$code" -eq 0 ] || complain "dibs ${*:0:400} failed" || return
    case $errs in *warning*) complain "dibs $* warns" ;; esac
}

# one_line: the last try said one line of an error that people can read, and nothing on stdout.
one_line() {
    [ -z "$out" ] || complain "an error, but there is something on stdout" || return
    [ "$(wc -l <"$T/err")" -eq 1 ] || complain "not one line on stderr" || return
    [ "$(wc -c <"$T/err")" -le 1100 ] || complain "a line of more than 1100 bytes" || return
    ! LC_ALL=C grep -q '[[:cntrl:]]' "$T/err" || complain "control characters on stderr" || return
    case $errs in 'dibs: '?*) ;; *) complain "the line does not begin with 'dibs: '" ;; esac
}

# refused CODE ARGUMENT...: must fail with that code and one clear line.
refused() {
    local want=$1
    shift
    try "$@"
    [ "$code" -eq "$want" ] || complain "wanted exit $want of: dibs ${*:0:10}" || return
    one_line || { printf 'of: dibs %.300s\n' "$*" >&2; return 1; }
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
json() {
    python3 -SE -c '
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
    python3 -SE -c 'import json, sys; d = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$T/out" "$1"
}

# held: how many claims there are.
held() {
    sql 'SELECT count(*) FROM claim'
}

# nothing_claimed: no claim, and no event in the history.
nothing_claimed() {
    [ "$(dibs ls --all --json)" = '[]' ] || { dibs ls --all >&2; return 1; }
    [ "$(dibs log --json)" = '[]' ] || { dibs log >&2; return 1; }
}

# as_nobody COMMAND...: as another user, without groups.
as_nobody() {
    setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

# shared_ledger: the test's ledger, for every user; made beforehand so that its mode is ours.
shared_ledger() {
    needs_root
    needs setpriv
    as_nobody "$DIBS" version >/dev/null 2>&1 || skip "another user cannot reach the program"
    ok ls
    chmod 0777 "$T"
    chmod 0666 "$T"/ledger.db*
    as_nobody test -w "$T/ledger.db" || skip "another user cannot reach the test's folder"
}
