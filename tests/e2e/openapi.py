#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Asks a daemon everything that its description says, and holds every answer against it.

usage: openapi.py ADMIN_SOCKET PUBLIC_SOCKET STRICT_SOCKET GONE_SOCKET GONE_LEDGER TLS_PORT CERT TOKEN LOOPBACK_PORT LISTENING_PORT

STRICT_SOCKET is of a daemon that takes one request in a second, GONE_SOCKET of one that allows one claim and loses its
ledger. PUBLIC_SOCKET is used as another user.
"""
import base64
import copy
import http.client
import json
import os
import re
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import described  # noqa: E402
from described import Answer, Unix, path_of  # noqa: E402

ADMIN, PUBLIC, STRICT, GONE, GONE_LEDGER, TLS_PORT, CERT, TOKEN, LOOPBACK_PORT, LISTENING = sys.argv[1:]
NOBODY = 65534
TOO_MUCH = b"too much"


def tcp():
    return described.tls(TLS_PORT, CERT)


def send(connection, method, target, body=None, headers=None):
    headers = dict(headers or {})
    if body is not None and not isinstance(body, bytes):
        body = json.dumps(body).encode()
    if body is not None:
        headers.setdefault("Content-Type", "application/json")
    if body is TOO_MUCH:  # it is refused before it is sent
        headers["Content-Length"] = str((4 << 20) + 1)
        body = None
    connection.request(method, target, body, headers)
    answer = Answer(connection.getresponse())
    connection.close()
    return answer


first = send(Unix(ADMIN), "GET", "/openapi.json")
assert first.status == 200 and first.type == "application/json"
API = first.json
DESCRIPTION = described.Description(API)
OPERATIONS, SEEN = DESCRIPTION.operations, DESCRIPTION.seen
resolve, validate, check = DESCRIPTION.resolve, DESCRIPTION.validate, DESCRIPTION.check


def ask(oid, want, body=None, query="", headers=None, socket_path=ADMIN, **parts):
    """A request by its operation; `want` is the status that must come."""
    method, path, operation = OPERATIONS[oid]
    target = path_of(path, parts) + query
    if body is not None and want < 300 and not isinstance(body, bytes):
        validate(body, operation["requestBody"]["content"]["application/json"]["schema"], f"the body for {oid}")
    answer = check(oid, send(Unix(socket_path), method, target, body, headers))
    assert answer.status == want, f"{oid} {target}: {answer.status}, wanted {want}\n{answer.text[:800]}"
    return answer


def some_parts(path):
    return {name: "1" if name == "port" else "tcp" if name == "proto" else "none" for name in re.findall(r"\{(\w+)\}", path)}


def as_nobody(call):
    """In another process: who is at the other end of a socket is decided when it is connected."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            call()
            code = 0
        except SystemExit as e:
            print(e, file=sys.stderr)
        except BaseException as e:  # noqa: the parent has no other way to learn of it
            print(repr(e), file=sys.stderr)
        os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0, "as nobody"


# ---- the same of every operation ----

def every_route_is_described():
    text = send(Unix(ADMIN), "GET", "/metrics").text
    served = set(re.findall(r'dibs_request_duration_seconds_count\{route="([A-Z]+ [^"]+)"', text))
    described = {f"{method} {path}" for method, path, operation in OPERATIONS.values() if "grpc" not in operation["tags"]}
    assert served == described, f"served only: {served - described}; described only: {described - served}"


def every_parameter_is_described():
    for oid, (method, path, operation) in OPERATIONS.items():
        problem = ask(oid, 400, query="?no_such_parameter=1", **some_parts(path)).json
        known = problem["detail"].split("known are: ")[1]
        lists = {p["name"] for p in map(resolve, operation.get("parameters", [])) if p.get("schema", {}).get("type") == "array"}
        assert lists == {name[:-1] for name in known.split() if name.endswith("*")}, f"{oid}: {known}"
        described = {p["name"] for p in map(resolve, operation.get("parameters", [])) if p["in"] == "query"}
        assert set(known.replace("*", "").split()) - {"none"} == described, f"{oid}: known are {known}, described {described}"
        in_path = {p["name"] for p in map(resolve, operation.get("parameters", [])) if p["in"] == "path"}
        assert in_path == set(re.findall(r"\{(\w+)\}", path)), oid


def bodies_are_json_and_not_too_large():
    for oid, (method, path, operation) in OPERATIONS.items():
        if "requestBody" not in operation:
            continue
        ask(oid, 415, b"<x/>", headers={"Content-Type": "text/xml"}, **some_parts(path))
        ask(oid, 400, b'{"no_such_member":1}' if oid != "importRange" else b"[]", query="?port=1" if "{which}" in path else "",
            **{**some_parts(path), "which": "-"})
        ask(oid, 413, TOO_MUCH, **some_parts(path))


def who_is_unknown_is_refused():
    for oid, (method, path, operation) in OPERATIONS.items():
        target = path_of(path, some_parts(path))
        answer = check(oid, send(tcp(), method, target))
        assert (answer.status == 401) == (operation.get("security") != []), f"{oid} without a token: {answer.status}"
    answer = check("daemon", send(tcp(), "GET", "/v1/daemon", headers={"Authorization": f"Bearer {TOKEN}"}))
    assert answer.json["principal"] == f"uid:{NOBODY}" and not answer.json["admin"]


def who_asks_too_often_is_refused():
    send(Unix(STRICT), "GET", "/v1/daemon")
    for oid, (method, path, operation) in OPERATIONS.items():
        if "429" not in operation["responses"]:
            continue
        for _ in range(5):  # a second may pass in between
            target = path_of(path, some_parts(path))
            if check(oid, send(Unix(STRICT), method, target)).status == 429:
                break
        assert "429" in SEEN[oid], oid


def other_methods_and_paths_are_refused():
    for path, item in API["paths"].items():
        target = path_of(path, some_parts(path))
        changes = "get" not in item or item["get"]["operationId"] in ("grpcGet", "grpcDrop")
        assert (send(Unix(ADMIN), "HEAD", target).status == 405) == changes, path
        answer = send(Unix(ADMIN), "PATCH", target)
        assert answer.status == 405, (path, answer.status)
        assert set(answer.headers["allow"].split(", ")) == {m.upper() for m in item}, path
        validate(answer.json, {"$ref": "#/components/schemas/Problem"}, path)
        assert answer.json["status"] == 405
    answer = send(Unix(ADMIN), "GET", "/v1/nothing")
    assert answer.status == 404 and answer.json["status"] == 404
    answer = send(Unix(ADMIN), "GET", "/v1/daemon", headers={"X-Long": "x" * 7000})
    assert answer.status == 431, answer.status


# ---- claims ----

HERE = {"bindings": [{"address": "127.0.0.1"}]}
POOL = {"name": "tests", "ranges": "15000-15099", "scope": "host", "band": "auto", "order": "stride", "cooldown_ms": 5000}
CLUSTER = ("nodes", "removeNode", "claimOnNodes", "releaseOnNodes")  # e2e/cluster_owners.bats, e2e/cluster.bats


def claims():
    new = ask("claim", 201, {"name": "shop/web", **HERE}).json
    again = ask("claim", 200, {"name": "shop/web", **HERE}).json
    assert again["port"] == new["port"] and again["was_there"] and not new["was_there"]
    ask("claim", 201)
    problem = ask("claim", 409, {"mode": "required", "port": new["port"], **HERE}).json
    assert problem["blocker"]["name"] == "shop/web" and problem["code"] == 3
    problem = ask("claim", 409, {"mode": "required", "port": int(LISTENING), **HERE}).json
    assert problem["blocker"]["relation"] == "foreign"
    ask("claim", 404, {"pool": "nowhere"})
    ask("claim", 400, {"nmae": "web"})
    ask("claim", 400, b"{")
    ask("claim", 400, {"mode": "required", **HERE})
    ask("claim", 400, {"port": 20777, **HERE})
    ask("claim", 422, {"bindings": [{"proto": "tcp", "address": "203.0.113.9"}]})
    ask("claim", 507, {"ranges": str(new["port"]), "settings": {"band": "off"}, **HERE})
    key = {"Idempotency-Key": "a-key"}
    one = ask("claim", 201, dict(HERE), headers=key).json
    assert ask("claim", 201, dict(HERE), headers=key).json["token"] == one["token"]
    ask("claim", 400, {"name": "other", **HERE}, headers=key)
    ask("claim", 400, dict(HERE), headers={"Idempotency-Key": "x" * 129})
    ask("claim", 201, {"holder": {"kind": "process", "pid": os.getpid()}, "keep": True, "settings": {"allow_ephemeral": True}, **HERE})
    kept = ask("claim", 201, {"holder": None, "keep": True, "name": "shop/db", "bindings": [{"proto": "tcp,udp", "address": "127.0.0.1"}]}).json
    assert kept["kept"] and kept["holder"] is None
    return new


def names_of_other_directories():
    """A name that its group's directory and another one's would both have."""
    ask("claim", 201, {"name": "both/x", "project": "/srv/one", **HERE})
    theirs = ask("locate", 200, query="?name=both/x&project=/srv/two").json["name"]
    assert theirs.startswith("both~"), theirs
    ask("claim", 201, {"name": theirs, **HERE})
    both = "?name=both/x&project=/srv/two"
    for oid in ("locate", "find", "release"):
        ask(oid, 409, query=both, which="-")
    ask("renew", 409, {"ttl": "1h"}, query=both, which="-")
    ask("transfer", 409, {"keep": True}, query=both, which="-")


def batches(web):
    kept = {"holder": None, "keep": True, **HERE}
    pair = {"requests": [{"name": "b/0", **kept}, {"name": "b/1", **kept}], "contiguous": True, "align": 2}
    two = ask("batch", 200, pair).json["claims"]
    assert two[1]["port"] == two[0]["port"] + 1 and two[0]["port"] % 2 == 0
    dry = ask("batch", 200, {"requests": [dict(HERE)], "dry_run": True, "settings": {"ttl": "1h"}}).json["claims"]
    assert dry[0]["id"] == 0 and "token" not in dry[0]
    listed = ask("list", 200, query="?prefix=b").json["claims"]
    moved = ask("batch", 200, {"requests": [], "drops": [{"claim": listed[0], "frees_name": False, "shared_bytes": 0}]}, headers={"Idempotency-Key": "drop"}).json
    assert moved["claims"] == []
    assert len(ask("list", 200, query="?prefix=b").json["claims"]) == 1
    ask("batch", 404, {"requests": [{"pool": "nowhere"}]})
    ask("batch", 409, {"requests": [dict(HERE), {"mode": "required", "port": web["port"], **HERE}]})
    ask("batch", 422, {"requests": [{"bindings": [{"proto": "tcp", "address": "203.0.113.9"}]}]})
    ask("batch", 507, {"requests": [{"ranges": str(web["port"]), **HERE}]})
    ask("batch", 400, b"")
    ask("batch", 400, {"requests": [], "align": 65536})


def one_claim(web):
    token = web["token"]
    assert ask("find", 200, which=token).json["token"] == token
    assert ask("find", 200, which="-", query="?name=shop/web").json["port"] == web["port"]
    assert ask("find", 200, which="-", query=f"?port={web['port']}&proto=tcp").json["name"] == "shop/web"
    ask("find", 404, which="-", query="?name=shop/none")
    ask("find", 400, which="-")
    for query in ("?port=1", "?name=shop/web", "?all=true"):
        ask("release", 400, which=token, query=query)  # ignored, it would seem to choose
    for query in ("?all=true&proto=udp", "?all=true&project=/srv", "?name=shop/web&name=shop/db", "?name=shop/web&proto=udp"):
        ask("release", 400, which="-", query=query)
    longer = ask("renew", 200, {"ttl": "2h"}, which=token).json
    assert longer["holder"]["ttl_ms"] == 7200000
    assert ask("renew", 200, which=token).json["holder"]["ttl_ms"] == 600000
    ask("renew", 400, {"tll": "2h"}, which=token)
    ask("renew", 400, {"ttl": "7"}, which=token)
    ask("renew", 404, {"ttl": "2h"}, which="-", query="?name=shop/none")
    ask("renew", 400, {"ttl": "2h"}, which="-", query="?name=shop/db")
    given = ask("transfer", 200, {"holder": {"kind": "lease", "ttl": "1h"}, "keep": True}, which=token).json
    assert given["token"] != token and given["kept"]
    ask("find", 404, which=token)
    ask("transfer", 404, {"keep": True}, which="-", query="?name=shop/none")
    ask("transfer", 400, {"holder": "me"}, which=given["token"])
    ask("assert", 409, which=given["token"])
    ask("assert", 404, which="-", query="?name=shop/none")
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        server.close()
    mine = ask("claim", 201, {"mode": "required", "port": port, "holder": {"kind": "process"}, **HERE}).json
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        server.listen()
        seen = ask("assert", 200, which=mine["token"]).json
        assert seen["pid"] == os.getpid() and seen["holders"], seen
    assert ask("release", 200, which=mine["token"], query="?dry_run=true").json == {"released": 1}
    assert ask("release", 200, which=mine["token"]).json == {"released": 1}
    assert ask("release", 200, which=mine["token"]).json == {"released": 0}
    ask("release", 400, which="-")
    ask("release", 400, which=given["token"], query="?force=yes")
    assert ask("release", 200, which="-", query="?name=b/1&force=true&unhold=false&unkeep=false").json["released"] == 1
    assert ask("locate", 200, query="?name=shop/web&project=/srv/shop").json["name"]
    ask("locate", 400)
    return given


def lists():
    page = ask("list", 200, query="?limit=2")
    assert len(page.json["claims"]) == 2 and page.json["next"] == page.json["claims"][1]["id"]
    rest = ask("list", 200, query=f"?after={page.json['next']}&judge=true").json
    assert rest["next"] is None and all("token" not in c for c in rest["claims"])
    web = ask("list", 200, query="?prefix=shop/web").json["claims"][0]
    for query in (f"?port={web['port']}&proto=tcp", "?pool=default", f"?principal=uid:{os.getuid()}"):
        assert web["id"] in [c["id"] for c in ask("list", 200, query=query).json["claims"]], query
    assert ask("list", 200, query="?project=/no/where").json["claims"] == []
    ask("list", 400, query="?limit=1001")
    ask("list", 400, query="?port=0")
    ask("list", 400, query="?wait=61s")
    known = {"If-None-Match": page.headers["etag"]}
    ask("list", 304, headers=known)
    ask("list", 304, query="?wait=50ms", headers=known)
    pid = os.fork()
    if pid == 0:
        answer = send(Unix(ADMIN), "GET", "/v1/claims?wait=20s", headers=known)
        os._exit(answer.status != 200)
    ask("claim", 201, dict(HERE))
    assert os.waitpid(pid, 0)[1] == 0
    ask("list", 200, headers=known)


# ---- events ----

def read_stream(headers, query, n):
    connection = Unix(ADMIN)
    connection.request("GET", "/v1/events" + query, headers={"Accept": "text/event-stream", **headers})
    response = connection.getresponse()
    assert response.status == 200 and response.headers["Content-Type"] == "text/event-stream"
    SEEN.setdefault("events", set()).add("200")
    yield None  # it is open
    events = []
    current = {}
    while len(events) < n:
        line = response.readline().decode().rstrip("\n")
        if line and not line.startswith(":") and not line.startswith("retry"):
            key, value = line.split(": ", 1)
            current[key] = value
        elif not line and "data" in current:
            event = json.loads(current["data"])
            validate(event, {"$ref": "#/components/schemas/Event"}, "an event of the stream")
            assert str(event["seq"]) == current["id"] and event["what"] == current["event"]
            events.append(event)
            current = {}
    connection.close()
    yield events


def events():
    page = ask("events", 200, query="?limit=3").json
    assert len(page["events"]) == 3 and page["oldest"] == 1
    newest = ask("events", 200, query="?limit=1&newest=true").json
    seq = newest["seq"]
    assert newest["events"][0]["seq"] == seq
    assert ask("events", 200, query=f"?since={seq}&wait=50ms").json["events"] == []
    ask("events", 400, query="?limit=1001")
    stream = read_stream({}, "", 2)
    next(stream)
    for _ in range(2):
        ask("claim", 201, dict(HERE))
    live = next(stream)
    assert [e["seq"] for e in live] == [seq + 1, seq + 2]
    stream = read_stream({"Last-Event-ID": str(seq + 1)}, "", 1)
    next(stream)
    assert next(stream)[0] == live[1]
    stream = read_stream({}, f"?since={seq}", 2)
    next(stream)
    assert next(stream) == live


# ---- pools, ports and maintenance ----

def pools(web):
    pool = POOL
    assert ask("setPool", 200, pool, name="tests").json == pool
    assert ask("pool", 200, name="tests").json == pool
    ask("setPool", 400, {**pool, "order": "none"}, name="tests")
    ask("setPool", 400, pool, name="other")
    assert pool in ask("pools", 200).json["pools"]
    ask("pool", 404, name="none")
    ask("usage", 404, name="none")
    assert ask("usage", 200, name="tests").json["size"] == 100
    data = base64.b64encode(bytes([5])).decode()
    assert ask("importRange", 200, {"range": "15000-15099", "data": data}, name="tests").json == {"claimed": 2}
    snapshot = ask("exportRange", 200, name="tests").json
    assert snapshot == {"range": "15000-15099", "data": data}
    ask("importRange", 404, {"range": "15000-15099", "data": data}, name="none")
    ask("importRange", 400, {"range": "15000-15098", "data": data}, name="tests")
    ask("exportRange", 404, name="none")
    ask("removePool", 409, name="tests")
    ask("removePool", 404, name="none")
    ask("setPool", 200, {**pool, "name": "brief"}, name="brief")
    assert ask("removePool", 200, name="brief").json == {}
    report = ask("explain", 200, proto="tcp", port=web["port"], query="?pool=default&address=127.0.0.1&with=udp").json
    assert report["claims"][0]["port"] == web["port"] and not report["can_claim"]
    report = ask("explain", 200, proto="tcp", port=LISTENING, query="?binding=tcp/127.0.0.1&binding=udp/127.0.0.1").json
    assert report["sockets"]
    report = ask("explain", 200, proto="tcp", port=23000, query="?settings=%7B%22range%22%3A%2230000-30010%22%7D").json
    assert "outside" in [r["kind"] for r in report["reasons"]]
    ask("explain", 400, proto="tcp", port=23000, query="?settings=x")
    ask("explain", 404, proto="tcp", port=80, query="?pool=none")
    ask("explain", 200, proto="tcp,tcp,tcp,tcp,tcp,tcp,tcp,tcp", port=80, query="?with=udp")
    ask("explain", 400, proto="icmp", port=80)
    ask("explain", 400, proto="icmp", port=80, query="?binding=tcp/*")
    ask("explain", 400, proto="tcp", port=80, query="?binding=tcp/*&with=udp")
    ask("explain", 400, proto="tcp", port=80, query="?settings=%7B%22pool%22%3Atrue%7D")
    ask("explain", 400, proto="tcp", port=0)


def nodes():
    assert ask("nodes", 200).json == {"nodes": []}  # a ledger of one host
    ask("removeNode", 404, name="none")
    ask("removeNode", 404, name="none", query="?force=true")
    ask("removeNode", 400, name="none", query="?force=x")
    ask("claimOnNodes", 400, {"keep": True, "holder": None}, query="?host=a")
    ask("releaseOnNodes", 400, query="?host=a&name=x")


def numbers():
    child = subprocess.Popen(["sleep", "60"])
    mine = {"pid": child.pid, "numbers": [{"proto": "tcp", "inside": 3000, "outside": 20001, "own": True}]}
    try:
        assert f"dibs-run.{child.pid}." in ask("numbers", 200, mine).json["cgroup"]
        ask("numbers", 200, {**mine, "addresses": [{"address": "10.0.0.1"}]})
        ask("numbers", 200, {"pid": child.pid, "numbers": []})
        ask("numbers", 403, {**mine, "pid": os.getppid()})  # not a child
        ask("numbers", 400, {**mine, "numbers": [{"proto": "sctp", "inside": 1, "outside": 2}]})
        ask("numbers", 400, {**mine, "numbers": mine["numbers"] * 257})
        ask("numbers", 400, {**mine, "addresses": [{"address": "10.0.0.1"}] * 61})
        ask("numbers", 503, mine, socket_path=GONE)  # it enforces nothing
    finally:
        child.kill()
        child.wait()


def the_map():
    seen = [s for s in ask("map", 200, query="?proto=tcp").json["sockets"] if s["port"] == int(LISTENING)]
    assert [s["state"] for s in seen] == ["listening"] and seen[0]["pid"] > 0 and seen[0]["command"], seen
    assert seen[0]["relation"] == "unclaimed" and seen[0]["directory"], seen
    assert ask("map", 200, query="?proto=udp").json["proto"] == "udp"
    ask("map", 400, query="?proto=icmp")


def maintenance():
    assert ask("reap", 200, {"stale": True, "dry_run": True}).json == {"claims": []}
    ask("reap", 200)
    ask("reap", 400, {"dry_run": "true"})
    found = ask("repair", 200, {"observed": [{"port": 15050, "name": "old"}], "pool": "tests", "dry_run": True}).json["findings"]
    assert [f["kind"] for f in found if f["port"] == 15050] == ["restored"]
    ask("repair", 200, {"observed": None, "dry_run": True})
    ask("repair", 404, {"pool": "none"})
    ask("repair", 400, {"observed": [{"port": 65536}]})
    assert ask("doctor", 200).json["findings"]
    assert ask("mend", 200).json["findings"]
    claims_ = ask("list", 200, query="?prefix=shop").json["claims"]
    snapshot = {"dibs": 1, "pools": [], "claims": claims_}
    assert ask("restore", 200, snapshot).json == {"restored": 0}
    ask("release", 200, which="-", query="?name=shop/db")
    assert ask("restore", 200, snapshot).json == {"restored": 1}
    other = copy.deepcopy(claims_[0])
    other.update(name="shop/third", id=999, kept=True, holder=None)
    ask("restore", 409, {"dibs": 1, "pools": [], "claims": [other]})
    ask("restore", 400, {"dibs": 2, "pools": [], "claims": []})
    me = ask("daemon", 200).json
    assert me["admin"] and me["principal"] == f"uid:{os.getuid()}" and me["boot_ms"] > 0
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#t=[0-9a-f]{32}", ask("openDashboard", 200).json["url"])
    answer = check("openDashboard", send(tcp(), "POST", "/v1/ui", headers={"Authorization": f"Bearer {TOKEN}"}))
    assert answer.status == 403, answer.text
    assert "dibs_claims" in ask("metrics", 200).text
    assert ask("health", 200).text == "ok\n" and ask("ready", 200).text == "ready\n"
    assert send(Unix(ADMIN), "HEAD", "/healthz").status == 200
    ask("openapi", 200)


# ---- gRPC's port server ----

def grpc():
    port = ask("grpcGet", 200).text
    assert port in ask("grpcDump", 200).text
    ask("grpcDrop", 200, port=port)
    ask("grpcDrop", 400, port=0)
    ask("grpcDrop", 400, port="web")
    assert int(ask("grpcVersion", 200).text) > 21
    for oid, (method, path, operation) in OPERATIONS.items():
        target = path_of(path, some_parts(path))
        if "grpc" in operation["tags"]:
            web_page = http.client.HTTPConnection("127.0.0.1", int(LOOPBACK_PORT), timeout=20)
            assert check(oid, send(web_page, method, target, headers={"Host": "example.org"})).status == 403


# ---- limits, and a ledger that is gone ----

KEPT = {"holder": None, "keep": True, **HERE}


def the_quota_is_used_up():
    one = ask("claim", 201, {"name": "only", **KEPT}, socket_path=GONE).json
    ask("grpcGet", 507, socket_path=GONE)
    ask("importRange", 507, {"range": "20000-32767", "data": "Aw=="}, name="default", socket_path=GONE)
    ask("repair", 507, {"observed": [{"port": 20001}, {"port": 20002}]}, socket_path=GONE)
    ask("release", 200, which=one.pop("token"), socket_path=GONE)
    ask("claim", 201, {"name": "another", **KEPT}, socket_path=GONE)
    ask("restore", 507, {"dibs": 1, "pools": [], "claims": [one]}, socket_path=GONE)


def the_ledger_is_gone():
    bodies = {"numbers": {"pid": os.getpid(), "numbers": []}, "batch": {"requests": [{}]}, "setPool": {**POOL, "name": "none"}, "restore": {"dibs": 1, "pools": [], "claims": []},
              "importRange": {"range": "20000-32767"}, "renew": {"ttl": "1h"}, "transfer": {"keep": True}}
    queries = {"which": "?name=x", "locate": "?name=x&project=/srv"}
    for end in ("", "-wal", "-shm"):
        os.unlink(GONE_LEDGER + end)
    admin = GONE.replace("dibs.sock", "admin.sock")
    for oid, (method, path, operation) in OPERATIONS.items():
        if "503" in operation["responses"] and oid not in CLUSTER:
            parts = {**some_parts(path), "which": "-"}
            ask(oid, 503, bodies.get(oid), query=queries.get("which" if "{which}" in path else oid, ""), socket_path=admin, **parts)
    assert any("was removed" in f["text"] for f in ask("doctor", 200, socket_path=admin).json["findings"])
    ask("claim", 503, socket_path=admin)  # the doctor has not made a new one


def others(web):
    """Requests that another user may not make."""
    pool = POOL
    snapshot = {"dibs": 1, "pools": [{**pool, "cooldown_ms": 1}], "claims": []}

    def refused():
        ask("claim", 403, {"mode": "required", "port": 81}, socket_path=PUBLIC)
        ask("release", 403, which=web["token"], socket_path=PUBLIC)
        ask("renew", 403, {"ttl": "1h"}, which=web["token"], socket_path=PUBLIC)
        ask("transfer", 403, {"keep": True}, which=web["token"], socket_path=PUBLIC)
        ask("setPool", 403, pool, name="tests", socket_path=PUBLIC)
        ask("removePool", 403, name="tests", socket_path=PUBLIC)
        ask("removeNode", 403, name="none", socket_path=PUBLIC)
        ask("claimOnNodes", 403, {"keep": True, "holder": None}, query="?host=a", socket_path=PUBLIC)
        ask("releaseOnNodes", 403, query="?host=a&name=x", socket_path=PUBLIC)
        ask("importRange", 409, {"range": "15000-15099", "data": "BQ=="}, name="tests", socket_path=PUBLIC)
        ask("restore", 403, snapshot, socket_path=PUBLIC)
        ask("mend", 403, socket_path=PUBLIC)

    as_nobody(refused)
    for oid in ("claim", "release", "renew", "transfer", "setPool", "removePool", "removeNode", "claimOnNodes",
                "releaseOnNodes", "restore", "mend"):
        SEEN[oid].add("403")
    SEEN["importRange"].add("409")


every_route_is_described()
every_parameter_is_described()
bodies_are_json_and_not_too_large()
who_is_unknown_is_refused()
who_asks_too_often_is_refused()
other_methods_and_paths_are_refused()
web = claims()
names_of_other_directories()
batches(web)
web = one_claim(web)
lists()
events()
pools(web)
nodes()
numbers()
the_map()
maintenance()
others(web)
grpc()
the_quota_is_used_up()
the_ledger_is_gone()

missing = []
for oid, (method, path, operation) in OPERATIONS.items():
    never = set(operation["responses"]) - SEEN.get(oid, set()) - {"default"}
    if oid in CLUSTER:
        never -= {"200", "404", "409", "422", "503", "507"}
    if oid == "setPool":
        never -= {"409"}  # a cluster's claims would change their scope: e2e/cluster.bats
    missing += [f"{oid} ({method} {path}): {', '.join(sorted(never))}"] if never else []
if missing:
    sys.exit("described, but never seen:\n" + "\n".join(missing))
print(f"{len(OPERATIONS)} operations, {sum(map(len, SEEN.values()))} kinds of answers")
