#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Requirements in a cluster with a real API server, and dibs installed in it as docs/KUBERNETES.md says.

    real_kube.py DIBS DIRECTORY [CASE]...       DIRECTORY is that of a running support/real-kube; says how many passed

It runs in the network of that cluster (nsenter).
"""
import atexit
import tempfile
import concurrent.futures
import contextlib
import http.client
import json
import os
import random
import signal
import ssl
import subprocess
import sys
import threading
import time
import traceback

PATIENCE_S = 180
PENDING = "1m"  # the least
BRIDGE, API_PORT = "10.250.0.1", 6443
PORTS = {"allocations": [{"name": "http", "env": "PORT", "annotationKey": "example.com/http"}]}
RBG = "rolebasedgroup.workloads.x-k8s.io"
CASES = []


def case(function):
    CASES.append(function)
    return function


def until(what, condition, patience=PATIENCE_S):
    end = time.monotonic() + patience
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end, f"not within {patience} s: {what}"
        time.sleep(0.1)


def equal(got, expected, what=""):
    assert got == expected, f"{what}: {got!r} is not {expected!r}"


class Refused(Exception):
    def __init__(self, status, answer):
        super().__init__(f"{status}: {answer.get('message')}")
        self.status, self.message = status, answer.get("message", "")


PATHS = {"Pod": ("api/v1", "pods"), "Service": ("api/v1", "services"), "Namespace": ("api/v1", None),
         "Event": ("api/v1", "events"), "Endpoints": ("api/v1", "endpoints"), "Secret": ("api/v1", "secrets"),
         "StatefulSet": ("apis/apps/v1", "statefulsets"), "Deployment": ("apis/apps/v1", "deployments"),
         "ReplicaSet": ("apis/apps/v1", "replicasets"), "DaemonSet": ("apis/apps/v1", "daemonsets"),
         "Job": ("apis/batch/v1", "jobs"), "LeaderWorkerSet": ("apis/leaderworkerset.x-k8s.io/v1", "leaderworkersets"),
         "RoleBasedGroup": ("apis/workloads.x-k8s.io/v1alpha2", "rolebasedgroups"),
         "RoleInstanceSet": ("apis/workloads.x-k8s.io/v1alpha2", "roleinstancesets"),
         "RoleInstance": ("apis/workloads.x-k8s.io/v1alpha2", "roleinstances"),
         "Lease": ("apis/coordination.k8s.io/v1", "leases")}


class World:
    def __init__(self, dibs, directory):
        self.dibs, self.directory = dibs, directory
        self.context = ssl.create_default_context(cafile=os.path.join(directory, "ca.crt"))
        self.local = threading.local()
        with open(os.path.join(directory, "ledger")) as file:
            self.env = {**os.environ, "DIBS_LEDGER": file.read()}
        # Commands reach the ledger through a daemon, which lives as long as this world.
        sockets = tempfile.mkdtemp(prefix="dibs-real-kube.")
        self.daemon = subprocess.Popen([dibs, "serve", "--node", "observer", "--socket", f"{sockets}/dibs.sock",
                                        "--admin-socket", f"{sockets}/admin.sock"], env={**self.env, "DIBS_SOCKET": "none"})
        atexit.register(self.daemon.terminate)
        self.env["DIBS_SOCKET"] = f"{sockets}/admin.sock"
        while not os.path.exists(self.env["DIBS_SOCKET"]):
            assert self.daemon.poll() is None, "the daemon does not start"
            time.sleep(0.05)
        self.warnings = []

    def ask(self, method, path, body=None, kind="application/json"):
        for is_last in (False, True):
            line = getattr(self.local, "line", None)
            if line is None:
                line = http.client.HTTPSConnection(BRIDGE, API_PORT, context=self.context, timeout=60)
                self.local.line = line
            try:
                line.request(method, path, None if body is None else json.dumps(body),
                             {"Authorization": "Bearer admin-token", "Content-Type": kind})
                answer = line.getresponse()
                text = answer.read()
                break
            except (OSError, http.client.HTTPException):
                line.close()
                self.local.line = None
                if is_last:
                    raise
        self.warnings += answer.headers.get_all("Warning") or []
        found = json.loads(text) if text[:1] == b"{" else {"text": text.decode()}
        if answer.status >= 400:
            raise Refused(answer.status, found)
        return found

    @staticmethod
    def path(kind, space, name=None):
        base, plural = PATHS[kind]
        where = f"/{base}/namespaces/{space}" + (f"/{plural}" if plural else "")
        return where + (f"/{name}" if name else "")

    def make(self, thing, query=""):
        path = self.path(thing["kind"], thing["metadata"]["namespace"]) + query
        while True:
            try:
                return self.ask("POST", path, thing)
            except Refused as refused:
                # A generated name that is taken already: the server does not try another one by itself.
                if refused.status != 500 or "please try again" not in refused.message:
                    raise

    def get(self, kind, space, name):
        try:
            return self.ask("GET", self.path(kind, space, name))
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def patch(self, kind, space, name, change, sub="", how="application/merge-patch+json"):
        return self.ask("PATCH", self.path(kind, space, name) + sub, change, how)

    def delete(self, kind, space, name, policy="Background", grace=None):
        try:
            return self.ask("DELETE", self.path(kind, space, name),
                            {"propagationPolicy": policy, **({} if grace is None else {"gracePeriodSeconds": grace})})
        except Refused as refused:
            if refused.status == 404:
                return None
            raise

    def patch_hook(self, rules):
        self.ask("PATCH", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/dibs-webhook", [
            {"op": "add", "path": "/webhooks/0/rules/-", "value": rule} for rule in rules], "application/json-patch+json")
        time.sleep(2)  # until the server has heard of it

    def pods(self, space, selector=""):
        return self.ask("GET", self.path("Pod", space) + (f"?labelSelector={selector}" if selector else ""))["items"]

    def space(self, name, labels=None):
        self.ask("POST", "/api/v1/namespaces", {"kind": "Namespace", "apiVersion": "v1",
                                                "metadata": {"name": name, "labels": labels or {}}})
        until(f"the account of {name}", lambda: self.ask(
            "GET", f"/api/v1/namespaces/{name}/serviceaccounts").get("items", [{}])[:1] and any(
                account.get("secrets") for account in self.ask("GET", f"/api/v1/namespaces/{name}/serviceaccounts")["items"]))
        return name

    def claims(self, space=None):
        got = subprocess.run([self.dibs, "ls", "--all", "--json"], capture_output=True, text=True,
                             env=self.env, timeout=PATIENCE_S)
        assert got.returncode == 0, got.stderr
        found = json.loads(got.stdout)
        return [c for c in found if space is None or c["principal"] == f"ns:{space}"]

    def ports(self, space):
        return {c["name"]: c["port"] for c in self.claims(space)}

    def kubectl(self, *words, given=None, is_refused=False):
        got = subprocess.run([os.path.join(self.directory, "kubectl"), *words], input=given, capture_output=True, text=True,
                             timeout=PATIENCE_S)
        assert (got.returncode != 0) == is_refused, (words, got.stdout, got.stderr)
        return got.stderr if is_refused else got.stdout

    def events(self, space, reason=None):
        return [e for e in self.ask("GET", self.path("Event", space))["items"] if reason in (None, e["reason"])]

    def replicas(self, component):
        """The names and pids of dibs' own pods."""
        names = [p["metadata"]["name"] for p in self.pods("dibs", f"app.kubernetes.io/component={component}")]
        return {name: int(open(os.path.join(self.directory, f"{name}.pid")).read()) for name in names}

    def address(self, name):
        return self.get("Pod", "dibs", name)["status"]["podIP"]

    def metrics(self, name):
        """The metrics of a controller; empty when it is not there."""
        line = http.client.HTTPConnection(self.address(name), 9464, timeout=30)
        try:
            line.request("GET", "/metrics")
            text = line.getresponse().read().decode()
        except (OSError, http.client.HTTPException):
            text = ""
        return dict(row.rsplit(" ", 1) for row in text.splitlines() if row and row[0] != "#")

    def leader(self):
        def look():
            return next((name for name in self.replicas("controller") if self.metrics(name).get("dibs_kube_leader") == "1"), None)
        return until("somebody leads", look)


def template(config=PORTS, labels=None, key="dibs.dev/ports", **spec):
    return {"metadata": {"labels": labels or {}, "annotations": {key: config if isinstance(config, str) else json.dumps(config)}},
            "spec": {"containers": [{"name": "c", "image": "x"}], **spec}}


def pod(space, name, config=PORTS, labels=None, key="dibs.dev/ports", owner=None, annotations=None, **spec):
    made = template(config, labels, key, **spec)
    made.update(apiVersion="v1", kind="Pod")
    made["metadata"].update({"namespace": space, **({"generateName": name} if name.endswith("-") else {"name": name})})
    made["metadata"]["annotations"].update(annotations or {})
    if config is None:
        del made["metadata"]["annotations"][key]
    if owner is not None:
        made["metadata"]["ownerReferences"] = [{
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], "controller": True, "blockOwnerDeletion": False}]
    return made


def workload(kind, space, name, labels=None, group="apps/v1", replicas=None, made=None, **spec):
    made = made or template(labels={"app": name, **(labels or {})})
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name, "namespace": space},
            "spec": {**({"replicas": replicas} if replicas is not None else {}),
                     **({"selector": {"matchLabels": {"app": name}}} if kind != "Job" else {}),
                     **({"serviceName": name} if kind == "StatefulSet" else {}), "template": made, **spec}}


def env(thing, name, container="c"):
    for one in thing["spec"]["containers"] + thing["spec"].get("initContainers", []):
        if one["name"] == container:
            return next((int(e["value"]) for e in one.get("env", []) if e["name"] == name), None)
    return None


def assigned(thing):
    return json.loads(thing["metadata"]["annotations"]["dibs.dev/assigned"])


def settle(world, space):
    """No pods, and nothing claimed."""
    until(f"no pods in {space}", lambda: not world.pods(space))
    until(f"nothing is claimed in {space}", lambda: not world.claims(space))


def install(world, *more):
    """As docs/KUBERNETES.md says."""
    version = world.ask("GET", "/version")["gitVersion"]
    text = subprocess.run([world.dibs, "kube", "install", "--print", "--image", "dibs", "--ledger", world.env["DIBS_LEDGER"],
                           "--kubernetes", version, *more], capture_output=True, text=True, check=True).stdout
    return world.kubectl("apply", "-f", "-", given=text)


def webhooks(world):
    return world.pods("dibs", "app.kubernetes.io/component=webhook")


def is_served(world):
    """By two replicas that wait for nobody for minutes."""
    found = (world.get("Endpoints", "dibs", "dibs-webhook") or {}).get("subsets") or [{}]
    return len(found[0].get("addresses") or []) == 2 and len(webhooks(world)) == 2 and all(
        f"--pending={PENDING}" in p["spec"]["containers"][0]["args"] for p in webhooks(world))


def hurry(world, *more):
    args = world.get("Deployment", "dibs", "dibs-webhook")["spec"]["template"]["spec"]["containers"][0]["args"]
    args = [arg for arg in args if not arg.startswith("--pending")] + [f"--pending={PENDING}", *more]
    world.patch("Deployment", "dibs", "dibs-webhook", [{
        "op": "replace", "path": "/spec/template/spec/containers/0/args", "value": args}], how="application/json-patch+json")
    until("two replicas serve", lambda: is_served(world) and all(
        p["spec"]["containers"][0]["args"] == args for p in webhooks(world)))


@case
def it_is_installed_and_its_pods_run(world):
    assert "mutatingwebhookconfiguration.admissionregistration.k8s.io/dibs-webhook created" in install(world)
    hurry(world)
    world.leader()
    world.space("first")
    until("a pod is admitted", lambda: try_make(world, pod("first", "one")))
    equal(len(world.claims("first")), 1)
    world.delete("Pod", "first", "one")
    settle(world, "first")


@case
def applied_again_with_its_own_certificate_nothing_changes(world):
    secrets = ("dibs-webhook-tls", "dibs-installation")
    before = [world.get("Secret", "dibs", name)["data"] for name in secrets]
    path = os.path.join(world.directory, "secret.yaml")
    with open(path, "w") as file:
        file.write(world.kubectl("-n", "dibs", "get", "secret", *secrets, "-o", "yaml"))
    install(world, "--secret", path)
    equal([world.get("Secret", "dibs", name)["data"] for name in secrets], before)
    hurry(world)
    world.make(pod("first", "two"))
    world.delete("Pod", "first", "two")
    settle(world, "first")


@case
def a_bare_pod_gets_its_ports_and_gives_them_back(world):
    space = world.space("bare")
    made = world.make(pod(space, "one", {"allocations": [
        {"name": "http", "env": "PORT", "annotationKey": "example.com/http"}, {"name": "g", "env": "GOSSIP", "proto": "udp"}]},
        containers=[{"name": "c", "image": "x", "env": [{"name": "URL", "value": "$(PORT)"}]}, {"name": "d", "image": "x"}],
        initContainers=[{"name": "i", "image": "x", "env": [{"name": "PORT", "value": "8080"}]}]))
    claims = world.claims(space)
    equal(len(claims), 2)
    port = env(made, "PORT")
    assert 20000 <= port <= 29999
    for container in "cdi":
        equal(env(made, "PORT", container), port, container)
        equal(env(made, "GOSSIP", container), env(made, "GOSSIP"), container)
    equal([e["name"] for e in made["spec"]["containers"][0]["env"]], ["PORT", "GOSSIP", "URL"])
    equal(made["metadata"]["annotations"]["example.com/http"], str(port))
    equal({a["port"] for a in assigned(made)}, {c["port"] for c in claims})
    world.delete("Pod", space, "one")
    settle(world, space)
    named = [world.make(pod(space, "many-")) for _ in range(5)]
    equal(len({env(p, "PORT") for p in named}), 5)
    until("confirmed", lambda: all(c["holder"] is None for c in world.claims(space)))
    for p in named:
        world.delete("Pod", space, p["metadata"]["name"])
    settle(world, space)


@case
def a_deployment_is_scaled_rolled_out_and_deleted(world):
    space = world.space("deploy")
    world.make(workload("Deployment", space, "api", replicas=4))
    until("four", lambda: len(world.pods(space)) == 4)
    ports = {env(p, "PORT") for p in world.pods(space)}
    equal(len(ports), 4)
    equal({c["port"] for c in world.claims(space)}, ports)
    world.patch("Deployment", space, "api", {"spec": {"replicas": 2}})
    until("two claims", lambda: len(world.claims(space)) == 2)
    equal({env(p, "PORT") for p in world.pods(space)}, set(world.ports(space).values()))
    changed = {"allocations": [{"name": "http", "env": "PORT"}, {"name": "more", "env": "MORE"}]}
    world.patch("Deployment", space, "api", {"spec": {"template": {"metadata": {"annotations": {"dibs.dev/ports": json.dumps(changed)}}}}})
    until("rolled out", lambda: [env(p, "MORE") is not None for p in world.pods(space)] == [True, True])
    until("only the new ones' claims", lambda: set(world.ports(space).values()) == {
        port for p in world.pods(space) for port in (env(p, "PORT"), env(p, "MORE"))})
    equal(len(world.claims(space)), 4)
    world.delete("Deployment", space, "api")
    settle(world, space)


@case
def a_statefulsets_pod_has_its_port_again(world):
    space = world.space("stateful")
    world.make(workload("StatefulSet", space, "web", replicas=3))
    until("three", lambda: len(world.pods(space)) == 3)
    before = {p["metadata"]["name"]: env(p, "PORT") for p in world.pods(space)}
    equal(len(set(before.values())), 3)
    for name in ("web-1", "web-0"):
        uid = world.get("Pod", space, name)["metadata"]["uid"]
        world.delete("Pod", space, name)
        new = until("made again", lambda: (world.get("Pod", space, name) or {"metadata": {"uid": uid}}))
        new = until("made again", lambda: (lambda p: p and p["metadata"]["uid"] != uid and p)(world.get("Pod", space, name)))
        equal(env(new, "PORT"), before[name], name)
    world.patch("StatefulSet", space, "web", {"spec": {"replicas": 1}})
    until("only one claim", lambda: list(world.ports(space)) == ["StatefulSet.web/web/0/-/http"])
    world.patch("StatefulSet", space, "web", {"spec": {"replicas": 2}})
    until("two", lambda: len(world.pods(space)) == 2 and len(world.claims(space)) == 2)
    world.delete("StatefulSet", space, "web", "Orphan")
    until("orphans", lambda: all(not p["metadata"].get("ownerReferences") for p in world.pods(space)))
    time.sleep(3)
    equal({env(p, "PORT") for p in world.pods(space)}, set(world.ports(space).values()), "orphans keep theirs")
    world.delete("Pod", space, "web-1")
    until("one left", lambda: len(world.claims(space)) == 1)
    world.make(workload("StatefulSet", space, "web", replicas=2))
    until("adopted and grown", lambda: len(world.pods(space)) == 2)
    equal(env(world.get("Pod", space, "web-0"), "PORT"), before["web-0"])
    until("two claims", lambda: len(world.claims(space)) == 2)
    world.delete("StatefulSet", space, "web")
    settle(world, space)


@case
def the_pods_of_a_changed_statefulset_give_back_what_is_obsolete(world):
    space = world.space("changed")
    two = {"allocations": [{"name": "http", "env": "PORT"}, {"name": "old", "env": "OLD"},
                           {"name": "shared", "env": "SHARED", "scope": "RoleScoped"}]}
    world.make(workload("StatefulSet", space, "web", replicas=2, made=template(two, {"app": "web"})))
    until("two", lambda: len(world.pods(space)) == 2 and [c["holder"] for c in world.claims(space)] == [None] * 5)
    before = {p["metadata"]["name"]: env(p, "PORT") for p in world.pods(space)}
    one = {"allocations": [{"name": "http", "env": "PORT"}]}
    world.patch("StatefulSet", space, "web", {"spec": {"template": {"metadata": {"annotations": {"dibs.dev/ports": json.dumps(one)}}}}})
    until("new pods", lambda: len(world.pods(space)) == 2 and all(env(p, "OLD") is None for p in world.pods(space)))
    equal({p["metadata"]["name"]: env(p, "PORT") for p in world.pods(space)}, before)
    until("two claims", lambda: len(world.claims(space)) == 2)
    world.delete("StatefulSet", space, "web")
    settle(world, space)


@case
def jobs_daemonsets_and_cronjobs(world):
    space = world.space("jobs")
    done = template(labels={"app": "job"}, restartPolicy="Never")
    done["metadata"]["annotations"]["test/phase"] = "Succeeded"
    job = workload("Job", space, "job", group="batch/v1", made=done)
    world.make({**job, "spec": {**job["spec"], "completions": 3, "parallelism": 3}})
    until("three have been", lambda: [p["status"].get("phase") for p in world.pods(space)] == ["Succeeded"] * 3)
    equal(len({env(p, "PORT") for p in world.pods(space)}), 3)
    until("finished pods give theirs back", lambda: not world.claims(space))
    world.make(workload("DaemonSet", space, "ds"))
    until("one a node", lambda: len(world.pods(space, "app=ds")) == 3 and len(world.claims(space)) == 3)
    world.delete("DaemonSet", space, "ds")
    until("none", lambda: not world.claims(space))
    world.kubectl("apply", "-f", "-", given=json.dumps({
        "apiVersion": "batch/v1beta1", "kind": "CronJob", "metadata": {"name": "cron", "namespace": space},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}}}}))
    world.kubectl("-n", space, "create", "job", "--from=cronjob/cron", "now")
    until("its pod", lambda: world.pods(space, "job-name=now"))
    equal([c["port"] for c in world.claims(space)], [env(world.pods(space, "job-name=now")[0], "PORT")])
    world.delete("Job", space, "now")
    world.delete("Job", space, "job")
    settle(world, space)


def instance_pod(space, group, role, instance, owner, component, index, config, kind="Components"):
    name = {"Components": f"{instance}-{component}-{index}", "LeaderWorkerSet": f"{instance}-{index}", "": instance}[kind]
    labels = {f"{RBG}/name": group, f"{RBG}/role": role, f"role.{RBG}/template-type": kind or "PodTemplate", "instance.workloads.x-k8s.io/instance-name": instance,
              "instance.workloads.x-k8s.io/component-name": component, "instance.workloads.x-k8s.io/component-id": str(index)}
    return pod(space, name, config, labels, f"{RBG}/port-allocator", owner)


@case
def the_scenario_of_rbg_with_equality(world):
    space = world.space("rbg")
    group = world.make({"apiVersion": "workloads.x-k8s.io/v1alpha2", "kind": "RoleBasedGroup",
                        "metadata": {"name": "pd", "namespace": space}, "spec": {"roles": [{"name": "prefill", "replicas": 2}]}})
    instances = {}
    for number in (0, 1):
        instances[number] = world.make({
            "apiVersion": "workloads.x-k8s.io/v1alpha2", "kind": "RoleInstance",
            "metadata": {"name": f"pd-prefill-{number}", "namespace": space,
                         "labels": {f"{RBG}/name": "pd", f"{RBG}/role": "prefill"},
                         "ownerReferences": [{"apiVersion": group["apiVersion"], "kind": "RoleBasedGroup", "name": "pd",
                                              "uid": group["metadata"]["uid"]}]}, "spec": {}})
    leader = {"allocations": [
        {"name": "leader-port", "env": "LEADER_PORT", "annotationKey": "test/grpc-port", "scope": "PodScoped"},
        {"name": "leader-port-static", "env": "LEADER_PORT_STATIC", "annotationKey": "test/grpc-port-static", "scope": "RoleScoped"}]}
    worker = {"references": [{"env": "LEADER_ADDR_PORT", "from": "prefill.leader.leader-port"}]}
    # The worker of instance 1 comes before its leader.
    w1 = world.make(instance_pod(space, "pd", "prefill", "pd-prefill-1", instances[1], "worker", 0, worker))
    l0 = world.make(instance_pod(space, "pd", "prefill", "pd-prefill-0", instances[0], "leader", 0, leader))
    w0 = world.make(instance_pod(space, "pd", "prefill", "pd-prefill-0", instances[0], "worker", 0, worker))
    l1 = world.make(instance_pod(space, "pd", "prefill", "pd-prefill-1", instances[1], "leader", 0, leader))
    equal(env(w0, "LEADER_ADDR_PORT"), env(l0, "LEADER_PORT"), "instance 0")
    equal(env(w1, "LEADER_ADDR_PORT"), env(l1, "LEADER_PORT"), "instance 1")
    assert env(l0, "LEADER_PORT") != env(l1, "LEADER_PORT")
    equal(env(l0, "LEADER_PORT_STATIC"), env(l1, "LEADER_PORT_STATIC"))
    for one in (l0, l1):
        equal(one["metadata"]["annotations"]["test/grpc-port"], str(env(one, "LEADER_PORT")))
        equal(one["metadata"]["annotations"]["test/grpc-port-static"], str(env(one, "LEADER_PORT_STATIC")))
    equal(len(world.claims(space)), 3)
    world.delete("Pod", space, "pd-prefill-0-leader-0")
    until("gone", lambda: world.get("Pod", space, "pd-prefill-0-leader-0") is None)
    time.sleep(2)
    again = world.make(instance_pod(space, "pd", "prefill", "pd-prefill-0", instances[0], "leader", 0, leader))
    equal(env(again, "LEADER_PORT"), env(l0, "LEADER_PORT"), "the same port again")
    world.delete("RoleInstance", space, "pd-prefill-1")
    until("the instance's port is free", lambda: len(world.claims(space)) == 2)
    world.delete("RoleBasedGroup", space, "pd")
    until("no pods", lambda: [world.delete("Pod", space, p["metadata"]["name"]) for p in world.pods(space)] == [])
    settle(world, space)


@case
def leaderworkersets_and_standalone_instances(world):
    space = world.space("lws")
    lws = world.make({"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
                      "metadata": {"name": "llm", "namespace": space},
                      "spec": {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template()}}})
    # As its controller does: leaders by a StatefulSet; their workers' labels are complete, for its webhook is not here.
    key = "leaderworkerset.sigs.k8s.io"
    leaders = workload("StatefulSet", space, "llm", replicas=2, podManagementPolicy="Parallel", made=template(
        labels={"app": "llm", f"{key}/name": "llm", f"{key}/worker-index": "0"}))
    leaders["metadata"]["ownerReferences"] = pod(space, "x", owner=lws)["metadata"]["ownerReferences"]
    world.make(leaders)
    until("leaders", lambda: len(world.pods(space)) == 2)
    made = {p["metadata"]["name"]: p for p in world.pods(space)}
    for group in (0, 1):
        labels = {f"{key}/name": "llm", f"{key}/group-index": str(group), f"{key}/worker-index": "1"}
        made[f"llm-{group}-1"] = world.make(pod(space, f"llm-{group}-1", PORTS, labels, owner=lws))
    equal(len({env(p, "PORT") for p in made.values()}), 4)
    equal(sorted(world.ports(space)), ["LeaderWorkerSet.llm/llm/0/leader/http", "LeaderWorkerSet.llm/llm/0/worker/http",
                                       "LeaderWorkerSet.llm/llm/1/leader/http", "LeaderWorkerSet.llm/llm/1/worker/http"])
    world.delete("Pod", space, "llm-1-1")
    until("gone", lambda: world.get("Pod", space, "llm-1-1") is None)
    time.sleep(3)  # a controller that would end it had the time to
    again = world.make(pod(space, "llm-1-1", PORTS, made["llm-1-1"]["metadata"]["labels"], owner=lws))
    equal(env(again, "PORT"), env(made["llm-1-1"], "PORT"))
    world.patch("LeaderWorkerSet", space, "llm", {"spec": {"replicas": 1}})
    world.patch("StatefulSet", space, "llm", {"spec": {"replicas": 1}})
    world.delete("Pod", space, "llm-1-1")
    until("scaled away", lambda: len(world.claims(space)) == 2)
    world.delete("LeaderWorkerSet", space, "llm")
    settle(world, space)
    single = world.make({"apiVersion": "workloads.x-k8s.io/v1alpha2", "kind": "RoleInstance",
                         "metadata": {"name": "g-r-0", "namespace": space}, "spec": {}})
    first = world.make(instance_pod(space, "g", "r", "g-r-0", single, "r", 0, PORTS, kind=""))
    world.delete("Pod", space, "g-r-0")
    until("gone", lambda: world.get("Pod", space, "g-r-0") is None)
    second = world.make(instance_pod(space, "g", "r", "g-r-0", single, "r", 0, PORTS, kind=""))
    equal(env(second, "PORT"), env(first, "PORT"), "standalone")
    world.delete("RoleInstance", space, "g-r-0")
    settle(world, space)


@case
def references_reach_across_in_any_order(world):
    space = world.space("refs")
    world.make(workload("Deployment", space, "client", replicas=2, made=template(
        {"references": [{"env": "WEB", "from": "web[1].http"}, {"env": "SHARED", "from": "web.shared"}]},
        {"app": "client", "dibs.dev/group": "g"})))
    until("clients", lambda: len(world.pods(space, "app=client")) == 2)
    both = {"allocations": [{"name": "http", "env": "PORT"}, {"name": "shared", "env": "SHARED", "scope": "RoleScoped"}]}
    world.make(workload("StatefulSet", space, "web", replicas=2, made=template(both, {"app": "web", "dibs.dev/group": "g"})))
    until("web", lambda: len(world.pods(space, "app=web")) == 2)
    web = {p["metadata"]["name"]: p for p in world.pods(space, "app=web")}
    for client in world.pods(space, "app=client"):
        equal(env(client, "WEB"), env(web["web-1"], "PORT"))
        equal(env(client, "SHARED"), env(web["web-0"], "SHARED"))
    equal(env(web["web-0"], "SHARED"), env(web["web-1"], "SHARED"))
    equal(len(world.claims(space)), 3)
    until("confirmed", lambda: all(c["holder"] is None for c in world.claims(space)))
    world.delete("Deployment", space, "client")
    world.delete("StatefulSet", space, "web")
    settle(world, space)


@case
def the_scheduler_avoids_nodes_where_the_port_is_used(world):
    space = world.space("sched")
    shared = {"allocations": [{"name": "m", "env": "PORT", "scope": "RoleScoped"}]}
    world.make(workload("StatefulSet", space, "train", replicas=4, podManagementPolicy="Parallel",
                        made=template(shared, {"app": "train"}, hostNetwork=True)))
    until("three are placed, the fourth waits", lambda: sorted(
        p["spec"].get("nodeName", "") for p in world.pods(space)) == ["", "node-a", "node-b", "node-c"])
    ports = {tuple(sorted((q["hostPort"], q["containerPort"]) for q in p["spec"]["containers"][0]["ports"])) for p in world.pods(space)}
    equal(len(ports), 1)
    equal({env(p, "PORT") for p in world.pods(space)}, {next(iter(ports))[0][0]})
    waits = next(p for p in world.pods(space) if not p["spec"].get("nodeName"))
    until("the scheduler says why", lambda: any("free ports" in e["message"] for e in world.events(space, "FailedScheduling")
                                                if e["involvedObject"]["name"] == waits["metadata"]["name"]))
    placed = next(p for p in world.pods(space) if p["spec"].get("nodeName"))
    world.patch("StatefulSet", space, "train", {"spec": {"replicas": 3}})
    world.delete("StatefulSet", space, "train")
    settle(world, space)
    assert placed


@case
def a_dry_run_claims_nothing(world):
    space = world.space("dry")
    made = world.make(pod(space, "one"), "?dryRun=All")
    assert env(made, "PORT")
    text = json.dumps(pod(space, "two"))
    assert "created (server dry run)" in world.kubectl("apply", "--dry-run=server", "-f", "-", given=text)
    assert "serverside-applied" in world.kubectl("apply", "--server-side", "-f", "-", given=text)
    before = env(world.get("Pod", space, "two"), "PORT")
    world.kubectl("apply", "--server-side", "-f", "-", given=text)
    world.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=text)
    equal(env(world.get("Pod", space, "two"), "PORT"), before)
    equal(len(world.claims(space)), 1)
    world.delete("Pod", space, "two")
    settle(world, space)


@case
def updates_change_nothing_that_was_given(world):
    space = world.space("updates")
    made = world.make(pod(space, "one"))
    world.patch("Pod", space, "one", {"metadata": {"labels": {"a": "b"}, "annotations": {"other": "x"}}})
    world.kubectl("-n", space, "label", "pod", "one", "c=d")
    world.kubectl("-n", space, "annotate", "pod", "one", "e=f")
    for key, value in (("dibs.dev/ports", "{}"), ("dibs.dev/ports", None), ("dibs.dev/claim", "0" * 32), ("dibs.dev/claim", None),
                       ("dibs.dev/assigned", "[]"), ("dibs.dev/assigned", None),
                       ("dibs.dev/signature", "0"), ("dibs.dev/signature", None)):
        try:
            world.patch("Pod", space, "one", {"metadata": {"annotations": {key: value}}})
            assert False, f"{key}={value} was accepted"
        except Refused as refused:
            assert key in refused.message, refused.message
            equal(refused.status, 422, key)
    world.patch("Pod", space, "one", {"spec": {"activeDeadlineSeconds": 100000}})
    world.patch("Pod", space, "one", {"spec": {"containers": [{"name": "c", "image": "y"}]}}, how="application/strategic-merge-patch+json")
    world.patch("Pod", space, "one", {"status": {"message": "hello"}}, "/status")
    now = world.get("Pod", space, "one")
    equal(env(now, "PORT"), env(made, "PORT"))
    equal(now["metadata"]["annotations"]["dibs.dev/assigned"], made["metadata"]["annotations"]["dibs.dev/assigned"])
    try:
        world.patch("Pod", space, "one", {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}]}}, "/ephemeralcontainers",
                    "application/strategic-merge-patch+json")
    except Refused as refused:
        assert refused.status in (404, 405), refused  # not turned on by default in this version
    bound = world.make(pod(space, "two", schedulerName="nobody"))
    world.ask("POST", world.path("Pod", space, "two") + "/binding", {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "two"}, "target": {"apiVersion": "v1", "kind": "Node", "name": "node-a"}})
    equal(env(world.get("Pod", space, "two"), "PORT"), env(bound, "PORT"))
    world.ask("POST", world.path("Pod", space, "two") + "/eviction", {
        "apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "two", "namespace": space}})
    until("evicted", lambda: len(world.claims(space)) == 1)
    world.delete("Pod", space, "one")
    settle(world, space)


@case
def a_copied_pod_has_ports_of_its_own(world):
    space = world.space("copies")
    first = world.make(pod(space, "one"))
    until("confirmed", lambda: all(c["holder"] is None for c in world.claims(space)))
    text = world.kubectl("-n", space, "get", "pod", "one", "-o", "yaml").replace("name: one", "name: two")
    for line in ("resourceVersion", "uid:"):
        text = "\n".join(row for row in text.splitlines() if not row.strip().startswith(line))
    world.kubectl("apply", "-f", "-", given=text)
    second = world.get("Pod", space, "two")
    assert env(first, "PORT") != env(second, "PORT")
    equal(second["metadata"]["annotations"]["example.com/http"], str(env(second, "PORT")))
    assert first["metadata"]["annotations"]["dibs.dev/claim"] != second["metadata"]["annotations"]["dibs.dev/claim"]
    equal({c["port"] for c in world.claims(space)}, {env(first, "PORT"), env(second, "PORT")})
    # A template that was copied from a pod: annotations and all.
    copied = template(labels={"app": "copy"})
    copied["metadata"]["annotations"] = dict(first["metadata"]["annotations"])
    copied["spec"]["containers"][0]["env"] = first["spec"]["containers"][0]["env"]
    world.make(workload("Deployment", space, "copy", replicas=3, made=copied))
    until("three copies", lambda: len(world.pods(space, "app=copy")) == 3)
    equal(len({env(p, "PORT") for p in world.pods(space)}), 5)
    equal(len(world.claims(space)), 5)
    # Gone, and made again from what was read: it may not have the port of somebody who came meanwhile.
    world.delete("Deployment", space, "copy")
    for name in ("one", "two"):
        world.delete("Pod", space, name)
    settle(world, space)


@case
def asked_twice_it_answers_the_same(world):
    """Another configuration asks the same Service once more, as a reinvocation does."""
    space = world.space("twice")
    path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    other = world.ask("GET", f"{path}/dibs-webhook")
    other["metadata"] = {"name": "zz-again"}
    world.ask("POST", path, other)
    try:
        time.sleep(2)  # until the server has heard of it
        made = [world.make(pod(space, "t-", hostNetwork=True)) for _ in range(20)]
    finally:
        world.ask("DELETE", f"{path}/zz-again")
    equal(sorted(c["port"] for c in world.claims(space)), sorted(env(p, "PORT") for p in made))
    for one in made:
        equal(len(one["spec"]["containers"][0]["env"]), 1)
        equal([q["hostPort"] for q in one["spec"]["containers"][0]["ports"]], [env(one, "PORT")])
        world.delete("Pod", space, one["metadata"]["name"])
    settle(world, space)


@case
def numbers_are_one_space_for_all_namespaces(world):
    spaces = [world.space(name) for name in ("north", "south")]
    for space in spaces:
        world.make(workload("StatefulSet", space, "web", replicas=2, podManagementPolicy="Parallel"))
        world.make(workload("ReplicaSet", space, "rs", replicas=2))
    until("eight", lambda: sum(len(world.pods(space)) for space in spaces) == 8)
    equal(len({env(p, "PORT") for space in spaces for p in world.pods(space)}), 8)
    until("the metrics say so", lambda: world.metrics(world.leader()).get(
        "kube_apiserver_nodeport_allocator_allocated_ports") == str(len(world.claims())))
    for space in spaces:
        world.delete("StatefulSet", space, "web")
        world.delete("ReplicaSet", space, "rs")
    for space in spaces:
        settle(world, space)


@case
def what_is_unusual_is_served_too(world):
    space = world.space("unusual")
    many = {"allocations": [{"name": f"p{i}", "env": f"P{i}"} for i in range(20)] + [
        {"name": "row", "env": "ROW", "count": 8, "contiguous": True},
        {"name": "both", "env": "BOTH", "proto": "tcp,udp"}, {"name": "assoc", "env": "SCTP", "proto": "sctp"}]}
    made = world.make(pod(space, "l" * 253, many, hostNetwork=True, containers=[
        {"name": "c", "image": "x", "env": [{"name": "P0", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                                            {"name": "USES", "value": "$(P0):$(P19)"}],
         "ports": [{"containerPort": 8080, "name": "web"}]}]))
    equal(len(world.claims(space)), 30)
    numbers = sorted(c["port"] for c in world.claims(space))
    equal(len(set(numbers)), 30)
    equal(made["spec"]["containers"][0]["env"][-1]["name"], "USES")
    equal([e for e in made["spec"]["containers"][0]["env"] if e["name"] == "P0"], [{"name": "P0", "value": str(env(made, "P0"))}])
    ports = {(q["hostPort"], q["protocol"]) for q in made["spec"]["containers"][0]["ports"]}
    both = env(made, "BOTH")
    row = int(next(e["value"] for e in made["spec"]["containers"][0]["env"] if e["name"].startswith("ROW")).split(",")[0])
    assert {(both, "TCP"), (both, "UDP"), (env(made, "SCTP"), "SCTP"), (8080, "TCP")} <= ports, ports
    assert {(row + i, "TCP") for i in range(8)} <= ports, ports
    equal(len(ports), 32)
    until("it is placed", lambda: world.get("Pod", space, "l" * 253)["spec"].get("nodeName"))
    until("confirmed", lambda: all(c["holder"] is None for c in world.claims(space)))
    world.delete("Pod", space, "l" * 253)
    world.make(workload("StatefulSet", space, "s" * 52, replicas=1))
    until("its pod", lambda: len(world.pods(space, "app=" + "s" * 52)) == 1)
    world.make(workload("DaemonSet", space, "ds", made=template(
        {"allocations": [{"name": "m", "env": "PORT", "scope": "RoleScoped"}]}, {"app": "ds"}, hostNetwork=True)))
    until("one a node", lambda: sorted(p["spec"].get("nodeName") or "" for p in world.pods(space, "app=ds")) == [
        "node-a", "node-b", "node-c"])
    equal(len({env(p, "PORT") for p in world.pods(space, "app=ds")}), 1)
    until("confirmed", lambda: all(c["holder"] is None for c in world.claims(space)))
    world.delete("DaemonSet", space, "ds")
    world.delete("StatefulSet", space, "s" * 52)
    settle(world, space)


@case
def fixed_numbers_and_a_pool_that_is_used_up(world):
    space = world.space("small")
    fixed = {"allocations": [{"name": "http", "env": "PORT", "port": 20002}]}
    first = world.make(pod(space, "one", fixed))
    equal(env(first, "PORT"), 20002)
    refused = refusal(world, pod(space, "two", fixed))
    equal(refused.status, 409)
    assert "20002" in refused.message, refused.message
    subprocess.run([world.dibs, "pool", "set", "kube", "--ranges", "20000-20004"], env=world.env, check=True)
    try:
        until("four more", lambda: try_make(world, pod(space, "more-")) is None)
        refused = refusal(world, pod(space, "more-"))
        equal(refused.status, 403)
        equal({c["port"] for c in world.claims(space)}, set(range(20000, 20005)))
    finally:
        subprocess.run([world.dibs, "pool", "set", "kube", "--ranges", "20000-29999"], env=world.env, check=True)
    for one in world.pods(space):
        world.delete("Pod", space, one["metadata"]["name"])
    settle(world, space)


def refusal(world, thing):
    try:
        world.make(thing)
    except Refused as refused:
        return refused
    raise AssertionError("it was accepted")


@case
def invalid_configuration_is_refused_by_its_field(world):
    space = world.space("invalid")
    for config, field in (("{", "dibs.dev/ports"), ("[]", "dibs.dev/ports"),
                          ({"allocations": [{"env": "A"}]}, "allocations[0].name"),
                          ({"allocations": [{"name": "a"}]}, "allocations[0].env"),
                          ({"allocations": [{"name": "a", "env": "A", "scope": "x"}]}, "allocations[0].scope"),
                          ({"allocations": [{"name": "a", "env": "1-A"}]}, "allocations[0].env"),
                          ({"allocations": [{"name": "a", "env": "A", "annotationKey": "no key"}]}, "allocations[0].annotationKey"),
                          ({"allocations": [{"name": "a", "env": "A"}, {"name": "a", "env": "B"}]}, "allocations[1].name"),
                          ({"references": [{"env": "A"}]}, "references[0].from"),
                          ({"references": [{"env": "A", "from": "x"}]}, "references[0].from"),
                          ({"references": [{"from": "a.b.c"}]}, "references[0].env")):
        try:
            world.make(pod(space, "bad", config))
            assert False, f"accepted: {config}"
        except Refused as refused:
            assert field in refused.message, (config, refused.message)
            equal(refused.status, 422, str(config))
    equal(world.claims(space), [])
    world.make(pod(space, "none", None))
    equal("dibs.dev/claim" in (world.get("Pod", space, "none")["metadata"].get("annotations") or {}), False)
    world.delete("Pod", space, "none")


@case
def namespaces_are_left_out_or_deleted(world):
    off = world.space("left-out", {"dibs.dev/admission": "off"})
    made = world.make(pod(off, "one"))
    equal(env(made, "PORT"), None)
    world.ask("DELETE", "/api/v1/namespaces/left-out")
    space = world.space("doomed")
    world.make(workload("StatefulSet", space, "web", replicas=3))
    world.make(pod(space, "bare"))
    until("four", lambda: len(world.claims(space)) == 4)
    world.ask("DELETE", f"/api/v1/namespaces/{space}")
    until("nothing is left", lambda: not world.claims(space))
    until("gone", lambda: world.get("Namespace", space, None) is None)


@case
def what_the_cluster_uses_already_is_left_alone(world):
    space = world.space("foreign")
    world.make(pod(space, "host", None, containers=[{"name": "c", "image": "x", "ports": [
        {"containerPort": 80, "hostPort": 20123}, {"containerPort": 81, "hostPort": 8081}]}]))
    seen = lambda: {c["port"]: c for c in world.claims() if c["principal"] == "kube:observed"}
    until("the host port is known", lambda: list(seen()) == [20123])
    subprocess.run([world.dibs, "pool", "set", "kube", "--ranges", "20000-29999,31000-31010"], env=world.env, check=True)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "np", "namespace": space},
               "spec": {"type": "NodePort", "selector": {"a": "b"}, "ports": [
                   {"name": "t", "port": 80, "nodePort": 31005}, {"name": "u", "port": 80, "nodePort": 31005, "protocol": "UDP"}]}}
    world.make(service)
    until("the node port is known", lambda: sorted(seen()) == [20123, 31005])
    world.delete("Service", space, "np")
    until("and no longer", lambda: sorted(seen()) == [20123])
    subprocess.run([world.dibs, "pool", "set", "kube", "--ranges", "20000-29999"], env=world.env, check=True)
    victim = world.make(pod(space, "victim"))
    world.make(pod(space, "thief", None, containers=[{"name": "c", "image": "x", "ports": [
        {"containerPort": 80, "hostPort": env(victim, "PORT")}]}]))
    event = until("an Event", lambda: world.events(space, "PortAlreadyAllocated"))[0]
    equal(event["involvedObject"]["namespace"], space)
    equal(event["metadata"]["namespace"], space)
    equal(event["type"], "Warning")
    assert str(env(victim, "PORT")) in event["message"], event["message"]
    assert "PortAlreadyAllocated" in world.kubectl("-n", space, "get", "events")
    time.sleep(3)
    equal(len(world.events(space, "PortAlreadyAllocated")), 1, "no flood")
    for name in ("host", "victim", "thief"):
        world.delete("Pod", space, name)
    settle(world, space)
    until("nothing is observed", lambda: not seen())


@case
def nobody_was_refused_what_he_is_allowed(world):
    """Least rights: dibs asks for nothing that it may not; and its patches bring no warning."""
    forbidden = set()
    with open(os.path.join(world.directory, "audit.log")) as log:
        for row in log:
            entry = json.loads(row)
            if ":dibs:" in entry["user"]["username"] and entry.get("responseStatus", {}).get("code") in (401, 403):
                forbidden.add((entry["verb"], entry["requestURI"].split("?")[0]))
    equal(forbidden, set())
    equal(world.warnings, [])


@case
def another_leads_when_the_leader_is_killed(world):
    space = world.space("leader")
    leader = world.leader()
    made = world.make(pod(space, "one"))
    open(os.path.join(world.directory, "pods.hold"), "w").close()
    try:
        os.kill(world.replicas("controller")[leader], signal.SIGKILL)
        until("another leads", lambda: world.leader() != leader)
        lease = world.get("Lease", "dibs", "dibs-controller")
        assert lease["spec"]["leaseTransitions"] >= 1
        world.delete("Pod", space, made["metadata"]["name"])
        settle(world, space)
    finally:
        os.unlink(os.path.join(world.directory, "pods.hold"))
    until("both run", lambda: world.metrics(leader).get("dibs_kube_leader") == "0")


def is_up(world):
    try:
        return world.ask("GET", "/readyz")["text"] == "ok"
    except (OSError, http.client.HTTPException, Refused):
        return False


@case
def an_api_server_may_be_gone_for_a_while(world):
    space = world.space("restart")
    world.make(workload("StatefulSet", space, "web", replicas=3))
    until("three", lambda: len(world.pods(space)) == 3 and len(world.claims(space)) == 3)
    before = world.ports(space)
    hold = os.path.join(world.directory, "kube-apiserver.hold")
    open(hold, "w").close()
    os.kill(int(open(os.path.join(world.directory, "kube-apiserver.pid")).read()), signal.SIGKILL)
    time.sleep(20)
    equal(world.ports(space), before, "nothing ends while nothing is known")
    os.unlink(hold)
    until("up again", lambda: is_up(world))
    world.leader()
    world.make(pod(space, "later"))
    until("confirmed", lambda: [c["holder"] for c in world.claims(space)] == [None] * 4)
    world.delete("Pod", space, "later")
    until("ended", lambda: world.ports(space) == before)
    # All revisions that the watches know are thrown away, and the server with its cache of them.
    os.kill(int(open(os.path.join(world.directory, "kube-apiserver.pid")).read()), signal.SIGKILL)
    url = f"--endpoints=http://{BRIDGE}:2379"
    head = json.loads(subprocess.run(["etcdctl", url, "endpoint", "status", "-w", "json"], capture_output=True, check=True,
                                     env={**os.environ, "ETCDCTL_API": "3"}).stdout)[0]["Status"]["header"]["revision"]
    subprocess.run(["etcdctl", url, "compaction", str(head)], check=True, env={**os.environ, "ETCDCTL_API": "3"}, stdout=subprocess.DEVNULL)
    until("up again", lambda: is_up(world))
    world.make(pod(space, "later"))
    until("confirmed", lambda: [c["holder"] for c in world.claims(space)] == [None] * 4)
    world.delete("StatefulSet", space, "web")
    world.delete("Pod", space, "later")
    settle(world, space)


class Storm:
    """Pods come and go; no number is with two at any moment."""

    def __init__(self, world, space):
        self.world, self.space, self.lock = world, space, threading.Lock()
        self.have, self.alive, self.is_over, self.refused, self.made, self.twice = {}, {}, False, 0, 0, []

    def make(self, number):
        try:
            one = self.world.make(pod(self.space, "s-", schedulerName="nobody"))
        except (Refused, OSError, http.client.HTTPException) as refused:
            self.refused += 1
            if isinstance(refused, Refused) and refused.status < 500:
                self.twice.append(str(refused))
            return
        port, name = env(one, "PORT"), one["metadata"]["name"]
        with self.lock:
            self.made += 1
            if port in self.have:
                self.twice.append((port, name, self.have[port]))
            self.have[port] = name
            self.alive[name] = port

    def drop(self):
        with self.lock:
            if not self.alive:
                return
            name = random.choice(list(self.alive))
            port = self.alive.pop(name)
            del self.have[port]  # before it is deleted: from then on another may have it
        try:
            self.world.delete("Pod", self.space, name, grace=0)
        except (Refused, OSError, http.client.HTTPException):
            until("deleted", lambda: self.try_delete(name))

    def try_delete(self, name):
        try:
            self.world.delete("Pod", self.space, name, grace=0)
            return True
        except (Refused, OSError, http.client.HTTPException):
            return False

    def churn(self):
        while not self.is_over:
            (self.make if random.random() < 0.5 else lambda _: self.drop())(0)


@case
def five_hundred_at_once_and_a_minute_of_kills(world):
    space = world.space("storm")
    storm = Storm(world, space)
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        list(pool.map(storm.make, range(500)))
    equal((storm.made, storm.refused, storm.twice), (500, 0, []))
    until("confirmed", lambda: [c["holder"] for c in world.claims(space)] == [None] * 500)
    threads = [threading.Thread(target=storm.churn) for _ in range(8)]
    for thread in threads:
        thread.start()
    end, kills = time.monotonic() + 60, 0
    while time.monotonic() < end:
        everyone = {**world.replicas("controller"), **world.replicas("webhook")}
        try:
            os.kill(random.choice(list(everyone.values())), signal.SIGKILL)
            kills += 1
        except ProcessLookupError:
            pass
        time.sleep(random.uniform(1, 4))
    storm.is_over = True
    for thread in threads:
        thread.join()
    equal(storm.twice, [])
    print(f"# {storm.made} pods, {storm.refused} refused, {kills} kills", flush=True)
    live = {p["metadata"]["name"]: env(p, "PORT") for p in world.pods(space)}
    equal(len(set(live.values())), len(live), "all that live have numbers of their own")
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        list(pool.map(storm.try_delete, live))
    until("no pods", lambda: not [storm.try_delete(p["metadata"]["name"]) for p in world.pods(space)])
    settle(world, space)


@contextlib.contextmanager
def killed(world, *roles):
    """Without these processes; they come back afterwards."""
    hold = os.path.join(world.directory, "pods.hold")
    open(hold, "w").close()
    try:
        for role in roles:
            for pid in world.replicas(role).values():
                os.kill(pid, signal.SIGKILL)
        yield
    finally:
        os.unlink(hold)


def wipe_ledger():
    subprocess.run(["etcdctl", f"--endpoints=http://{BRIDGE}:2479", "del", "--prefix", ""], check=True,
                   env={**os.environ, "ETCDCTL_API": "3"}, stdout=subprocess.DEVNULL)


@case
def a_lost_ledger_is_rebuilt_from_5000_pods(world):
    space = world.space("many")
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        made = list(pool.map(lambda _: world.make(pod(space, "m-", schedulerName="nobody")), range(5000)))
    ports = {env(p, "PORT") for p in made}
    equal(len(ports), 5000)
    until("confirmed", lambda: sum(c["holder"] is None for c in world.claims(space)) == 5000)
    with killed(world, "controller", "webhook"):
        wipe_ledger()
        start = time.monotonic()
    late = until("a pod is admitted again", lambda: try_make(world, pod(space, "late", schedulerName="nobody")))
    print(f"# {time.monotonic() - start:.1f} s until the next pod was admitted", flush=True)
    for name in world.replicas("controller"):
        with open(os.path.join(world.directory, f"{name}.log")) as log:
            rows = [row for row in log if "msg=ready" in row or "msg=following" in row or "msg=leading" in row]
        print("#", name, rows[-3:], flush=True)
    assert env(late, "PORT") not in ports
    equal({c["port"] for c in world.claims(space)}, ports | {env(late, "PORT")})
    world.ask("DELETE", f"/api/v1/namespaces/{space}/pods?gracePeriodSeconds=0")
    settle(world, space)


def try_make(world, thing):
    try:
        return world.make(thing)
    except (Refused, OSError, http.client.HTTPException):
        return None


@case
def a_ledger_that_is_lost_while_all_run_is_rebuilt(world):
    space = world.space("wiped")
    made = [world.make(pod(space, "w-", schedulerName="nobody")) for _ in range(50)]
    until("confirmed", lambda: [c["holder"] for c in world.claims(space)] == [None] * 50)
    wipe_ledger()
    more = [until("admitted", lambda: try_make(world, pod(space, "w-", schedulerName="nobody"))) for _ in range(50)]
    until("all are there again", lambda: len(world.claims(space)) == 100)
    equal(sorted(env(p, "PORT") for p in made + more), sorted(c["port"] for c in world.claims(space)))
    equal(len({env(p, "PORT") for p in made + more}), 100)
    world.ask("DELETE", f"/api/v1/namespaces/{space}/pods?gracePeriodSeconds=0")
    settle(world, space)


@case
def without_a_webhook_pods_are_refused_and_not_without_ports(world):
    space = world.space("down")
    with killed(world, "webhook"):
        try:
            world.make(pod(space, "one"))
            assert False, "a pod came without its ports"
        except Refused as refused:
            assert "ports.dibs.dev" in refused.message, refused.message
    made = until("admitted again", lambda: try_make(world, pod(space, "one")))
    assert env(made, "PORT")
    world.delete("Pod", space, "one")
    settle(world, space)


@case
def a_controller_that_is_down_causes_no_duplicate(world):
    space = world.space("alone")
    with killed(world, "controller"):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            made = list(pool.map(lambda _: world.make(pod(space, "a-", schedulerName="nobody")), range(200)))
        for one in made[:100]:
            world.delete("Pod", space, one["metadata"]["name"], grace=0)
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            more = list(pool.map(lambda _: world.make(pod(space, "a-", schedulerName="nobody")), range(100)))
        equal(len({env(p, "PORT") for p in made + more}), 300)
    world.leader()
    until("those that are there are confirmed", lambda: sum(
        c["holder"] is None for c in world.claims(space)) == 200)
    world.ask("DELETE", f"/api/v1/namespaces/{space}/pods?gracePeriodSeconds=0")
    settle(world, space)


@case
def templates_of_other_objects_are_checked_when_they_are_written(world):
    space = world.space("templates")
    hurry(world, "--template=RoleInstance=spec.components[].template", "--template=StatefulSet=spec.template")
    world.patch_hook([{"apiGroups": ["workloads.x-k8s.io"], "apiVersions": ["*"], "resources": ["roleinstances"],
                       "operations": ["CREATE", "UPDATE"], "scope": "Namespaced"},
                      {"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["statefulsets"],
                       "operations": ["CREATE", "UPDATE"], "scope": "Namespaced"}])
    bad = template({"allocations": [{"name": "a"}]})
    instance = {"apiVersion": "workloads.x-k8s.io/v1alpha2", "kind": "RoleInstance", "metadata": {"name": "i", "namespace": space},
                "spec": {"components": [{"name": "one", "template": template()}, {"name": "two", "template": bad}]}}
    refused = refusal(world, instance)
    assert "spec.components[1].template.metadata.annotations[dibs.dev/ports]: allocations[0].env" in refused.message, refused.message
    refused = refusal(world, workload("StatefulSet", space, "bad", made=bad))
    assert "spec.template.metadata.annotations[dibs.dev/ports]: allocations[0].env" in refused.message, refused.message
    equal(world.claims(space), [])
    instance["spec"]["components"][1]["template"] = template()
    world.make(instance)
    world.make(workload("StatefulSet", space, "web", replicas=1))
    world.patch("StatefulSet", space, "web", {"spec": {"replicas": 2}})
    until("its pods", lambda: len(world.claims(space)) == 2)
    world.delete("StatefulSet", space, "web")
    settle(world, space)


@case
def taken_away_it_leaves_the_pods_alone(world):
    space = world.space("after")
    made = world.make(pod(space, "one"))
    world.ask("DELETE", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/dibs-webhook")
    world.ask("DELETE", "/api/v1/namespaces/dibs")
    until("gone", lambda: world.get("Namespace", "dibs", None) is None)
    equal(env(world.get("Pod", space, "one"), "PORT"), env(made, "PORT"))
    equal(env(world.make(pod(space, "two")), "PORT"), None)


def main():
    world = World(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    wanted = [c for c in CASES if not sys.argv[3:] or c.__name__ in sys.argv[3:]]
    failed = 0
    for one in wanted:
        start = time.monotonic()
        try:
            one(world)
            print(f"ok {one.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
        except Exception:  # pylint: disable=broad-except; a case that fails must not hide the others
            failed += 1
            print(f"not ok {one.__name__}\n{traceback.format_exc()}", flush=True)
    print(f"{len(wanted) - failed} passed, {failed} failed")
    sys.exit(failed != 0)


if __name__ == "__main__":
    main()
