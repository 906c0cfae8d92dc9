#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# Bad input to every command: the proper exit code, one clear line, nothing claimed (acceptance line 12).
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

# Every way to hand a port, a name, a range ... to a command. X stands for the bad value.
port_forms() {
    cat <<'END'
claim --port=X
claim --prefer=X
claim --declare=X
claim web --port=X --keep
get web --port=X
get web --prefer=X
run -p web=X -- true
ls --port=X
log --port=X
END
}
target_forms() { # a port or a name
    cat <<'END'
release -- X
renew -- X
transfer --keep -- X
assert -- X
who -- X
who -- :X
explain -- X
get -- X
END
}
name_forms() {
    cat <<'END'
claim -- X
claim -n 2 -- X
claim fine -- X
claim --keep -- X
get -- X
run -p X -- true
release -- X
release fine -- X
renew -- X
transfer --keep -- X
assert -- X
log --name=X
ls -- X
END
}
range_forms() {
    cat <<'END'
claim --range=X
get web --range=X
run --range=X -- true
pool set p --ranges=X
ls --range=X
END
}
number_forms() {
    cat <<'END'
claim --count=X
claim --contiguous -n 2 --align=X
claim --pid=X
transfer web --pid=X
log --limit=X
log --since=-X
END
}
every_command() { # with arguments that are right, on an empty ledger
    cat <<'END'
run true
get web
claim
release web
renew web
transfer web --keep
ls
who 1
explain 1
assert web
log
pool
snapshot export
reap
repair --dry-run
doctor
help
version
END
}

# each FORMS CODE VALUE...: every form with every value must be refused with CODE.
each() {
    local forms=$1 want=$2 form value part
    shift 2
    while read -r form; do
        for value; do
            local args=()
            for part in $form; do args+=("${part//X/"$value"}"); done
            refused "$want" "${args[@]}" || { printf 'form: %s\n' "$form" >&2; return 1; }
        done
    done < <($forms)
}

@test "ports 0, 65536, -1, 1e3, +1, hex and text are refused by every command that takes a port" {
    each port_forms 2 0 65536 -1 1e3 +1 0x50 '80 ' ' 80' 99999999999999999999 abc 8O 80-81 '' $'8\t0'
    each target_forms 2 0 65536 99999999999999999999
    nothing_claimed
}

@test "names that are empty, too long, or have control characters are refused by every command that takes a name" {
    long=$(head -c 102400 /dev/zero | tr '\0' n)
    each name_forms 2 '' "$long" $'a\001b' $'a\nb' $'a\033[2Jb' $'a\177b' 'a b' // / a//b /a/ a/ $'\xff\xfe' $'\xc2\x80'
    nothing_claimed
}

@test "a name of 320 bytes is one too long, of 319 it is not" {
    name=/$(printf '%063d/%063d/%063d/%063d/%062d' 0 0 0 0 0 | tr 0 n)
    ok get "$name"
    ok get "${name}n"
    refused 2 get "${name}nn"
    refused 2 get "/$(printf 'p%.0s' {1..64})/x"
    [ "$(held)" -eq 2 ]
}

@test "ranges that are reversed, out of bounds or nonsense are refused" {
    long=$(seq -s, 1 2 20000) # more ranges than a list takes
    each range_forms 2 20-10 0-10 10-65536 65536 1e3-2e3 a-b 10- -10 10-20-30 , 10+65536 -1 '' "$long" \
        $'10\n20' 10..20 10:20
    nothing_claimed
}

@test "counts and numbers that are none are refused" {
    each number_forms 2 0 -1 1e3 abc '' 99999999999999999999 1.5 ' 1'
    refused 2 claim -n 4097
    refused 2 claim -n 0 web
    says "--count: '0' is not a whole number from 1 to 4096"
    refused 2 claim --contiguous -n 2 --align 65536
    refused 2 claim --pid 2147483648
    nothing_claimed
}

@test "unknown options are refused by every command, a near one with a suggestion" {
    while read -r line; do
        read -r -a args <<<"$line"
        for option in --no-such-option --no-such=1 -Z --jsn; do
            refused 2 "${args[0]}" "$option" "${args[@]:1}"
        done
        says --json
        refused 2 "${args[0]}" --json=1 "${args[@]:1}"
        refused 2 "${args[0]}" "--$(head -c 100000 /dev/zero | tr '\0' o)" "${args[@]:1}"
        refused 2 "${args[0]}" $'--\033[31m' "${args[@]:1}"
    done < <(every_command)
    refused 2 --no-such-option
    refused 2 -Z
    nothing_claimed
}

@test "too many and too few arguments are refused" {
    for args in 'get' 'get a b' 'who' 'who 1 2' 'explain' 'explain 1 2' 'assert' 'assert a b' 'ls a b' 'log x' 'reap x' \
        'repair x' 'doctor x' 'version x' 'help claim x' 'renew' 'transfer' 'release' 'run' 'snapshot' ''; do
        # shellcheck disable=SC2086 # several words
        refused 2 $args
    done
    refused 2 ''
    refused 2 help no-such-command
    refused 2 no-such-command
    refused 2 "$(head -c 100000 /dev/zero | tr '\0' c)"
    refused 2 help --format nonsense
    nothing_claimed
}

@test "an option without its value is refused" {
    for args in 'claim --port' 'claim -n' 'claim --ttl' 'get web --pool' 'run -p' 'ls --proto' 'log --since' 'pool set p --ranges' \
        'repair --observed' 'transfer web --pid' 'release --token' 'doctor --ledger' 'help --format' 'claim --port='; do
        # shellcheck disable=SC2086 # several words
        refused 2 $args
    done
    nothing_claimed
}

@test "every command refuses an environment it cannot understand" {
    while read -r line; do
        case $line in help* | version*) continue ;; esac
        # shellcheck disable=SC2086 # several words
        DIBS_RANGE=9-1 refused 2 $line
        says DIBS_RANGE || says range
    done < <(every_command)
    DIBS_GROUP=$(head -c 100000 /dev/zero | tr '\0' g) refused 2 claim web
    DIBS_LEDGER=sqlite:/$(head -c 100000 /dev/zero | tr '\0' l) refused 2 claim web
    DIBS_RANGE=$(head -c 100000 /dev/zero | tr '\0' 1) refused 2 claim web
    DIBS_RANGE=$'1-2\033' refused 2 claim web
    nothing_claimed
}

@test "NUL bytes and a megabyte of rubbish in files and on stdin are refused" {
    head -c 1100000 /dev/zero >"$T/zeros"
    head -c 1100000 /dev/zero | tr '\0' n >"$T/name"
    { printf '111 '; cat "$T/name"; echo; } >"$T/observed"
    { printf '{"dibs":1,"pools":[],"claims":[{"name":"'; cat "$T/name"; printf '"}]}'; } >"$T/snapshot"
    head -c 300000 /dev/zero | tr '\0' '[' >"$T/deep"
    printf '111\000 web\n' >"$T/nul"
    head -c 20000000 /dev/zero | tr '\0' ' ' >"$T/huge"
    for file in zeros name observed snapshot deep nul; do
        refused 2 repair --observed "$T/$file"
        refused 2 repair --observed - <"$T/$file"
        refused 2 snapshot import "$T/$file"
        refused 2 snapshot import - <"$T/$file"
    done
    refused 2 snapshot import "$T/huge"
    nothing_claimed
}

@test "every command that would write reports a closed stdout and claims nothing" {
    while read -r line; do
        case $line in run* | release*) continue ;; esac # these write nothing themselves
        for format in '' --json; do
            code=0
            # shellcheck disable=SC2086 # several words
            dibs $line $format >&- 2>"$T/err" || code=$?
            out='' errs=$(cat "$T/err")
            [ "$code" -eq 74 ] || complain "$line $format"
            [ "$(wc -l <"$T/err")" -eq 1 ] || complain "$line $format: not one line"
        done
    done < <(every_command)
    nothing_claimed
}

@test "every command that writes reports a full stdout, and nothing stays claimed" {
    [ -c /dev/full ] || skip "no /dev/full"
    while read -r line; do
        case $line in run* | release* | renew* | transfer* | assert* | who* | reap* | repair*) continue ;; esac
        for format in '' --json; do
            code=0
            # shellcheck disable=SC2086 # several words
            dibs $line $format >/dev/full 2>"$T/err" || code=$?
            out='' errs=$(cat "$T/err")
            [ "$code" -eq 74 ] || complain "$line $format"
            [ "$(wc -l <"$T/err")" -eq 1 ] || complain "$line $format: not one line"
        done
    done < <(every_command)
    [ "$(held)" -eq 0 ]
}

@test "a claim that was there stays when its answer cannot be written" {
    ok get web
    port=$out
    ok claim leased
    for command in 'get web' 'claim leased' 'renew leased'; do
        code=0
        # shellcheck disable=SC2086 # several words
        dibs $command >/dev/full 2>"$T/err" || code=$?
        [ "$code" -eq 74 ]
    done
    ok get web
    [ "$out" = "$port" ]
    [ "$(held)" -eq 2 ]
}

# unread ARGUMENT...: dibs with a stdout that nobody reads any more.
unread() {
    code=0
    "$PYTHON" -SE -c '
import os, subprocess, sys
reader, writer = os.pipe()
os.close(reader)
sys.exit(subprocess.run(sys.argv[1:], stdout=writer).returncode)' "$DIBS" "$@" 2>"$T/err" || code=$?
    out='' errs=$(cat "$T/err")
    { [ "$code" -eq 141 ] && [ -z "$errs" ]; } || complain "dibs $*: not a silent 141"
}

@test "a reader that goes away is exit 141 without a message, and a claim it did not see does not stay" {
    ok claim -n 200 --range 14200-14499
    unread help
    unread help --format man # more than one write
    unread ls
    unread ls --json
    unread log
    unread claim
    unread claim -n 2 --json
    unread get web
    [ "$(held)" -eq 200 ]
}

@test "a closed stdin or stderr does no harm" {
    while read -r line; do
        code=0 want=0
        case $line in renew* | transfer* | assert* | who*) want=5 ;; esac
        # shellcheck disable=SC2086 # several words
        dibs $line <&- 2>&- >"$T/out" || code=$?
        out=$(cat "$T/out") errs=''
        [ "$code" -eq $want ] || complain "$line"
    done < <(every_command)
    refused_quietly=0
    dibs claim --port 0 2>&- >"$T/out" || refused_quietly=$?
    [ "$refused_quietly" -eq 2 ]
    [ ! -s "$T/out" ]
    code=0
    dibs repair --observed - <&- >"$T/out" 2>"$T/err" || code=$?
    [ "$code" -le 2 ]
    ok doctor # the ledger was not written over by a stray descriptor
    code=0
    dibs claim <&- >&- 2>&- || code=$?
    [ "$code" -eq 74 ]
    ok doctor
}

@test "an empty argument list of the program itself is refused" {
    code=0
    (exec -a '' "$DIBS") >"$T/out" 2>"$T/err" || code=$?
    out=$(cat "$T/out") errs=$(cat "$T/err")
    [ "$code" -eq 2 ]
    one_line
}
