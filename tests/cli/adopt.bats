#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# claim --port P --pid PID where PID listens on P already. Required ports of this file: 12650-12699.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "a process that listens already becomes the holder of its port" {
    listen 12650
    ok claim web --port 12650 --pid "$STARTED" --json
    json "d[0]['port'] == 12650 and d[0]['holder']['pid'] == $STARTED and d[0]['kind'] == 'static'"
    ok who 12650
    [[ $out = *"held by pid $STARTED "*"holder"* ]]
    ok assert web
    end_process "$STARTED"
    ok reap
    [ "$(held)" -eq 0 ]
}

@test "a server with connections, one whose child listens, and one of udp are adopted as well" {
    start python3 -c '
import ctypes, os, socket, time
server = socket.create_server(("127.0.0.1", 12651))
client = socket.create_connection(("127.0.0.1", 12651))
accepted, _ = server.accept()
if os.fork() == 0:
    ctypes.CDLL(None).prctl(1, 9) # end with the parent
    below = socket.create_server(("127.0.0.1", 12652))
    time.sleep(600)
udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
udp.bind(("127.0.0.1", 12653))
open(os.environ["T"] + "/ready", "w")
time.sleep(600)'
    ready() { [ -e "$T/ready" ] && (exec 9<>/dev/tcp/127.0.0.1/12652) 2>/dev/null; }
    wait_until 10 ready
    sleep 0.05 # the connection of the check has ended
    ok claim --port 12651 --pid "$STARTED"
    ok claim --port 12652 --pid "$STARTED"
    ok claim --port 12653 --proto udp --pid "$STARTED"
}

@test "the port of another process is refused, and so is one that two processes use" {
    listen 12654
    stranger=$STARTED
    start_sleeper
    refused 3 claim --port 12654 --pid "$STARTED"
    says "$stranger"
    refused 3 claim --port 12654 # who listens must be named
    refused 3 claim --port 12654 --keep
    listen 12655 tcp 127.0.0.1
    first=$STARTED
    listen 12655 tcp 127.0.0.2
    refused 3 claim --port 12655 --pid "$first"
    ok claim --port 12655 --address 127.0.0.1 --pid "$first"
    [ "$(held)" -eq 1 ]
}

@test "a port that its process only bound or connected from is not adopted" {
    listen 12656 bound
    refused 3 claim --port 12656 --pid "$STARTED"
}

@test "a claimed port stays its holder's, also if another process listens" {
    ok claim web --port 12657 --keep
    listen 12657
    refused 3 claim other --port 12657 --pid "$STARTED"
    ok claim web --port 12657 --pid "$STARTED"
}
