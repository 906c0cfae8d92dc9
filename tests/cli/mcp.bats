#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# `dibs mcp`: its protocol, raw, and its tools. Ports of this file: 13600-13649, and the default pool.
load ../support/dibs
load cli

setup() {
    dibs_setup
    export PAGE=$BATS_TEST_DIRNAME/../../docs/AGENTS.md
    mkdir -p "$T/other"
    cat >dibs.yaml <<'END'
roles:
  web: { instances: 2, ports: [http], references: [{ env: API_PORT, from: api.http }] }
  api: { ports: [{ name: http, env: PORT }], env: { URL: "http://localhost:{http}/" } }
END
    echo 'roles: { web: { ports: [http] } }' >"$T/other/dibs.yaml"
}
teardown() { dibs_teardown; }

# client <<SCRIPT: Python with what is in support/mcp.py.
client() {
    timeout -k 5 120 "$PYTHON" -SE -c 'import sys
exec(open(sys.argv[1]).read())
exec(compile(sys.stdin.read(), "script", "exec"))' "$DIBS_TEST_SUPPORT/mcp.py"
}

@test "a client gets the version that it asks for, or else the newest; nothing else comes before that" {
    client <<'END'
for asked, got in {"2024-11-05": 0, "2025-03-26": 0, "2025-06-18": 0, "2099-01-01": NEWEST, "": NEWEST}.items():
    s = Session(version=None)
    assert s.request("ping")["result"] == {}
    assert s.refuse("tools/list") == -32600
    assert s.refuse("initialize") == -32602
    assert s.refuse("initialize", {"protocolVersion": 3}) == -32602
    answer = s.request("initialize", {"protocolVersion": asked, "capabilities": {}})["result"]
    assert answer["protocolVersion"] == (got or asked), answer
    assert answer["serverInfo"] == {"name": "dibs", "version": dibs("version").split()[1]}
    assert answer["capabilities"] == {"tools": {}} and "get_port" in answer["instructions"]
    assert s.refuse("initialize", {"protocolVersion": asked}) == -32600
    assert s.request("ping")["result"] == {}
    assert s.close() == 0
END
}

@test "each version has what it knows: annotations since 2025-03-26, values and titles since 2025-06-18" {
    client <<'END'
def keys(version):
    s = Session(version=version)
    tools = {t["name"]: t for t in s.request("tools/list", {})["result"]["tools"]}
    result = s.call("get_port", name="api")
    assert s.close() == 0
    return tools, set(tools["release_port"]), set(tools["release_port"].get("annotations", ())), set(result)
tools, tool, hints, result = keys("2024-11-05")
assert tool == {"name", "description", "inputSchema"} and result == {"content"}
tools, tool, hints, result = keys("2025-03-26")
assert tool == {"name", "description", "inputSchema", "annotations"} and "title" in hints and result == {"content"}
tools, tool, hints, result = keys("2025-06-18")
assert tool == {"name", "title", "description", "inputSchema", "outputSchema", "annotations"} and "title" not in hints
assert result == {"content", "structuredContent"}
readers = {n for n, t in tools.items() if t["annotations"].get("readOnlyHint")}
assert readers == {"list_ports", "who_uses_port", "explain_port", "assert_mine"}
enders = {n for n, t in tools.items() if t["annotations"].get("destructiveHint", n not in readers)}
assert enders == {"release_port", "up"}
END
}

@test "nine tools, and few bytes, as the page about agents says" {
    client <<'END'
s = Session()
answer = s.request("tools/list")
tools = answer["result"]["tools"]
assert len(tools) <= 9
compact = lambda value: len(json.dumps(value, separators=(",", ":"), ensure_ascii=False))
sizes = compact(answer), compact([{k: t[k] for k in ("name", "description", "inputSchema")} for t in tools])
page = open(os.environ["PAGE"]).read()
for size in sizes:
    assert f"{size / 1000:.1f} kB" in page, f"docs/AGENTS.md does not say {size / 1000:.1f} kB"
assert sizes[0] < 4600 and sizes[1] < 2600
for tool, arguments in {"get_port": {"name": "api"}, "claim_port": {"name": "x"}, "list_ports": {}, "who_uses_port": {"port": "api"},
                        "explain_port": {"port": "api"}, "role_env": {"role": "api"}, "up": {}, "assert_mine": {"name": "api"},
                        "release_port": {"all": True}}.items():
    result = s.call(tool, **arguments)
    assert len(result["content"][0]["text"]) < 400, result
assert s.request("tools/list", {"cursor": "x"})["error"]["code"] == -32602
END
}

@test "the page about agents has every tool, argument and answer, and no other" {
    client <<'END'
import re
tools = {t["name"]: t for t in Session().request("tools/list")["result"]["tools"]}
rows = {}
for line in open(os.environ["PAGE"]):
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    if line.startswith("| `"):
        rows[cells[0].strip("`")] = cells[1:]
assert rows.keys() == tools.keys(), rows.keys() ^ tools.keys()
for name, (takes, answers, command) in rows.items():
    schema = tools[name]["inputSchema"]
    assert set(re.findall("`(\\w+)`", takes)) == set(schema["properties"]) - {"project"}, name
    assert set(re.findall("\\[`(\\w+)`\\]", takes)) == set(schema["properties"]) - {"project", *schema.get("required", ())}, name
    assert set(re.findall("`(\\w+)`", answers)) == set(tools[name]["outputSchema"]["properties"]), name
    assert command.strip("`").split()[1] in dibs("--list-commands").split(), name
END
}

@test "each tool does what its command does, in the project" {
    client <<'END'
s = Session()
up = s.give("up")
assert up == {"ports": {n: int(dibs("get", n)) for n in ("web/0/http", "web/1/http", "api/0/http")}, "added": 3}
assert s.give("up") == {"ports": up["ports"]}
port = s.give("get_port", name="api")["port"]
assert port == up["ports"]["api/0/http"] == int(dibs("get", "api"))
assert s.give("role_env", role="web/1") == {"env": {"HTTP_PORT": dibs("get", "web/1/http"), "API_PORT": str(port)}}
assert s.give("role_env")["env"]["URL"] == f"http://localhost:{port}/"
assert s.give("role_env") == {"env": json.loads(dibs("env", "--json"))}
assert s.give("get_port", name="own", create=True, prefer=13600) == {"port": 13600}
claimed = s.give("claim_port", name="shard", count=2)
assert list(claimed["ports"]) == ["shard/0", "shard/1"] and claimed["holder"].startswith("lease, "), claimed
assert s.give("claim_port", name="kept", port=13601, keep=True) == {"ports": {"kept": 13601}, "holder": "kept"}
assert s.give("claim_port", name="long", ttl="2h")["holder"].startswith("lease, ")
listed = {c["name"]: c for c in s.give("list_ports")["ports"]}
assert set(listed) == set(up["ports"]) | set(claimed["ports"]) | {"own", "kept", "long"}
assert listed["own"] == {"name": "own", "port": 13600, "state": "kept"}
for name, c in listed.items():  # each name means its claim
    assert s.give("get_port", name=name) == {"port": c["port"]}
assert s.give("who_uses_port", port="own") == {"port": 13600, "processes": [], "claims": [
    {"name": "project/own", "project": os.getcwd(), "holder": "kept", "life": "alive"}]}
assert s.give("who_uses_port", port=13600) == s.give("who_uses_port", port="13600") == s.give("who_uses_port", port="own")
assert s.give("who_uses_port", port=13649) == {"port": 13649, "claims": [], "processes": []}
why = s.give("explain_port", port="own")
assert why["port"] == 13600 and why["verdict"] == "cannot be claimed" and "project/own" in why["reasons"][0]["why"]
assert why["reasons"][0]["next"] == "it is this project's own: listen there"
assert s.give("explain_port", port=13649)["reasons"][0]["next"]
assert s.give("release_port", name="shard") == {"released": 2}
nothing = s.give("release_port", name="shard")
assert nothing["released"] == 0 and "list_ports" in nothing["next"], nothing
assert s.give("release_port", name=None, all=True) == {"released": 6}
assert s.give("list_ports") == {"ports": []}
assert s.close() == 0
END
    [ "$(held)" -eq 0 ]
}

@test "assert_mine holds for the own server, and for nobody else's" {
    start env -C "$T/project" "$DIBS" -q run -p srv -- "$PYTHON" "$DIBS_TEST_SUPPORT/listen.py" "{srv}" tcp 127.0.0.1 "$T/ready"
    wait_until 10 test -f "$T/ready"
    client <<'END'
s = Session()
mine = s.give("assert_mine", name="srv")
assert mine["port"] == int(dibs("get", "srv")) and mine["pid"] > 0 and mine["command"], mine
users = s.give("who_uses_port", port="srv")
assert [(p["pid"], p["relation"]) for p in users["processes"]] == [(mine["pid"], "holder")], users
assert users["claims"][0]["holder"] == "process" and users["claims"][0]["pid"] > 0, users
text = s.fail("assert_mine", name="api")
assert "get_port or up first" in text and "list_ports" in text, text
port = s.give("get_port", name="api")["port"]
assert f"no process listens on port {port}. " in s.fail("assert_mine", name="api")
import socket
server = socket.create_server(("127.0.0.1", port))  # of a process that works in the project
assert s.give("assert_mine", name="api") == {"port": port, "pid": os.getpid(), "command": server and mine["command"]}
os.chdir("/")  # and now elsewhere
text = s.fail("assert_mine", name="api")
assert f"pid {os.getpid()}" in text and "who_uses_port" in text and "start your server" not in text, text
assert "up" not in s.give("up") and "--move" in s.give("up")["warning"]
moved = s.give("up", move=True)["ports"]["api/0/http"]
assert moved != port and s.give("who_uses_port", port=port)["processes"][0]["relation"] == "unclaimed"
assert s.close() == 0
END
}

@test "failures are results that say what to do next, also when the ledger is gone" {
    client <<'END'
s = Session()
assert "create: true" in s.fail("get_port", name="db")
assert "call up" in s.fail("get_port", name="db") and "dibs.yaml has" in s.fail("role_env", role="db")
assert s.give("get_port", name="db", create=True)["port"]
taken = s.give("claim_port", name="a", port=13610)
text = s.fail("claim_port", name="b", port=13610)
assert "13610" in text and "project/a" in text and "who_uses_port" in text and "release" not in text, text
assert "call again" in s.fail("claim_port", name="b", port=70000)
assert "all: true" in s.fail("release_port") and "all: true" in s.fail("release_port", name="a", all=True)
assert "list_ports" in s.fail("who_uses_port", port="no-such")
assert "directory that exists" in s.fail("list_ports", project="/no/such")
open("dibs.yaml", "a").write("  fixed: { ports: [{ name: http, port: 13610 }] }\n")
text = s.fail("up")  # the claim could have been another project's
assert "13610" in text and "only this project's own" in text, text
nowhere = Session(cwd="/")
assert "dibs init" in nowhere.fail("up") and "dibs init" in nowhere.fail("role_env", role="web")
broken = Session("--ledger", "sqlite:/dev/null/x", "--socket", "none")
assert "dibs doctor" in broken.fail("get_port", name="api")
for one in (s, nowhere, broken):
    assert one.close() == 0
END
}

@test "errors of the protocol have JSON-RPC's codes" {
    client <<'END'
s = Session()
assert s.refuse("no/such") == -32601 and s.refuse("resources/list") == -32601
assert s.refuse("tools/call") == s.refuse("tools/call", {}) == s.refuse("tools/call", {"name": 1}) == -32602
assert s.refuse("tools/call", {"name": "get_prot"}) == -32602
answer = s.request("tools/call", {"name": "get_prot"})
assert "did you mean 'get_port'" in answer["error"]["message"]
for arguments in ({}, {"name": 1.5}, {"name": ["x"]}, {"name": "x", "prefer": "y" * 5000}, {"nam": "x"}, {"name": "x", "create": 1},
                  {"name": "x", "project": {}}, [], "x"):
    assert s.refuse("tools/call", {"name": "get_port", "arguments": arguments}) == -32602, arguments
assert s.refuse("ping", [1]) == -32602
# As some clients write them: absent members are null, and 13649.0 is an integer for JSON Schema.
s.send({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": None})
assert s.hear()["result"] == {}
assert s.request("tools/list", {"cursor": None})["result"]["tools"]
assert s.request("tools/call", {"name": "list_ports", "arguments": None})["result"]["structuredContent"] == {"ports": []}
assert s.give("who_uses_port", port=13649.0)["port"] == 13649
for number in (13649.5, 1e300):
    assert s.refuse("tools/call", {"name": "who_uses_port", "arguments": {"port": number}}) == -32602
s.send(b"nonsense", b"[", b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', b'"text"')
assert [s.hear()["error"]["code"] for _ in range(4)] == [-32700] * 4
s.send({}, {"jsonrpc": "1.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": None, "method": "ping"},
       {"jsonrpc": "2.0", "id": 1.5, "method": "ping"}, {"jsonrpc": "2.0", "id": [1], "method": "ping"}, {"jsonrpc": "2.0", "id": 7})
assert [s.hear()["error"]["code"] for _ in range(6)] == [-32600] * 6
s.send({"jsonrpc": "2.0", "id": "a text", "method": "ping"})
assert s.hear() == {"jsonrpc": "2.0", "id": "a text", "result": {}}
# No answer to a notification, a stray answer, or a call without an id, which does not run either.
s.send({"jsonrpc": "2.0", "method": "no/such"}, {"jsonrpc": "2.0", "id": 99, "result": {}}, {"jsonrpc": "2.0", "id": 99, "error": {}},
       {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "up"}}, {"jsonrpc": "2.0", "method": "notifications/cancelled"})
assert s.give("list_ports") == {"ports": []}
assert s.close() == 0
END
}

@test "hostile input: the session goes on, and nothing is taken for an option" {
    client <<'END'
s = Session()
s.send(b"\0", b"\xff\xfe", b'{"jsonrpc":"2.0","id":1,"method":"pi\xff"}', b"[" * 1000, b'{"a":' * 100000, b"9" * 400,
       b'{"jsonrpc":"2.0","id":99999999999999999999,"method":"ping"}', b"", b"   ")
assert [s.hear()["error"]["code"] for _ in range(8)] == [-32700] * 8
long = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"%s"}}'
s.send(long % (b"y" * 1_000_000))
assert s.hear()["result"] == {}
for n in (2_000_000, 20_000_000):  # read and refused; refused before its end
    s.send(long % (b"y" * n))
    assert s.hear()["error"]["code"] == -32600
s.send({"jsonrpc": "2.0", "id": "\u202e\u0007</script>" + "x" * 9000, "method": "ping"})
assert s.hear()["id"].startswith("\u202e\u0007</script>")
for name in ("--force", "-h", "--ledger=/tmp/x", "", "a b", "x" * 1000, "../../etc", "a//b", "\u202e\n", "'; rm -rf /", "${HOME}"):
    result = s.call("get_port", name=name, create=True)
    assert "isError" in result or dibs("get", "--", name) == str(result["structuredContent"]["port"]), (name, result)
assert "/--json'" in s.fail("list_ports", project="--json")
assert s.refuse("tools/call", {"name": "claim_port", "arguments": {"name": "x", "ttl": "1h", "--force": True}}) == -32602
assert "'1 --create'" in s.fail("get_port", name="own", create=True, prefer="1 --create")
assert s.give("get_port", name="api")["port"]
assert s.close() == 0
END
}

@test "batches are answered in 2025-03-26, and refused in 2025-06-18" {
    client <<'END'
ping = lambda n: {"jsonrpc": "2.0", "id": n, "method": "ping"}
call = lambda n, tool, **a: {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": tool, "arguments": a}}
s = Session(version="2025-03-26")
s.send([ping(1), {"jsonrpc": "2.0", "method": "notifications/x"}, call("two", "get_port", name="api"), 5, call(3, "nope"), call(4, "list_ports")])
answers = s.hear()
assert {a["id"] for a in answers} == {1, "two", None, 3, 4} and len(answers) == 5, answers
by = {a["id"]: a for a in answers}
assert by[None]["error"]["code"] == -32600 and by[3]["error"]["code"] == -32602
assert json.loads(by["two"]["result"]["content"][0]["text"])["port"] == json.loads(by[4]["result"]["content"][0]["text"])["ports"][0]["port"]
s.send([], [{"jsonrpc": "2.0", "method": "notifications/x"}], [{"jsonrpc": "2.0", "id": 1, "method": "initialize"}], ping(9))
assert s.hear()["error"]["code"] == -32600
assert s.hear()[0]["error"]["code"] == -32600
assert s.hear()["id"] == 9
s.send([call(10 + n, "list_ports") for n in range(70)])  # more than may wait
codes = [a.get("error", {}).get("code") for a in s.hear()]
assert codes.count(None) == 64 and codes.count(-32603) == 6, codes
assert s.close() == 0
s = Session()
s.send([ping(1)])
assert s.hear()["error"]["code"] == -32600
assert s.close() == 0
END
}

@test "no tool ends a claim of another project: not by full name, number, directory or all" {
    (cd "$T/other" && dibs -q claim --keep --port 13620 mine && dibs -q get web >/dev/null)
    unnamed=$(dibs -q claim --port 13621) # without a project
    client <<'END'
T, s = os.environ["T"], Session()
other = f"{T}/other"
before = dibs("ls", "--all", "--json")
for name in ("other/mine", "other/web/0/-/http"):
    text = s.fail("release_port", name=name)
    assert "another project" in text and "alone" in text and "--force" not in text, text
for name in ("13620", ":13621", 13620):
    assert "list_ports" in s.fail("release_port", name=name)
for arguments in ({"name": "mine"}, {"all": True}):
    assert "another project" in s.fail("release_port", project="../other", **arguments)
assert "another project" in s.fail("up", project=other)
for name in ("mine", "--all-mine"):
    assert s.give("release_port", name=name)["released"] == 0
assert s.give("release_port", all=True)["released"] == 0
assert dibs("ls", "--all", "--json") == before
# Looking there, and asking for a port there, is permitted.
assert s.give("get_port", name="mine", project=other) == {"port": 13620}
assert {c.get("name") for c in s.give("list_ports", project="../other")["ports"]} >= {"mine", "web/0/http"}
assert s.close() == 0
# A session of both projects may.
s = Session("--project", os.getcwd(), "--project", other)
assert s.give("list_ports")["ports"][0]["port"] == 13621
assert s.give("release_port", name="mine", project=other) == {"released": 1}
assert s.close() == 0
s = Session("--project", other, cwd="/")
assert s.give("up")["ports"].keys() == {"web/0/http"}
assert s.give("release_port", all=True) == {"released": 1}
assert s.close() == 0
END
}

@test "the project: --project, else the working directory if it is one, else the client's roots, else that directory" {
    mkdir -p "$T/plain" "$T/with space"
    echo 'roles: { web: { ports: [http] } }' >"$T/with space/dibs.yaml"
    client <<'END'
T = os.environ["T"]
roots = {"roots": {"listChanged": True}}
def tell(s, *uris):
    asked = s.hear()
    assert asked["method"] == "roots/list" and "params" not in asked, asked
    s.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": [{"uri": u} for u in uris]}})
def project(s):
    s.give("get_port", name="probe", create=True)
    return {d for d in os.listdir(T) if json.loads(dibs("ls", "--json", cwd=f"{T}/{d}")) and d != "plain"} if 0 else \
        s.give("who_uses_port", port="probe")["claims"][0]["project"]
s = Session(capabilities=roots)  # a project: the client is not asked
assert project(s) == os.getcwd() and s.close() == 0
s = Session(cwd=f"{T}/plain")
assert project(s) == f"{T}/plain" and s.close() == 0
s = Session("--project", f"{T}/other", cwd=f"{T}/plain", capabilities=roots)
assert project(s) == f"{T}/other" and s.close() == 0
s = Session(cwd=f"{T}/plain", capabilities=roots)
s.n += 1  # a call waits for the roots; a ping does not
s.send({"jsonrpc": "2.0", "id": s.n, "method": "tools/call", "params": {"name": "up"}}, {"jsonrpc": "2.0", "id": "p", "method": "ping"})
asked = s.hear()
assert s.hear()["id"] == "p"
uris = ["https://example.org/x", f"file://{T}/with%20space", f"file://localhost{T}/other", "file:///%zz"]
s.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": [{"uri": u} for u in uris]}})
assert list(s.hear()["result"]["structuredContent"]["ports"]) == ["web/0/http"]
assert project(s) == f"{T}/with space"
assert s.give("up", project="../other")["added"] == 1  # a root, too
assert "another project" in s.fail("up", project="../project")
s.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
tell(s, f"file://{T}/other")
assert project(s) == f"{T}/other" and s.close() == 0
# A client that refuses, and one that never answers: its calls run in the working directory, after a while.
s = Session(cwd=f"{T}/plain", capabilities=roots)
s.send({"jsonrpc": "2.0", "id": s.hear()["id"], "error": {"code": -1, "message": "no"}})
assert project(s) == f"{T}/plain" and s.close() == 0
s = Session(cwd=f"{T}/plain", capabilities=roots)
assert s.hear()["method"] == "roots/list"
assert project(s) == f"{T}/plain" and s.close() == 0
END
}

@test "a change of the manifest between two calls is seen, also a mistake in it" {
    client <<'END'
s = Session()
before = s.give("up")["ports"]
text = open("dibs.yaml").read()
open("dibs.yaml", "w").write(text.replace("instances: 2", "instances: 1") + "  db: { ports: [sql] }\n")
after = s.give("up")
assert after["ports"]["api/0/http"] == before["api/0/http"] and after["added"] == after["dropped"] == 1, after
open("dibs.yaml", "w").write(text + "  db: { prots: [sql] }\n")
assert "dibs.yaml:4:" in s.fail("up") and "dibs.yaml:4:" in s.fail("get_port", name="api")
assert len(s.give("list_ports")["ports"]) == 3
assert "prots" in s.give("list_ports")["warning"]
os.remove("dibs.yaml")
assert "dibs init" in s.fail("up")
assert {c["name"] for c in s.give("list_ports")["ports"]} == {"web/0/-/http", "api/0/-/http", "db/0/-/sql"}
assert s.give("release_port", all=True) == {"released": 3}
assert s.close() == 0
END
}

@test "assert_mine is for this project's claims, not for a server of another one" {
    start env -C "$T/other" "$DIBS" -q run -p srv -- "$PYTHON" "$DIBS_TEST_SUPPORT/listen.py" "{srv}" tcp 127.0.0.1 "$T/ready"
    wait_until 10 test -f "$T/ready"
    client <<'END'
s = Session()
port = s.give("assert_mine", name="srv", project="../other")["port"]
for name in ("other/srv", "/other/srv", port):
    text = s.fail("assert_mine", name=name)
    assert "another project" in text and "list_ports" in text, text
assert s.close() == 0
END
    dibs assert other/srv
    refused 3 assert --own other/srv
}

@test "every name of list_ports is one that release_port takes, also without a project; unnamed claims have none" {
    port=$(dibs -q claim)
    export port
    client <<'END'
s = Session()
assert list(s.give("claim_port", name="/shared", keep=True)["ports"]) == ["/shared"]
s.give("up")
listed = s.give("list_ports")["ports"]
assert [c["port"] for c in listed if "name" not in c] == [int(os.environ["port"])], listed
names = [c["name"] for c in listed if "name" in c]
assert "/shared" in names and "web/1/http" in names, names
for name in names:
    assert s.give("release_port", name=name) == {"released": 1}, name
assert s.close() == 0
END
}

@test "a link that changes while a call is checked ends no claim of another project" {
    (cd "$T/other" && dibs -q get web >/dev/null)
    yes '# the check reads this before the command runs' | head -n 5000 >>dibs.yaml
    client <<'END'
import threading
T, s = os.environ["T"], Session()
is_over = threading.Event()
def turn():
    while not is_over.is_set():
        for goal in ("project", "other"):
            os.symlink(f"{T}/{goal}", f"{T}/new")
            os.rename(f"{T}/new", f"{T}/link")
os.symlink(f"{T}/project", f"{T}/link")
turning = threading.Thread(target=turn)
turning.start()
try:
    for _ in range(60):
        s.call("release_port", all=True, project=f"{T}/link")
finally:
    is_over.set()
    turning.join()
assert [c["name"] for c in s.give("list_ports", project=f"{T}/other")["ports"]] == ["web/0/http"]
assert s.close() == 0
END
}

@test "pipes that do not block: nothing is lost, and the session goes on" {
    client <<'END'
import fcntl
hears, tells = os.pipe()
reads, writes = os.pipe()
for end in (hears, writes):
    os.set_blocking(end, False)
fcntl.fcntl(writes, fcntl.F_SETPIPE_SZ, 4096)
server = subprocess.Popen([os.environ["DIBS"], "mcp"], stdin=hears, stdout=writes, stderr=subprocess.PIPE)
os.close(hears)
os.close(writes)
def send(n, method, **params):
    os.write(tells, json.dumps({"jsonrpc": "2.0", "id": n, "method": method, "params": params}).encode() + b"\n")
send(0, "initialize", protocolVersion=NEWEST)
for n in range(1, 20):
    send(n, "tools/list")
select.select([server.stderr], [], [], 0.3)  # time for the server to fill the pipe
os.close(tells)
with open(reads) as answers:
    assert [json.loads(line)["id"] for line in answers] == list(range(20))
assert server.wait(TIME) == 0 and not server.stderr.read()
END
}

# bats test_tags=unserved
@test "a cancelled call is not answered and keeps nothing; neither does a server that is killed" { # it locks the ledger's file
    client <<'END'
import signal, sqlite3, time
def lock():
    held = sqlite3.connect(os.environ["T"] + "/ledger.db", isolation_level=None)
    held.execute("BEGIN IMMEDIATE")
    return held
def children(pid):
    return open(f"/proc/{pid}/task/{pid}/children").read().split()
dibs("ls")
s = Session("--timeout", "60s")  # of each command
call = lambda n, name: {"jsonrpc": "2.0", "id": n, "method": "tools/call",
                        "params": {"name": "get_port", "arguments": {"name": name, "create": True}}}
held = lock()
s.send(call("runs", "one"), call("waits", "two"), call("stays", "three"))
assert s.request("ping")["result"] == {}  # it listens while a call runs
for n in ("waits", "runs", "no-such", None):
    s.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n, "reason": "x"}})
assert s.request("ping")["result"] == {}
held.execute("COMMIT")
answer = s.hear()
assert answer["id"] == "stays", answer
assert [c["name"] for c in s.give("list_ports")["ports"]] == ["three"]
# The command has given its answer already, and the server has not read it: nobody will.
for tool, more in (("get_port", {"create": True}), ("claim_port", {"count": 2}), ("claim_port", {"keep": True})):
    held = lock()
    s.send({"jsonrpc": "2.0", "id": tool, "method": "tools/call", "params": {"name": tool, "arguments": {"name": "late", **more}}})
    assert s.request("ping")["result"] == {}
    s.server.send_signal(signal.SIGSTOP)
    while open(f"/proc/{s.server.pid}/stat").read().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.001)  # until then it could still notice the answer before the cancellation
    held.execute("COMMIT")
    deadline = time.monotonic() + TIME
    while "/late" not in dibs("ls", "--names"):
        assert time.monotonic() < deadline, "it claims nothing"
    s.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": tool}})
    s.server.send_signal(signal.SIGCONT)
    assert [c["name"] for c in s.give("list_ports")["ports"]] == ["three"], tool
held = lock()
s.send(call("dies", "four"))
assert s.request("ping")["result"] == {}
[child] = children(s.server.pid)
s.server.kill()
s.server.wait()
held.execute("COMMIT")
deadline = time.monotonic() + TIME
while os.path.exists(f"/proc/{child}") and open(f"/proc/{child}/stat").read().split()[2] != "Z":
    assert time.monotonic() < deadline, "the command goes on"
    time.sleep(0.02)
assert [c["name"] for c in json.loads(dibs("ls", "--json"))] == ["project/three"]
END
}

@test "it ends with its input, after the answers to what it has read, and with its reader" {
    ask='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"up"}}'
    printf '%s' "$ask" >"$T/in" # no newline at the end
    dibs -q up >/dev/null
    capture dibs mcp <"$T/in"
    [ "$code" -eq 0 ]
    [ "$(wc -l <"$T/out")" -eq 2 ]
    tail -n 1 "$T/out" | grep -q '"web/0/http"'
    printf '%s' "$ask" | dibs mcp | cmp - "$T/out"
    capture dibs mcp </dev/null
    [ "$code" -eq 0 ]
    [ -z "$out$errs" ]
    code=0
    dibs mcp <"$T/in" >/dev/full 2>"$T/err" || code=$?
    [ "$code" -eq 74 ]
    (sleep 0.2; cat "$T/in") | { dibs mcp 2>"$T/err" || echo $? >"$T/code"; } | true
    [ "$(cat "$T/code")" -eq 141 ]
    [ ! -s "$T/err" ]
}

@test "settings of the command line hold for every call" {
    client <<'END'
s = Session("--range", "13630-13639", "--group", "shared")
assert 13630 <= s.give("get_port", name="x", create=True)["port"] <= 13639
assert s.give("who_uses_port", port="x")["claims"][0]["name"] == "shared/x"
assert [c["name"] for c in s.give("list_ports")["ports"]] == ["shared/x"]
assert s.give("release_port", name="shared/x", project="../other") == {"released": 1}  # the group is the same everywhere
assert s.close() == 0
END
}

@test "install prints what each agent reads, and what it says starts a server in the project" {
    echo '{}' >untouched.json
    find "$T" -newer untouched.json -type f >"$T/before"
    client <<'END'
import tomllib
names = ["claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "zed"]
listed = json.loads(dibs("mcp", "install", "--json"))
assert [a["agent"] for a in listed] == names + ["agents-md"]
everything = dibs("mcp", "install")
keys = {"vscode": "servers", "zed": "context_servers", "codex": "mcp_servers"}
for name, entry in zip(names, listed):
    text = dibs("mcp", "install", name)
    assert text in everything and entry["config"].strip() == text and entry["file"] in everything
    config = (tomllib.loads if name == "codex" else json.loads)(text)
    assert list(config) == [keys.get(name, "mcpServers")], config
    [server] = config.popitem()[1].values()
    assert {"DIBS_LEDGER", "DIBS_SOCKET", "XDG_STATE_HOME", "XDG_CONFIG_HOME"} < set(server["env"]), server
    assert "XDG_RUNTIME_DIR" not in server["env"]  # no daemon has its socket there
    assert server["command"] == os.path.realpath(os.environ["DIBS"]), server
    words = [w.replace("${workspaceFolder}", os.getcwd()) for w in server["args"]]
    # Agents start a server with hardly a variable but those of its configuration.
    bare = ["env", "-i", "HOME=" + os.environ["HOME"], *(f"{k}={v}" for k, v in server["env"].items())]
    at_home = Session(program=[*bare, server["command"], *words], cwd="/" if "--project" in words else None)
    assert at_home.give("get_port", name="api") == {"port": int(dibs("get", "api"))}
    assert at_home.close() == 0
END
    awk '/^```md AGENTS.md$/ { on = 1; next } /^```$/ { on = 0 } on' "${PAGE%/*}/RECIPES.md" >"$T/snippet"
    dibs mcp install agents-md | cmp - "$T/snippet"
    find "$T" -newer untouched.json -type f ! -name 'ledger*' ! -name 'served*' ! -name before ! -name snippet ! -name out ! -name err | not grep .
    refused 2 mcp install claud-code
    says "did you mean 'claude-code'"
    refused 2 mcp instal
    refused 2 mcp serve now
}

@test "a configuration has the settings of its call, and where the user's daemon is; without any it has none" {
    mkdir -p "$XDG_RUNTIME_DIR/dibs"
    touch "$XDG_RUNTIME_DIR/dibs/dibs.sock"
    DIBS_GROUP=ignored dibs --group 'a"b' mcp install codex >"$T/config.toml"
    DIBS_GROUP=one dibs mcp install zed >"$T/every-project.json"
    DIBS_GROUP=one dibs mcp install gemini >"$T/project.json"
    env -i HOME="$HOME" XDG_STATE_HOME=relative DIBS_TTL= "$DIBS" mcp install cursor >"$T/config.json"
    "$PYTHON" -SE - "$T" <<'END'
import json, os, sys, tomllib
env = tomllib.load(open(sys.argv[1] + "/config.toml", "rb"))["mcp_servers"]["dibs"]["env"]
assert env["DIBS_GROUP"] == 'a"b' and env["XDG_RUNTIME_DIR"] == os.environ["XDG_RUNTIME_DIR"], env
assert "env" not in json.load(open(sys.argv[1] + "/config.json"))["mcpServers"]["dibs"]
assert "DIBS_GROUP" not in open(sys.argv[1] + "/every-project.json").read()
assert '"DIBS_GROUP": "one"' in open(sys.argv[1] + "/project.json").read()
END
}

@test "the path in a configuration is quoted, whatever it is" {
    mkdir "$T/a \"b\" \\c"
    ln "$DIBS" "$T/a \"b\" \\c/dibs" 2>/dev/null || cp "$DIBS" "$T/a \"b\" \\c/dibs"
    DIBS="$T/a \"b\" \\c/dibs"
    dibs mcp install codex >"$T/config.toml"
    dibs mcp install zed >"$T/config.json"
    "$PYTHON" -SE - "$T" "$DIBS" <<'END'
import json, sys, tomllib
folder, path = sys.argv[1:]
assert tomllib.load(open(folder + "/config.toml", "rb"))["mcp_servers"]["dibs"]["command"] == path
assert json.load(open(folder + "/config.json"))["context_servers"]["dibs"]["command"] == path
END
}
