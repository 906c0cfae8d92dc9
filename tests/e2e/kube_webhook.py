#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reviews of an API server to the webhook, over TLS, and the required answers.

    kube_webhook.py CASE CA PORT...     PORTs are those of replicas on 127.0.0.1; exit 0 when all holds
"""
import base64
import http.client
import json
import ssl
import sys
import threading
import uuid

TIMEOUT = 60


class Replica:
    """One kept connection, as the API server has."""

    def __init__(self, ca, port):
        context = ssl.create_default_context(cafile=ca)
        self.connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT, context=context)

    def send(self, method, path, body=None):
        self.connection.request(method, path, body=body, headers={"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        return answer.status, answer.read()

    def review(self, **request):
        uid = str(uuid.uuid4())
        request = {"uid": uid, "kind": {"group": "", "version": "v1", "kind": "Pod"},
                   "resource": {"group": "", "version": "v1", "resource": "pods"}, "namespace": "shop", **request}
        status, body = self.send("POST", "/mutate?timeout=10s", json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}))
        assert status == 200, (status, body)
        answer = json.loads(body)
        assert answer["apiVersion"] == "admission.k8s.io/v1" and answer["kind"] == "AdmissionReview"
        assert answer["response"]["uid"] == uid
        return answer["response"]

    def create(self, pod, **more):
        return self.review(operation="CREATE", object=pod, **more)


def patched(pod, response):
    """The pod after the answer's patch (RFC 6902: add, replace, remove)."""
    assert response["allowed"], response
    pod = json.loads(json.dumps(pod))
    if "patch" not in response:
        return pod
    assert response["patchType"] == "JSONPatch"
    for op in json.loads(base64.b64decode(response["patch"])):
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in op["path"].split("/")[1:]]
        at = pod
        for part in way:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if isinstance(at, list) and op["op"] == "add":
            at.insert(len(at) if last == "-" else int(last), op["value"])
        elif op["op"] == "remove":
            del at[int(last) if isinstance(at, list) else last]
        else:
            assert op["op"] == "add" or last in at or isinstance(at, list)
            at[int(last) if isinstance(at, list) else last] = op["value"]
    return pod


def env(pod, name):
    values = {e["value"] for kind in ("containers", "initContainers") for c in pod["spec"].get(kind, [])
              for e in c["env"] if e["name"] == name}
    assert len(values) == 1, pod
    return int(values.pop())


def pod(metadata, config, key="dibs.dev/ports", **spec):
    metadata = dict(metadata, annotations={key: json.dumps(config)})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"containers": [{"name": "main", "image": "x"}], "initContainers": [{"name": "init"}], **spec}}


HTTP = {"allocations": [{"name": "http", "env": "PORT"}]}


def owned(kind, owner, **metadata):
    return {"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": owner, "uid": "1", "controller": True}],
            **metadata}


def replica_set_pod():
    return pod(owned("ReplicaSet", "web-7d", generateName="web-7d-", labels={"pod-template-hash": "7d"}), HTTP)


def many(replicas, n=500, callers=16):
    """n pods at once through all replicas: n ports; asked again through another, nothing changes."""
    lock = threading.Lock()
    todo = list(range(n))
    ports, trouble = [], []

    def work(first):
        mine = [Replica(*replica) for replica in replicas]
        try:
            while True:
                with lock:
                    if not todo:
                        return
                    number = todo.pop()
                template = pod(owned("StatefulSet", "set", name=f"set-{number}"), HTTP) if number % 2 else replica_set_pod()
                made = patched(template, mine[(first + number) % len(mine)].create(template))
                again = mine[(first + number + 1) % len(mine)].create(made)
                assert again["allowed"] and "patch" not in again, again
                with lock:
                    ports.append(env(made, "PORT"))
        except Exception as error:  # reported by the main thread
            trouble.append(repr(error))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(callers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(4 * TIMEOUT)
    assert not trouble, trouble[:3]
    assert len(ports) == n and len(set(ports)) == n, (len(ports), len(set(ports)))
    assert all(20000 <= port <= 29999 for port in ports)


def copies(replicas):
    a, b = (Replica(*replica) for replica in (replicas[0], replicas[-1]))
    template = replica_set_pod()
    original = patched(template, a.create(template))
    copy = json.loads(json.dumps(original))
    copy["metadata"]["name"] = "web-7d-copy"
    made = patched(copy, b.create(copy))
    assert env(made, "PORT") != env(original, "PORT")
    assert made["metadata"]["annotations"]["dibs.dev/claim"] != original["metadata"]["annotations"]["dibs.dev/claim"]
    assert json.loads(made["metadata"]["annotations"]["dibs.dev/assigned"])[0]["port"] == env(made, "PORT")
    # in the host's network: the port that it brought along goes
    template = pod({"name": "host"}, HTTP, hostNetwork=True)
    original = patched(template, a.create(template))
    port = env(original, "PORT")
    assert original["spec"]["containers"][0]["ports"] == [{"containerPort": port, "hostPort": port, "protocol": "TCP"}]
    copy = json.loads(json.dumps(original))
    copy["metadata"]["name"] = "host-copy"
    made = patched(copy, b.create(copy))
    other = env(made, "PORT")
    assert other != port
    assert made["spec"]["containers"][0]["ports"] == [{"containerPort": other, "hostPort": other, "protocol": "TCP"}]


def rules(replicas):
    a, b = (Replica(*replica) for replica in (replicas[0], replicas[-1]))
    template = pod(owned("StatefulSet", "web", name="web-0"), HTTP)
    made = patched(template, a.create(template))
    assert env(patched(template, b.create(template)), "PORT") == env(made, "PORT")
    # a dry run is answered, and claims nothing
    dry = pod(owned("StatefulSet", "dry", name="dry-0"), HTTP)
    assert 20000 <= env(patched(dry, b.create(dry, dryRun=True)), "PORT") <= 29999
    # a pod's ports are fixed
    changed = json.loads(json.dumps(made))
    changed["metadata"]["annotations"]["dibs.dev/ports"] = "{}"
    answer = b.review(operation="UPDATE", object=changed, oldObject=made)
    assert not answer["allowed"] and "metadata.annotations[dibs.dev/ports]" in answer["status"]["message"], answer
    changed = json.loads(json.dumps(made))
    changed["metadata"]["annotations"]["other"] = "x"
    answer = b.review(operation="UPDATE", object=changed, oldObject=made)
    assert answer["allowed"] and "patch" not in answer
    answer = b.review(operation="UPDATE", subResource="status", object=changed, oldObject=made)
    assert answer["allowed"]
    # what asks for nothing passes
    plain = {"metadata": {"name": "plain"}, "spec": {"containers": [{"name": "main"}]}}
    answer = a.create(plain)
    assert answer["allowed"] and "patch" not in answer
    # refusals name the field
    answer = a.create(pod({"name": "bad"}, {"allocations": [{"name": "x"}]}))
    assert not answer["allowed"] and "allocations[0].env is required" in answer["status"]["message"], answer
    assert answer["status"]["code"] == 422
    # as many ports as one pod may have
    big = pod(owned("StatefulSet", "big", name="big-0"),
              {"allocations": [{"name": f"p{i}", "env": f"P{i}", "count": 64} for i in range(8)]})
    answer = a.create(big)
    assert len(json.loads(patched(big, answer)["metadata"]["annotations"]["dibs.dev/assigned"])) == 512
    # templates of other objects
    answer = a.review(operation="CREATE", kind={"group": "w", "version": "v1", "kind": "RoleInstance"}, object={
        "spec": {"components": [{"template": {"metadata": {"annotations": {"dibs.dev/ports": "["}}}}]}})
    assert not answer["allowed"] and "spec.components[0].template.metadata" in answer["status"]["message"], answer


def bad(replicas):
    a = Replica(*replicas[0])
    for body in ("", "{", "[]", "{}", "\0", "x" * 100000, "[" * 10000,
                 '{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":""}}'):
        status, _ = a.send("POST", "/mutate", body)
        assert status == 400, (body[:40], status)
    assert a.send("GET", "/mutate")[0] == 405
    assert a.send("GET", "/nowhere")[0] == 404
    assert a.send("GET", "/healthz")[0] == 200
    assert a.send("GET", "/readyz")[0] == 200
    large = Replica(*replicas[0])
    try:
        assert large.send("POST", "/mutate", b" " * (9 << 20))[0] == 413
    except OSError:
        pass  # it may close while we still send
    status, text = a.send("GET", "/metrics")
    assert status == 200 and b'dibs_webhook_review_duration_seconds_count{outcome="bad"} 8' in text, text
    assert b"kube_apiserver_nodeport_allocator_allocated_ports 0\n" in text
    assert b"kube_apiserver_nodeport_allocator_available_ports 10000\n" in text


def create(replicas):
    """One pod; prints whether it was allowed, and why not."""
    template = pod(owned("StatefulSet", "one", name="one-0"), HTTP)
    answer = Replica(*replicas[0]).create(template)
    print("allowed" if answer["allowed"] else "{code} {message}".format(**answer["status"]))


if __name__ == "__main__":
    cases = {case.__name__: case for case in (many, copies, rules, bad, create)}
    cases[sys.argv[1]]([(sys.argv[2], int(port)) for port in sys.argv[3:]])
