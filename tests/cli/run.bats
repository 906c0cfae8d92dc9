#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# dibs run. Ports of this file: 13800-13999.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

no_claim() {
    dibs -q reap >/dev/null
    [ "$(held)" -eq 0 ]
}
one_claim() {
    [ "$(held)" = 1 ]
}

@test "the command gets its port in PORT and its claim ends with it" {
    ok run printenv PORT
    [[ $out =~ ^[0-9]+$ ]]
    port=$out
    ok log --json
    json "[e['port'] for e in d] == [$port, $port] and d[0]['what'] == 'claimed'"
    json "d[1]['what'] in ('released', 'reaped')" # by dibs, or by a daemon that saw the end of the command first
    [ "$(held)" -eq 0 ]
}

@test "every name has its variable, and {NAME} its number" {
    ok run -p web -p web/http-alt -p 9p=13800 -p /abs/x -- sh -c \
        'echo "$WEB_PORT $WEB_HTTP_ALT_PORT $_9P_PORT $ABS_X_PORT $PORT $PORT0 $PORT3 $DIBS_PORTS $*"' sh \
        '{web}' 'x{web/http-alt}y{9p}' '{abs/x}' '{PORT}' '{nobody}' '{}' '{web' '{{web}}'
    read -r web alt nine abs port port0 port3 p1 p2 p3 p4 a1 a2 a3 a4 a5 a6 a7 a8 <<<"$out"
    [ "$nine" = 13800 ]
    [ "$port" = "$web" ]
    [ "$port0" = "$web" ]
    [ "$port3" = "$abs" ]
    [ "$p1 $p2 $p3 $p4" = "web=$web web/http-alt=$alt 9p=13800 abs/x=$abs" ]
    [ "$a1" = "$web" ]
    [ "$a2" = "x${alt}y13800" ]
    [ "$a3" = "$abs" ]
    [ "$a4" = "$web" ]
    [ "$a5 $a6 $a7 $a8" = "{nobody} {} {web {$web}" ]
    [ "$(printf '%s\n' "$web" "$alt" "$nine" "$abs" | sort -u | wc -l)" -eq 4 ]
}

@test "a brace after a dollar sign is the shell's, not a hole" {
    ok run -p web -- sh -c 'echo "$1 ${PORT} ${WEB_PORT} $PORT {PORT}{web}"' sh '${PORT}${web}$${web}'
    read -r argument braced named plain holes <<<"$out"
    [ "$argument" = '${PORT}${web}$${web}' ]
    [ "$braced $named $holes" = "$plain $plain $plain$plain" ]
}

@test "names are sticky across runs" {
    ok run -p web -p api -- sh -c 'echo $WEB_PORT $API_PORT'
    first=$out
    for round in 1 2 3; do
        ok run -p api -p web -- sh -c 'echo $WEB_PORT $API_PORT'
        [ "$out" = "$first" ]
    done
    [ "$(held)" -eq 0 ]
}

@test "the exit code is the command's" {
    for want in 0 1 2 7 42 255; do
        try run sh -c "exit $want"
        [ "$code" -eq "$want" ]
        [ -z "$out$errs" ]
    done
    try run sh -c 'kill -TERM $$'
    [ "$code" -eq 143 ]
    try run sh -c 'kill -KILL $$'
    [ "$code" -eq 137 ]
    [ "$(held)" -eq 0 ]
}

@test "a command that cannot be run is 127 or 126, and leaves no claim" {
    refused 127 run -p web no-such-command-here
    refused 127 run "$T/not/there"
    touch "$T/plain"
    refused 126 run "$T/plain"
    refused 126 run "$T"
    printf '#!/no/such/interpreter\n' >"$T/script"
    chmod +x "$T/script"
    try run "$T/script"
    [ "$code" -eq 127 ] || [ "$code" -eq 126 ]
    [ "$(held)" -eq 0 ]
    ok get kept
    refused 127 run -p kept no-such-command-here
    [ "$(held)" -eq 1 ]
}

@test "INV-11: the exit code is the command's when its claims cannot be released, and they end with it" {
    mkfifo "$T/go"
    start sh -c "'$DIBS' run --timeout 300ms -p web -- sh -c 'touch $T/runs; cat $T/go; exit 7' 2>$T/said; echo \$? >$T/code"
    wait_until 10 test -f "$T/runs"
    lock_ledger
    : >"$T/go"
    wait_until 5 test -s "$T/code"
    [ "$(cat "$T/code")" -eq 7 ]
    grep -q 'the release of port [0-9]* is not confirmed' "$T/said"
    unlock_ledger other
    ok reap
    ok ls --json
    json '[c["name"].rsplit("/")[-1] for c in d] == ["other"]'
}

# claim_of: what there was to say of a claim before, without what every handover changes.
claim_of() {
    ok ls --all --json
    value '[(c["name"], c["port"], c["kept"], c["holder"], c["command"], c["id"]) for c in d]'
}

@test "a lease or kept claim that its name had before is there after it as before, run or not" {
    ok claim leased --ttl 1h
    ok get kept
    ok get both
    ok claim both --ttl 2h
    before=$(claim_of)
    for options in '' --keep; do
        # shellcheck disable=SC2086 # none or one
        refused 127 run $options -p leased -p kept -p both -p new -- "$T/not/there"
        [ "$(claim_of)" = "$before" ] || { diff <(echo "$before") <(claim_of) >&2; return 1; }
    done
    ok run -p leased -p kept -p both -p new -- true
    [ "$(claim_of)" = "$before" ] || { diff <(echo "$before") <(claim_of) >&2; return 1; }
}

@test "dibs' own failures come before the command starts" {
    ok claim --port 13810
    refused 3 run -p web=13810 touch "$T/started-anyway"
    refused 4 run --range 13810 touch "$T/started-anyway"
    refused 5 run --pool nowhere touch "$T/started-anyway"
    refused 2 run -p web=0 touch "$T/started-anyway"
    refused 2 run -p a -p a touch "$T/started-anyway"
    refused 2 run -p a=13811 -p b=13811 touch "$T/started-anyway"
    says "'a' and 'b'"
    refused 2 run -p a-b -p a/b touch "$T/started-anyway"
    refused 2 run -p '' touch "$T/started-anyway"
    refused 2 run -p =80 touch "$T/started-anyway"
    refused 2 run
    refused 2 run --
    refused 6 run --ledger sqlite:/dev/null/x touch "$T/started-anyway"
    [ ! -e "$T/started-anyway" ]
    [ "$(held)" -eq 1 ]
}

@test "while the command runs it is the holder" {
    start "$DIBS" run -p web=13820 -- sh -c "echo \$\$ >'$T/pid'; exec sleep 600"
    wait_until 10 test -s "$T/pid"
    pid=$(cat "$T/pid")
    echo "$pid" >>"$T/started"
    ok ls --json
    json "d[0]['holder']['pid'] == $pid and d[0]['life'] == 'alive' and d[0]['command']"
    refused 3 claim --port 13820
    says "$pid"
    refused 3 run -p web -- true
    ok get web
    [ "$out" = 13820 ]
    kill -TERM "$pid"
    wait_until 10 no_claim
}

# received WORD...: the signals that the command of signals.py got so far.
received() {
    [ "$(tr '\n' ' ' <"$T/received" 2>/dev/null)" = "$* " ]
}

@test "signals are handed on, the real-time ones with what they carry" {
    start setsid "$DIBS" run -p web -- "$PYTHON" "$DIBS_TEST_SUPPORT/signals.py" "$T/received"
    wait_until 10 received ready
    dibs ls --json >"$T/out"
    value 'd[0]["holder"]["pid"]' >>"$T/started"
    expected=(ready)
    for name in TERM INT HUP QUIT USR1 ALRM VTALRM PROF WINCH ABRT IO PWR URG RTMIN RTMAX; do
        kill -s "$name" "$STARTED"
        expected+=("SIG$name")
        wait_until 10 received "${expected[@]}" || { echo "SIG$name: $(cat "$T/received")" >&2; return 1; }
    done
    "$PYTHON" -c 'import ctypes, sys; ctypes.CDLL(None).sigqueue(int(sys.argv[1]), 10, ctypes.c_void_p(7))' "$STARTED"
    wait_until 10 received "${expected[@]}" 'SIGUSR1*'
    kill -s USR2 "$STARTED"
    code=0
    wait "$STARTED" || code=$?
    [ "$code" -eq 77 ]
    [ "$(held)" -eq 0 ]
}

@test "Ctrl-C reaches the command once, from the terminal" {
    code=0
    "$DIBS_TEST_SUPPORT/terminal.py" "$T/received" press \
        "$DIBS" run -p web -- "$PYTHON" "$DIBS_TEST_SUPPORT/signals.py" "$T/received" || code=$?
    [ "$code" -eq 77 ]
    [ "$(grep -c SIGINT "$T/received")" -eq 1 ]
    [ "$(held)" -eq 0 ]
}

@test "the command gets the hangup of its terminal once" {
    code=0
    "$DIBS_TEST_SUPPORT/terminal.py" "$T/received" hangup \
        "$DIBS" run -p web -- "$PYTHON" "$DIBS_TEST_SUPPORT/signals.py" "$T/received" || code=$?
    [ "$code" -eq 77 ]
    [ "$(grep -c SIGHUP "$T/received")" -eq 1 ]
    [ "$(held)" -eq 0 ]
}

@test "killing dibs frees nothing; the command's end frees all" {
    start "$DIBS" run -p web=13830 -- sh -c "echo \$\$ >'$T/pid'; exec sleep 600"
    wait_until 10 test -s "$T/pid"
    pid=$(cat "$T/pid")
    echo "$pid" >>"$T/started"
    end_process "$STARTED"
    kill -0 "$pid"
    ok reap --json
    json 'd == []'
    refused 3 claim other --port 13830
    says "$pid"
    kill -KILL "$pid"
    wait_until 10 no_claim
    ok claim other --port 13830
}

@test "a claim whose command was killed with its dibs is taken over" {
    start setsid "$DIBS" run -p web=13840 -- sleep 600
    wait_until 10 one_claim
    dibs ls --json >"$T/out"
    pid=$(value 'd[0]["holder"]["pid"]')
    kill -STOP "$STARTED" # dibs cannot release any more
    kill -KILL "$pid"
    wait_until 10 dibs -q claim next --port 13840
    end_process "$STARTED"
    ok ls --json
    json '[c["name"] for c in d] == ["project/next"]'
}

@test "run --keep leaves the claims, without a holder" {
    ok run --keep -p web -- printenv WEB_PORT
    port=$out
    ok ls --json
    json "len(d) == 1 and d[0]['port'] == $port and d[0]['kept'] and d[0]['holder'] is None"
    ok run -p web -- printenv WEB_PORT
    [ "$out" = "$port" ]
    [ "$(held)" -eq 1 ]
}

@test "ranges, pools, protocols and addresses are those of claim" {
    ok pool set tests --ranges 13850-13859
    ok run --pool tests --proto tcp+udp --address localhost -p web -- "$DIBS" ls --json
    json 'd[0]["pool"] == "tests" and len(d[0]["bindings"]) == 4 and 13850 <= d[0]["port"] <= 13859'
    ok run --range 13860-13861 -- printenv PORT
    [ "$out" -ge 13860 ]
    [ "$out" -le 13861 ]
    refused 2 run --range 13860-13861 --pool tests -- true
}

@test "the server can bind its port at once, and stdin and stdout are its own" {
    ok run -- "$PYTHON" -SE -c 'import os, socket; s = socket.socket(); s.bind(("", int(os.environ["PORT"]))); s.listen(); print("up")'
    [ "$out" = up ]
    [ "$(echo hello | dibs run cat)" = hello ]
    ls /proc/self/fd >"$T/bare"
    "$DIBS" run ls /proc/self/fd >"$T/out"
    cmp "$T/bare" "$T/out" # no file of dibs' own is handed on
}

@test "options after the command are the command's" {
    ok run echo --json -p x --help
    [ "$out" = '--json -p x --help' ]
    ok run -- echo -- x
    [ "$out" = '-- x' ]
}

@test "four runs of one name at once: one has it, the others are refused" {
    for i in 1 2 3 4; do
        start sh -c "'$DIBS' run -p web -- sleep 1 2>'$T/race.$i'; echo \$? >'$T/race.$i.code'"
    done
    for i in 1 2 3 4; do wait_until 20 test -s "$T/race.$i.code"; done
    [ "$(cat "$T"/race.?.code | sort | tr '\n' ' ')" = '0 3 3 3 ' ]
}

@test "-n gives one name several ports, in a row if asked, and the first its own variable" {
    ok run -n 4 --contiguous -p rank -- sh -c 'echo $RANK_PORT $RANK_0_PORT $RANK_1_PORT $RANK_2_PORT $RANK_3_PORT $PORT $PORT3 {rank} {rank/3}'
    read -r base r0 r1 r2 r3 first last filled filled3 <<<"$out"
    [ "$base $first $filled" = "$r0 $r0 $r0" ]
    [ "$r1 $r2 $r3 $last $filled3" = "$((r0 + 1)) $((r0 + 2)) $((r0 + 3)) $r3 $r3" ]
    ok run -n 4 --contiguous -p rank:MASTER_PORT -- printenv MASTER_PORT
    [ "$out" = "$r0" ] # the same four again
    ok run -n 2 sh -c 'echo $PORT0 $PORT1 "$DIBS_PORTS"'
    read -r p0 p1 list <<<"$out"
    [ "$p0 $p1" = "$list" ]
    ok run -n 8 --contiguous --align 8 -p block -- sh -c 'echo $BLOCK_PORT'
    [ $((out % 8)) -eq 0 ]
    for words in '-n 0 -p a' '-n 2 -p a -p b' '-n 2 -p a=3000' '--align 8 -p a' '-n 2 -p a --as 3000' '-n 2 -p :A'; do
        # shellcheck disable=SC2086 # words
        refused 2 run $words -- true
    done
    refused 4 run -n 20 --range 13800-13809 -p a -- true
}

@test "-p NAME:VARIABLE is the port in that variable" {
    ok run -p master:MASTER_PORT -p web:PORT -p /shared:ADDR -- sh -c 'echo $MASTER_PORT $PORT $PORT1 $ADDR {master} {web} ${WEB_PORT-none}'
    read -r master port web addr filled filled_web none <<<"$out"
    [ "$filled $filled_web $port $none" = "$master $web $web none" ]
    [ "$addr" = "$(dibs get /shared)" ]
    ok release master
    ok run -p master:M=13990 -- printenv M
    [ "$out" = 13990 ]
    for name in PATH DIBS_LEDGER 9 a-b ''; do
        refused 2 run -p "web:$name" -- true
    done
    refused 2 run -p a:SAME -p b:SAME -- true
    says SAME
}

@test "a second run of one name says how to distinguish the two, and that works" {
    start "$DIBS" -q run -p master:MASTER_PORT -- sleep 600
    wait_until 10 eval '[ "$(sql "SELECT count(*) FROM claims WHERE holder <> 0")" -eq 1 ]'
    read -r command <"/proc/$STARTED/task/$STARTED/children" || true
    echo "$command" >>"$T/started"
    refused 3 run -p master:MASTER_PORT -- true
    says 'to run both, call this one -p master-2:MASTER_PORT, or give --group NAME'
    first=$(dibs get master)
    ok run -p master-2:MASTER_PORT -- printenv MASTER_PORT
    [ "$out" != "$first" ]
    ok run --group other -p master:MASTER_PORT -- printenv MASTER_PORT
    [ "$out" != "$first" ]
}
