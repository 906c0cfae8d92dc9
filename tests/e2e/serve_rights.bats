#!/usr/bin/env bats
# Rights of users at a daemon: two real users, root on the public and on the admin socket, root of another pid
# namespace.
# shellcheck disable=SC2030,SC2031,SC2034 # every test is a subshell; the support files read variables
load ../support/dibs
load ../support/sandbox
load ../support/serve

setup() {
    dibs_setup
    needs_root
    needs curl setpriv unshare
    public_folder
    SOCKET_DIR=$PUBLIC serve_start
}
teardown() { sandbox_teardown; }

# ask_as UID [CURL OPTION]... PATH
ask_as() {
    # shellcheck disable=SC2034 # ask reads it
    local ASK_BY=(as_user "$1")
    shift
    ask "$@"
}

# claim_as UID NAME: $TOKEN and $PORT
claim_as() {
    ask_as "$1" --json "{\"name\":\"$2\"}" /v1/claims
    assert_code 201
    TOKEN=$(member token) PORT=$(member port)
}

@test "only its user and administrators see the command line and the directory of a process" {
    listen_as 65533 18190
    for reader in 65533 65534; do
        ask_as "$reader" /v1/ports/tcp/18190
        assert_code 200
        [ "$(member sockets.0.command)" = python3 ]
        [ "$(member sockets.0.uid)" = 65533 ]
        if [ "$reader" -eq 65533 ]; then
            [[ $(member sockets.0.arguments) = "/usr/bin/python3 -c "* ]]
            [[ $(member sockets.0.directory) = /* ]]
        else
            [ "$(member sockets.0.arguments)" = null ]
            [ "$(member sockets.0.directory)" = null ]
        fi
    done
    ASK_SOCKET=$ADMIN ask /v1/ports/tcp/18190
    [[ $(member sockets.0.directory) = /* ]]
}

@test "the sockets have the right owners and modes" {
    [ "$(stat -c %a "$SOCKET")" = 666 ]
    [ "$(stat -c %a "$ADMIN")" = 600 ]
    ask_as 65534 /v1/daemon
    [ "$(member principal)" = uid:65534 ]
    [ "$(member admin)" = false ]
    run as_user 65534 curl -sS --unix-socket "$ADMIN" http://dibs/v1/daemon
    [ "$status" -ne 0 ]
    ASK_SOCKET=$ADMIN ask /v1/daemon
    [ "$(member admin)" = true ]
}

@test "a user sees all claims, never a token, and ends only own ones" {
    claim_as 65534 shop/web
    ask_as 65533 /v1/claims
    [ "$(member claims.0.name)" = shop/web ]
    case $output in *token*|*"$TOKEN"*) false ;; esac
    ask_as 65533 -X DELETE "/v1/claims/$TOKEN" # even who has learnt the token has not the right
    assert_code 403
    ask_as 65533 -X DELETE "/v1/claims/$TOKEN?dry_run=true"
    assert_code 403
    ask_as 65533 --json '{"ttl":"1h"}' "/v1/claims/$TOKEN/renew"
    assert_code 403
    ask_as 65533 --json '{"holder":{"kind":"lease","ttl":"1h"}}' "/v1/claims/$TOKEN/transfer"
    assert_code 403
    ask_as 65533 -X DELETE "/v1/claims/-?port=$PORT"
    [ "$(member released)" = 0 ]
    ask_as 65534 -X DELETE "/v1/claims/$TOKEN?dry_run=true"
    [ "$(member released)" = 1 ]
    ask_as 65534 -X DELETE "/v1/claims/$TOKEN"
    assert_code 200
    [ "$(member released)" = 1 ]
}

@test "the error of a user that may not repair does not say that the ledger fails" {
    DIBS_SOCKET=$SOCKET run as_user 65534 "$PUBLIC/dibs" doctor --fix
    assert_status 1
    assert_output_has "only its owner may repair this ledger"
    assert_output_has "run 'dibs doctor' without --fix"
    [[ $output != *"nothing can be claimed"* ]]
    DIBS_SOCKET=$SOCKET run as_user 65534 "$PUBLIC/dibs" doctor
    assert_status 0
}

@test "the same name of two users is two claims" {
    claim_as 65534 shop/web
    first=$PORT
    claim_as 65533 shop/web
    [ "$first" != "$PORT" ]
}

@test "root on the public socket is a user like others, on the admin socket it ends anything" {
    claim_as 65534 shop/web
    ask -X DELETE "/v1/claims/$TOKEN"
    assert_code 403
    ask /v1/claims
    [ "$(member claims.0.port)" = "$PORT" ]
    ASK_SOCKET=$ADMIN ask -X DELETE "/v1/claims/$TOKEN"
    assert_code 200
    [ "$(member released)" = 1 ]
}

@test "root of a container is neither the host's root nor an administrator" {
    sandbox_start --pid --mount-proc
    ask --json '{"name":"host/db","keep":true,"holder":null}' /v1/claims
    assert_code 201
    token=$(member token)
    inside() { in_sandbox "$SANDBOX" curl -sS --max-time 20 --unix-socket "$SOCKET" -w '\n%{http_code}' "$@"; }
    run inside -X DELETE "http://dibs/v1/claims/$token"
    [ "${lines[-1]}" = 403 ]
    run inside -X DELETE 'http://dibs/v1/claims/-?name=host/db'
    assert_output_has '"released":0'
    run inside http://dibs/v1/daemon
    assert_output_has '"principal":"uid:0@'
    run inside -X PUT --json '{"name":"mine","ranges":"30000-30010","scope":"host","band":"auto","order":"stride","cooldown_ms":0}' http://dibs/v1/pools/mine
    [ "${lines[-1]}" = 403 ]
    ask '/v1/claims/-?name=host/db'
    assert_code 200
}

@test "a container that gets the number of an ended one is not its heir" {
    within() { in_sandbox "$SANDBOX" curl -sS --max-time 20 --unix-socket "$SOCKET" "$@"; }
    number() { stat -Lc %i "/proc/$SANDBOX/ns/pid"; }
    sandbox_start --pid --mount-proc
    run within --json '{"name":"web","keep":true,"holder":null}' http://dibs/v1/claims
    assert_output_has '"name":"web"'
    before=$(number)
    for _ in {1..10}; do # until the kernel gives its number again, mostly at once
        end_process "$SANDBOX"
        sandbox_start --pid --mount-proc
        [ "$(number)" != "$before" ] || break
    done
    run within -X DELETE 'http://dibs/v1/claims/-?name=web'
    assert_output_has '"released":0'
    ASK_SOCKET=$ADMIN ask -X DELETE '/v1/claims/-?name=web'
    [ "$(member released)" = 1 ]
}

@test "a pid of a container is translated, and its death frees the port" {
    sandbox_start --pid --mount-proc
    sleeper_in "$SANDBOX"
    [ "$INSIDE" != "$OUTSIDE" ]
    run in_sandbox "$SANDBOX" curl -sS --unix-socket "$SOCKET" --json "{\"name\":\"in/side\",\"holder\":{\"kind\":\"process\",\"pid\":$INSIDE}}" http://dibs/v1/claims
    assert_output_has "\"pid\":$OUTSIDE"
    end_process "$OUTSIDE"
    is_gone() { ask /v1/claims && case $output in *in/side*) return 1 ;; esac; }
    wait_until 10 is_gone
}

@test "a project that only a container can see is not taken for gone" {
    sandbox_start --pid --mount-proc
    mkdir "$T/there"
    in_sandbox "$SANDBOX" mount -t tmpfs tmpfs "$T/there"
    in_sandbox "$SANDBOX" mkdir "$T/there/project"
    run in_sandbox "$SANDBOX" curl -sS --unix-socket "$SOCKET" \
        --json "{\"name\":\"web\",\"project\":\"$T/there/project\",\"keep\":true,\"holder\":null}" http://dibs/v1/claims
    assert_output_has '"principal":"uid:0@'
    ASK_SOCKET=$ADMIN ask --json '{"stale":true}' /v1/reap
    [ "$(member claims)" = '[]' ]
}

@test "a pid that does not exist in a container is refused, even if it exists outside" {
    sandbox_start --pid --mount-proc
    start_sleeper
    run in_sandbox "$SANDBOX" curl -sS --unix-socket "$SOCKET" --json "{\"holder\":{\"kind\":\"process\",\"pid\":$STARTED}}" http://dibs/v1/claims
    assert_output_has '"status":404'
}

@test "nobody claims for another user's process" {
    start_sleeper
    ask_as 65534 --json "{\"holder\":{\"kind\":\"process\",\"pid\":$STARTED}}" /v1/claims
    assert_code 403
    assert_output_has "belongs to uid 0"
    ask_as 65534 --json '{"holder":{"kind":"process","pid":4194300}}' /v1/claims
    assert_code 404
}

@test "a restored claim names no process and no sockets of another user or container" {
    local snapshot
    restore_as() { # restore_as UID SCRIPT: claims[0] is c, with the facts of our sleeper
        python3 - "$T/snapshot" "$STARTED" "$2" <<'END' >"$PUBLIC/forged"
import json, os, sys
s = json.load(open(sys.argv[1]))
pid, c = int(sys.argv[2]), s["claims"][0]
process = {"kind": "process", "pid": pid, "pid_namespace": os.stat("/proc/self/ns/pid").st_ino,
           "start_ticks": int(open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[19]),
           "boot_id": open("/proc/sys/kernel/random/boot_id").read().strip()}
exec(sys.argv[3])
json.dump(s, sys.stdout)
END
        ask_as "$1" --json @"$PUBLIC/forged" /v1/restore
    }
    claim_as 65534 shop/web
    DIBS_SOCKET=$SOCKET dibs snapshot export "$T/snapshot"
    ask_as 65534 -X DELETE "/v1/claims/$TOKEN"
    start_sleeper
    restore_as 65534 'c["holder"] = process'
    assert_code 403
    restore_as 65534 'c["uid"] = 0'
    assert_code 403
    ask /v1/claims
    [ "$(member claims)" = '[]' ]
    restore_as 65534 ''
    assert_code 200
    restore_as 0 'c.update(name="a/b", port=24000, principal="uid:0", uid=0, holder=process); c["bindings"][0]["port"] = 24000'
    assert_code 200
    # Root of a container has the uid, and is somebody else.
    sandbox_start --pid --mount-proc
    run in_sandbox "$SANDBOX" curl -sS --unix-socket "$SOCKET" http://dibs/v1/daemon
    restore_as 65533 "c.update(principal=json.loads('$output')['principal'], uid=0, holder=process)"
    run in_sandbox "$SANDBOX" curl -sS --unix-socket "$SOCKET" --json @"$PUBLIC/forged" http://dibs/v1/restore
    assert_output_has '"status":403'
    ASK_SOCKET=$ADMIN restore_as 0 'c.update(name="c/d", port=24001, holder=process); c["bindings"][0]["port"] = 24001'
    assert_code 200
}

@test "whose process it is counts, and its death frees the port at once" {
    start setpriv --reuid=65534 --regid=65534 --clear-groups sleep 600
    wait_until 10 grep -q '^Uid:.65534' "/proc/$STARTED/status"
    ask_as 65534 --json "{\"holder\":{\"kind\":\"process\",\"pid\":$STARTED}}" /v1/claims
    assert_code 201
    seq=$(member id)
    kill -KILL "$STARTED"
    ask "/v1/events?since=$seq&wait=10s"
    [ "$(member events.0.what)" = reaped ]
}

@test "a quota stops one user and leaves the others" {
    serve_stop
    SOCKET_DIR=$PUBLIC serve_start --quota 3
    for i in 1 2 3; do claim_as 65534 "a/$i"; done
    ask_as 65534 --json '{}' /v1/claims
    assert_code 507
    assert_output_has "may have 3"
    ask_as 65533 --json '{}' /v1/claims
    assert_code 201
    ask_as 65534 -X DELETE '/v1/claims/-?name=a/1'
    claim_as 65534 a/4
    serve_stop KILL # and what was there before counts after a restart, too
    SOCKET_DIR=$PUBLIC serve_start --quota 3
    ask_as 65534 --json '{}' /v1/claims
    assert_code 507
}

@test "subordinate uids have the quota and the connections of their owner, also when the file changes" {
    serve_stop
    echo 65534:700000:100 >"$T/subuid"
    sandbox_start
    in_sandbox "$SANDBOX" mount --bind "$T/subuid" /etc/subuid
    SOCKET=$PUBLIC/sub.sock
    DIBS_SOCKET=none start_in_sandbox "$SANDBOX" "$DIBS" serve --socket "$SOCKET" --quota 3 2>>"$T/serve.log"
    DAEMON=$STARTED
    wait_until 10 serve_answers
    claim_as 65534 a/1
    claim_as 700000 a/2
    claim_as 700099 a/3
    for uid in 65534 700000 700042; do
        ask_as "$uid" --json '{}' /v1/claims
        assert_code 507
    done
    claim_as 700100 a/4
    # 1,024 connections are one user's limit: half of them by each of two uids, all under work.
    run python3 - "$SOCKET" <<'END'
import os, resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))
def ask(uid, text):
    os.seteuid(uid)
    try:
        client = socket.socket(socket.AF_UNIX)
        client.connect(sys.argv[1])
        client.sendall(text)
        return client
    finally:
        os.seteuid(0)
get = b"GET /v1/%s HTTP/1.1\r\nHost: dibs\r\n\r\n"
waiting = [ask(uid, get % b"events?since=99999&wait=60s") for uid in (700000, 700001) for _ in range(512)]
for uid in (65534, 700002, 700100):
    answer = ask(uid, get % b"daemon").recv(100)
    print(uid, answer.split()[1].decode())
END
    assert_status 0
    [ "${lines[*]}" = "65534 429 700002 429 700100 200" ]
    echo 65534:800000:100 >"$T/subuid"
    is_free() { ask_as 700000 --json '{}' /v1/claims && assert_code 201; }
    wait_until 10 is_free
}

@test "a container's root takes the places of the host's root, and none of the administrators'" {
    sandbox_start --pid --mount-proc
    cat >"$T/many.py" <<'END'
import resource, socket, sys, time
resource.setrlimit(resource.RLIMIT_NOFILE, (2048, 2048))
clients = []
for _ in range(1024):
    clients.append(socket.socket(socket.AF_UNIX))
    clients[-1].connect(sys.argv[1])
    clients[-1].sendall(b"GET /v1/events?since=99999&wait=60s HTTP/1.1\r\nHost: dibs\r\n\r\n")
print("all", flush=True)
time.sleep(600)
END
    start_in_sandbox "$SANDBOX" python3 "$T/many.py" "$SOCKET" >"$T/many"
    wait_until 20 grep -q all "$T/many"
    is_full() { DIBS_SOCKET=$SOCKET run dibs ls && [[ $output = *"too many requests"* ]]; }
    wait_until 10 is_full
    DIBS_SOCKET=$ADMIN run dibs claim
    assert_status 0
}

@test "at the quota's limit what makes no claim more still goes through" {
    serve_stop
    SOCKET_DIR=$PUBLIC serve_start --quota 3
    local key=(-H 'Idempotency-Key: once' --json '{"name":"a/1"}')
    ask_as 65534 "${key[@]}" /v1/claims
    assert_code 201
    port=$(member port)
    claim_as 65534 a/2
    ask_as 65534 --json '{"name":"a/3","keep":true,"holder":null}' /v1/claims
    assert_code 201
    ask_as 65534 "${key[@]}" /v1/claims # asked again
    assert_code 201
    [ "$(member port)" = "$port" ]
    ask_as 65534 --json '{"name":"a/2"}' /v1/claims # has its claim
    assert_code 200
    ask_as 65534 --json '{"name":"a/4"}' /v1/claims
    assert_code 507
    ask_as 65534 --json '{"requests":[{"name":"a/1"},{"name":"a/4"}]}' /v1/batch
    assert_code 507
    ask_as 65534 '/v1/claims/-?name=a/3'
    batch="{\"requests\":[{\"name\":\"a/4\"}],\"drops\":[{\"claim\":$output,\"frees_name\":false,\"stays\":false}]}"
    ask_as 65534 --json "$batch" /v1/batch # one ends for it
    assert_code 200
    ask_as 65534 '/v1/claims?prefix=a'
    [ "$(member claims | grep -o '"name": "a/[0-9]"' | tr -d '\n')" = '"name": "a/1""name": "a/2""name": "a/4"' ]
}

@test "claims that are asked for at once stay within the quota" {
    serve_stop
    SOCKET_DIR=$PUBLIC serve_start --quota 3
    as_user 65534 curl -sS --max-time 20 --parallel --parallel-immediate --unix-socket "$SOCKET" --json '{}' \
        -w '%{http_code}\n' -o /dev/null 'http://dibs/v1/claims#[1-20]' >"$T/codes"
    [ "$(grep -c 201 "$T/codes")" -eq 3 ]
    [ "$(grep -c 507 "$T/codes")" -eq 17 ]
}

@test "a quota counts whatever makes the claims" {
    serve_stop
    SOCKET_DIR=$PUBLIC serve_start --quota 3
    ask_as 65534 -X PUT --json '{"range":"20000-32767","data":"Dw=="}' /v1/pools/default/snapshot
    assert_code 507
    assert_output_has "has 0 claims here, and may have 3"
    ask_as 65534 --json '{"observed":[{"port":20001},{"port":20002},{"port":20003},{"port":20004}]}' /v1/repair
    assert_code 507
    ask /v1/claims
    [ "$(member claims)" = '[]' ]
    ask_as 65534 -X PUT --json '{"range":"20000-32767","data":"Bw=="}' /v1/pools/default/snapshot
    assert_code 200
    three=$(DIBS_SOCKET=$SOCKET dibs snapshot export)
    ask_as 65534 -X DELETE '/v1/claims/-?port=20000'
    ask_as 65534 --json '{}' /v1/claims
    assert_code 201
    token=$(member token)
    ask_as 65534 --json "$three" /v1/restore
    assert_code 507
    ask_as 65534 -X DELETE "/v1/claims/$token"
    ask_as 65534 --json "$three" /v1/restore
    assert_code 200
    [ "$(member restored)" = 1 ]
}

@test "a rate stops one user for a moment" {
    serve_stop
    SOCKET_DIR=$PUBLIC serve_start --rate 5
    # By one process: starting seven may take longer than it takes to have a request free again.
    run as_user 65534 curl -sS --max-time 20 --unix-socket "$SOCKET" -o /dev/null -w '%{http_code}\n' 'http://dibs/v1/daemon#[1-7]'
    [ "${lines[0]}" = 200 ]
    [ "${lines[-1]}" = 429 ]
    ask_as 65533 /v1/daemon
    assert_code 200
}

@test "a batch, an import, a repair and a restored snapshot cost as much of the rate as they have parts" {
    serve_stop
    SOCKET_DIR=$PUBLIC serve_start --rate 10
    is_taken() { ask_as "$1" --json "$3" "${@:4}" "$2" && assert_code 200; }
    costs() { # UID PATH BODY [OPTION]...: 50 parts, more than there is space for
        wait_until 10 is_taken "$@"
        ask_as "$1" /v1/daemon
        assert_code 429
    }
    # shellcheck disable=SC2059 # each has a format of its own
    listed() { local all; all=$(printf "$1," {1..50}) && echo "${all%,}"; }
    costs 65530 /v1/batch "{\"requests\":[$(listed '{"name":"n/%d"}')],\"dry_run\":true}"
    costs 65531 /v1/repair "{\"observed\":[$(listed '{"port":21%03d}')]}"
    costs 65532 /v1/pools/default/snapshot '{"range":"20000-32767","data":"A////////w=="}' -X PUT
    all=$(DIBS_SOCKET=$ADMIN dibs snapshot export | python3 -c 'import json, sys
all = json.load(sys.stdin)
all["claims"] = [c for c in all["claims"] if c["principal"] == "uid:65531"]
print(json.dumps(all))')
    costs 65531 /v1/restore "$all"
    ask_as 65533 /v1/daemon
    assert_code 200
}

@test "a privileged port is refused to a user with the same message as without a daemon" {
    ask_as 65534 --json '{"mode":"required","port":81}' /v1/claims
    assert_code 403
    detail=$(member detail)
    run as_user 65534 env DIBS_LEDGER=memory: "$DIBS" claim --port 81
    assert_status 7
    [ "$output" = "dibs: $detail" ]
    ask --json '{"mode":"required","port":81}' /v1/claims # root may bind it
    # shellcheck disable=SC2154 # ask sets it
    case $code in 201 | 409) ;; *) false ;; esac
    # A restored snapshot is no way around that.
    claim_as 65534 shop/web
    DIBS_SOCKET=$SOCKET dibs snapshot export "$T/snapshot"
    ask_as 65534 -X DELETE '/v1/claims/-?name=shop/web'
    python3 - "$T/snapshot" <<'END' >"$PUBLIC/forged"
import json, sys
s = json.load(open(sys.argv[1]))
s["claims"] = [c for c in s["claims"] if c["name"] == "shop/web"]
s["claims"][0]["port"] = s["claims"][0]["bindings"][0]["port"] = 82
json.dump(s, sys.stdout)
END
    ask_as 65534 --json @"$PUBLIC/forged" /v1/restore
    assert_code 403
    ASK_SOCKET=$ADMIN ask --json @"$PUBLIC/forged" /v1/restore
    assert_code 200
    DIBS_SOCKET=$ADMIN dibs pool set low --ranges 84-91
    ask_as 65534 -X PUT --json '{"range":"84-91","data":"BQ=="}' /v1/pools/low/snapshot
    assert_code 403
    ask -X PUT --json '{"range":"84-91","data":"BQ=="}' /v1/pools/low/snapshot
    assert_code 200
    ask_as 65534 --json '{"pool":"low","observed":[{"port":87}]}' /v1/repair
    assert_code 403
    ask --json '{"pool":"low","observed":[{"port":87}]}' /v1/repair
    assert_code 200
}

@test "a claim belongs to the network namespace that its process is in when it asks" {
    run python3 - "$SOCKET" <<'END'
import ctypes, http.client, json, os, socket, subprocess, sys, time

class Connection(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])

daemon = Connection("dibs")

def ask(method, path, body=None):
    daemon.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
    answer = daemon.getresponse()
    return answer.status, json.loads(answer.read())

assert ask("POST", "/v1/claims", {"name": "net/before"})[0] == 201
assert ctypes.CDLL(None, use_errno=True).unshare(0x40000000) == 0, os.strerror(ctypes.get_errno())
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
status, claim = ask("POST", "/v1/claims", {"name": "net/after", "holder": {"kind": "lease", "ttl": "1s"}})
assert status == 201, claim
server = socket.create_server(("127.0.0.1", claim["port"]))
end = time.monotonic() + 3
while time.monotonic() < end:  # the lease is over, but its socket is there
    time.sleep(0.2)
    assert any(c["name"] == "net/after" for c in ask("GET", "/v1/claims")[1]["claims"])
server.close()
end = time.monotonic() + 20
while any(c["name"] == "net/after" for c in ask("GET", "/v1/claims")[1]["claims"]):
    assert time.monotonic() < end, "it did not end with its socket"
    time.sleep(0.1)
END
    assert_status 0
}
