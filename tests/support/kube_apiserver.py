#!/usr/bin/env python3
"""A small and strict API server for tests: TLS, tokens, resource versions, lists in pages, watches with bookmarks,
optimistic updates, Leases, Events, mutating webhooks. It follows the API's published rules, and refuses what they
forbid; and it misbehaves on order (see Control).

usage: kube_apiserver.py DIRECTORY [--certificates DIR]

DIRECTORY gets `kubeconfig` and `url` when it serves. Orders come over the Unix socket DIRECTORY/control, a JSON object a
line, each answered by one; kube_apiserver.py --order DIRECTORY JSON sends one and prints the answer.
"""
import base64, contextlib, http.client, http.server, json, os, re, secrets, socket, socketserver, ssl, sys, threading, time, urllib.parse, weakref

GROUPS = {
    "": ("v1", {"pods": ("Pod", True), "services": ("Service", True), "events": ("Event", True),
                "replicationcontrollers": ("ReplicationController", True), "namespaces": ("Namespace", False)}),
    "apps": ("v1", {"statefulsets": ("StatefulSet", True), "deployments": ("Deployment", True),
                    "replicasets": ("ReplicaSet", True), "daemonsets": ("DaemonSet", True)}),
    "batch": ("v1", {"jobs": ("Job", True)}),
    "coordination.k8s.io": ("v1", {"leases": ("Lease", True)}),
    "admissionregistration.k8s.io": ("v1", {"mutatingwebhookconfigurations": ("MutatingWebhookConfiguration", False)}),
    "jobset.x-k8s.io": ("v1alpha2", {"jobsets": ("JobSet", True)}),
    "leaderworkerset.x-k8s.io": ("v1", {"leaderworkersets": ("LeaderWorkerSet", True)}),
    "workloads.x-k8s.io": ("v1alpha2", {"rolebasedgroups": ("RoleBasedGroup", True),
                                        "roleinstances": ("RoleInstance", True),
                                        "roleinstancesets": ("RoleInstanceSet", True),
                                        "instancesets": ("InstanceSet", True), "instances": ("Instance", True)}),
}
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
MICRO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
SECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
CHUNK_IDLE_S = 0.05


class Refusal(Exception):
    def __init__(self, code, reason, message, retry_after=None):
        super().__init__(message)
        self.code, self.reason, self.message, self.retry_after = code, reason, message, retry_after

    def status(self):
        return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": self.message,
                "reason": self.reason, "code": self.code}


def invalid(message):
    return Refusal(422, "Invalid", message)


# ---- what is stored ----

class Store:
    """Objects by (group, plural, namespace, name), and every change since the last compaction."""

    def __init__(self):
        self.lock = threading.Condition()
        self.version = 100
        self.floor = 0  # changes up to it are forgotten
        self.objects = {}
        self.history = []  # (version, type, group, plural, namespace, text)
        self.pages = {}

    def key(self, target, name):
        return (target.group, target.plural, target.namespace or "", name)

    def put(self, kind, key, obj):
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        text = json.dumps(obj)
        if kind == "DELETED":
            self.objects.pop(key)
        else:
            self.objects[key] = text
        self.history.append((self.version, kind, key[0], key[1], key[2], text))
        self.lock.notify_all()
        return obj

    def compact(self):
        self.version += 1  # something that nobody follows: also who has heard of everything has to list
        self.floor = self.version
        self.history = []
        self.pages.clear()
        self.lock.notify_all()

    def select(self, target):
        return [text for key, text in sorted(self.objects.items())
                if key[0] == target.group and key[1] == target.plural and
                (target.namespace is None or key[2] == target.namespace)]


class Target:
    """The resource that a path means."""

    def __init__(self, path, absent):
        parts = [urllib.parse.unquote(p) for p in path.split("/")[1:]]
        if parts[:2] == ["api", "v1"]:
            self.group, version, rest = "", "v1", parts[2:]
        elif parts[0] == "apis" and len(parts) >= 3:
            self.group, version, rest = parts[1], parts[2], parts[3:]
        else:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        known = GROUPS.get(self.group)
        if not known or known[0] != version or self.group in absent:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        self.namespace = None
        if len(rest) >= 3 and rest[0] == "namespaces":
            self.namespace, rest = rest[1], rest[2:]
        self.plural = rest[0] if rest else ""
        self.name = rest[1] if len(rest) > 1 else None
        self.sub = rest[2] if len(rest) > 2 else None
        if self.plural not in known[1] or len(rest) > 3 or (self.sub and self.sub != "status"):
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        self.kind, self.is_namespaced = known[1][self.plural]
        self.api = version if not self.group else f"{self.group}/{version}"
        if self.namespace and not self.is_namespaced:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")

    def missing(self, name):
        return Refusal(404, "NotFound", f'{self.plural} "{name}" not found')


# ---- what an object must be ----

def only_keys(obj, allowed, where):
    for key in obj:
        if key not in allowed:
            raise Refusal(400, "BadRequest", f'strict decoding error: unknown field "{where}.{key}"')


def check_lease(obj):
    spec = obj.get("spec", {})
    only_keys(spec, {"holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions"}, "spec")
    if spec.get("leaseDurationSeconds", 1) <= 0:
        raise invalid("spec.leaseDurationSeconds: Invalid value: must be greater than 0")
    if spec.get("leaseTransitions", 0) < 0:
        raise invalid("spec.leaseTransitions: Invalid value: must be greater than or equal to 0")
    if spec.get("holderIdentity") == "":
        raise invalid("spec.holderIdentity: Invalid value: must not be empty")
    for field in ("acquireTime", "renewTime"):
        if field in spec and not MICRO.fullmatch(spec[field]):
            raise Refusal(400, "BadRequest", f"spec.{field}: no MicroTime")


def check_event(obj):
    only_keys(obj, {"apiVersion", "kind", "metadata", "involvedObject", "reason", "message", "type", "firstTimestamp",
                    "lastTimestamp", "count", "source", "reportingComponent", "reportingInstance"}, "Event")
    about = obj.get("involvedObject", {})
    only_keys(about, {"apiVersion", "kind", "namespace", "name", "uid", "resourceVersion", "fieldPath"}, "involvedObject")
    if about.get("namespace", "") != obj["metadata"].get("namespace", ""):
        raise invalid("involvedObject.namespace: does not match event.namespace")
    if obj.get("type") not in ("Normal", "Warning"):
        raise invalid("type: must be Normal or Warning")
    for field in ("firstTimestamp", "lastTimestamp"):
        if not SECOND.fullmatch(obj.get(field, "")):
            raise Refusal(400, "BadRequest", f"{field}: no Time")
    if len(obj.get("message", "")) > 1024:
        raise invalid("message: can have at most 1024 bytes")


def check_pod(obj):
    spec = obj.get("spec") or {}
    if not spec.get("containers"):
        raise invalid("spec.containers: Required value")
    for container in spec["containers"] + spec.get("initContainers", []):
        names = [e["name"] for e in container.get("env", [])]
        if any(not re.fullmatch(r"[-._a-zA-Z][-._a-zA-Z0-9]*", name) for name in names):
            raise invalid("spec.containers.env.name: Invalid value")
        for port in container.get("ports", []):
            if spec.get("hostNetwork") and port.get("hostPort", port["containerPort"]) != port["containerPort"]:
                raise invalid("spec.containers.ports.hostPort: must match `containerPort` when `hostNetwork` is true")
            if spec.get("hostNetwork"):
                port["hostPort"] = port["containerPort"]


def check_annotations(meta):
    for key, value in (meta.get("annotations") or {}).items():
        if not isinstance(value, str) or not re.fullmatch(r"([-a-z0-9.]+/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", key):
            raise invalid(f"metadata.annotations: Invalid value: {key}")


def check_pod_update(old, new):
    def fixed(pod):
        return [[{k: v for k, v in c.items() if k != "image"} for c in pod["spec"].get(which, [])]
                for which in ("containers", "initContainers")]
    if fixed(old) != fixed(new):
        raise invalid("spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`, ...")


CHECKS = {"Lease": check_lease, "Event": check_event, "Pod": check_pod}


def check(target, obj):
    if not isinstance(obj, dict) or obj.get("kind") != target.kind or obj.get("apiVersion") != target.api:
        raise Refusal(400, "BadRequest", f"the object is no {target.kind} of {target.api}")
    meta = obj.setdefault("metadata", {})
    if target.is_namespaced and meta.setdefault("namespace", target.namespace) != target.namespace:
        raise Refusal(400, "BadRequest", "the namespace of the object does not match the namespace on the request")
    check_annotations(meta)
    if target.kind in CHECKS:
        CHECKS[target.kind](obj)


def check_name(name):
    if not NAME.fullmatch(name) or len(name) > 253:
        raise invalid(f'metadata.name: Invalid value: "{name}"')


# ---- webhooks ----

def pointer(doc, path, is_add):
    """The container and the key of an RFC 6901 pointer."""
    if not path.startswith("/"):
        raise ValueError(f"bad pointer {path!r}")
    parts = [p.replace("~1", "/").replace("~0", "~") for p in path[1:].split("/")]
    for part in parts[:-1]:
        doc = doc[int(part)] if isinstance(doc, list) else doc[part]
    last = parts[-1]
    if isinstance(doc, list):
        last = len(doc) if last == "-" and is_add else int(last)
        if not 0 <= last < len(doc) + is_add:
            raise ValueError(f"{path}: beyond the end")
    elif not is_add and last not in doc:
        raise ValueError(f"{path}: not there")
    return doc, last


def apply_patch(obj, patch):
    obj = json.loads(json.dumps(obj))
    for step in patch:
        at, key = pointer(obj, step["path"], step["op"] == "add")
        if step["op"] == "add":
            if isinstance(at, list):
                at.insert(key, step["value"])
            else:
                at[key] = step["value"]
        elif step["op"] == "replace":
            at[key] = step["value"]
        elif step["op"] == "remove":
            del at[key]
        elif step["op"] != "test" or at[key] != step["value"]:
            raise ValueError(f"the patch does not apply: {step}")
    return obj


def is_selected(selector, labels):
    selector = selector or {}
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for e in selector.get("matchExpressions") or []:
        has = e["key"] in labels
        if (e["operator"] == "Exists" and not has) or (e["operator"] == "DoesNotExist" and has) or \
           (e["operator"] == "In" and labels.get(e["key"]) not in e["values"]) or \
           (e["operator"] == "NotIn" and has and labels[e["key"]] in e["values"]):
            return False
    return True


class Admission:
    def __init__(self, server):
        self.server = server

    def hooks(self, target, operation, obj):
        store = self.server.store
        ns = json.loads(store.objects.get(("", "namespaces", "", target.namespace or ""), '{"metadata":{}}'))
        ns_labels = {"kubernetes.io/metadata.name": target.namespace or "", **(ns["metadata"].get("labels") or {})}
        for key, text in sorted(store.objects.items()):
            if key[1] != "mutatingwebhookconfigurations":
                continue
            for hook in json.loads(text).get("webhooks", []):
                if is_selected(hook.get("namespaceSelector"), ns_labels) and \
                   is_selected(hook.get("objectSelector"), obj["metadata"].get("labels") or {}) and \
                   any(operation in r["operations"] and target.group in r["apiGroups"] and
                       target.plural in r["resources"] for r in hook["rules"]):
                    yield hook

    def ask(self, hook, target, operation, obj, old, is_dry):
        url = urllib.parse.urlparse(hook["clientConfig"]["url"])
        context = ssl.create_default_context(cadata=base64.b64decode(hook["clientConfig"]["caBundle"]).decode())
        kind = {"group": target.group, "version": target.api.split("/")[-1], "kind": target.kind}
        resource = {"group": target.group, "version": kind["version"], "resource": target.plural}
        uid = secrets.token_hex(16)
        review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": {
            "uid": uid, "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
            "namespace": target.namespace or "", "operation": operation, "userInfo": {"username": "test"},
            "object": obj, "oldObject": old, "dryRun": is_dry,
            "options": {"kind": f"{operation.title()}Options", "apiVersion": "meta.k8s.io/v1"}}}
        if obj["metadata"].get("name"):
            review["request"]["name"] = obj["metadata"]["name"]
        connection = http.client.HTTPSConnection(url.hostname, url.port, context=context,
                                                 timeout=hook.get("timeoutSeconds", 10))
        try:
            connection.request("POST", f"{url.path or '/'}?timeout={hook.get('timeoutSeconds', 10)}s",
                               json.dumps(review), {"Content-Type": "application/json", "Accept": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise ValueError(f"HTTP {answer.status}: {text[:200]!r}")
            result = json.loads(text)
            response = result["response"]
            if result.get("kind") != "AdmissionReview" or result.get("apiVersion") != "admission.k8s.io/v1" or \
               response.get("uid") != uid:
                raise ValueError("no answer to the request")
            if not response["allowed"]:
                status = response.get("status") or {}
                raise Refusal(status.get("code") or 400, status.get("reason") or "", f'admission webhook "{hook["name"]}" '
                              f'denied the request: {status.get("message", "without explanation")}')
            if not response.get("patch"):
                return obj
            if response.get("patchType") != "JSONPatch":
                raise ValueError("a patch of no known type")
            return apply_patch(obj, json.loads(base64.b64decode(response["patch"], validate=True)))
        finally:
            connection.close()

    def one(self, hook, *args):
        try:
            return self.ask(hook, *args)
        except Refusal:
            raise
        except Exception as e:  # whatever: the policy decides
            if hook.get("failurePolicy", "Fail") == "Ignore":
                return args[2]
            raise Refusal(500, "InternalError", f'Internal error occurred: failed calling webhook "{hook["name"]}": {e}')

    def run(self, target, operation, obj, old, is_dry):
        if target.group == "admissionregistration.k8s.io":
            return obj
        hooks = list(self.hooks(target, operation, obj))
        first = {}
        for i, hook in enumerate(hooks):
            obj = self.one(hook, target, operation, obj, old, is_dry)
            first[i] = json.dumps(obj, sort_keys=True)
        for i, hook in enumerate(hooks):  # once more, where others changed the object since
            if hook.get("reinvocationPolicy") == "IfNeeded" and first[i] != json.dumps(obj, sort_keys=True):
                obj = self.one(hook, target, operation, obj, old, is_dry)
        if self.server.orders.get("reinvoke"):  # as when a later plugin has changed it
            for hook in hooks:
                if hook.get("reinvocationPolicy") == "IfNeeded":
                    obj = self.one(hook, target, operation, obj, old, is_dry)
        return obj


# ---- requests ----

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def answer(self, code, obj, headers=()):
        text = obj if isinstance(obj, bytes) else json.dumps(obj).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        for key, value in headers:
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(text)

    def body(self):
        n = int(self.headers.get("Content-Length") or 0)
        return self.rfile.read(n) if n else b""

    def do_any(self):
        url = urllib.parse.urlparse(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query)))
        raw = self.body()
        server = self.server
        try:
            self.check_caller()
            server.count(f"{self.command} {url.path}{' watch' if self.query.get('watch') else ''}")
            server.misbehave(self, f"{self.command} {self.path}")
            if re.fullmatch("/apis/[^/]+", url.path) and self.command == "GET":
                self.discover(url.path.split("/")[2])
                return
            service = re.fullmatch("/api/v1/namespaces/([^/]+)/services/([^/]+)/proxy(/.*)", url.path)
            if service and self.command == "GET":
                self.proxy(*service.groups())
                return
            target = Target(url.path, server.orders.get("absent", []))
            server.allow(self.command, target, self.query)
            code, obj = self.serve(target, raw)
            if obj is not None:
                self.answer(code, obj)
        except Refusal as refusal:
            extra = [("Retry-After", str(refusal.retry_after))] if refusal.retry_after is not None else []
            self.answer(refusal.code, refusal.status(), extra)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_any

    def check_caller(self):
        token = self.headers.get("Authorization", "")
        cert = self.connection.getpeercert() if hasattr(self.connection, "getpeercert") else None
        if token != f"Bearer {self.server.token}" and not (cert and not token):
            raise Refusal(401, "Unauthorized", "Unauthorized")
        if "json" not in (self.headers.get("Accept") or "*/*").replace("*/*", "json"):
            raise Refusal(406, "NotAcceptable", "only JSON is spoken here")

    def discover(self, group):
        if group not in GROUPS or not group or group in self.server.orders.get("absent", []):
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        version = {"groupVersion": f"{group}/{GROUPS[group][0]}", "version": GROUPS[group][0]}
        self.answer(200, {"kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": [version],
                          "preferredVersion": version})

    def proxy(self, namespace, service, path):
        if ["get", "services/proxy"] in self.server.orders.get("deny", []):
            raise Refusal(403, "Forbidden", 'services is forbidden: User "test" cannot get resource "services/proxy"')
        port = self.server.orders.get("services", {}).get(f"{namespace}/{service}")
        if not port:
            raise Refusal(503, "ServiceUnavailable", f'no endpoints available for service "{service}"')
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        self.answer(answer.status, answer.read())
        connection.close()

    def serve(self, target, raw):
        verb = self.command
        if verb in ("POST", "PUT") and self.headers.get("Content-Type", "").split(";")[0] != "application/json":
            raise Refusal(415, "UnsupportedMediaType", "the body of the request was in an unknown format")
        if verb == "GET" and target.name is None:
            if self.query.get("watch") in ("1", "true"):
                return 200, self.watch(target)
            return 200, self.list(target)
        if target.is_namespaced and target.namespace is None:
            raise Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
        if verb == "GET":
            return 200, self.get(target)
        if verb == "POST" and target.name is None:
            return 201, self.create(target, self.parse(raw))
        if verb == "PUT" and target.name:
            return 200, self.update(target, self.parse(raw))
        if verb == "PATCH" and target.name:
            return 200, self.merge(target, self.parse(raw))
        if verb == "DELETE" and target.name:
            return 200, self.delete(target)
        raise Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")

    def parse(self, raw):
        try:
            return json.loads(raw)
        except ValueError as e:
            raise Refusal(400, "BadRequest", f"the body is no JSON: {e}")

    def get(self, target):
        with self.server.store.lock:
            text = self.server.store.objects.get(self.server.store.key(target, target.name))
        if text is None:
            raise target.missing(target.name)
        return text.encode()

    # -- lists --

    def list(self, target):
        store = self.server.store
        only = {"limit", "continue", "resourceVersion", "resourceVersionMatch", "timeoutSeconds", "watch"}
        if set(self.query) - only:
            raise Refusal(400, "BadRequest", f"unknown parameters: {set(self.query) - only}")
        if self.query.get("continue") and self.query.get("resourceVersion"):
            raise Refusal(400, "BadRequest", "specifying resource version is not allowed when using continue")
        limit = int(self.query.get("limit") or 0)
        with store.lock:
            if self.query.get("continue"):
                page = store.pages.pop(self.query["continue"], None)
                if page is None or self.server.take_order("expire_continue"):
                    raise Refusal(410, "Expired", "The provided continue parameter is too old to display a consistent "
                                  "list result.")
                version, items = page
            else:
                version, items = store.version, store.select(target)
            left = items[limit:] if limit else []
            meta = {"resourceVersion": str(version)}
            if left:
                meta["continue"] = base64.b64encode(secrets.token_bytes(40)).decode() + "+/="
                meta["remainingItemCount"] = len(left)
                store.pages[meta["continue"]] = (version, left)
        shown = items[:limit] if limit else items
        # As the real one: items of a list have neither kind nor apiVersion.
        bare = [re.sub(r'^\{"apiVersion": "[^"]*", "kind": "[^"]*", ', "{", text) for text in shown]
        return (f'{{"kind": "{target.kind}List", "apiVersion": "{target.api}", "metadata": {json.dumps(meta)}, '
                f'"items": [{", ".join(bare)}]}}').encode()

    # -- watches --

    def watch(self, target):
        store = self.server.store
        asked = self.query.get("resourceVersion", "")
        until = time.monotonic() + int(self.query.get("timeoutSeconds") or 1800)
        if asked and not asked.isdigit():
            raise Refusal(400, "BadRequest", f"Invalid value: {asked!r}")
        at = int(asked or 0)
        with store.lock:
            if at > store.version:
                raise Refusal(504, "Timeout", "Too large resource version", retry_after=1)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        cuts = self.server.orders.get("cuts", 0)
        self.close_connection = True
        bookmark = time.monotonic()
        while time.monotonic() < until and self.server.orders.get("cuts", 0) == cuts:
            with store.lock:
                is_old = at < store.floor
                found = [h for h in store.history if h[0] > at] if not is_old else []
                if not found and not is_old:
                    store.lock.wait(CHUNK_IDLE_S)
            if is_old:
                gone = Refusal(410, "Expired", f"too old resource version: {at} ({store.floor})")
                self.event("ERROR", json.dumps(gone.status()))
                break
            for version, kind, group, plural, namespace, text in found:
                at = version
                if (group, plural) == (target.group, target.plural) and target.namespace in (None, namespace) and \
                   not self.server.orders.get("deaf"):
                    self.event(kind, text)
            if self.query.get("allowWatchBookmarks") == "true" and time.monotonic() - bookmark > 1:
                bookmark = time.monotonic()
                self.event("BOOKMARK", json.dumps({"kind": target.kind, "apiVersion": target.api,
                                                   "metadata": {"resourceVersion": str(at), "creationTimestamp": None}}))
        if self.server.orders.get("cuts", 0) == cuts:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.connection.close()

    def event(self, kind, text):
        line = f'{{"type":"{kind}","object":{text}}}\n'.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        self.wfile.flush()

    # -- changes --

    def create(self, target, obj):
        check(target, obj)
        is_dry = self.query.get("dryRun") == "All"
        obj = self.server.admission.run(target, "CREATE", obj, None, is_dry)
        check(target, obj)
        return self.server.insert(target, obj, is_dry)

    def update(self, target, obj):
        check(target, obj)
        store = self.server.store
        with store.lock:
            old = json.loads(store.objects.get(store.key(target, target.name)) or "null")
        if old is None:
            raise target.missing(target.name)
        if obj["metadata"].get("name") != target.name:
            raise Refusal(400, "BadRequest", "the name of the object does not match the name on the URL")
        asked = obj["metadata"].get("resourceVersion", "")
        if not asked and target.kind == "Lease":
            raise invalid("metadata.resourceVersion: Invalid value: must be specified for an update")
        obj = self.server.admission.run(target, "UPDATE", obj, old, False)
        check(target, obj)
        if target.kind == "Pod":
            check_pod_update(old, obj)
        return self.replace(target, obj, asked)

    def replace(self, target, obj, asked):
        store = self.server.store
        with store.lock:
            key = store.key(target, target.name)
            now = json.loads(store.objects.get(key) or "null")
            if now is None:
                raise target.missing(target.name)
            if asked and asked != now["metadata"]["resourceVersion"]:
                raise Refusal(409, "Conflict", f'Operation cannot be fulfilled on {target.plural} "{target.name}": the '
                              "object has been modified; please apply your changes to the latest version and try again")
            for field in ("uid", "creationTimestamp"):
                obj["metadata"][field] = now["metadata"][field]
            return store.put("MODIFIED", key, obj)

    def merge(self, target, patch):
        store = self.server.store
        with store.lock:
            old = json.loads(store.objects.get(store.key(target, target.name)) or "null")
        if old is None:
            raise target.missing(target.name)

        def over(base, more):
            if not isinstance(more, dict):
                return more
            base = dict(base) if isinstance(base, dict) else {}
            for key, value in more.items():
                if value is None:
                    base.pop(key, None)
                else:
                    base[key] = over(base.get(key), value)
            return base
        obj = over(old, patch)
        if not target.sub:
            obj = self.server.admission.run(target, "UPDATE", obj, old, False)
            if target.kind == "Pod":
                check_pod_update(old, obj)
        return self.replace(target, obj, old["metadata"]["resourceVersion"])

    def delete(self, target):
        store = self.server.store
        with store.lock:
            key = store.key(target, target.name)
            if key not in store.objects:
                raise target.missing(target.name)
            return store.put("DELETED", key, json.loads(store.objects[key]))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, address, context, certificates, token):
        super().__init__(address, Handler, bind_and_activate=True)
        self.context, self.certificates, self.token = context, certificates, token
        self.store = Store()
        self.admission = Admission(self)
        self.orders = {}
        self.counts = {}
        self.order_lock = threading.Lock()
        self.sockets = weakref.WeakSet()

    def get_request(self):
        sock, address = super().get_request()
        sock.settimeout(60)
        sock = self.context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
        self.sockets.add(sock)
        return sock, address

    def show(self, name):
        self.context.load_cert_chain(os.path.join(self.certificates, f"{name}.cert"),
                                     os.path.join(self.certificates, f"{name}.key"))
        for sock in list(self.sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], (OSError, ValueError)):
            super().handle_error(request, client_address)

    def count(self, what):
        with self.order_lock:
            self.counts[what] = self.counts.get(what, 0) + 1

    def take_order(self, name):
        with self.order_lock:
            left = self.orders.get(name, 0)
            if left > 0:
                self.orders[name] = left - 1
            return left > 0

    def misbehave(self, handler, line):
        with self.order_lock:
            for rule in self.orders.get("fail", []):
                if rule["times"] != 0 and re.search(rule["match"], line):
                    rule["times"] -= 1
                    break
            else:
                return
        if rule.get("slow"):
            time.sleep(rule["slow"])
        if rule.get("status"):
            raise Refusal(rule["status"], "InternalError", "fails on request", rule.get("retryAfter"))
        if rule.get("bytes"):
            handler.answer(200, b" " * rule["bytes"])
            raise BrokenPipeError
        if rule.get("cut"):
            handler.connection.close()
            raise BrokenPipeError

    def allow(self, verb, target, query):
        verb = {"GET": "get" if target.name else "watch" if query.get("watch") else "list", "POST": "create",
                "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[verb]
        if [verb, target.plural] in self.orders.get("deny", []):
            raise Refusal(403, "Forbidden", f'{target.plural} is forbidden: User "test" cannot {verb} resource')

    def insert(self, target, obj, is_dry=False):
        meta = obj["metadata"]
        if "resourceVersion" in meta:
            raise Refusal(400, "BadRequest", "resourceVersion should not be set on objects to be created")
        if not meta.get("name"):
            if not meta.get("generateName"):
                raise invalid("metadata.name: Required value: name or generateName is required")
            meta["name"] = meta["generateName"] + "".join(secrets.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))
        check_name(meta["name"])
        meta["uid"] = "-".join(secrets.token_hex(n) for n in (4, 2, 2, 2, 6))
        meta["creationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ordered = {"apiVersion": target.api, "kind": target.kind, **{k: v for k, v in obj.items()
                                                                      if k not in ("apiVersion", "kind")}}
        with self.store.lock:
            key = self.store.key(target, meta["name"])
            if key in self.store.objects:
                raise Refusal(409, "AlreadyExists", f'{target.plural} "{meta["name"]}" already exists')
            if is_dry:
                return ordered
            return self.store.put("ADDED", key, ordered)


# ---- orders ----

class Control(socketserver.StreamRequestHandler):
    """An order is an object with one of these: compact, cut (all streams, without an end), fail ([{match, times, status |
    cut | slow, retryAfter}]; times below 0: for ever), deny ([[verb, plural]]), absent ([group]), deaf (streams that report
    no changes), services ({NAMESPACE/SERVICE:PORT: the number of the port here}, for their proxy), expire_continue (times), insert ([object], past admission), counts, dump (plural), reinvoke, token (the only one that is good from now on),
    certificate (the name of the one that is shown from now on; all connections end)."""

    def handle(self):
        for line in self.rfile:
            order = json.loads(line)
            try:
                result = self.obey(order)
            except Refusal as refusal:
                result = refusal.status()
            self.wfile.write(json.dumps(result).encode() + b"\n")

    def obey(self, order):
        server = self.server.api
        store = server.store
        result = {}
        with store.lock:
            if order.get("compact"):
                store.compact()
            if order.get("cut"):
                server.orders["cuts"] = server.orders.get("cuts", 0) + 1
                store.lock.notify_all()
        with server.order_lock:
            for key in ("fail", "deny", "absent", "deaf", "expire_continue", "reinvoke", "services"):
                if key in order:
                    server.orders[key] = order[key]
            if "token" in order:
                server.token = order["token"]
            if "certificate" in order:
                server.show(order["certificate"])
            if order.get("counts"):
                result = dict(server.counts)
        for obj in order.get("insert", []):
            group, _, _ = obj["apiVersion"].rpartition("/")
            plural = next(p for p, (kind, _) in GROUPS[group][1].items() if kind == obj["kind"])
            root = f"/apis/{obj['apiVersion']}" if group else "/api/v1"
            ns = obj["metadata"].get("namespace")
            server.insert(Target(f"{root}/namespaces/{ns}/{plural}" if ns else f"{root}/{plural}", []), obj)
        if "dump" in order:
            with store.lock:
                result = [json.loads(t) for k, t in sorted(store.objects.items()) if k[1] == order["dump"]]
        return result


class ControlServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


def send_order(directory, order):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(60)
        s.connect(os.path.join(directory, "control"))
        s.sendall(order.encode().replace(b"\n", b" ") + b"\n")
        print(s.makefile().readline(), end="")


def main():
    if sys.argv[1] == "--order":
        send_order(sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else sys.stdin.read())
        return
    directory = sys.argv[1]
    certificates = sys.argv[3] if len(sys.argv) > 3 else os.path.join(directory, "tls")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(certificates, "server.cert"), os.path.join(certificates, "server.key"))
    context.load_verify_locations(os.path.join(certificates, "ca.cert"))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    token = secrets.token_hex(16)
    server = Server(("127.0.0.1", 0), context, certificates, token)
    control = ControlServer(os.path.join(directory, "control"), Control)
    control.api = server
    url = f"https://127.0.0.1:{server.server_address[1]}"
    with open(os.path.join(directory, "token"), "w", encoding="ascii") as f:
        f.write(token + "\n")
    with open(os.path.join(directory, "kubeconfig.part"), "w", encoding="ascii") as f:
        json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "test",
                   "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "dibs"}}],
                   "clusters": [{"name": "test", "cluster": {
                       "server": url, "certificate-authority": os.path.join(certificates, "ca.cert")}}],
                   "users": [{"name": "test", "user": {"tokenFile": "token"}}]}, f)
    os.rename(os.path.join(directory, "kubeconfig.part"), os.path.join(directory, "kubeconfig"))
    with open(os.path.join(directory, "url.part"), "w", encoding="ascii") as f:
        f.write(url)
    os.rename(os.path.join(directory, "url.part"), os.path.join(directory, "url"))
    threading.Thread(target=control.serve_forever, daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    main()
