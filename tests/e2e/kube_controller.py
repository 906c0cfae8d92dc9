#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A small cluster: a strict API server, replicas of the webhook, controllers, one ledger; and what must be so in it.

    kube_controller.py CASE DIBS DIRECTORY LEDGER      exit 0 when all holds

DIRECTORY has the certificates (support/etcd-certificates) in tls/. Everything that is started here ends with this process.
"""
import base64
import collections
import ctypes
import hashlib
import hmac
import http.client
import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse

SUPPORT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support")
PATIENCE_S = 60  # a machine may stand still for seconds
IDLE_S = 20  # the server closes what was not used for longer
LONG = os.environ.get("DIBS_TEST_LONG") == "1"
KEY = "0123456789abcdef0123456789abcdef"  # of the installation, which has the id "test"
PORTS = {"allocations": [{"name": "http", "env": "PORT"}]}
PLURALS = {"Namespace": "/api/v1/namespaces", "Pod": "/api/v1/namespaces/{}/pods", "Service": "/api/v1/namespaces/{}/services",
           "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
           "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
           "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets", "Job": "/apis/batch/v1/namespaces/{}/jobs",
           "JobSet": "/apis/jobset.x-k8s.io/v1alpha2/namespaces/{}/jobsets",
           "LeaderWorkerSet": "/apis/leaderworkerset.x-k8s.io/v1/namespaces/{}/leaderworkersets",
           "RoleBasedGroup": "/apis/workloads.x-k8s.io/v1alpha2/namespaces/{}/rolebasedgroups",
           "RoleInstance": "/apis/workloads.x-k8s.io/v1alpha2/namespaces/{}/roleinstances",
           "Lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases"}


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def until(what, condition, patience=PATIENCE_S):
    end = time.monotonic() + patience
    while True:
        found = condition()
        if found:
            if os.environ.get("DIBS_TEST_VERBOSE"):
                print(f"# {what}: after {time.monotonic() + patience - end:.2f} s", file=sys.stderr)
            return found
        assert time.monotonic() < end, f"not within {patience} s: {what}"
        time.sleep(0.02)


class Process:
    def __init__(self, world, name, arguments, env=None):
        self.name = name
        self.log = os.path.join(world.directory, f"{name}.log")
        with open(self.log, "ab") as log:
            self.child = subprocess.Popen(arguments, stdout=log, stderr=log, preexec_fn=die_with_parent,
                                          env={**os.environ, **(env or {})})

    def end(self, how=signal.SIGKILL):
        if self.child.poll() is None:
            self.child.send_signal(how)
        self.child.wait(PATIENCE_S)

    def stop(self):
        self.end(signal.SIGTERM)
        assert self.child.returncode == 0, (self.name, self.child.returncode, open(self.log).read()[-2000:])

    def is_alive(self):
        return self.child.poll() is None


class World:
    def __init__(self, dibs, directory, ledger):
        self.dibs, self.directory, self.ledger = dibs, directory, ledger
        self.tls = os.path.join(directory, "tls")
        self.local = threading.local()
        self.env = {"DIBS_LEDGER": ledger, "DIBS_SOCKET": os.path.join(directory, "admin.sock")}
        self.hooks = {}
        self.installation = self.install("test")
        # Commands reach the ledger through a daemon.
        Process(self, "daemon", [dibs, "serve", "--socket", os.path.join(directory, "dibs.sock"), "--admin-socket",
                                 self.env["DIBS_SOCKET"]], env={"DIBS_LEDGER": ledger})
        until("the daemon serves", lambda: os.path.exists(self.env["DIBS_SOCKET"]))
        Process(self, "server", [os.path.join(SUPPORT, "kube_apiserver.py"), directory])
        until("the API server serves", lambda: os.path.exists(os.path.join(directory, "url")))
        self.url = urllib.parse.urlparse(open(os.path.join(directory, "url")).read())
        self.token = open(os.path.join(directory, "token")).read().strip()

    # -- the API server --

    def call(self, method, path, body=None):
        for attempt in range(3):
            if time.monotonic() - getattr(self.local, "used", 0) > IDLE_S:
                self.local.connection = None
            self.local.used = time.monotonic()
            if not getattr(self.local, "connection", None):
                context = ssl.create_default_context(cafile=os.path.join(self.tls, "ca.cert"))
                self.local.connection = http.client.HTTPSConnection(self.url.hostname, self.url.port, timeout=PATIENCE_S,
                                                                    context=context)
            try:
                kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
                self.local.connection.request(method, path, body=json.dumps(body) if body is not None else None,
                                              headers={"Content-Type": kind, "Authorization": f"Bearer {self.token}"})
                answer = self.local.connection.getresponse()
                return answer.status, json.loads(answer.read())
            except (http.client.HTTPException, ConnectionError):
                self.local.connection = None
                if attempt == 2 or method != "GET":
                    raise

    def path(self, kind, ns, name=None):
        return PLURALS[kind].format(ns) + (f"/{name}" if name else "")

    def create(self, obj, ns="shop"):
        status, got = self.call("POST", self.path(obj["kind"], ns), obj)
        assert status == 201, got
        return got

    def delete(self, kind, name, ns="shop"):
        status, got = self.call("DELETE", self.path(kind, ns, name))
        assert status == 200, got

    def patch(self, kind, name, patch, ns="shop", sub=""):
        status, got = self.call("PATCH", self.path(kind, ns, name) + sub, patch)
        assert status == 200, got
        return got

    def order(self, **order):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE_S)
            s.connect(os.path.join(self.directory, "control"))
            s.sendall(json.dumps(order).encode() + b"\n")
            return json.loads(s.makefile().readline())

    # -- dibs --

    def install(self, ident):
        path = os.path.join(self.directory, f"installation.{ident}")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as f:
            f.write(f"id {ident}\nkey {KEY}\n")
        return path

    def claims(self):
        got = subprocess.run([self.dibs, "ls", "--all", "--pool", "kube", "--json"], capture_output=True, text=True,
                             env={**os.environ, **self.env}, timeout=PATIENCE_S)
        assert got.returncode == 0, got.stderr
        return json.loads(got.stdout)

    def arrive(self, n):
        """What a controller or a webhook commits reaches the daemon, and so `dibs ls`, by a watch."""
        until(f"{n} claims arrive", lambda: len({c["port"] for c in self.claims()}) == n)

    def dibs_does(self, *words):
        got = subprocess.run([self.dibs, *words], capture_output=True, text=True, env={**os.environ, **self.env},
                             timeout=PATIENCE_S)
        assert got.returncode == 0, got.stderr
        return got.stdout

    def of(self, claims, *parts):
        return [c for c in claims if all(p in f'{c["principal"]}/{c["name"]}' for p in parts)]

    def free_port(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            return s.getsockname()[1]

    def controller(self, name="controller", is_awaited=True, **more):
        port = self.free_port()
        p = Process(self, name, [self.dibs, "kube", "controller", "--kubeconfig",
                                 os.path.join(self.directory, "kubeconfig"), "--metrics-listen", f"127.0.0.1:{port}",
                                 "--installation", more.get("installation", self.installation),
                                 *more.get("flags", [])], {**self.env, "DIBS_NODE": name, **more.get("env", {})})
        p.port = port
        if is_awaited:
            self.ready(p)
        return p

    def ready(self, p):
        until(f"{p.name} is ready", lambda: self.get(p, "/readyz")[0] == 200 or not p.is_alive())
        assert p.is_alive(), open(p.log).read()

    def get(self, p, path, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", p.port, timeout=PATIENCE_S)
        try:
            connection.request("GET", path, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def metric(self, p, name):
        for line in self.get(p, "/metrics")[1].splitlines():
            if line.startswith(name + " "):
                return float(line.split()[-1])
        return None

    def hook(self, name, *flags):
        """A replica of the webhook. Two of them are one Service: the API server asks either."""
        cert = os.path.join(self.tls, "server")
        port = self.hooks[name] if name in self.hooks else self.free_port()
        p = Process(self, name, [self.dibs, "kube", "webhook", "--listen", f"127.0.0.1:{port}", "--tls-cert",
                                 cert + ".cert", "--tls-key", cert + ".key", "--installation", self.installation,
                                 "--pending", "1m", *flags],
                    {**self.env, "DIBS_NODE": name})
        p.port = port
        self.hooks[name] = port
        path = "/healthz" if flags else "/readyz"
        until(f"{name} serves", lambda: self.is_up(port, path) or not p.is_alive())
        assert p.is_alive(), open(p.log).read()
        return p

    def is_up(self, port, path="/readyz"):
        context = ssl.create_default_context(cafile=os.path.join(self.tls, "ca.cert"))
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_S, context=context)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def register(self, name="hook", has_instances=False):
        """The webhook configuration, at the replica of that name; also for RBG's role instances."""
        bundle = base64.b64encode(open(os.path.join(self.tls, "ca.cert"), "rb").read()).decode()
        root = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        status, got = self.call("POST", root, {
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": name}, "webhooks": [{
                "name": f"{name}.dibs.dev", "admissionReviewVersions": ["v1"], "sideEffects": "NoneOnDryRun",
                "reinvocationPolicy": "IfNeeded", "failurePolicy": "Fail", "timeoutSeconds": 10,
                "objectSelector": {"matchLabels": {"hook": name}} if name != "hook" else {},
                "clientConfig": {"url": f"https://127.0.0.1:{self.hooks[name]}/mutate", "caBundle": bundle},
                "rules": [{"operations": ["CREATE", "UPDATE"], "apiGroups": ["", "workloads.x-k8s.io"][:1 + has_instances],
                           "apiVersions": ["*"], "resources": ["pods", "roleinstances"][:1 + has_instances]}]}]})
        assert status == 201, got


# ---- objects ----

def pod(name=None, config=PORTS, owner=None, labels=None, generate=None, key="dibs.dev/ports"):
    meta = {"annotations": {key: json.dumps(config)}} if config else {}
    if name:
        meta["name"] = name
    if generate:
        meta["generateName"] = generate
    if labels:
        meta["labels"] = labels
    if owner:
        kind, owner_name = owner
        meta["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": kind, "name": owner_name, "uid": "u-" + owner_name,
                                    "controller": True}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [{"name": "main", "image": "x"}]}}


def workload(kind, name, replicas=1, labels=None, api="apps/v1"):
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": {
        "replicas": replicas, "template": {"metadata": {"labels": labels or {}}}}}


def env(obj, name="PORT"):
    found = {e["value"] for c in obj["spec"]["containers"] for e in c.get("env", []) if e["name"] == name}
    assert len(found) == 1, obj
    return int(found.pop())


def assigned(ns, name, port, keeper="Pod"):
    """A pod that has its port already, as if a webhook had been here."""
    ident = secrets.token_hex(16)
    claim = f"Pod.{name}/{name}/~{ident}/-/http"
    obj = pod(name, None)
    obj["metadata"]["namespace"] = ns
    text = json.dumps([{"claim": claim, "port": port, "protocols": ["TCP"], "kind": keeper}])
    statement = "".join(f"{part}\0" for part in ("dibs.dev/assigned 1", "test", f"ns:{ns}", ident, text))
    obj["metadata"]["annotations"] = {
        "dibs.dev/claim": ident, "dibs.dev/assigned": text,
        "dibs.dev/signature": hmac.new(KEY.encode(), statement.encode(), hashlib.sha256).hexdigest()}
    return obj


def one_cluster(world, **more):
    world.hook("hook")
    world.register()
    return world.controller(**more)


# ---- cases ----

def case_pods(world):
    controller = one_cluster(world)
    first = world.create(pod("one"))
    port = env(first)
    until("it is confirmed", lambda: [c for c in world.claims() if c["port"] == port and not c["holder"]])

    # A copy with everything that the first one carries.
    copy = json.loads(json.dumps(first))
    copy["metadata"] = {"name": "two", "annotations": first["metadata"]["annotations"]}
    second = world.create(copy)
    assert env(second) != port
    # A dry run claims nothing.
    world.arrive(2)
    status, _ = world.call("POST", world.path("Pod", "shop") + "?dryRun=All", pod("dry"))
    assert status == 201 and len(world.claims()) == 2

    # A manifest with a value of its own for the variable is applied twice.
    own = pod("own")
    own["spec"]["containers"][0]["env"] = [{"name": "PORT", "value": "8080"}]
    given = world.create(own)
    again = world.patch("Pod", "own", {"spec": own["spec"]})
    assert env(again) == env(given) != 8080
    status, got = world.call("PATCH", world.path("Pod", "shop", "own"), {"metadata": {"annotations": {"dibs.dev/claim": None}}})
    assert (status, got["reason"]) == (422, "Invalid"), got
    world.delete("Pod", "own")
    until("it has ended", lambda: len(world.claims()) == 2)

    # Pods of a Deployment have no name when they are admitted.
    labels = {"pod-template-hash": "5d8f"}
    world.create(workload("Deployment", "front"))
    many = [world.create(pod(None, generate="front-5d8f-", owner=("ReplicaSet", "front-5d8f"), labels=labels))
            for _ in range(3)]
    assert len({env(p) for p in many + [first, second]}) == 5
    world.arrive(5)
    until("all are confirmed", lambda: not [c for c in world.claims() if c["holder"]])
    # A finished one gives back, a deleted one gives back; the others keep.
    world.patch("Pod", many[0]["metadata"]["name"], {"status": {"phase": "Succeeded"}}, sub="/status")
    world.delete("Pod", many[1]["metadata"]["name"])
    world.delete("Pod", "one")
    kept = {env(many[2]), env(second)}
    until("three have ended", lambda: {c["port"] for c in world.claims()} == kept)
    controller.stop()


def case_named(world):
    controller = one_cluster(world, env={"DIBS_NODE": "hook"})  # both on one node
    config = {"allocations": [{"name": "http", "env": "PORT"}, {"name": "gossip", "env": "GOSSIP", "scope": "RoleScoped"}]}
    world.create(workload("StatefulSet", "web", 2))
    first = world.create(pod("web-0", config, owner=("StatefulSet", "web")))
    second = world.create(pod("web-1", config, owner=("StatefulSet", "web")))
    ports, shared = {env(first), env(second)}, env(first, "GOSSIP")
    assert len(ports) == 2 and env(second, "GOSSIP") == shared
    until("all are confirmed", lambda: len(world.claims()) == 3 and not [c for c in world.claims() if c["holder"]])

    lists = world.metric(controller, 'dibs_kube_lists_total{kind="Pod"}')
    world.delete("Pod", "web-0")
    world.create(assigned("other", "mark", 20500), "other")  # something that ends, so that lists are looked at
    until("the mark is there", lambda: world.of(world.claims(), "ns:other"))
    world.delete("Pod", "mark", "other")
    until("the mark has ended", lambda: not world.of(world.claims(), "ns:other"))
    assert world.metric(controller, 'dibs_kube_lists_total{kind="Pod"}') > lists
    time.sleep(3.2)  # a webhook that was not asked for longer than a call of the ledger may last
    again = world.create(pod("web-0", config, owner=("StatefulSet", "web")))
    assert env(again) == env(first) and env(again, "GOSSIP") == shared

    world.delete("Pod", "web-1")
    world.patch("StatefulSet", "web", {"spec": {"replicas": 1}})
    until("what was scaled away has ended", lambda: {c["port"] for c in world.claims()} == {env(first), shared})
    world.delete("Pod", "web-0")
    world.patch("StatefulSet", "web", {"spec": {"replicas": 0}})
    until("the role's port stays with its object", lambda: [c["port"] for c in world.claims()] == [shared])
    world.delete("StatefulSet", "web")
    until("all has ended", lambda: not world.claims())


def case_references(world):
    """What pods refer to is reserved for its name while they live, whatever becomes of the target."""
    one_cluster(world)
    labels = {"dibs.dev/group": "store"}
    config = {"allocations": [{"name": "http", "env": "PORT", "count": 2}, {"name": "gossip", "env": "GOSSIP", "scope": "RoleScoped"}]}
    refers = {"references": [{"env": "API", "from": "api[1].http"}, {"env": "GOSSIP", "from": "api.gossip"}]}

    def value(obj, name):
        return next(e["value"] for e in obj["spec"]["containers"][0]["env"] if e["name"] == name)

    def settled():
        return not [c for c in world.claims() if c["holder"]]

    def ports():
        return {c["port"] for c in world.claims()}
    world.create(workload("StatefulSet", "api", 2, labels))
    first, second = (world.create(pod(f"api-{i}", config, owner=("StatefulSet", "api"), labels=labels)) for i in (0, 1))
    web = world.create(pod("web", refers, labels=labels))
    assert value(web, "API") == value(second, "PORT") and value(web, "GOSSIP") == value(first, "GOSSIP")
    known = {int(port) for port in (value(web, "API") + "," + value(web, "GOSSIP")).split(",")}
    until("all are confirmed", lambda: len(ports()) == 5 and settled())
    # Scaled away, then deleted: only the numbers that the pod has stay.
    world.delete("Pod", "api-1")
    world.patch("StatefulSet", "api", {"spec": {"replicas": 1}})
    world.delete("Pod", "api-0")
    world.delete("StatefulSet", "api")
    until("the others end", lambda: ports() == known)
    until("they are reserved", lambda: not [c for c in world.claims() if c.get("keeper")])
    # Another object has the role later.
    role = {**labels, "dibs.dev/role": "api"}
    world.create(workload("StatefulSet", "next", 2, role))
    late = world.create(pod("next-1", config, owner=("StatefulSet", "next"), labels=role))
    assert (value(late, "PORT"), value(late, "GOSSIP")) == (value(second, "PORT"), value(first, "GOSSIP"))
    until("all is confirmed again", settled)
    world.delete("Pod", "next-1")
    world.delete("StatefulSet", "next")
    until("they are reserved again", lambda: not [c for c in world.claims() if c.get("keeper")])
    assert ports() == known
    world.delete("Pod", "web")
    until("nothing is left", lambda: not world.claims())


def case_jobs(world):
    """Indexes of Jobs and of JobSets keep their ports and can be referred to, until they are over."""
    one_cluster(world)

    def ports():
        return {c["port"] for c in world.claims()}

    def member(job, index, config, labels=None):
        obj = pod(generate=f"{job}-{index}-", config=config, owner=("Job", job), labels=labels)
        obj["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = str(index)
        return world.create(obj)

    def finish(obj, phase):
        world.patch("Pod", obj["metadata"]["name"], {"status": {"phase": phase}}, sub="/status")

    def over(kind, name, condition):
        world.patch(kind, name, {"status": {"conditions": [{"type": condition, "status": "True"}]}}, sub="/status")
    config = {"allocations": [{"name": "master", "env": "PORT"}, {"name": "store", "env": "STORE", "scope": "RoleScoped"}],
              "references": [{"env": "MASTER", "from": "train[0].master"}]}
    template = {"metadata": {"annotations": {"dibs.dev/ports": json.dumps(config)}}}
    world.create({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train"}, "spec": {
        "completionMode": "Indexed", "completions": 3, "parallelism": 2, "template": template}})
    second = member("train", 1, config)  # before the one to which it refers
    first = member("train", 0, config)
    assert env(second, "MASTER") == env(first) and env(second, "STORE") == env(first, "STORE") and env(second) != env(first)
    until("all are confirmed", lambda: len(ports()) == 3 and not [c for c in world.claims() if c["holder"]])
    copy = json.loads(json.dumps(first))
    copy["metadata"] = {**copy["metadata"], "name": "train-0-copy"}
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        copy["metadata"].pop(field, None)
    assert env(world.create(copy)) != env(first)
    world.delete("Pod", "train-0-copy")
    # One that failed is replaced, and its successor has its port; the others still have that number.
    finish(first, "Failed")
    again = member("train", 0, config)
    assert env(again) == env(first)
    # An index that is done gives back, while the Job goes on; a number that another pod has stays.
    until("all is confirmed again", lambda: len(ports()) == 3 and not [c for c in world.claims() if c["holder"]])
    finish(second, "Succeeded")
    until("its port has ended", lambda: ports() == {env(first), env(first, "STORE")})
    third = member("train", 2, config)
    until("the third is confirmed", lambda: len(ports()) == 3 and not [c for c in world.claims() if c["holder"]])
    finish(again, "Succeeded")
    until("it is reserved", lambda: [c for c in world.claims() if c["port"] == env(first) and not c.get("keeper")])
    finish(third, "Succeeded")
    until("the role's port stays with the Job", lambda: ports() == {env(first, "STORE")})
    over("Job", "train", "Complete")
    until("a Job that is complete keeps nothing", lambda: not ports())

    # The roles of a JobSet are one group.
    serves = {"allocations": [{"name": "port", "env": "PORT"}]}
    refers = {**serves, "references": [{"env": "LEADER", "from": "leader.port"}, {"env": "PEER", "from": "workers[1].pod[1].port"}]}
    world.create({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "llm"}, "spec": {"replicatedJobs": [
        {"name": "leader", "replicas": 1, "template": {"spec": {"completions": 1, "template": {}}}},
        {"name": "workers", "replicas": 2, "template": {"spec": {"completions": 2, "template": {}}}}]}})

    def of_set(role, jobs, job, index, config):
        return member(f"llm-{role}-{job}", index, config, {
            "jobset.sigs.k8s.io/jobset-name": "llm", "jobset.sigs.k8s.io/replicatedjob-name": role,
            "jobset.sigs.k8s.io/replicatedjob-replicas": str(jobs), "jobset.sigs.k8s.io/job-index": str(job)})
    worker = of_set("workers", 2, 0, 0, refers)
    leader = of_set("leader", 1, 0, 0, serves)
    peer = of_set("workers", 2, 1, 1, serves)
    assert (env(worker, "LEADER"), env(worker, "PEER")) == (env(leader), env(peer))
    until("the JobSet's are confirmed", lambda: len(ports()) == 3 and not [c for c in world.claims() if c["holder"]])
    # It restarts: all Jobs are made again.
    for obj in (worker, leader, peer):
        world.delete("Pod", obj["metadata"]["name"])
    assert env(of_set("leader", 1, 0, 0, serves)) == env(leader)
    over("JobSet", "llm", "Failed")
    until("only a living pod has its port", lambda: ports() == {env(leader)})
    world.delete("JobSet", "llm")


def case_groups(world):
    """seeds 2.5 (41), with equality; RBG's objects keep what is theirs."""
    one_cluster(world)
    api = "workloads.x-k8s.io/v1alpha2"
    labels = {"rbg.workloads.x-k8s.io/group-name": "llm", "rbg.workloads.x-k8s.io/role-name": "prefill",
              "rbg.workloads.x-k8s.io/role-instance-name": "llm-prefill-0"}
    key = "rolebasedgroup.workloads.x-k8s.io/port-allocator"
    world.create({"apiVersion": api, "kind": "RoleBasedGroup", "metadata": {"name": "llm"},
                  "spec": {"roles": [{"name": "prefill"}]}})
    world.create({"apiVersion": api, "kind": "RoleInstance", "metadata": {"name": "llm-prefill-0", "labels": labels},
                  "spec": {"components": [{"name": "leader"}, {"name": "worker"}]}})

    def component(name, config):
        return world.create(pod(f"llm-prefill-0-{name}-0", config, owner=("RoleInstance", "llm-prefill-0"), key=key,
                                labels={**labels, "rbg.workloads.x-k8s.io/component-name": name,
                                        "rbg.workloads.x-k8s.io/component-id": "0"}))
    asks = {"allocations": [
        {"name": "leader-port", "env": "LEADER_PORT", "annotationKey": "test/grpc-port", "scope": "PodScoped"},
        {"name": "leader-port-static", "env": "LEADER_PORT_STATIC", "annotationKey": "test/grpc-port-static",
         "scope": "RoleScoped"}]}
    worker = component("worker", {"references": [{"env": "LEADER_ADDR_PORT", "from": "prefill.leader.leader-port"}]})
    leader = component("leader", asks)
    assert env(worker, "LEADER_ADDR_PORT") == env(leader, "LEADER_PORT")
    assert leader["metadata"]["annotations"]["test/grpc-port"] == str(env(leader, "LEADER_PORT"))
    assert leader["metadata"]["annotations"]["test/grpc-port-static"] == str(env(leader, "LEADER_PORT_STATIC"))
    until("both are confirmed", lambda: len(world.claims()) == 2 and not [c for c in world.claims() if c["holder"]])
    ports = {c["port"] for c in world.claims()}
    for name in ("leader", "worker"):
        world.delete("Pod", f"llm-prefill-0-{name}-0")
    again = component("leader", asks)
    assert {env(again, "LEADER_PORT"), env(again, "LEADER_PORT_STATIC")} == ports
    until("it is confirmed again", lambda: not [c for c in world.claims() if c["holder"]])
    world.delete("Pod", "llm-prefill-0-leader-0")
    world.delete("RoleInstance", "llm-prefill-0")
    until("the instance's port has ended", lambda: [c["port"] for c in world.claims()] == [env(again, "LEADER_PORT_STATIC")])
    world.delete("RoleBasedGroup", "llm")
    until("the role's, too", lambda: not world.claims())


RBG_PORTS = "rolebasedgroup.workloads.x-k8s.io/port-allocator"
RBG_DISCOVERY = "rolebasedgroup.workloads.x-k8s.io/component-discovery"
LEADER = {"allocations": [
    {"name": "grpc", "env": "GRPC_PORT", "annotationKey": "test/grpc-port", "scope": "PodScoped"},
    {"name": "http", "env": "HTTP_PORT", "annotationKey": "test/http-port", "scope": "RoleScoped"}]}
WORKER = {"allocations": [{"name": "nccl", "env": "NCCL_PORT", "scope": "PodScoped"}],
          "references": [{"env": "LEADER_PORT", "from": "prefill.leader.grpc"}]}
DISCOVERY = {"addressRefs": [{"env": "LEADER_HOST", "component": "leader", "index": 0}],
             "portRefs": [{"env": "FOUND_GRPC", "component": "leader", "portName": "grpc", "index": 0},
                          {"env": "FOUND_HTTP", "component": "leader", "portName": "http", "index": 0},
                          {"env": "FOUND_NCCL", "component": "worker", "portName": "nccl", "index": 1}]}


class RbgFailed(Exception):
    pass


class Rbg:
    """What RBG's controllers do for a role `prefill` with a leader and two workers, step by step as in their source
    (pkg/port-allocator, pkg/component-discovery, pkg/reconciler/roleinstance): they draw numbers at random and look at
    nothing, write them into annotations of the set and its instances, and copy them from there into pods."""

    def __init__(self, world, is_on, instance_annotations=None):
        self.world, self.is_on = world, is_on
        self.draw = lambda: str(random.randrange(20000, 21000)) if is_on else None
        self.more = instance_annotations or {}
        self.labels = {"rbg.workloads.x-k8s.io/group-name": "pd", "rbg.workloads.x-k8s.io/role-name": "prefill"}
        self.components = [{"name": name, "size": size, "serviceName": "s-pd-prefill", "template": {
            "metadata": {"labels": self.labels, "annotations": {RBG_PORTS: json.dumps(config), **more}},
            "spec": {"subdomain": "s-pd-prefill", "containers": [{"name": "main", "image": "x"}]}}}
            for name, size, config, more in (("leader", 1, LEADER, {}), ("worker", 2, WORKER, {RBG_DISCOVERY: json.dumps(DISCOVERY)}))]
        # RoleScoped numbers are drawn once, for the set.
        self.of_set = {f'{c["name"]}.{a["name"]}': self.draw() for c, a in self.allocations("RoleScoped") if is_on}

    def allocations(self, scope):
        return [(c, a) for c in self.components
                for a in json.loads(c["template"]["metadata"]["annotations"][RBG_PORTS]).get("allocations", []) if a["scope"] == scope]

    def instance(self, i):
        """RoleInstanceSet: newVersionedInstance, AllocatePortsForInstance."""
        name = f"pd-prefill-{i}"
        drawn = {f'{name}-{c["name"]}-{n}.{a["name"]}': self.draw() for c, a in self.allocations("PodScoped")
                 for n in range(c["size"]) if self.is_on}
        labels = {**self.labels, "rbg.workloads.x-k8s.io/role-type": "Components", "rbg.workloads.x-k8s.io/role-instance-name": name}
        return self.world.create({"apiVersion": "workloads.x-k8s.io/v1alpha2", "kind": "RoleInstance", "metadata": {
            "name": name, "labels": labels, "annotations": {**self.more, **self.of_set, **drawn},
            "ownerReferences": [{"apiVersion": "workloads.x-k8s.io/v1alpha2", "kind": "RoleInstanceSet", "name": "pd-prefill",
                                 "uid": "u-set", "controller": True}]}, "spec": {"components": self.components}})

    def pods(self, instance, missing=""):
        """RoleInstance: createPods, InjectPortsIntoPod, InjectComponentDiscovery. One error, and none is created."""
        name, numbers = instance["metadata"]["name"], instance["metadata"].get("annotations") or {}
        made = []

        def number(*keys):
            for key in keys:
                if key in numbers:
                    return numbers[key]
            raise RbgFailed(f"port not found (key: {keys[0]})")
        for c in self.components:
            for n in range(c["size"]):
                own = f'{name}-{c["name"]}-{n}'
                asks = c["template"]["metadata"]["annotations"]
                config, found = json.loads(asks[RBG_PORTS]), json.loads(asks.get(RBG_DISCOVERY, "{}"))
                env, given = {}, {RBG_PORTS: asks[RBG_PORTS]}
                for a in config.get("allocations", []) if numbers else []:
                    env[a["env"]] = number(f'{own if a["scope"] == "PodScoped" else c["name"]}.{a["name"]}')
                    given.update({a["annotationKey"]: env[a["env"]]} if "annotationKey" in a else {})
                for r in config.get("references", []) if numbers else []:
                    _, component, port = r["from"].split(".")
                    env[r["env"]] = number(f"{name}-{component}-0.{port}")
                for r in found.get("portRefs", []):
                    env[r["env"]] = number(f'{name}-{r["component"]}-{r["index"]}.{r["portName"]}', f'{r["component"]}.{r["portName"]}')
                for r in found.get("addressRefs", []):
                    env[r["env"]] = f'{name}-{r["component"]}-{r["index"]}.s-pd-prefill.shop.svc.cluster.local'
                one = pod(own, None, owner=("RoleInstance", name), labels={
                    **self.labels, "rbg.workloads.x-k8s.io/role-instance-name": name, "rbg.workloads.x-k8s.io/component-name": c["name"],
                    "rbg.workloads.x-k8s.io/component-id": str(n), "rbg.workloads.x-k8s.io/component-size": str(c["size"])})
                one["metadata"]["annotations"] = given
                one["spec"]["subdomain"] = "s-pd-prefill"
                one["spec"]["containers"][0]["env"] = [{"name": k, "value": v} for k, v in env.items()]
                made.append(one)
        return [self.world.call("POST", self.world.path("Pod", "shop"), one) for one in made if missing in one["metadata"]["name"]]


def agree(world, instance, pods):
    """The pods, their instance, RBG's references and discovery, and the ledger have the same numbers."""
    name, numbers = instance["metadata"]["name"], instance["metadata"]["annotations"]
    assert [status for status, _ in pods] == [201] * 3, pods
    leader, first, second = (got for _, got in pods)
    grpc, http = env(leader, "GRPC_PORT"), env(leader, "HTTP_PORT")
    nccl = [env(p, "NCCL_PORT") for p in (first, second)]
    assert leader["metadata"]["annotations"]["test/grpc-port"] == str(grpc)
    assert [int(numbers[k]) for k in (f"{name}-leader-0.grpc", "leader.http", f"{name}-worker-0.nccl", f"{name}-worker-1.nccl")] == \
        [grpc, http, *nccl]
    for worker in (first, second):
        assert (env(worker, "LEADER_PORT"), env(worker, "FOUND_GRPC"), env(worker, "FOUND_HTTP"), env(worker, "FOUND_NCCL")) == \
            (grpc, grpc, http, nccl[1]), worker
        hosts = {e["value"] for e in worker["spec"]["containers"][0]["env"] if e["name"] == "LEADER_HOST"}
        assert hosts == {f"{name}-leader-0.s-pd-prefill.shop.svc.cluster.local"}
    return {grpc, http, *nccl}


def rbg_case(world, is_on, has_instances):
    world.hook("hook", "--start-port", "20000", "--port-range", "1000")
    world.register(has_instances=has_instances)
    controller = world.controller(flags=["--start-port", "20000", "--port-range", "1000"])
    world.create({"apiVersion": "workloads.x-k8s.io/v1alpha2", "kind": "RoleBasedGroup", "metadata": {"name": "pd"},
                  "spec": {"roles": [{"name": "prefill"}]}})
    # With gang scheduling an instance has an annotation, so that RBG injects, also when its allocator is off.
    return controller, Rbg(world, is_on, {"rbg.workloads.x-k8s.io/role-instance-gang-scheduling": "true"})


def case_rbg_off(world):
    """RBG's allocator is off: its instances get their numbers from dibs, before their pods exist."""
    controller, rbg = rbg_case(world, False, True)
    instances = [rbg.instance(i) for i in range(3)]
    ports = [agree(world, i, rbg.pods(i)) for i in instances]
    assert len(set().union(*ports)) == 3 * 3 + 1  # RoleScoped http is one of all
    until("they are confirmed", lambda: len(world.claims()) == 10 and not [c for c in world.claims() if c["holder"]])
    # A pod that is made again has its numbers; an instance that goes takes its own along.
    world.delete("Pod", "pd-prefill-0-leader-0")
    (status, again), = rbg.pods(instances[0], "leader")
    assert status == 201 and env(again, "GRPC_PORT") in ports[0]
    until("it is confirmed again", lambda: not [c for c in world.claims() if c["holder"]])
    for name in ("leader-0", "worker-0", "worker-1"):
        world.delete("Pod", f"pd-prefill-0-{name}")
    world.delete("RoleInstance", "pd-prefill-0")
    until("its ports have ended", lambda: {c["port"] for c in world.claims()} == ports[1] | ports[2])
    controller.stop()


def case_rbg_on(world):
    """RBG's allocator is on and dibs sees the instances: what RBG drew twice is replaced there, before its pods exist."""
    controller, rbg = rbg_case(world, True, True)
    numbers = iter(["20001", "20002", "20003", "20001", "20002", "20004", "90000", "20004", "20005"])
    rbg.draw = lambda: next(numbers)
    ports = [agree(world, i, rbg.pods(i)) for i in [rbg.instance(i) for i in range(3)]]
    assert len(set().union(*ports)) == 3 * 3 + 1 and {20001, 20002, 20003, 20004, 20005} <= set().union(*ports)
    controller.stop()


def case_rbg_alone(world):
    """dibs sees pods only: it claims what RBG drew, and refuses what cannot be had; with RBG's allocator off RBG fails."""
    controller, rbg = rbg_case(world, True, False)
    rbg.of_set = {"leader.http": "20000"}
    numbers = iter(["20001", "20002", "20003", "20001", "20004", "20005"])
    rbg.draw = lambda: next(numbers)
    first, second = rbg.instance(0), rbg.instance(1)
    assert agree(world, first, rbg.pods(first)) == {20000, 20001, 20002, 20003}
    (status, got), *_ = rbg.pods(second)
    assert status == 409 and "RBG's allocator has given this pod its ports" in got["message"], got
    assert "port 'grpc' of the pod 0/leader of RoleInstance/pd-prefill-0" in got["message"], got
    off = Rbg(world, False, rbg.more)
    try:
        off.pods(off.instance(2))
        assert False, "RBG does not look for the numbers"
    except RbgFailed:
        pass
    controller.stop()


def case_refused(world):
    """20 pods with 8 x 64 ports, each refused after its admission, leave three quarters of the pool to the others."""
    world.hook("hook")
    world.register()
    many = {"allocations": [{"name": f"p{i}", "env": f"P{i}", "count": 64} for i in range(8)]}
    world.create(pod("there"), "greedy")
    codes = collections.Counter()

    def post():
        codes[world.call("POST", world.path("Pod", "greedy"), pod("there", many))[0]] += 1
    at_once = [threading.Thread(target=post) for _ in range(20)]
    for one in at_once:
        one.start()
    for one in at_once:
        one.join()
    assert codes == {409: 4, 403: 16}, codes  # AlreadyExists, and beyond the quota of 2,500
    world.arrive(1 + 4 * 8 * 64)
    for i in range(4):
        world.create(pod(f"calm{i}", many), "calm")


def case_quota(world):
    """A namespace gets no more than its quota, also if its pods are refused after their admission; others go on."""
    pool = ["--start-port", "20000", "--port-range", "40"]
    world.hook("hook", *pool)
    world.register()
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "greedy", "annotations": {"dibs.dev/quota": "3"}}})
    controller = world.controller(flags=pool)

    def post(name, ns, config=PORTS):
        return world.call("POST", world.path("Pod", ns), pod(name, config))

    # More than the quarter of the pool that it has until the controller has brought its quota.
    until("its quota counts", lambda: post("big", "greedy", {"allocations": [
        {"name": "http", "env": "PORT", "count": 11}]})[1].get("message", "").find("is 3 ports: it has 0") > 0)
    # Names that exist: each pod is admitted, gets a port, and is refused by the API server itself.
    world.create(pod("one"), "greedy")
    codes = [post("one", "greedy")[0] for _ in range(6)]
    assert codes == [409, 409, 403, 403, 403, 403], codes
    status, got = post("more", "greedy")
    assert status == 403 and "is 3 ports: it has 3" in got["message"] and "needs 1 more" in got["message"], got
    # Another namespace has a quarter of the pool.
    status, got = post("big", "calm", {"allocations": [{"name": "http", "env": "PORT", "count": 11}]})
    assert status == 403 and "is 10 ports: it has 0" in got["message"], got
    world.create(pod("big", {"allocations": [{"name": "http", "env": "PORT", "count": 10}]}), "calm")
    # A quota that changes is followed; what the namespace has stays.
    world.patch("Namespace", "greedy", {"metadata": {"annotations": {"dibs.dev/quota": "4"}}})
    until("the new quota counts", lambda: post("more", "greedy")[0] == 201)
    world.patch("Namespace", "greedy", {"metadata": {"annotations": {"dibs.dev/quota": "0"}}})
    until("the newest quota counts", lambda: "is 0 ports: it has 4" in post("none", "greedy")[1].get("message", ""))
    assert len(world.of(world.claims(), "ns:greedy")) == 4
    world.patch("Namespace", "greedy", {"metadata": {"annotations": {"dibs.dev/quota": "many"}}})
    until("a quota that is no number is none", lambda: post("third", "greedy")[0] == 201)
    # One replica without quotas.
    world.hook("free", *pool, "--no-quota")
    world.register("free")
    world.create(pod("all", {"allocations": [{"name": "http", "env": "PORT", "count": 12}]}, labels={"hook": "free"}), "vast")
    controller.stop()


def case_forged(world):
    controller = one_cluster(world)
    made = world.create(pod("one"))
    until("it is confirmed", lambda: [c for c in world.claims() if not c["holder"]])
    # Written by a user who may create pods: refused, with and without a request for ports.
    forged = assigned("shop", "two", 20500)
    forged["metadata"]["annotations"]["dibs.dev/signature"] = "0" * 64
    for annotations in (forged["metadata"]["annotations"], {**made["metadata"]["annotations"], "dibs.dev/claim": "0" * 32},
                        {**made["metadata"]["annotations"], "dibs.dev/assigned": "[]"}):
        copy = pod("two", None)
        copy["metadata"]["annotations"] = annotations
        status, got = world.call("POST", world.path("Pod", "shop"), copy)
        assert status == 422 and "dibs has not signed this" in got["message"], got
    # Past the webhook: reported, and no claim.
    world.order(insert=[forged])
    until("it is reported", lambda: [e for e in world.order(dump="events") if e["reason"] == "PortNotSigned" and
                                     e["involvedObject"]["name"] == "two"])
    assert len(world.claims()) == 1
    assert world.metric(controller, 'apiserver_nodeport_repair_port_errors_total{type="unsigned"}') >= 1
    # From a backup: the pod is gone, and its numbers are free.
    port = env(made)
    world.delete("Pod", "one")
    until("its claim ends", lambda: not world.claims())
    back = {**made, "metadata": {k: v for k, v in made["metadata"].items() if k in ("name", "labels", "annotations")}}
    assert env(world.create(back)) == port
    controller.stop()


def case_injected(world):
    """Numbers that `kube inject` has written are claimed, exactly these, by whichever of two pods refers to the other."""
    one_cluster(world)

    def inject(*objects):
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        got = subprocess.run([world.dibs, "kube", "inject", "-", "--range", "22000-22999"], input=text, capture_output=True,
                             text=True, timeout=PATIENCE_S,
                             env={**os.environ, "DIBS_SOCKET": "none", "DIBS_LEDGER": f"sqlite:{world.directory}/inject.db"})
        assert got.returncode == 0, got.stderr
        return json.loads(got.stdout)["items"]

    def values(obj):
        return {e["name"]: e["value"] for e in obj["spec"]["containers"][0]["env"]}
    many = {"allocations": [{"name": "http", "env": "PORT", "annotationKey": "shop/port"}, {"name": "two", "env": "TWO", "count": 2},
                            {"name": "ranks", "env": "RANKS", "count": 3, "contiguous": True, "proto": "tcp+udp"}]}
    injected, = inject(pod("one", many))
    made = world.create(injected)
    assert values(made) == values(injected) and made["metadata"]["annotations"]["shop/port"] == values(made)["PORT"]
    until("all are confirmed", lambda: len([c for c in world.claims() if not c["holder"]]) == 6)
    numbers = {int(n) for name in ("PORT", "TWO") for n in values(made)[name].split(",")} | {
        int(values(made)["RANKS"]) + i for i in range(3)}
    assert {c["port"] for c in world.claims()} == numbers, (numbers, world.claims())
    # A second pod of the same text cannot have them.
    injected["metadata"]["name"] = "two"
    status, got = world.call("POST", world.path("Pod", "shop"), injected)
    assert status == 409 and "`dibs kube inject` has given this pod its ports" in got["message"], got
    assert "pod 'one'" in got["message"], got
    # Outside of the pool.
    injected["spec"]["containers"][0]["env"] = [{"name": "PORT", "value": "19999"}]
    injected["metadata"]["annotations"].update({"dibs.dev/ports": json.dumps(PORTS)})
    status, got = world.call("POST", world.path("Pod", "shop"), injected)
    assert status == 422 and "allocations[0].env" in got["message"] and "--range" in got["message"], got
    # References: the pod that refers to the other comes first.
    http = {"allocations": [{"name": "http", "env": "PORT", "scope": "RoleScoped"}]}
    refers = {"references": [{"env": "API", "from": "api.http"}]}
    in_group = lambda name: {"dibs.dev/group": "g", "dibs.dev/role": name}
    api, web = inject(pod("api", http, labels=in_group("api")), pod("web", refers, labels=in_group("web")))
    assert values(web)["API"] == values(api)["PORT"]
    assert values(world.create(web)) == values(web)
    assert values(world.create(api)) == values(api)
    # A target with several numbers, and one whose objects are a group in the file only.
    several = {"allocations": [{"name": "http", "env": "PORT", "scope": "RoleScoped", "count": 3}]}
    for at, labels in enumerate((in_group, lambda name: {"dibs.dev/role": name}, lambda name: {})):
        target, other = f"many{at}", f"one{at}"
        api, web = inject(pod(target, several, labels=labels(target)), pod(
            other, {"references": [{"env": "API", "from": f"{target}.http"}]}, labels=labels(other)))
        assert values(web)["API"] == values(api)["PORT"] and values(api)["PORT"].count(",") == 2
        assert values(world.create(web)) == values(web)
        assert values(world.create(api)) == values(api)


def case_other(world):
    """Two clusters do not share a ledger, nor do two installations in one cluster."""
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})
    controller = one_cluster(world)
    world.create(pod("one"))
    until("it is confirmed", lambda: [c for c in world.claims() if not c["holder"]])

    def refused(p, why):
        until(f"{p.name} ends", lambda: not p.is_alive())
        log = open(p.log).read()
        assert p.child.returncode == 3 and why in log, (p.child.returncode, log)
    other = world.install("other")
    cert = os.path.join(world.tls, "server")
    refused(Process(world, "other-hook", [world.dibs, "kube", "webhook", "--listen", "127.0.0.1:0", "--tls-cert", cert + ".cert",
                                          "--tls-key", cert + ".key", "--installation", other],
                    {**world.env, "DIBS_NODE": "other"}), "this ledger serves the installation 'test' of dibs, and this one is 'other'")
    refused(world.controller("other-controller", is_awaited=False, installation=other),
            "this ledger serves the installation 'test' of dibs, and this one is 'other'")
    # Another cluster, made from the same files.
    controller.stop()
    world.delete("Namespace", "kube-system")
    world.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})
    world.order(insert=[assigned("shop", "two", 20500)])
    refused(world.controller("second", is_awaited=False), "this ledger serves the cluster whose namespace kube-system has the uid")
    assert len(world.claims()) == 1


def case_observed(world):
    controller = one_cluster(world)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"},
               "spec": {"ports": [{"port": 80, "nodePort": 20007, "protocol": "UDP"}, {"port": 81, "nodePort": 31000}],
                        "healthCheckNodePort": 20008}}
    world.create(service)
    foreign = pod("foreign", None)
    foreign["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 20009}]
    world.create(foreign)
    until("they are declared", lambda: {c["port"] for c in world.claims() if not c["exclusive"]} == {20007, 20008, 20009})
    asks = lambda how: pod(how, {"allocations": [{"name": "http", "env": "PORT", how: 20009}]})
    status, got = world.call("POST", world.path("Pod", "shop"), asks("port"))
    assert status == 409 and "port 20009 is used by Pod/foreign without a claim" in got["message"], got
    assert env(world.create(asks("prefer"))) != 20009
    world.delete("Pod", "prefer")
    world.order(insert=[assigned("shop", "late", 20008)])  # which the Service has
    world.dibs_does("pool", "set", "kube", "--ranges", "20000-29999,31000-31009")
    until("a pool that has grown is used", lambda: 31000 in {c["port"] for c in world.claims() if not c["exclusive"]})
    until("it is reported", lambda: [e for e in world.order(dump="events") if e["reason"] == "PortAlreadyAllocated"] or
          [e for e in world.order(dump="events") if e["reason"] == "PortNotAllocated"])
    world.order(insert=[assigned("shop", "far", 40000)])
    until("one outside is reported", lambda: [e for e in world.order(dump="events") if e["reason"] == "PortOutOfRange" and
                                          e["involvedObject"]["name"] == "far"])
    world.delete("Service", "front")
    world.delete("Pod", "foreign")
    world.delete("Pod", "late")
    until("nothing is left", lambda: not world.claims())
    assert world.metric(controller, "kube_apiserver_nodeport_allocator_available_ports") is not None


def case_words(world):
    """What people read is in the words of Kubernetes; a webhook without a lease is not called gone."""
    one_cluster(world)
    world.create(workload("StatefulSet", "web", 1))
    first = world.create(pod("web-0", {"allocations": [{"name": "http", "env": "PORT"}, {
        "name": "gossip", "env": "GOSSIP", "scope": "RoleScoped"}]}, owner=("StatefulSet", "web")))
    world.create(pod("ref", {"references": [{"env": "PEER", "from": "late[0].http"}]}, labels={"dibs.dev/group": "g"}))
    world.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"},
                  "spec": {"ports": [{"port": 80, "nodePort": 20007}]}})
    until("all are there", lambda: len(world.claims()) == 4 and len([c for c in world.claims() if c["holder"]]) == 1)
    listed = world.dibs_does("ls", "--all")
    for words in ("pod 'web-0' in namespace 'shop'  *kept", "all pods of role 'web' in namespace 'shop'  *kept",
                  "instance 0 of role 'late', to which pods refer, in namespace 'shop'  *pending", "declared  Service/front "):
        assert re.search(words, listed), listed
    who = world.dibs_does("who", str(env(first)))
    assert "held by pod 'web-0' in namespace 'shop', kept, pool kube" in who and "uid" not in who, who
    explained = world.dibs_does("explain", str(env(first)))
    assert "held by port 'http' of pod 'web-0' in namespace 'shop', since" in explained, explained
    nodes = world.dibs_does("node")
    assert "gone" not in nodes and re.search(r"hook/webhook-\d+  *-  *a webhook or controller", nodes), nodes
    assert {n["alive"] for n in json.loads(world.dibs_does("node", "--json")) if "/" in n["name"]} == {None}
    doctor = world.dibs_does("doctor")
    assert "4 claims are of pods and Services of Kubernetes, 1 of them pending" in doctor, doctor
    assert "not known whether" not in doctor and "0 of unknown state" in doctor, doctor


def case_events(world):
    """A pod learns by Events what it has, and that it has nothing because it bypassed the webhook."""
    world.order(insert=[dict(pod("early"), metadata={**pod("early")["metadata"], "namespace": "shop"}),
                        dict(pod("none", {}), metadata={**pod("none", None)["metadata"], "name": "idle", "namespace": "shop",
                                                        "annotations": {"dibs.dev/ports": "{}"}})])
    controller = one_cluster(world)
    static = pod("static")
    static["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "x"
    world.create(static)
    config = {"allocations": [{"name": "http", "env": "PORT"}, {"name": "gossip", "env": "GOSSIP", "scope": "RoleScoped",
                                                                "proto": "tcp+udp"}]}
    world.create(workload("StatefulSet", "web", 2))
    made = [world.create(pod(f"web-{i}", config, owner=("StatefulSet", "web"))) for i in range(2)]
    made += [world.create(pod(f"p{i}")) for i in range(60)]

    def of(reason):
        return {e["involvedObject"]["name"]: e for e in world.order(dump="events") if e["reason"] == reason}
    until("each pod has its Event", lambda: set(of("PortsAssigned")) == {p["metadata"]["name"] for p in made})
    for p in made:
        event = of("PortsAssigned")[p["metadata"]["name"]]
        wanted = f"http {env(p)}"
        if "web" in p["metadata"]["name"]:
            wanted += f", gossip {env(p, 'GOSSIP')} TCP UDP"
        assert event["message"] == f"Ports of the pod: {wanted}" and event["type"] == "Normal", event
        assert event["involvedObject"]["uid"] == p["metadata"]["uid"], event
    missed = of("PortsMissed")
    assert set(missed) == {"early", "static"} and missed["early"]["type"] == "Warning", missed
    assert "without the webhook" in missed["early"]["message"], missed
    assert "is a static pod" in missed["static"]["message"] and "recreate" not in missed["static"]["message"], missed
    assert world.metric(controller, "dibs_kube_missed_pods") == 2
    world.delete("Pod", "static")
    assert world.metric(controller, 'apiserver_nodeport_repair_port_errors_total{type="repair"}') == 0
    world.delete("Pod", "early")
    until("it counts no more", lambda: world.metric(controller, "dibs_kube_missed_pods") == 0)
    n = len(world.order(dump="events"))
    controller.stop()
    controller = world.controller("next")  # reports nothing again
    world.create(pod("last"))
    until("the last has its Event", lambda: "last" in of("PortsAssigned"))
    assert len(world.order(dump="events")) == n + 1


def case_list(world):
    """`dibs kube ls`: what the API server has of pods, beside what the ledger has."""
    controller = one_cluster(world)
    world.create(workload("StatefulSet", "web", 2))
    config = {"allocations": [{"name": "http", "env": "PORT"}, {"name": "dns", "env": "DNS", "proto": "udp"}]}
    web = [world.create(pod(f"web-{i}", config, owner=("StatefulSet", "web"))) for i in range(2)]
    world.create(pod("ref", {"references": [{"env": "PEER", "from": "late[0].http"}]}, labels={"dibs.dev/group": "g"}))
    world.create(pod("plain", None))
    done = world.create(pod("done"), "jobs")
    world.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "front"},
                  "spec": {"ports": [{"port": 80, "nodePort": 20007}]}})
    until("all are confirmed", lambda: len(world.claims()) == 7 and len([c for c in world.claims() if c["holder"]]) == 1)
    world.patch("Pod", "done", {"status": {"phase": "Succeeded"}}, "jobs", "/status")
    world.delete("Pod", "web-1")
    late = next(c["port"] for c in world.claims() if "/late/" in c["name"])
    world.order(insert=[dict(pod("early"), metadata={**pod("early")["metadata"], "namespace": "shop"}),
                        assigned("shop", "far", 40000)])
    until("its port is free", lambda: len(world.claims()) == 6)

    def ls(*words, env=None):
        got = subprocess.run([world.dibs, "kube", "ls", *words], capture_output=True, text=True, timeout=PATIENCE_S, env={
            **os.environ, "KUBECONFIG": os.path.join(world.directory, "kubeconfig"), **(env or {})})
        return got.returncode, got.stdout, got.stderr

    def rows(*words, **more):
        status, out, said = ls(*words, **more)
        assert status == 0, said
        return {(cells[0], cells[1], cells[2]): (cells[3], cells[4]) for cells in (
            re.split(r"  +", line.strip()) for line in out.splitlines()[1:])}, said
    world.order(services={"dibs/dibs-controller:metrics": controller.port})
    shop = {("shop", "web-0", f"http {env(web[0])}, dns {env(web[0], 'DNS')} UDP"): "claimed",
            ("shop", "early", "-"): "missed", ("shop", "far", "http 40000"): "lost",
            ("shop", "-", f"StatefulSet.web/web/1/-/http {env(web[1])}"): "kept",
            ("shop", "-", f"StatefulSet.web/web/1/-/dns {env(web[1], 'DNS')}"): "kept",
            ("shop", "-", f"g/late/0/-/http {late}"): "reserved"}
    got, said = rows("-n", "shop")
    assert {k: v[0] for k, v in got.items()} == shop and said == "", (got, said)
    assert all(re.fullmatch(r"(\d+m)?\d+s", age) for _, age in got.values()), got
    everything = {**shop, ("jobs", "done", f"http {env(done)}"): "finished", ("-", "-", "Service/front 20007"): "declared"}
    got, said = rows("-A")
    assert {k: v[0] for k, v in got.items()} == everything and said == "", (got, said)
    assert rows("-A", "--controller", f"http://127.0.0.1:{controller.port}")[0].keys() == got.keys()
    assert rows()[0] == {}  # the context's namespace is dibs
    # As kubectl starts a plugin; without KUBECONFIG it reads what kubectl reads.
    home = os.path.join(world.directory, "home")
    os.makedirs(os.path.join(home, ".kube", "bin"))
    text = open(os.path.join(world.directory, "kubeconfig")).read().replace('"token"', f'"{world.directory}/token"')
    open(os.path.join(home, ".kube", "config"), "w").write(text)
    os.symlink(world.dibs, os.path.join(home, ".kube", "bin", "dibs"))
    plugin = os.path.join(os.path.dirname(SUPPORT), "..", "share", "kubectl-dibs")
    out = subprocess.run(["sh", plugin, "ls", "-n", "jobs", "--json"], capture_output=True, text=True, timeout=PATIENCE_S, check=True,
                         env={**{k: v for k, v in os.environ.items() if k != "KUBECONFIG"}, "HOME": home,
                              "PATH": os.path.join(home, ".kube", "bin") + ":" + os.environ["PATH"]}).stdout
    listed, = json.loads(out)
    assert listed["pod"] == "done" and listed["ports"][0]["port"] == env(done) and listed["created_ms"] > 0, listed

    # Without the controller the pods are shown, and that the rest is unknown.
    world.order(deny=[["get", "services/proxy"]])
    got, said = rows("-n", "shop")
    assert got.keys() == {k for k in shop if k[1] != "-"} and "claims are not known" in said and "services/proxy" in said, said
    assert {v[0] for v in got.values()} == {"assigned", "missed"}, got
    assert "cannot be reached" in rows("-A", "--controller", "http://127.0.0.1:1")[1]
    world.order(deny=[["list", "pods"]])
    status, out, said = ls()
    assert status == 7 and "pods is forbidden" in said and not out, (status, out, said)
    assert ls("-n", "no/space")[0] == 2 and ls(env={"KUBECONFIG": "/nowhere"})[0] != 0
    world.dibs_does("claim", "--pool", "kube", "--keep", "own")
    assert world.get(controller, "/claims", {"Host": "pages.example:80"})[0] == 403  # a web page, whose name leads here
    status, text = world.get(controller, "/claims")
    assert status == 200 and {c["principal"] for c in json.loads(text)} == {"ns:shop", "kube:observed"}, text
    assert not [c for c in json.loads(text) if "token" in c], text
    controller.stop()


def case_faults(world):
    controller = one_cluster(world)
    world.create(workload("StatefulSet", "web", 1))
    world.create(pod("web-0", owner=("StatefulSet", "web")))
    for i in range(3):
        world.create(pod(f"p{i}"))
    until("all are confirmed", lambda: len(world.claims()) == 4 and not [c for c in world.claims() if c["holder"]])

    def is_watching():
        """A stream that tells something makes the next pause short again."""
        name = 'dibs_kube_watch_events_total{kind="Pod"}'
        before = world.metric(controller, name)
        until("pods are watched", lambda: world.metric(controller, name) > before)

    # Streams that are cut without an end, and a server that has forgotten where they were.
    world.order(cut=True)
    world.delete("Pod", "p0")
    until("it goes on after a cut", lambda: len(world.claims()) == 3)
    world.order(fail=[{"match": "pods.watch=1", "times": 1, "status": 500}], cut=True)
    world.delete("Pod", "p1")
    world.order(compact=True)
    until("it goes on after 410", lambda: len(world.claims()) == 2)
    is_watching()
    # Lists that fail, are slow, or expire between two pages: nothing ends by mistake, and all goes on.
    world.order(fail=[{"match": r"GET /api/v1/pods\?limit", "times": 1, "status": 429, "retryAfter": 1},
                      {"match": r"GET /api/v1/pods\?limit", "times": 1, "cut": True},
                      {"match": r"GET /api/v1/pods\?limit", "times": 1, "slow": 1}], cut=True, compact=True)
    world.delete("Pod", "p2")
    until("it goes on after refusals", lambda: len(world.claims()) == 1)
    is_watching()
    taken = {claim["port"] for claim in world.claims()}  # web-0 has any of the pool
    free = [port for port in range(21000, 22300) if port not in taken]
    world.order(insert=[assigned("many", f"m{i}", free[i]) for i in range(1200)], expire_continue=2)
    until("all pages arrive", lambda: len(world.claims()) == 1201)
    is_watching()  # else there is no stream to cut, and nothing to be listed
    # A larger page, because one expired, that is too large to be taken: a smaller one comes next.
    lists = world.metric(controller, 'dibs_kube_lists_total{kind="Pod"}')
    world.order(fail=[{"match": r"GET /api/v1/pods\?limit=5000", "times": -1, "bytes": (64 << 20) + 1}],
                expire_continue=1, cut=True, compact=True)
    until("all pods are listed", lambda: world.metric(controller, 'dibs_kube_lists_total{kind="Pod"}') > lists)
    world.order(fail=[])
    assert world.metric(controller, "dibs_kube_ended_total") == 3

    # The controller keeps the claims of objects that it may not list.
    world.order(deny=[["list", "statefulsets"], ["watch", "statefulsets"]], cut=True)
    world.delete("Pod", "web-0")
    world.delete("StatefulSet", "web")
    until("it is reported", lambda: world.metric(controller, 'dibs_kube_resource{kind="StatefulSet",state="denied"}'))
    world.delete("Pod", "m0", "many")
    until("others end", lambda: len(world.claims()) == 1200)
    assert world.of(world.claims(), "StatefulSet.web")
    controller.stop()


def case_account(world):
    """As in a pod: the service account's files where kubelet puts them, which are renewed: the token, the authority."""
    at = os.path.join(world.directory, "run/secrets/kubernetes.io/serviceaccount")
    os.makedirs(at)
    for name, text in (("ca.crt", open(os.path.join(world.tls, "ca.cert")).read()), ("token", world.token),
                       ("namespace", "dibs-system")):
        with open(os.path.join(at, name), "w", encoding="ascii") as f:
            f.write(text)
    port = world.free_port()
    inside = f'mount --bind "$1" /run && exec "$2" kube controller --installation "$3" --metrics-listen 127.0.0.1:{port}'
    p = Process(world, "controller", ["unshare", "--mount", "sh", "-c", inside, "sh",
                                      os.path.join(world.directory, "run"), world.dibs, world.installation],
                {**world.env, "DIBS_NODE": "inside", "KUBERNETES_SERVICE_HOST": world.url.hostname,
                 "KUBERNETES_SERVICE_PORT": str(world.url.port), "KUBECONFIG": ""})
    p.port = port
    world.ready(p)
    assert world.order(dump="leases")[0]["metadata"]["namespace"] == "dibs-system"

    def renew(name, text):
        with open(os.path.join(at, "new"), "w", encoding="ascii") as f:
            f.write(text)
        os.rename(os.path.join(at, "new"), os.path.join(at, name))
    new = secrets.token_hex(16)
    renew("token", new)
    world.order(token=new, cut=True)
    world.order(insert=[assigned("shop", "p", 20100)])
    until("it goes on with the new token", lambda: len(world.claims()) == 1)
    assert world.metric(p, "dibs_kube_leader") == 1
    world.order(certificate="stranger")  # of another authority
    world.order(insert=[assigned("shop", "q", 20101)])
    renew("ca.crt", "not written to its end")
    renew("ca.crt", open(os.path.join(world.tls, "other-ca.cert")).read())
    until("it goes on with the new authority", lambda: len(world.claims()) == 2)
    p.stop()


def case_leaders(world):
    world.order(insert=[assigned("shop", f"p{i}", 20100 + i) for i in range(5)])
    first = world.controller("first")
    second = world.controller("second")
    assert world.metric(first, "dibs_kube_leader") == 1 and world.metric(second, "dibs_kube_leader") == 0
    world.arrive(5)
    first.stop()  # gives it to the next one at once
    until("the second leads", lambda: world.metric(second, "dibs_kube_leader") == 1)
    world.ready(second)
    third = world.controller("third", env={"DIBS_TIMEOUT": "1s"})
    world.dibs_does("pool", "set", "kube", "--ranges", "20000-29998")
    time.sleep(1.5)  # it stands by for longer than a call of the ledger may last, and does not know the pool any more
    second.end()
    # Of who is dead, on this machine, nobody waits for the end of the Lease.
    lease = world.order(dump="leases")[0]
    assert lease["spec"]["leaseTransitions"] >= 1
    world.patch("Lease", lease["metadata"]["name"], {"spec": {"leaseDurationSeconds": 3600}}, "dibs")
    world.delete("Pod", "p0")
    until("the third leads", lambda: world.metric(third, "dibs_kube_leader") == 1)
    until("and ends what nobody needs", lambda: len(world.claims()) == 4)
    # Somebody else has it all of a sudden: it stops before anything else.
    world.patch("Lease", lease["metadata"]["name"], {"spec": {"holderIdentity": "stranger", "leaseDurationSeconds": 3600}},
                "dibs")
    until("it does not lead any more", lambda: world.metric(third, "dibs_kube_leader") == 0)
    assert 'lease_holder=stranger why="another process has the Lease"' in open(third.log).read()
    world.delete("Pod", "p1")
    world.create(pod("p9", None))
    until("it has lost its view", lambda: world.metric(third, "dibs_kube_pods") is None)
    assert len(world.claims()) == 4
    third.stop()


def create_many(world, n, names, errors, make):
    """n pods by eight clients at once."""
    left = collections.deque(names[:n])
    made = []

    def work():
        while True:
            try:
                name = left.popleft()
            except IndexError:
                return
            try:
                made.append(make(name))
            except Exception as e:  # any error: reported at the end
                errors.append(e)
    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return made


def two_hooks(world):
    hooks = [world.hook("hook-a"), world.hook("hook-b")]
    world.register("hook-a")
    world.register("hook-b")
    return hooks


def case_down(world):
    """500 pods start while there is no controller; then one comes, and another without the ledger's memory."""
    two_hooks(world)
    errors = []
    made = create_many(world, 500, [f"p{i}" for i in range(500)], errors, lambda name: world.create(
        pod(name, labels={"hook": random.choice(["hook-a", "hook-b"])})))
    assert not errors, errors[:3]
    ports = {env(p) for p in made}
    assert len(ports) == 500
    controller = world.controller()
    world.arrive(500)
    until("all are confirmed", lambda: not [c for c in world.claims() if c["holder"]])
    assert {c["port"] for c in world.claims()} == ports
    assert world.metric(controller, "dibs_kube_ended_total") == 0
    for p in made:
        world.delete("Pod", p["metadata"]["name"])
    until("all have ended", lambda: not world.claims())


def case_restart(world):
    n = 5000
    world.order(insert=[assigned(f"n{i % 20}", f"p{i}", 20000 + i) for i in range(n)])
    early = world.hook("hook", "--rebuilt")
    world.register()
    assert not world.is_up(early.port)
    status, got = world.call("POST", "/api/v1/namespaces/default/pods", pod("early"))
    assert status >= 400 and "no controller has written" in json.dumps(got), got
    begun = time.monotonic()
    controller = world.controller()
    print(f"# {n} pods: ledger rebuilt and ready after {time.monotonic() - begun:.2f} s")
    world.arrive(n)
    assert world.metric(controller, "dibs_kube_restored_total") == n
    until("the webhook serves", lambda: world.is_up(early.port))
    assert env(world.create(pod("early"))) not in range(20000, 20000 + n)
    controller.stop()
    begun = time.monotonic()
    controller = world.controller()
    until("it leads", lambda: world.metric(controller, "dibs_kube_leader") == 1 and
          world.get(controller, "/readyz")[0] == 200)  # who stands by is ready, too
    print(f"# {n} pods: ready again after {time.monotonic() - begun:.2f} s")
    assert world.metric(controller, "dibs_kube_restored_total") == 0
    assert world.metric(controller, "dibs_kube_ended_total") == 0


def lose_etcd(world):
    etcd = os.environ["ETCD_PID"]
    os.kill(int(etcd), signal.SIGKILL)
    until("it is dead, with all its threads", lambda: not os.path.exists(f"/proc/{etcd}"))
    shutil.rmtree(os.path.join(os.environ["ETCD_DIR"], "m0"))
    Process(world, "etcd", [os.path.join(SUPPORT, "etcd-member"), os.environ["ETCD_DIR"], "0"])


def case_outlived(world):
    """etcd loses its data under a replica that has claimed already: it claims no more until all is written again."""
    pool = ["--start-port", "20000", "--port-range", "20"]
    hook = world.hook("hook", *pool, "--rebuilt")
    world.register()
    controller = world.controller(flags=pool)
    until("the webhook serves", lambda: world.is_up(hook.port))
    many = {"allocations": [{"name": "http", "env": "PORT", "count": 5}]}
    made = [world.create(pod("many", many), f"n{i}") for i in range(3)]
    ports = {int(port) for p in made for e in p["spec"]["containers"][0]["env"] for port in e["value"].split(",")}
    assert len(ports) == 15
    controller.stop()
    lose_etcd(world)

    def post():
        return world.call("POST", world.path("Pod", "late"), pod("late"))
    until("pods are refused for that reason", lambda: "no controller has written" in post()[1].get("message", ""))
    assert not world.is_up(hook.port)
    # The next controller makes the pool before it knows what pods have.
    world.order(fail=[{"match": r"GET /api/v1/pods\?limit", "times": 1, "slow": 3}])
    controller = world.controller("next", is_awaited=False, flags=pool)
    codes = collections.Counter()

    def arrive():
        status, got = post()
        codes[status] += 1
        return got if status == 201 else None
    late = until("a pod is admitted", arrive)
    assert set(codes) == {201, 503} and env(late) not in ports, (codes, env(late), ports)
    assert world.is_up(hook.port)
    controller.stop()


def case_replaced(world):
    """etcd loses its data under all three programs: the ledger is written again, and none is slower than before."""
    n = 3000
    world.order(insert=[assigned(f"n{i % 20}", f"p{i}", 20000 + i) for i in range(n)])
    hook = world.hook("hook")
    world.register()
    controller = world.controller()

    def loads():
        connection = http.client.HTTPConnection("dibs")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(world.env["DIBS_SOCKET"])
        connection.request("GET", "/metrics")
        return int(next(line for line in connection.getresponse().read().decode().splitlines() if line.startswith("dibs_etcd_loads_total ")).split()[1])

    def rate(name):
        """The median time of an admission; the ledger has all of them in the end."""
        times = []
        for i in range(40):
            begun = time.monotonic()
            world.create(pod(f"{name}{i}"))
            times.append(time.monotonic() - begun)
        return sorted(times)[20]
    before = rate("before")
    world.arrive(n + 40)
    # The new etcd needs long to get as far as the old one.
    connection = http.client.HTTPConnection(urllib.parse.urlparse(world.ledger).netloc)
    for _ in range(3000):
        connection.request("POST", "/v3/kv/put", '{"key":"eA==","value":"eQ=="}')
        assert connection.getresponse().read()
    lose_etcd(world)
    until("the controller has written all again", lambda: (world.metric(controller, "dibs_kube_restored_total") or 0) >= 2 * n + 40)
    until("the webhook serves", lambda: world.is_up(hook.port))
    world.arrive(n + 40)
    seen = loads()
    after = rate("after")
    world.arrive(n + 80)
    until("they are confirmed", lambda: not [c for c in world.claims() if c["holder"]])
    print(f"# an admission before: {before * 1000:.1f} ms, after: {after * 1000:.1f} ms", file=sys.stderr)
    assert after < 3 * before + 0.02, (before, after)
    assert loads() <= seen + 2, (seen, loads())  # the daemon follows by its watch
    controller.stop()


class Storm:
    """Pods come and go while replicas and controllers are killed; no port is anybody else's at any moment."""

    def __init__(self, world, seconds, most):
        self.world, self.most = world, most
        self.end = time.monotonic() + seconds
        self.lock = threading.Lock()
        self.alive = {}  # port: pod
        self.errors = []
        self.counts = collections.Counter()
        self.random = random.Random(int(os.environ.get("DIBS_TEST_SEED", "0")) or None)

    def born(self, obj):
        port = env(obj)
        with self.lock:
            other = self.alive.get(port)
            if other:
                self.errors.append(f"{port} is {other} and {obj['metadata']['name']}")
            self.alive[port] = obj["metadata"]["name"]
        self.counts["created"] += 1
        return port

    def live(self, number):
        """One client: creates and deletes its own pods."""
        own = []
        serial = 0
        while time.monotonic() < self.end and not self.errors:
            if own and (len(own) >= self.most or self.random.random() < 0.45):
                name, port = own.pop(self.random.randrange(len(own)))
                with self.lock:
                    del self.alive[port]  # before: from then on it may be given away
                self.world.delete("Pod", name)
                self.counts["deleted"] += 1
                continue
            serial += 1
            name = f"c{number}-{serial}"
            status, got = self.world.call("POST", self.world.path("Pod", "shop"), pod(
                name, labels={"hook": self.random.choice(["hook-a", "hook-b"])}))
            if status == 201:
                own.append((name, self.born(got)))
            else:
                self.counts["refused"] += 1
                time.sleep(0.05)
        for name, port in own:
            with self.lock:
                del self.alive[port]
            self.world.delete("Pod", name)

    def client(self, number):
        try:
            self.live(number)
        except Exception as e:  # any error: reported at the end
            self.errors.append(repr(e))

    def run(self, processes):
        clients = [threading.Thread(target=self.client, args=(i,)) for i in range(6)]
        for c in clients:
            c.start()
        while time.monotonic() < self.end and not self.errors:
            time.sleep(self.random.uniform(0.2, 1.0))
            name = self.random.choice(list(processes))
            processes[name].end()
            self.counts[f"killed {name}"] += 1
            processes[name] = self.world.hook(name) if name.startswith("hook") else \
                self.world.controller(name, is_awaited=False)
            lease = self.world.order(dump="leases")
            if lease:  # its leader may be dead: nobody has to wait for fifteen seconds
                self.world.patch("Lease", lease[0]["metadata"]["name"], {"spec": {"leaseDurationSeconds": 1}}, "dibs")
        for c in clients:
            c.join()
        print(f"# {dict(self.counts)}")
        assert not self.errors, self.errors[:5]
        assert self.counts["created"] > 20, self.counts


def case_storm(world):
    a, b = two_hooks(world)
    processes = {"hook-a": a, "hook-b": b, "controller": world.controller()}
    Storm(world, 60 if LONG else 6, 80 if LONG else 20).run(processes)
    world.ready(processes["controller"])
    # The claims of an admitted pod that never existed stay pending for a minute.
    is_over = (lambda: not world.claims()) if LONG else (lambda: not [c for c in world.claims() if not c["holder"]])
    until("nothing is left", is_over, 240 if LONG else PATIENCE_S)
    # Every port was claimed before its pod existed: there was nothing to report.
    faults = [e for e in world.order(dump="events") if e["type"] == "Warning"]
    assert not faults, [(e["reason"], e["involvedObject"]["name"], e["message"]) for e in faults[:5]]


def case_absent(world):
    """No controller for ten times as long as a claim is pending (--pending 1m), while pods start; in the short form for
    some seconds."""
    seconds, n = (600, 500) if LONG else (4, 50)
    two_hooks(world)
    storm = Storm(world, seconds, 0)
    errors = []
    fifth = n // 5
    names = [f"p{i}" for i in range(3 * fifth)] + [f"web-{i}" for i in range(fifth)] + ["front-5d8f-"] * fifth
    world.create(workload("StatefulSet", "web", fifth))
    world.create(workload("Deployment", "front", fifth))

    def make(name):
        labels = {"hook": random.choice(["hook-a", "hook-b"])}
        if name.startswith("web"):
            obj = pod(name, owner=("StatefulSet", "web"), labels=labels)
        elif name.startswith("front"):
            obj = pod(generate=name, owner=("ReplicaSet", "front-5d8f"), labels={**labels, "pod-template-hash": "5d8f"})
        else:
            obj = pod(name, labels=labels)
        obj = world.create(obj)
        storm.born(obj)
        return obj
    made = create_many(world, n, names, errors, make)
    assert not errors and not storm.errors, (errors + storm.errors)[:3]

    def state():
        """All that says which claim it is; its holder comes and goes."""
        return {(c["name"], c["port"], c["id"]) for c in world.claims()}
    first = state()
    assert {port for _, port, _ in first} == {env(p) for p in made} and len(first) == n

    # Others come and go meanwhile: what was given away stays so, and is nobody else's.
    serial = 0
    gone = []
    while time.monotonic() < storm.end:
        serial += 1
        late = make(f"late-{serial}")
        assert not storm.errors, storm.errors
        if serial % 2:
            del storm.alive[env(late)]
            world.delete("Pod", late["metadata"]["name"])
            gone.append(env(late))
        else:
            made.append(late)
        if serial % 50 == 0:
            assert first <= state(), first - state()
        time.sleep(0.5)
    last = state()
    assert first <= last and len({port for _, port, _ in last}) == len(last) == n + serial
    print(f"# {n} pods and {serial} more, {len(gone)} of them deleted, in {seconds} s without a controller")

    controller = world.controller()
    ports = {env(p) for p in made}
    kept = {one for one in last if one[1] in ports}
    if not LONG:  # what is gone is pending still
        until("all are confirmed", lambda: not [c for c in world.claims() if c["holder"] and c["port"] in ports])
        assert kept <= state()
        return
    until("all are confirmed, and what is gone has ended",
          lambda: state() == kept and not [c for c in world.claims() if c["holder"]], 180)
    assert world.metric(controller, "dibs_kube_ended_total") == len(gone)
    assert world.metric(controller, "dibs_kube_restored_total") == 0
    for p in made:
        world.delete("Pod", p["metadata"]["name"])
    world.delete("StatefulSet", "web")
    world.delete("Deployment", "front")
    until("nothing is left", lambda: not world.claims(), 180)


def main():
    case, dibs, directory, ledger = sys.argv[1:]
    globals()[f"case_{case}"](World(dibs, directory, ledger))


if __name__ == "__main__":
    main()
