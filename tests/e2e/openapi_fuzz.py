#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes requests from a daemon's description, valid and invalid ones, and checks every answer against it.

usage: openapi_fuzz.py SEED ROUNDS ADMIN_SOCKET PUBLIC_SOCKET TLS_PORT CERT TOKEN LOOPBACK_PORT

A round asks every operation once over each transport. The same seed makes the same requests, but for values that
earlier answers had: tokens, ports, ids. Each answer has a status, a content type and members that the description
lists; an invalid request is refused; a valid one is refused as invalid (400) only for a reason in RULES.
"""
import base64
import http.client
import json
import os
import random
import re
import sys
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import described  # noqa: E402

try:
    import re._parser as regex
except ImportError:
    import sre_parse as regex

SEED, ROUNDS, ADMIN, PUBLIC, TLS_PORT, CERT, TOKEN, LOOPBACK_PORT = sys.argv[1:]
dice = random.Random(SEED)
KNOWN = {}  # {member: values that answers had}
CLAIMS = []  # claims that answers had
WORDS = ["web", "shop/web", "a", "..", "/", "-", "\u00e4\u4e2d", "x" * 400, "", "a b", "%", "&=?#", "\x01", "0", "true"]
JUNK = [b"{", b"[]", b"null", b"7", b'"x"', b"{}" * 2, b"[" * 100, b"\xff\xfe", b'{"a":1,"a":2}', b'{"name":"\x00"}', b'{"port":1e99}',
        b'{"port":99999999999999999999}', b'{"name":"\\ud800"}', b"{\"name\":\"\xc3\"}"]
LISTS = ("host", "address", "binding")  # parameters that may be given several times
NUMBERS = [0, 1, -1, 65535, 65536, 2**31, 2**32, 2**53, 2**63 - 1, -2**63, 0.5]

WEB_PAGES = [{"Origin": "http://example.org"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "example.org"}, {"Host": "127.0.0.1.example.org:80"}]

# Why a request that has the described shape can be invalid all the same.
RULES = [
    # grammars of single texts
    "address ", "must be one address", "zone ids", "port range ", "name '", "a name cannot be empty", "must be PROTO/ADDRESS", "must be base64", "that is not a token",
    "duration '", "is out of range", "for at most 60 s", "a lease must last", "at least 1ms", "band\" must be auto", "is not auto, off or a number",
    # members that need or exclude each other
    "\"port\" must be given in this mode", "\"mode\" must be required or preferred", "a claim needs a holder", "an alignment needs",
    "only a process has variables", "a run of .* goes over", "a contiguous run has", "one of them is enough", "more than 8 bindings", "shared bytes", "the same in a binding and its claim",
    "which claim\\?", "exclude each other", "project= needs name=", "binding= is instead", "a claim on several hosts",
    "host '.*' is named twice", "the pool is called", "range .* does not match pool", "was used before, for another request",
    # what this daemon, this connection or this claim has
    "say which by its",
    "cannot be a host's name", "is this host: remove it", "no process can be seen over TCP", "no lease to renew", "a ledger that .* share", "is not in the valid range of pool", "lies outside the range",
]


def from_pattern(parsed):
    """A text that matches a regular expression."""
    text = ""
    for op, value in parsed:
        op = str(op)
        if op == "LITERAL":
            text += chr(value)
        elif op == "IN":
            listed = [chr(c) for kind, v in value if v for c in (range(v[0], v[1] + 1) if str(kind) == "RANGE" else [v])]
            text += dice.choice(listed if str(value[0][0]) != "NEGATE" else [c for c in "ax~9" if c not in listed])
        elif op == "SUBPATTERN":
            text += from_pattern(value[3])
        elif op == "BRANCH":
            text += from_pattern(dice.choice(value[1]))
        elif op == "MAX_REPEAT":
            for _ in range(dice.randint(value[0], min(value[1], value[0] + 3))):
                text += from_pattern(value[2])
        else:
            assert op == "AT", op
    return text


def make_text(schema, key):
    if "format" in schema:
        return "2026-01-02T03:04:05Z"
    if schema.get("contentEncoding") == "base64":
        return base64.b64encode(dice.randbytes(dice.randint(0, 4))).decode()
    if dice.random() < 0.5 and key in KNOWN:
        return str(dice.choice(KNOWN[key]))
    if "examples" in schema and dice.random() < 0.8:
        return dice.choice(schema["examples"])
    if "pattern" in schema:
        return from_pattern(regex.parse(schema["pattern"]))
    return dice.choice(WORDS)


def make_number(schema, key):
    least, most = schema.get("minimum", -2**31), schema.get("maximum", 2**53)
    if dice.random() < 0.5 and key in KNOWN and isinstance(dice.choice(KNOWN[key]), int):
        return dice.choice(KNOWN[key])
    return dice.choice([least, most, dice.randint(least, most), min(max(least, dice.randint(20000, 20100)), most)])


def make(schema, key=""):
    """A value for a schema."""
    if schema.get("$ref", "").endswith("/Claim") and CLAIMS and dice.random() < 0.7:
        return json.loads(dice.choice(CLAIMS))
    schema = API.resolve(schema)
    for choice in ("oneOf", "anyOf"):
        if choice in schema:
            return make(dice.choice(schema[choice]), key)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return dice.choice(schema["enum"])
    kind = schema.get("type", "object")
    kind = dice.choice([k for k in kind if k != "null"] * 4 + ["null"]) if isinstance(kind, list) else kind
    if kind == "object":
        needed = schema.get("required", [])
        return {k: make(v, k) for k, v in schema.get("properties", {}).items() if k in needed or dice.random() < 0.3}
    if kind == "array":
        least = schema.get("minItems", 0)
        return [make(schema["items"], key) for _ in range(dice.randint(least, least + 2))]
    if kind == "null":
        return None
    return {"string": make_text, "integer": make_number}[kind](schema, key) if kind != "boolean" else dice.random() < 0.5


def agree(request):
    """The same request, with members that go together."""
    if request.get("mode", "random") == "random":
        request.pop("port", None)
    else:
        request["port"] = request.get("port") or dice.randint(20000, 20100)
    for key in ("run", "env"):
        request.pop(key, None)
    if request.get("holder", {}) is None:
        request["keep"] = True
    if len(request.get("bindings", [])) > 1:
        request["bindings"] = request["bindings"][:1]
    return request


def agreed(value):
    if isinstance(value, list):
        return [agreed(v) for v in value]
    if not isinstance(value, dict) or "generation" in value:
        return value
    value = {k: agreed(v) for k, v in value.items()}
    return agree(value) if {"mode", "holder", "bindings"} & set(value) else value


def which_agreed(query, parts):
    """One of the ways to say which claim."""
    ways = {"name": ("name", "project"), "port": ("port", "proto"), "all": ("all",)}
    way = dice.choice([w for w in ways if w in dict(query)] or [None]) if parts["which"] == "-" else None
    none = [k for keys in ways.values() for k in keys]
    return [(k, v) for k, v in query if k not in none or (way and k in ways[way])]


def spoil(value):
    """The value with one part changed, which may be invalid then."""
    if isinstance(value, dict) and value and dice.random() < 0.8:
        key = dice.choice(sorted(value))
        return {**value, key: spoil(value[key])}
    if isinstance(value, list) and value and dice.random() < 0.7:
        at = dice.randrange(len(value))
        return value[:at] + [spoil(value[at])] + value[at + 1:]
    if isinstance(value, dict):
        if value and dice.random() < 0.5:
            return {k: v for k, v in value.items() if k != sorted(value)[0]}
        return {**value, "no_such_member": 1}
    if isinstance(value, list) and dice.random() < 0.3:
        return value * 10
    return dice.choice([None, True, [], {}, {"a": 1}, dice.choice(NUMBERS), dice.choice(WORDS), str(value) + "x", "-1"])


def without_null(value):
    """As the daemon reads it: a member that is null counts as absent."""
    if isinstance(value, dict):
        return {k: without_null(v) for k, v in value.items() if v is not None}
    return [without_null(v) for v in value] if isinstance(value, list) else value


def is_valid(value, schema):
    return API.validator(schema).is_valid(value)


def parameter_texts(parameter, is_spoilt):
    """The texts of one parameter, and whether they are as described."""
    name = parameter["name"]
    if "content" in parameter:
        schema = parameter["content"]["application/json"]["schema"]
        value = make(schema, name)
        value = spoil(value) if is_spoilt else value
        return [json.dumps(value)], is_valid(without_null(value), schema)
    schema = API.resolve(parameter["schema"])
    if name == "wait":  # a valid one may last for a minute
        value = dice.choice(["0s", "1ms", "20ms", "61s"])
    elif parameter["in"] == "path" and name == "which":
        value = dice.choice(["-", make(schema, "token"), dice.choice(KNOWN.get("token", ["-"]))])
    else:
        value = make(schema, name)
    if is_spoilt:
        value = spoil(value)
    texts = [v if isinstance(v, str) else json.dumps(v) for v in (value if schema.get("type") == "array" and isinstance(value, list) else [value])]
    if schema.get("type") == "array":
        return texts, is_valid(texts, schema)
    if schema.get("type") == "integer":
        return texts, re.fullmatch("[0-9]+", texts[0]) is not None and is_valid(int(texts[0]), schema)
    return texts, is_valid(texts[0], schema)


class Asked:
    """A request: its parts, and whether it is as described."""

    def __init__(self, oid):
        method, path, operation = API.operations[oid]
        self.oid, self.method, self.headers, self.body = oid, method, {}, None
        self.is_valid, self.has_path = True, True
        self.spoils, self.agrees = dice.random() < 0.5, dice.random() < 0.8
        query, parts = [], {}
        for parameter in map(API.resolve, operation.get("parameters", [])):
            is_needed = parameter.get("required") and not (self.spoils and dice.random() < 0.1 and parameter["in"] == "query")
            if not is_needed and dice.random() < 0.7:
                self.is_valid = self.is_valid and not parameter.get("required")
                continue
            self.add_parameter(parameter, query, parts)
        if self.agrees and "which" in parts and self.is_valid:
            query = which_agreed(query, parts)
        if self.spoils and dice.random() < 0.1:
            query.append((dice.choice(["nmae", "Port", ""]), "1"))
            self.is_valid = False
        if self.spoils and query and dice.random() < 0.05:
            query.append(dice.choice(query))
            self.is_valid = self.is_valid and query[-1][0] in LISTS
        self.target = described.path_of(path, parts) + ("?" + urllib.parse.urlencode(query) if query else "")
        self.has_path = self.has_path and len(self.target) < 5000 and len(query) <= 32  # the server's limits
        if "requestBody" in operation:
            self.add_body(operation["requestBody"])

    def add_parameter(self, parameter, query, parts):
        texts, is_good = parameter_texts(parameter, self.spoils and dice.random() < 0.4)
        if parameter["in"] == "header":
            text = re.sub("[^!-~]", "", texts[0])  # what a field may have
            is_good = is_valid(int(text) if parameter["schema"].get("type") == "integer" and text.isdigit() else text, parameter["schema"])
            self.headers[parameter["name"]] = text
        elif parameter["in"] == "path":
            parts[parameter["name"]] = urllib.parse.quote(texts[0], safe="")
            self.has_path = self.has_path and is_good and texts[0] != ""
        else:
            query += [(parameter["name"], text) for text in texts]
        self.is_valid = self.is_valid and is_good

    def add_body(self, described_body):
        schema = described_body["content"]["application/json"]["schema"]
        self.headers["Content-Type"] = "application/json"
        if dice.random() < 0.05:
            self.is_valid = self.is_valid and not described_body["required"]
            return
        if self.spoils and dice.random() < 0.1:
            self.body = dice.choice(JUNK)
            self.is_valid = False
            return
        value = agreed(make(schema)) if self.agrees else make(schema)
        if self.spoils and dice.random() < 0.6:
            value = spoil(value)
        if self.oid == "transfer" and self.agrees and isinstance(value, dict):
            value["keep"] = True
        if self.method == "PUT" and isinstance(value, dict) and "name" in value and dice.random() < 0.8:
            value["name"] = urllib.parse.unquote(self.target.split("/")[3])
        self.body = json.dumps(value).encode()
        self.is_valid = self.is_valid and is_valid(without_null(value), schema)

    def __str__(self):
        return f"{self.oid}: {self.method} {self.target} {self.headers} {self.body}"


class Transport:
    """A connection that is opened again when the daemon closed it."""

    def __init__(self, name, connect, headers=None):
        self.name, self.connect, self.headers = name, connect, headers or {}
        self.connection = connect()

    def send(self, method, target, body=None, headers=None):
        for is_last in (False, True):
            try:
                self.connection.request(method, target, body, {**self.headers, **(headers or {})})
                return described.Answer(self.connection.getresponse())
            except (http.client.HTTPException, OSError):
                self.connection.close()
                self.connection = self.connect()
                if is_last:
                    return None


def learn(value):
    """Remember what later requests can ask for."""
    if isinstance(value, list):
        for item in value:
            learn(item)
    if not isinstance(value, dict):
        return
    if "generation" in value and "bindings" in value:
        CLAIMS.append(json.dumps(value))
        del CLAIMS[:-30]
    for key, member in value.items():
        learn(member)
        if isinstance(member, (str, int)) and not isinstance(member, bool):
            KNOWN.setdefault(key, []).append(member)
            del KNOWN[key][:-20]


def problem(*lines):
    PROBLEMS.append("\n".join([f"seed {SEED}", *map(str, lines)]))


def judge(asked, answer, is_head):
    """What is wrong with the answer, or None."""
    try:
        API.check(asked.oid, answer, is_head)
    except (SystemExit, AssertionError) as e:
        return e
    if not asked.is_valid and answer.status < 400:
        return "the request is not as described, and was not refused"
    if asked.is_valid and answer.status == 400 and not is_head and not any(re.search(rule, answer.json["detail"]) for rule in RULES):
        return "the request is as described, and was refused"
    return None


def ask(transport, oid):
    asked = Asked(oid)
    is_head = asked.method == "GET" and dice.random() < 0.1
    answer = transport.send("HEAD" if is_head else asked.method, asked.target, asked.body, asked.headers)
    if not asked.has_path and (not answer or answer.status in (400, 404, 405, 414, 431)):
        return  # no path of the description; the daemon may close the connection before the body arrives
    if not answer:
        problem(f"over {transport.name}", asked, "no answer")
        return
    if is_head and oid in CHANGING and transport.name != "TLS":
        wrong = None if (answer.status, answer.headers.get("allow"), answer.text) == (405, "GET", "") else "HEAD is allowed"
    else:
        wrong = judge(asked, answer, is_head)
    if wrong:
        problem(f"over {transport.name}{' (HEAD)' if is_head else ''}", asked, f"{answer.status} {answer.text[:1000]}", wrong)
    elif answer.status < 400:
        learn(answer.json)
    COUNTS[answer.status] = COUNTS.get(answer.status, 0) + 1


def nobody_may(transport, oid, headers, status):
    """The operation is refused to a client that sends these headers; 404: there are only others."""
    asked = Asked(oid)
    if not asked.has_path:
        return
    answer = transport.send(asked.method, asked.target, asked.body, {**asked.headers, **headers})
    wrong = f"{status} was to come" if answer.status != status else status != 404 and judge(asked, answer, False)
    if wrong:
        problem(f"over {transport.name}, with {headers}", asked, f"{answer.status} {answer.text[:1000]}", wrong)


CHANGING = ("grpcGet", "grpcDrop")  # they change something, though they are GET
SLOW = ("doctor", "mend", "repair", "restore")
PROBLEMS, COUNTS = [], {}
admin = Transport("the administrators' socket", lambda: described.Unix(ADMIN))
API = described.Description(admin.send("GET", "/openapi.json").json)
unknown = Transport("TLS without a token", lambda: described.tls(TLS_PORT, CERT))
loopback = Transport("loopback", lambda: http.client.HTTPConnection("127.0.0.1", int(LOOPBACK_PORT), timeout=20))
transports = [
    admin,
    Transport("the public socket", lambda: described.Unix(PUBLIC)),
    Transport("TLS", lambda: described.tls(TLS_PORT, CERT), {"Authorization": f"Bearer {TOKEN}"}),
]
print(f"seed {SEED}", flush=True)
for i in range(int(ROUNDS)):
    for oid, (_, _, operation) in API.operations.items():
        if oid in SLOW and i % 4:
            continue
        is_grpc = "grpc" in operation["tags"]
        for transport in transports + [loopback] * is_grpc:
            dice.seed(f"{SEED} {i} {oid} {transport.name}")  # so that no answer changes the requests after it
            ask(transport, oid)
        if is_grpc:
            nobody_may(loopback, oid, dice.choice(WEB_PAGES), 403)
        elif i % 8 == 0:
            nobody_may(loopback, oid, {}, 404)
        if operation.get("security") != [] and i % 8 == 0:
            nobody_may(unknown, oid, {}, 401)
nobody_may(unknown, "claim", {"Authorization": "Bearer of-somebody-else-entirely"}, 401)  # after a second
if PROBLEMS:
    sys.exit("\n\n".join(PROBLEMS) + f"\n{len(PROBLEMS)} problems")
assert admin.send("GET", "/healthz").status == 200
print(f"{sum(COUNTS.values())} requests: " + ", ".join(f"{n} x {status}" for status, n in sorted(COUNTS.items())))
