# SPDX-License-Identifier: MIT
"""A daemon's API by its own description: requests over its sockets, and answers checked against /openapi.json."""
import copy
import http.client
import json
import re
import socket
import ssl
import sys

import jsonschema


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.path)


def tls(port, cert):
    return http.client.HTTPSConnection("127.0.0.1", int(port), timeout=20, context=ssl.create_default_context(cafile=cert))


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {k.lower(): v for k, v in response.getheaders()}
        self.type = self.headers.get("content-type", "").split(";")[0]
        self.text = response.read().decode()
        self.json = json.loads(self.text) if self.type.endswith("json") and self.text else None


def strict(schema):
    """The same, but no member that is not described."""
    if isinstance(schema, list):
        return [strict(x) for x in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {k: strict(v) for k, v in schema.items()}
    if isinstance(schema.get("properties"), dict):
        schema.setdefault("additionalProperties", False)
    return schema


class Description:
    """operations: {operationId: (METHOD, path, operation)}; seen: the statuses that came, {operationId: set}."""

    def __init__(self, api):
        self.api = api
        self.strict = strict({"components": {"schemas": api["components"]["schemas"]}})
        self.operations = {}
        self.seen = {}
        self.validators = {}
        for path, item in api["paths"].items():
            for method, operation in item.items():
                self.operations[operation["operationId"]] = (method.upper(), path, operation)

    def resolve(self, thing):
        while "$ref" in thing:
            at = self.api
            for part in thing["$ref"].split("/")[1:]:
                at = at[part]
            thing = at
        return thing

    def validator(self, schema):
        key = json.dumps(schema)
        if key not in self.validators:
            whole = {**self.strict, **strict(copy.deepcopy(schema))}
            cls = jsonschema.validators.Draft202012Validator
            cls.check_schema(whole)
            self.validators[key] = cls(whole)
        return self.validators[key]

    def parameters(self, operation, where):
        return [p for p in map(self.resolve, operation.get("parameters", [])) if p["in"] == where]

    def validate(self, value, schema, what):
        errors = [f"{list(e.absolute_path)}: {e.message}" for e in self.validator(schema).iter_errors(value)]
        if errors:
            sys.exit(f"{what}: not as described\n" + "\n".join(errors) + f"\n{json.dumps(value)[:2000]}")

    def check(self, oid, answer, head=False):
        """One real answer against what the description says of it; `head`: of a HEAD, without its body."""
        method, path, operation = self.operations[oid]
        what = f"{oid} ({method} {path}): {answer.status}"
        self.seen.setdefault(oid, set()).add(str(answer.status))
        if str(answer.status) not in operation["responses"]:
            sys.exit(f"{what} is not described\n{answer.text[:500]}")
        response = self.resolve(operation["responses"][str(answer.status)])
        for name, header in response.get("headers", {}).items():
            value = answer.headers.get(name.lower())
            assert value is not None, f"{what}: no header {name}"
            self.validate(int(value) if header["schema"].get("type") == "integer" else value, header["schema"], f"{what} {name}")
        content = response.get("content")
        if head or not content:
            assert answer.text == "", f"{what} has a body: {answer.text}"
        if not content:
            return answer
        assert answer.type in content, f"{what}: {answer.type} is not described\n{answer.text[:500]}"
        if head:
            return answer
        schema = content[answer.type]["schema"]
        self.validate(answer.text if answer.json is None else answer.json, schema, what)
        if answer.status >= 400 and answer.json is not None:
            assert answer.json["status"] == answer.status, f"{what}: the body says {answer.json['status']}"
        return answer


def path_of(path, parts):
    return re.sub(r"\{(\w+)\}", lambda m: str(parts[m.group(1)]), path)
