#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # the inner shell's words; and what is loaded below
# dibs run --listen, and --hold fd: dibs binds, the command gets the sockets. Required ports of this file: 12550-12599.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

ACTIVATED="$BATS_TEST_DIRNAME/../support/activated.py"
BIND="$BATS_TEST_DIRNAME/../support/bind.py"

@test "the command gets the listening socket of the port, by systemd's variables" {
    ok run --listen web -- python3 "$ACTIVATED"
    [ "$out" = "web tcp listening :: True" ] || [ "$out" = "web tcp listening 0.0.0.0 True" ]
    [ "$(held)" -eq 0 ]
}

@test "it gets one for each protocol and address, and none for a port of -p" {
    ok run -p api --listen dns --proto tcp+udp --address localhost -- python3 "$ACTIVATED"
    [ "$out" = "dns tcp listening 127.0.0.1 True
dns tcp listening ::1 True
dns udp bound 127.0.0.1 True
dns udp bound ::1 True" ]
}

@test "--hold fd passes every port, one without a name too" {
    ok run --hold fd -p a -p b -- python3 "$ACTIVATED"
    [ "$(cut -d' ' -f1 "$T/out" | tr '\n' ' ')" = "a b " ]
    ok run --hold fd -- python3 "$ACTIVATED"
    [[ $out = unknown* ]]
}

@test "nobody can bind the port before the command uses it, with any reuse option" {
    ok run --listen web -- sh -c 'for how in addr port both; do python3 "$0" --reuse $how 127.0.0.1 $PORT; done
        "$DIBS" ls --json' "$BIND"
    [ "$(head -n3 "$T/out" | sort -u)" = EADDRINUSE ]
    [[ $out = *'"hold":"fd"'* ]]
}

@test "clients that come before the command accepts wait in its queue" {
    ok run --listen web --address 127.0.0.1 -- bash -c 'exec 9<>"/dev/tcp/127.0.0.1/$PORT"
        cat <&9 >"$T/answer" & exec 9>&-
        exec python3 "$0" --serve' "$ACTIVATED"
    answered() { grep -qx hello "$T/answer"; }
    wait_until 10 answered
}

@test "a required port that is in use is refused, and nothing runs" {
    listen 12550
    refused 3 run --listen web=12550 -- touch "$T/ran"
    [ ! -e "$T/ran" ]
    [ "$(held)" -eq 0 ]
}

@test "a command that cannot be run leaves neither socket nor claim" {
    refused 127 run --listen web=12551 -- no-such-command
    [ "$(python3 "$BIND" 0.0.0.0 12551)" = bound ]
    [ "$(held)" -eq 0 ]
}

@test "SIGKILL of dibs leaves the socket with the command, and its end frees the port" {
    start "$DIBS" run --listen web=12552 -- sh -c 'echo $$ >"$T/pid"; exec sleep 600'
    wait_until 10 test -s "$T/pid"
    pid=$(<"$T/pid")
    end_process "$STARTED"
    [ "$(python3 "$BIND" --reuse addr 0.0.0.0 12552 || true)" = EADDRINUSE ]
    kill -KILL "$pid"
    free() { [ "$(python3 "$BIND" 0.0.0.0 12552)" = bound ]; }
    wait_until 10 free
}

@test "more sockets than can be passed are refused" {
    names=()
    for i in {1..65}; do names+=(--listen "n$i"); done
    refused 2 run "${names[@]}" -- true
    [ "$(held)" -eq 0 ]
}
