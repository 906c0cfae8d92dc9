#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# The option --hold, with the level `guard`. Required ports of this file: 12500-12549.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

BIND="$BATS_TEST_DIRNAME/../support/bind.py"

@test "a claim has no level of holding, unless it is asked for" {
    ok claim web --keep --json
    json 'd[0]["hold"] == "none" and "hold_note" not in d[0]'
    ok ls
    [[ $out =~ HOLD.*none ]]
}

@test "run --hold guard: strangers are refused, the command binds, and who and ls say so" {
    # shellcheck disable=SC2016 # the inner shell's words
    ok run --hold guard -p web -- sh -c '
        python3 "$0" 0.0.0.0 $PORT; python3 "$0" :: $PORT; python3 "$0" --reuse addr 0.0.0.0 $PORT
        "$DIBS" who $PORT; "$DIBS" ls --json' "$BIND"
    mapfile -t lines <"$T/out"
    [ "${lines[0]}" = EADDRINUSE ]
    [ "${lines[1]}" = EADDRINUSE ]
    [ "${lines[2]}" = bound ]
    [[ ${lines[3]} = claim*', hold guard,'* ]]
    [[ ${lines[4]} = *'"hold":"guard"'* ]] # and no line with a socket: the guard is nobody's
    [ "$(held)" -eq 0 ]
}

@test "a guard for udp and for both address families lasts as long as the command" {
    # shellcheck disable=SC2016
    ok run --hold guard --proto tcp+udp --address localhost -p dns -- sh -c '
        for a in 127.0.0.1 ::1; do python3 "$0" $a $PORT; python3 "$0" --udp $a $PORT; done
        python3 "$0" --udp --reuse addr 127.0.0.1 $PORT; echo $PORT' "$BIND"
    mapfile -t lines <"$T/out"
    [ "${lines[*]:0:5}" = "EADDRINUSE EADDRINUSE EADDRINUSE EADDRINUSE bound" ]
    capture python3 "$BIND" --udp 127.0.0.1 "${lines[5]}"
    [ "$out" = bound ]
}

# bats test_tags=unserved
@test "without a daemon a command that ends cannot guard a port" { # with one it can
    refused 1 claim --hold guard
    [[ $errs = *"'guard' cannot be had"*"'dibs serve'"* ]]
    refused 1 get web --hold guard
    [ "$(held)" -eq 0 ]
}

@test "a level that nobody offers is refused, and leaves no claim" {
    refused 1 claim web --hold enforce --keep
    [[ $errs = *"'enforce' cannot be had: it needs a daemon"*--enforce* ]]
    refused 1 run --hold enforce -- true
    refused 1 run --hold guard --proto sctp -- true
    [[ $errs = *sctp* ]]
    [ "$(held)" -eq 0 ]
}

@test "--hold takes one of its words" {
    refused 2 claim --hold strong
    [[ $errs = *"'strong' is none of auto, none, guard, fd, enforce"* ]]
    refused 2 claim --hold fd
    # A process that claims for itself binds the socket itself.
    ok claim --hold fd --pid $$ --json
    json 'd[0]["hold"] == "fd"'
}

@test "a port of the manifest whose program sets a reuse option has a guard" {
    cat >dibs.yaml <<'YAML'
group: shop
roles:
  web:
    ports:
      - { name: http, reuse: true }
      - { name: raw }
YAML
    # shellcheck disable=SC2016
    ok run web -- sh -c 'python3 "$0" 127.0.0.1 $HTTP_PORT; python3 "$0" 127.0.0.1 $RAW_PORT; "$DIBS" ls --json' "$BIND"
    mapfile -t lines <"$T/out"
    [ "${lines[0]}" = EADDRINUSE ]
    [ "${lines[1]}" = bound ]
    [ "$(grep -o '"hold":"[a-z]*"' "$T/out" | sort | tr '\n' ' ')" = '"hold":"guard" "hold":"none" ' ]
}

# bats test_tags=unserved
@test "without a daemon a kept port has no automatic guard, and a note says why" { # with one it has
    cat >dibs.yaml <<'YAML'
group: shop
roles:
  web: { ports: [ { name: http, reuse: true } ] }
YAML
    for command in up "get web/http"; do
        # shellcheck disable=SC2086 # words
        ok $command
        [[ $errs = *"has no guard: no daemon runs that would keep it"* ]]
    done
    ok ls --json
    json 'd[0]["hold"] == "none"'
}

@test "doctor says what this host can hold" {
    ok doctor
    [[ $out = *hold*"ports of tcp and udp can have guards"* ]]
    [[ $out = *"--confine"* || $out = *Landlock* ]]
}

@test "--hold of a role is for its own ports" {
    cat >dibs.yaml <<'YAML'
group: shop
roles:
  db: { ports: [ sql ] }
  web: { ports: [ http ], references: [ { env: DB, from: db.sql } ] }
YAML
    # shellcheck disable=SC2016 # the inner shell's words
    ok run --hold guard web -- sh -c 'python3 "$0" 127.0.0.1 $HTTP_PORT; python3 "$0" 127.0.0.1 $DB' "$BIND"
    [ "$out" = "EADDRINUSE
bound" ]
    ok run --hold fd web -- python3 "${BIND%/*}/activated.py"
    [[ $out = "http tcp listening "* ]]
    refused 2 run --hold fd --all
    refused 2 run --hold strong web -- true
    refused 2 run --listen http web -- true
}
