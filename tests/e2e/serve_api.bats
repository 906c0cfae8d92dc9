#!/usr/bin/env bats
# Requests that are almost right must not do something else than was meant.
load ../support/dibs
load ../support/serve

setup() {
    dibs_setup
    needs curl
    serve_start
}
teardown() { dibs_teardown; }

@test "a problem says the status that its answer has" {
    ask -X PATCH /v1/claims
    assert_code 405
    [ "$(member status)" = 405 ]
    ask -d x -H 'Content-Type: text/xml' /v1/claims
    assert_code 415
    [ "$(member status)" = 415 ]
}

@test "a misspelt ttl renews nothing" {
    ask --json '{"name":"web"}' /v1/claims
    assert_code 201
    ask --json '{"tll":"2h"}' '/v1/claims/-/renew?name=web'
    assert_code 400
    ask --json '{"ttl":"2h"}' '/v1/claims/-/renew?name=web'
    [ "$(member holder.ttl_ms)" = 7200000 ]
    ask -X POST '/v1/claims/-/renew?name=web' # without a body: as long as the settings say
    [ "$(member holder.ttl_ms)" = 600000 ]
}

@test "a dry run that is no boolean reaps nothing" {
    ask --json '{"dry_run":"true"}' /v1/reap
    assert_code 400
}

@test "an assertion confirms the holder's socket" {
    listen 0
    ask --json '{"mode":"declared","port":'"$LISTENED"',"holder":{"kind":"process","pid":'"$STARTED"'},"bindings":[{"address":"127.0.0.1"}]}' /v1/claims
    assert_code 201
    ask "/v1/claims/$(member token)/assert"
    assert_code 200
    [ "$(member holders)" = true ]
    [ "$(member pid)" = "$STARTED" ]
}

@test "a page of events says how far back events are kept" {
    ask --json '{}' /v1/claims
    ask /v1/events
    [ "$(member oldest)" = 1 ]
    [ "$(member seq)" = 1 ]
}

@test "requests whose clients have gone do not outlive the daemon" {
    # Each is done alone, so that some are still queued when it gets the signal to stop.
    python3 - "$ADMIN" "$DAEMON" <<'END'
import os, signal, socket, sys
path, daemon = sys.argv[1], int(sys.argv[2])
os.kill(daemon, signal.SIGSTOP)
clients = [socket.socket(socket.AF_UNIX) for _ in range(40)]
for client in clients:
    client.connect(path)
    client.sendall(b"GET /v1/doctor HTTP/1.1\r\nHost: dibs\r\n\r\n")
os.kill(daemon, signal.SIGCONT)
clients[0].recv(1)
os.kill(daemon, signal.SIGTERM)
for client in clients:
    client.close()
END
    status=0
    wait "$DAEMON" || status=$?
    assert_status 0
}

@test "a client with four large answers pending is refused a fifth, not a small one" {
    # Answers of half a megabyte do not fit into a socket: they stay until somebody reads them.
    python3 - "$SOCKET" <<'END'
import socket, sys, time

def ask(path, body):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(sys.argv[1])
    s.sendall(f"POST {path} HTTP/1.1\r\nHost: dibs\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    return s, int(s.recv(12, socket.MSG_WAITALL).split()[1])

def batch(n):
    return ask("/v1/batch", '{"dry_run":true,"requests":[' + ",".join(["{}"] * n) + "]}")

untaken = [batch(1000) for _ in range(4)]
assert [code for _, code in untaken] == [200] * 4, untaken
assert batch(101)[1] == 429
assert batch(100)[1] == 200
assert ask("/v1/claims", "{}")[1] == 201
first = untaken[0][0]
while b"]}" not in first.recv(1 << 20)[-8:]:
    pass
assert any(batch(101)[1] == 200 or time.sleep(0.05) for _ in range(100)) # the daemon learns of it a moment later
END
}

@test "ports of one group commit can be bound at once, by servers that allow no reuse" {
    python3 - "$SOCKET" "$DAEMON" <<'END'
import json, os, signal, socket, sys
path, daemon = sys.argv[1], int(sys.argv[2])
for _ in range(5):
    os.kill(daemon, signal.SIGSTOP)
    clients = [socket.socket(socket.AF_UNIX) for _ in range(100)]
    for client in clients:
        client.settimeout(20)
        client.connect(path)
        client.sendall(b"POST /v1/claims HTTP/1.1\r\nHost: dibs\r\nContent-Length: 2\r\n\r\n{}")
    os.kill(daemon, signal.SIGCONT)
    bound = []
    for client in clients:
        head, _, body = client.recv(1 << 16).partition(b"\r\n\r\n")
        assert b" 201 " in head, head
        bound.append(socket.socket(socket.AF_INET6))
        bound[-1].bind(("", json.loads(body)["port"]))
END
}

@test "an address that this host does not have is the request's fault, not the server's" {
    ask --json '{"bindings":[{"proto":"tcp","address":"203.0.113.9"}]}' /v1/claims
    assert_code 422
    [[ $output = *"no interface of this host has that address"* ]]
    [ "$(member status)" = 422 ]
    grep -q ' sctp' /proc/net/protocols || {
        ask --json '{"bindings":[{"proto":"sctp","address":"*"}]}' /v1/claims
        assert_code 422
    }
}

@test "SIGUSR1 logs statistics, and the daemon goes on" {
    ask --json '{"name":"a/b","keep":true}' /v1/claims
    kill -USR1 "$DAEMON"
    wait_until 10 grep -q 'msg=statistics claims=1 ' "$T/serve.log"
    ask /healthz
    assert_code 200
}
