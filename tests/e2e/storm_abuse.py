#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Clients that misbehave, one kind after the other, while a good one asks for ports and releases them.

usage: storm_abuse.py SOCKET DAEMON-PID SECONDS IDLE      SEED=N repeats the same bytes; needs root

Throughout, IDLE connections are open and say nothing. They belong to one user, the other abuse to a second one, and
the good client is a third: what one user may take of the daemon is limited. What must hold: the daemon lives, every
request of the good client is answered with success, and none waits longer than GOOD_MAX_MS; the daemon's memory stays
below RSS_MAX_MIB; a client that breaks a rule with a status code gets that code or is disconnected. Exits with 1 when
something did not hold.
"""
import json
import os
import random
import resource
import select
import socket
import sys
import tempfile
import time

SOCKET, PID, SECONDS, IDLE = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))
RSS_MAX_MIB = 96  # 2,000 connections with their 8 KiB, and what was read of them, are less than half of it
IS_SANITIZED = os.environ.get("DIBS_TEST_SANITIZE", "none") not in ("", "none")  # its memory is not the daemon's own
GOOD_MAX_MS, GOOD_GOAL_MS = 20000, 50
ANSWER_SECONDS = 10
CROWD = 200  # connections of one kind at once
IDLE_USER, ABUSER = 65533, 65534
dice = random.Random(SEED)
problems = []


def connect():
    client = socket.socket(socket.AF_UNIX)
    client.connect(SOCKET)
    client.settimeout(ANSWER_SECONDS)
    return client


def is_ready(fd, seconds):
    """Can it be read within that time? select() knows no descriptors beyond 1,023."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def request(method, target, body=b"", more=""):
    length = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
    return f"{method} {target} HTTP/1.1\r\nHost: dibs\r\n{length}{more}\r\n".encode() + body


def read_answer(client):
    """(status, body), or (0, b"") when the connection was closed instead."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = client.recv(65536)
        if not more:
            return 0, b""
        data += more
    head, body = data.split(b"\r\n\r\n", 1)
    lines = head.split(b"\r\n")
    fields = dict(line.lower().split(b":", 1) for line in lines[1:])
    while len(body) < int(fields.get(b"content-length", b"0")):
        more = client.recv(65536)
        if not more:
            return 0, b""
        body += more
    return int(lines[0].split()[1]), body


# ---- the good client ----


def good_one(client):
    """Claims and releases: the seconds that each took."""
    began = time.monotonic()
    client.sendall(request("POST", "/v1/claims", b'{"holder":{"kind":"lease","ttl":"10s"}}'))
    status, body = read_answer(client)
    middle = time.monotonic()
    if status != 201:
        raise ValueError(f"claim: {status} {body[:300]!r}")
    client.sendall(request("DELETE", f"/v1/claims/{json.loads(body)['token']}"))
    status, body = read_answer(client)
    if status != 200 or json.loads(body) != {"released": 1}:
        raise ValueError(f"release: {status} {body[:300]!r}")
    return middle - began, time.monotonic() - middle


def be_good(stop, out):
    """Until `stop` is closed; a line for each request: when it began and how long it took, or what was wrong."""
    kept = None
    while not is_ready(stop, 0.004):
        for is_fresh in (False, True):
            at = time.monotonic()
            try:
                client = connect() if is_fresh or not kept else kept
                kept = kept if is_fresh else client
                got = good_one(client)
                print("\n".join(f"{at} {seconds}" for seconds in got), file=out)
            except (OSError, ValueError) as error:
                kept = None
                print(f"{at} {type(error).__name__}: {error}", file=out)
    out.flush()
    os._exit(0)


# ---- the others: each does a piece of its abuse, and is called again and again ----

GOOD_CLAIM = request("POST", "/v1/claims", b'{"holder":{"kind":"lease","ttl":"10ms"}}')


def must_be(what, status, *allowed):
    if status not in (0, *allowed):
        problems.append(f"{what}: status {status}, expected {allowed} or the end of the connection")


def refused(what, data, *allowed):
    """Sends it; what comes back is one of these codes or the end."""
    with connect() as client:
        try:
            client.sendall(data)
            must_be(what, read_answer(client)[0], *allowed)
        except ConnectionError:
            pass
        except TimeoutError:
            problems.append(f"{what}: no answer")


def slow_loris():
    text = GOOD_CLAIM[:40]
    crowd = [connect() for _ in range(CROWD)]
    for i in range(len(text)):
        for client in crowd:
            try:
                client.send(text[i:i + 1])
            except ConnectionError:
                pass
        time.sleep(0.005)
    for client in crowd:
        client.close()


def half_requests():
    crowd = [connect() for _ in range(CROWD)]
    for client in crowd:
        client.sendall(GOOD_CLAIM[:dice.randrange(1, len(GOOD_CLAIM))])
        if dice.randrange(2):
            client.shutdown(socket.SHUT_WR)
    for client in crowd:
        client.close()


def huge_bodies():
    for size in (1 << 30, 1 << 62, 10 ** 30, -1):
        head = f"POST /v1/claims HTTP/1.1\r\nHost: dibs\r\nContent-Length: {size}\r\n\r\n".encode()
        refused(f"{size} bytes announced", head + b" " * 10000, 400, 413)
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    with connect() as client:
        try:
            client.sendall(b"POST /v1/claims HTTP/1.1\r\nHost: dibs\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in range(1024):
                client.sendall(chunk)
            client.sendall(b"0\r\n\r\n")
            must_be("64 MiB in chunks", read_answer(client)[0], 400, 411, 413)
        except ConnectionError:
            pass
        except TimeoutError:
            problems.append("64 MiB in chunks: neither read nor refused")


def huge_heads():
    refused("a header of 1 MiB", request("GET", "/healthz", more=f"X: {'x' * (1 << 20)}\r\n"), 400, 413, 431)
    refused("100,000 headers", request("GET", "/healthz", more="X: y\r\n" * 100000), 400, 413, 431)
    refused("a target of 1 MiB", request("GET", "/" + "x" * (1 << 20)), 400, 404, 413, 414, 431)


def pipelined():
    """Many requests before the first answer is read, and garbage behind them."""
    with connect() as client:
        try:
            client.sendall(GOOD_CLAIM * 50 + dice.randbytes(2000))
            for _ in range(50):
                if read_answer(client)[0] == 0:
                    break
        except ConnectionError:
            pass


def never_read():
    """Asks for more than a socket's buffer holds and reads nothing of it."""
    with connect() as client:
        client.setblocking(False)
        try:
            for _ in range(2000):
                client.send(request("GET", "/openapi.json") * 4)
        except (BlockingIOError, ConnectionError):
            pass


def bad_text():
    refused("invalid UTF-8", request("POST", "/v1/claims", b'{"name":"\xff\xfe\xc0\x80"}'), 400)
    refused("invalid UTF-8 in the target", b"GET /v1/claims/\xff\xfe HTTP/1.1\r\nHost: dibs\r\n\r\n", 400, 404)
    refused("a NUL in a name", request("POST", "/v1/claims", b'{"name":"a\\u0000b"}'), 400)
    refused("no JSON", request("POST", "/v1/claims", b"\x00\x01\x02"), 400, 415)


def deep_json():
    for left, right in ((b"[", b"]"), (b'{"a":', b"}")):
        for levels in (1000, 4000):
            refused(f"{levels} levels", request("POST", "/v1/claims", left * levels + b"1" + right * levels), 400, 413)


def leavers():
    """Ask for what takes its time, and go away before it comes."""
    asked = (GOOD_CLAIM, request("GET", "/v1/events?wait=30s&newest=true&limit=1"),
             request("GET", "/v1/events", more="Accept: text/event-stream\r\n"), request("POST", "/v1/reap", b"{}"))
    crowd = [connect() for _ in range(CROWD)]
    for i, client in enumerate(crowd):
        client.sendall(asked[i % len(asked)])
        client.close()


def throw(data):
    """Sends it and looks at what comes for a moment: nobody knows what it means, and a stream may be endless."""
    with connect() as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            for _ in range(100):
                if not is_ready(client, 0.05) or not client.recv(65536):
                    break
        except ConnectionError:
            pass


def random_bytes():
    throw(dice.randbytes(dice.randrange(1, 5000)))


SAMPLES = [
    GOOD_CLAIM,
    request("POST", "/v1/claims", b'{"name":"abuse/web","mode":"preferred","port":21000,"keep":false,"bindings":'
            b'[{"proto":"udp","address":"127.0.0.1"}],"holder":{"kind":"lease","ttl":"10ms"}}',
            "Idempotency-Key: k\r\n"),
    request("POST", "/v1/batch", b'{"requests":[{"holder":{"kind":"lease","ttl":"10ms"}},{"run":2}],"contiguous":true,'
            b'"align":4,"dry_run":true,"settings":{"range":"20000-20010","band":"off","cooldown":"5s"}}'),
    request("GET", "/v1/claims?prefix=a&limit=10&after=3&judge=true&proto=tcp"),
    request("GET", "/v1/claims/-?name=a&port=20000&proto=udp"),
    request("DELETE", "/v1/claims/1.1.0123456789abcdef0123456789abcdef?dry_run=true"),
    request("POST", "/v1/claims/1.1.0123456789abcdef0123456789abcdef/renew", b'{"ttl":"10ms"}'),
    request("POST", "/v1/claims/1.1.0123456789abcdef0123456789abcdef/transfer", b'{"holder":null,"keep":true}'),
    request("GET", "/v1/events?since=0", more="Accept: text/event-stream\r\nLast-Event-ID: 1\r\n"),
    request("GET", "/v1/pools/default/usage"),
    request("PUT", "/v1/pools/abuse", b'{"ranges":"22000-22010","band":"auto","order":"stride","cooldown_ms":5000}'),
    request("GET", "/v1/ports/tcp/20000?address=127.0.0.1&with=udp"),
    request("POST", "/v1/reap", b'{"stale":false,"dry_run":true}'),
    request("POST", "/v1/repair", b'{"pool":"default","observed":[{"port":20000}],"dry_run":true}'),
    request("GET", "/metrics"),
]


def mutate(data):
    data = bytearray(data)
    for _ in range(dice.randrange(1, 8)):
        at = dice.randrange(len(data) + 1)
        what = dice.randrange(5)
        if what == 0:
            data[at:at + 1] = bytes([dice.randrange(256)])
        elif what == 1:
            del data[at:at + dice.randrange(1, 20)]
        elif what == 2:
            data[at:at] = data[at:at + dice.randrange(1, 40)]
        elif what == 3:
            data[at:at] = dice.choice([b"\r\n", b"\0", b"%", b"%ff", b"{", b"]", b'"', b"\xff", b"-", b"9" * 30, b"&",
                                       b"\\"])
        else:
            other = dice.choice(SAMPLES)
            data[at:] = other[dice.randrange(len(other)):]
    return bytes(data)


def fuzzed():
    throw(b"".join(mutate(dice.choice(SAMPLES)) for _ in range(dice.randrange(1, 4))))


# ---- the storm ----


def rss_mib():
    with open(f"/proc/{PID}/status", encoding="utf-8") as file:
        return next((int(line.split()[1]) for line in file if line.startswith("VmRSS:")), 0) / 1024


def idle_crowd():
    crowd = []
    for _ in range(IDLE):
        try:
            crowd.append(connect())
        except OSError as error:
            problems.append(f"connection {len(crowd)} of {IDLE}: {error}")
            break
    return crowd


def run_phase(phase, seconds):
    """Returns (began, ended, how often, the most memory)."""
    began, rounds, most = time.monotonic(), 0, 0.0
    while time.monotonic() < began + seconds or rounds == 0:
        try:
            phase()
        except OSError as error:
            problems.append(f"{phase.__name__}: {error}")
            break
        rounds += 1
        most = max(most, rss_mib())
    return began, time.monotonic(), rounds, most


def p99_ms(values):
    return sorted(values)[int(len(values) * 0.99)] * 1000 if values else float("nan")


def judge(phases, lines):
    served = []
    for line in lines:
        at, value = line.split(" ", 1)
        try:
            served.append((float(at), float(value)))
        except ValueError:
            problems.append(f"the good client's {value.strip()}")
    for name, (began, ended, rounds, most) in phases.items():
        took = [seconds for at, seconds in served if began <= at < ended]
        print(f"  {name}: {rounds} times; good: {len(took)} requests, p99 {p99_ms(took):.1f} ms; RSS {most:.1f} MiB")
        if most > RSS_MAX_MIB and not IS_SANITIZED:
            problems.append(f"{name}: the daemon has {most:.1f} MiB, more than {RSS_MAX_MIB}")
    took = [seconds for _, seconds in served]
    print(f"  good client: {len(took)} requests, p99 {p99_ms(took):.1f} ms (goal {GOOD_GOAL_MS}),"
          f" longest {max(took, default=0) * 1000:.1f} ms")
    if len(took) < 20:
        problems.append("the good client had hardly a request served")
    if max(took, default=0) * 1000 > GOOD_MAX_MS:
        problems.append(f"the good client waited {max(took):.2f} s")


def main():
    print(f"storm_abuse: SEED={SEED}", flush=True)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.seteuid(IDLE_USER)
    crowd = idle_crowd()
    os.seteuid(0)
    stop_read, stop_write = os.pipe()
    report = tempfile.TemporaryFile("w+")
    child = os.fork()
    if child == 0:
        os.close(stop_write)
        be_good(stop_read, report)
    os.seteuid(ABUSER)
    kinds = [slow_loris, half_requests, huge_bodies, huge_heads, pipelined, never_read, bad_text, deep_json, leavers,
             random_bytes]
    # Half of the time for the mutants: what nobody thought of.
    phases = {kind.__name__: run_phase(kind, SECONDS / 2 / len(kinds)) for kind in kinds}
    phases["fuzzed"] = run_phase(fuzzed, SECONDS / 2)
    os.close(stop_write)
    os.waitpid(child, 0)
    report.seek(0)
    judge(phases, report)
    print(f"  {len(crowd)} idle connections")
    for problem in problems[:20]:
        print(f"VIOLATION: {problem}")
    return 1 if problems else 0


sys.exit(main())
