# SPDX-License-Identifier: MIT
"""Every manifest of the table goes through the JSON Schema and through the reader. TAP.

usage: schema.py SCHEMA READER"""
import json
import pathlib
import subprocess
import sys
import tempfile

import jsonschema

BOTH, NEITHER = (True, True), (False, False)
# Rules that a schema cannot express: it takes the manifest, the reader refuses it.
BEYOND = (True, False)


def role(**keys):
    return {"roles": {"r": keys}}


def port(**keys):
    return role(ports=[{"name": "p", **keys}])


def command(value):
    return role(command=value)


def target(value):
    return {"roles": {"api": {"instances": 2, "ports": ["http"]},
                      "r": {"references": [{"env": "A", "from": value}]}}}


EVERYTHING = {
    "group": "shop", "range": "20000-21000", "pool": "default", "band": 16, "order": "stride",
    "cooldown": "5s", "ttl": "10m", "timeout": "2s", "allow-ephemeral": False, "allow-blocked": True,
    "roles": {
        "api": {"instances": 2, "command": ["serve", 1, True], "ports": [
            "http",
            {"name": "p", "env": "P", "annotation": "example.com/p", "scope": "RoleScoped", "proto": "tcp+udp",
             "address": ["127.0.0.1", "::1"], "port": 8080},
            {"name": "q", "prefer": 9000, "count": 2},
            {"name": "b", "count": 8, "contiguous": True}],
            "references": [{"env": "X", "from": "pre[0].leader[0].grpc"}], "cwd": "api",
            "env": {"URL": "http://localhost:{pre.leader.grpc}/{p}/{X}", "N": 1, "B": True, "E": ""}},
        "pre": {"components": [
            {"name": "leader", "size": 2, "ports": ["grpc"]},
            {"name": "worker", "env": {"Z": "{Y}"}, "references": [{"env": "Y", "from": {
                "role": "pre", "instance": 0, "component": "leader", "pod": 1, "port": "grpc"}}]}]},
    },
}

CASES = [
    ("everything at once", BOTH, EVERYTHING),
    ("nothing", BOTH, {}),
    ("a list", NEITHER, []),
    ("text", NEITHER, "x"),
    ("an unknown key", NEITHER, {"grup": "a"}),
    ("a ledger", NEITHER, {"ledger": "memory:"}),
    ("a socket", NEITHER, {"socket": "none"}),
    ("sync", NEITHER, {"sync": "full"}),
    ("a group that is a number", NEITHER, {"group": 5}),
    ("a group that is a number in quotes", BOTH, {"group": "5"}),
    ("a group that is null", NEITHER, {"group": None}),
    ("a group of 253 bytes", BOTH, {"group": "g" * 253}),
    ("a group of 254 bytes", NEITHER, {"group": "g" * 254}),
    ("a group of 200 characters and 400 bytes", BEYOND, {"group": "\u00e9" * 200}),
    ("an empty group", NEITHER, {"group": ""}),
    ("a group with a line break", NEITHER, {"group": "a\nb"}),
    ("a group with U+0085", NEITHER, {"group": "a\u0085"}),
    ("a setting that is a list", NEITHER, {"range": [1]}),
    ("a setting that is null", NEITHER, {"range": None}),
    ("a setting that is empty", NEITHER, {"range": ""}),
    ("a setting of 4095 bytes", BOTH, {"range": "1" * 4095}),
    ("a setting of 4096 bytes", NEITHER, {"range": "1" * 4096}),
    ("roles as a list", NEITHER, {"roles": []}),
    ("1024 roles", BOTH, {"roles": {f"r{i}": {} for i in range(1024)}}),
    ("1025 roles", NEITHER, {"roles": {f"r{i}": {} for i in range(1025)}}),
    ("a role without a name", NEITHER, {"roles": {"": {}}}),
    ("a role that is null", NEITHER, {"roles": {"r": None}}),
    ("a role's unknown key", NEITHER, role(port=[])),
    ("no instance", BOTH, role(instances=0)),
    ("4096 instances", BOTH, role(instances=4096)),
    ("4097 instances", NEITHER, role(instances=4097)),
    ("-1 instances", NEITHER, role(instances=-1)),
    ("instances in quotes", NEITHER, role(instances="2")),
    ("2.5 instances", NEITHER, role(instances=2.5)),
    ("2.0 instances", BEYOND, role(instances=2.0)),
    ("4096 instances with two ports", BEYOND, role(instances=4096, ports=["a", "b"])),
    ("ports as a map", NEITHER, role(ports={"http": {}})),
    ("128 ports", BOTH, role(ports=[f"p{i}" for i in range(128)])),
    ("129 ports", NEITHER, role(ports=[f"p{i}" for i in range(129)])),
    ("a port that is a number", NEITHER, role(ports=[80])),
    ("a port that is null", NEITHER, role(ports=[None])),
    ("a port that is empty text", NEITHER, role(ports=[""])),
    ("a port with a tab in its name", NEITHER, role(ports=["a\tb"])),
    ("a port with dots and blanks in its name", BOTH, role(ports=["a.b c"])),
    ("a port that begins with a digit", BOTH, role(ports=["9p"])),
    ("a port of 253 bytes without a variable", BOTH, role(ports=["p" * 253])),
    ("two ports of one name", BEYOND, role(ports=["a", {"name": "a", "env": "B"}])),
    ("two ports of one variable", BEYOND, role(ports=["a-b", "a.b"])),
    ("a port without a name", NEITHER, role(ports=[{"env": "A"}])),
    ("a port's unknown key", NEITHER, port(annotationKey="x")),
    ("a variable with a dash", NEITHER, port(env="A-B")),
    ("a variable that begins with a digit", NEITHER, port(env="9")),
    ("an empty variable", NEITHER, port(env="")),
    ("a variable of 255 bytes", BOTH, port(env="A" * 255)),
    ("a variable of 256 bytes", NEITHER, port(env="A" * 256)),
    ("an empty annotation", NEITHER, port(annotation="")),
    ("an annotation of 317 bytes", BOTH, port(annotation="a" * 317)),
    ("an annotation of 318 bytes", NEITHER, port(annotation="a" * 318)),
    ("a scope in small letters", NEITHER, port(scope="podscoped")),
    ("PodScoped", BOTH, port(scope="PodScoped")),
    ("an unknown protocol", NEITHER, port(proto="quic")),
    ("protocols in capitals", BOTH, port(proto="TCP,Udp")),
    ("a protocol and nothing behind the plus", NEITHER, port(proto="tcp+")),
    ("no protocol", NEITHER, port(proto="")),
    ("an address", BOTH, port(address="localhost")),
    ("every address", BOTH, port(address="*")),
    ("a host name", BEYOND, port(address="example.com")),
    ("an empty address", NEITHER, port(address="")),
    ("no address", NEITHER, port(address=[])),
    ("an address that is a number", NEITHER, port(address=5)),
    ("eight addresses", BOTH, port(address=[f"127.0.0.{i}" for i in range(1, 9)])),
    ("nine addresses", NEITHER, port(address=[f"127.0.0.{i}" for i in range(1, 10)])),
    ("three protocols on three addresses", BEYOND,
     port(proto="tcp+udp+sctp", address=[f"127.0.0.{i}" for i in range(1, 4)])),
    ("port 0", NEITHER, port(port=0)),
    ("port 1", BOTH, port(port=1)),
    ("port 65535", BOTH, port(port=65535)),
    ("port 65536", NEITHER, port(port=65536)),
    ("a port's number in quotes", NEITHER, port(port="80")),
    ("prefer 0", NEITHER, port(prefer=0)),
    ("prefer 65535", BOTH, port(prefer=65535)),
    ("port and prefer", NEITHER, port(port=80, prefer=81)),
    ("one number for two instances", BEYOND, role(instances=2, ports=[{"name": "p", "port": 80}])),
    ("one number for two", NEITHER, port(port=80, count=2)),
    ("one number for one", BOTH, port(port=80, count=1)),
    ("count 0", NEITHER, port(count=0)),
    ("count 64", BOTH, port(count=64)),
    ("count 65", NEITHER, port(count=65)),
    ("contiguous without count", NEITHER, port(contiguous=True)),
    ("contiguous with count 1", NEITHER, port(contiguous=True, count=1)),
    ("contiguous with count 2", BOTH, port(contiguous=True, count=2)),
    ("contiguous with prefer", NEITHER, port(contiguous=True, count=2, prefer=9000)),
    ("contiguous in words", NEITHER, port(contiguous="yes", count=2)),
    ("not contiguous", BOTH, port(contiguous=False)),
    ("a directory that is empty", NEITHER, role(cwd="")),
    ("a directory that is a list", NEITHER, role(cwd=["a"])),
    ("a directory of 4097 bytes", NEITHER, role(cwd="d" * 4097)),
    ("a directory with a line break", NEITHER, role(cwd="a\nb")),
    ("variables as a list", NEITHER, role(env=["A=1"])),
    ("a variable's text of 4096 bytes", BOTH, role(env={"A": "x" * 4096})),
    ("a variable's text of 4097 bytes", NEITHER, role(env={"A": "x" * 4097})),
    ("a variable's text with a line break", NEITHER, role(env={"A": "a\nb"})),
    ("a variable that is null", NEITHER, role(env={"A": None})),
    ("a variable that is a list", NEITHER, role(env={"A": ["x"]})),
    ("a variable's name with a dash", NEITHER, role(env={"A-B": "x"})),
    ("256 variables", BOTH, role(env={f"E{i}": "x" for i in range(256)})),
    ("257 variables", NEITHER, role(env={f"E{i}": "x" for i in range(257)})),
    ("variables of a role with components", NEITHER, role(components=[{"name": "c"}], env={"A": "x"})),
    ("variables of a component", BOTH, role(components=[{"name": "c", "env": {"A": "x"}}])),
    ("a variable that shells read", BEYOND, role(env={"PATH": "x"})),
    ("a variable that is a port, too", BEYOND, role(ports=[{"name": "p", "env": "A"}], env={"A": "x"})),
    ("braces without a port", BEYOND, role(env={"A": "{nothing}"})),
    ("braces that do not close", BEYOND, role(env={"A": "{p"}, ports=["p"])),
    ("braces of their own", BOTH, role(env={"A": "{{\"a\": 1}} ${HOME} $"})),
    ("256 references", BOTH, {"roles": {"r": {"ports": ["p"], "references": [
        {"env": f"E{i}", "from": "r.p"} for i in range(256)]}}}),
    ("257 references", NEITHER, {"roles": {"r": {"ports": ["p"], "references": [
        {"env": f"E{i}", "from": "r.p"} for i in range(257)]}}}),
    ("a reference without from", NEITHER, role(references=[{"env": "A"}])),
    ("a reference without env", NEITHER, role(ports=["p"], references=[{"from": "r.p"}])),
    ("references as a map", NEITHER, role(references={"A": "r.p"})),
    ("a reference", BOTH, target("api.http")),
    ("a reference with an index", BOTH, target("api[1].http")),
    ("a reference with an index that is not there", BEYOND, target("api[2].http")),
    ("a reference with an index over the limit", NEITHER, target("api[4096].http")),
    ("a reference with a leading zero", NEITHER, target("api[01].http")),
    ("a reference to a role that is not there", BEYOND, target("apo.http")),
    ("a reference to a port that is not there", BEYOND, target("api.htp")),
    ("a reference of one part", NEITHER, target("api")),
    ("a reference with a dot at the end", NEITHER, target("api.http.")),
    ("a reference with an empty part", NEITHER, target("api..http")),
    ("a reference of four parts", NEITHER, target("a.b.c.d")),
    ("a reference with an index behind the port", NEITHER, target("api.http[0]")),
    ("an empty reference", NEITHER, target("")),
    ("a reference that is a number", NEITHER, target(1.5)),
    ("a reference that is a list", NEITHER, target(["api", "http"])),
    ("a reference by parts", BOTH, target({"role": "api", "port": "http", "instance": 1})),
    ("a reference by parts without a port", NEITHER, target({"role": "api"})),
    ("a reference by parts with an unknown one", NEITHER, target({"role": "api", "port": "http", "index": 0})),
    ("a reference by parts with a negative index", NEITHER, target({"role": "api", "port": "http", "pod": -1})),
    ("a variable twice", BEYOND, role(ports=["p"], references=[{"env": "P_PORT", "from": "r.p"}])),
    ("no component", NEITHER, role(components=[])),
    ("a component without a name", NEITHER, role(components=[{}])),
    ("a component of size 0", BOTH, role(components=[{"name": "c", "size": 0}])),
    ("a component of size 4097", NEITHER, role(components=[{"name": "c", "size": 4097}])),
    ("a component that is text", NEITHER, role(components=["c"])),
    ("32 components", BOTH, role(components=[{"name": f"c{i}"} for i in range(32)])),
    ("33 components", NEITHER, role(components=[{"name": f"c{i}"} for i in range(33)])),
    ("two components of one name", BEYOND, role(components=[{"name": "c"}, {"name": "c"}])),
    ("a component's unknown key", NEITHER, role(components=[{"name": "c", "instances": 1}])),
    ("components and ports", NEITHER, role(components=[{"name": "c"}], ports=[])),
    ("components and references", NEITHER, role(components=[{"name": "c"}], references=[])),
    ("a command's line", BOTH, command("exec serve")),
    ("an empty command", NEITHER, command("")),
    ("a command without an argument", NEITHER, command([])),
    ("a command without a program", NEITHER, command(["", "x"])),
    ("a command with an empty argument", BOTH, command(["x", ""])),
    ("a command with null", NEITHER, command(["x", None])),
    ("a command with a list", NEITHER, command(["x", ["y"]])),
    ("a command that is a number", NEITHER, command(5)),
    ("a command of 1024 arguments", BOTH, command(["x"] * 1024)),
    ("a command of 1025 arguments", NEITHER, command(["x"] * 1025)),
]

# Where an unknown key stands, and which part of the schema knows that place's keys.
UNKNOWN = "zzzzzzzz"
PLACES = [
    ("a manifest", [], {UNKNOWN: 1}),
    ("a role", ["$defs", "role"], role(**{UNKNOWN: 1})),
    ("a component", ["$defs", "component"], role(components=[{UNKNOWN: 1}])),
    ("a port", ["$defs", "port"], port(**{UNKNOWN: 1})),
    ("a reference", ["$defs", "reference"], role(references=[{UNKNOWN: 1}])),
    ("a target", ["$defs", "target"], target({UNKNOWN: 1})),
]


def read_all(reader, manifests):
    """One line of the reader for each."""
    with tempfile.TemporaryDirectory() as folder:
        files = []
        for i, manifest in enumerate(manifests):
            file = pathlib.Path(folder, f"{i}.json")
            file.write_text(json.dumps(manifest, ensure_ascii=i % 2 == 0), encoding="utf-8")
            files.append(str(file))
        said = subprocess.run([reader, *files], check=True, capture_output=True, text=True, timeout=60).stdout
    lines = said.splitlines()
    assert len(lines) == len(manifests), said
    return lines


class Tap:
    number, failed = 0, False

    def case(self, name, trouble):
        self.number += 1
        self.failed = self.failed or bool(trouble)
        print(f"{'not ok' if trouble else 'ok'} {self.number} - {name}")
        if trouble:
            print(f"#   {trouble}")


def main(schema_file, reader):
    schema = json.loads(pathlib.Path(schema_file).read_text(encoding="utf-8"))
    kind = jsonschema.Draft202012Validator
    kind.check_schema(schema)
    validator = kind(schema)
    tap = Tap()
    for (name, expected, manifest), line in zip(CASES, read_all(reader, [c[2] for c in CASES])):
        got = (validator.is_valid(manifest), line == "ok")
        tap.case(f"{name}: the schema says {'yes' if expected[0] else 'no'}, the reader {'yes' if expected[1] else 'no'}",
                 "" if got == expected else f"schema: {got[0]}, reader: {line}")
    for (name, path, _), line in zip(PLACES, read_all(reader, [p[2] for p in PLACES])):
        at = schema
        for step in path:
            at = at[step]
        keys = set(line.rpartition("there are: ")[2].split(", "))
        tap.case(f"{name} has the same keys in both",
                 "" if keys == set(at["properties"]) else f"{sorted(at['properties'])}; reader: {line}")
    print(f"1..{tap.number}")
    return tap.failed


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
