#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The objects that bring dibs into a cluster, as kubectl renders them and as `dibs kube install --print` writes them.

    kube_install.py same RENDERED PRINTED           the same objects, but for certificate and ledger
    kube_install.py overlay BASE RENDERED           the documented overlay for cert-manager
    kube_install.py templates RENDERED FILE         the documented configuration that checks templates
    kube_install.py older PRINTED OTHER MINOR       the same objects for Kubernetes 1.MINOR
    kube_install.py moved PRINTED OTHER FROM TO     the same objects in another namespace
    kube_install.py rules RENDERED                  what must be so in them
    kube_install.py rights RENDERED DIBS DIR LEDGER what a real controller asks for is what it may, and no more
    kube_install.py tls PRINTED DIR                 writes the Secret's files, and the webhook's caBundle
    kube_install.py start PRINTED WORKLOAD DIR      the words that start its container, NUL between them; volumes are in DIR
    kube_install.py review KEY | path RENDERED      a review of a pod with that annotation; where reviews are sent
    kube_install.py keys RENDERED                   the annotations that the match condition knows
    kube_install.py capabilities PRINTED            of the node's daemon, for setpriv
    kube_install.py probe PRINTED DIR               the words of its readiness probe, NUL between them
    kube_install.py pods FILE                       of each container a line: its variables, then its words, as JSON

Exit 0 when all holds.
"""
import base64, json, os, re, sys

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "support"))
import cel  # noqa: E402


def load(path):
    with open(path, encoding="utf-8") as f:
        return {(o["kind"], o["metadata"]["name"]): o for o in yaml.safe_load_all(f) if o}


def without_own(objects):
    """The values that install fills in."""
    objects = {key: json.loads(json.dumps(o)) for key, o in objects.items()}
    objects.pop(("Secret", "dibs-webhook-tls"), None)
    objects.pop(("Secret", "dibs-installation"), None)
    for hook in hooks_of(objects):
        hook["clientConfig"].pop("caBundle")
    objects[("ConfigMap", "dibs-settings")]["data"].pop("ledger")
    return objects


def hooks_of(objects):
    """Those for pods and for RBG's role instances."""
    pods, instances = objects[("MutatingWebhookConfiguration", "dibs-webhook")]["webhooks"]
    return pods, instances


def differences(a, b):
    assert a.keys() == b.keys(), a.keys() ^ b.keys()
    return [key for key in a if a[key] != b[key]]


def same(rendered, printed):
    printed = load(printed)
    assert ("Secret", "dibs-webhook-tls") in printed and ("Secret", "dibs-installation") in printed
    assert not differences(without_own(load(rendered)), without_own(printed))


def overlay(base, rendered):
    before, after = load(base), load(rendered)
    added = {key: after.pop(key) for key in set(after) - set(before)}
    hook = after[("MutatingWebhookConfiguration", "dibs-webhook")]
    certificate = added[("Certificate", "dibs-webhook")]
    inject = hook["metadata"].pop("annotations")["cert-manager.io/inject-ca-from"]
    assert inject == f'{certificate["metadata"]["namespace"]}/{certificate["metadata"]["name"]}'
    service = hook["webhooks"][0]["clientConfig"]["service"]
    assert certificate["spec"]["dnsNames"] == [f'{service["name"]}.{service["namespace"]}.svc']
    secrets = [v["secret"]["secretName"] for v in pod_of(after[("Deployment", "dibs-webhook")])["volumes"]]
    assert certificate["spec"]["secretName"] in secrets
    issuers = {name: o["spec"] for (kind, name), o in added.items() if kind == "Issuer"}
    authority = added[("Certificate", "dibs-authority")]
    assert issuers[certificate["spec"]["issuerRef"]["name"]]["ca"]["secretName"] == authority["spec"]["secretName"]
    assert "selfSigned" in issuers[authority["spec"]["issuerRef"]["name"]] and authority["spec"]["isCA"]
    for key in before:
        if key[0] in ("Deployment", "DaemonSet"):
            container, = pod_of(after[key])["containers"]
            assert container["image"] == "registry.example/dibs:1", container["image"]
            container["image"] = "dibs"
    assert not differences(without_own({**before, ("Secret", "dibs-webhook-tls"): {}}), without_own(after))


def templates(rendered, path):
    (key, checks), = load(path).items()
    assert key[0] == "ValidatingWebhookConfiguration"
    hook, check = hook_of(rendered), checks["webhooks"][0]
    assert check["clientConfig"]["service"] == hook["clientConfig"]["service"]
    assert check["admissionReviewVersions"] == hook["admissionReviewVersions"] and check["failurePolicy"] == "Ignore"
    assert not {r for rule in check["rules"] for r in rule["resources"]} & {"pods", "roleinstances"}


def older(printed, other, minor):
    objects = without_own(load(printed))
    if int(minor) < 28:
        for hook in objects[("MutatingWebhookConfiguration", "dibs-webhook")]["webhooks"]:
            del hook["matchConditions"]
    for key in objects:
        if key[0] == "PodDisruptionBudget" and int(minor) < 21:
            objects[key]["apiVersion"] = "policy/v1beta1"
    assert not differences(objects, without_own(load(other)))


def moved(printed, other, before, after):
    def move(node):
        if isinstance(node, dict):
            return {k: after if k == "namespace" and v == before else move(v) for k, v in node.items()}
        return [move(v) for v in node] if isinstance(node, list) else node
    objects = {key: move(o) for key, o in without_own(load(printed)).items()}
    namespace = objects.pop(("Namespace", before))
    namespace["metadata"]["name"] = after
    objects[("Namespace", after)] = namespace
    assert not differences(objects, without_own(load(other)))


# ---- rules ----

def pod_of(o):
    return o["spec"]["template"]["spec"]


def labels_of(o):
    return o["spec"]["template"]["metadata"]["labels"]


def chosen(selector, labels):
    return all(labels.get(k) == v for k, v in selector.items())


def is_asked(conditions, obj, old):
    return all(cel.evaluate(c["expression"], {"object": obj, "oldObject": old}) for c in conditions)


def condition_rules(conditions):
    """The API server asks about pods with ports, and about updates of these ports; nothing else."""
    def asks(obj, old):
        return is_asked(conditions, obj, old)

    def pod(annotations=None, labels=None, port="20000", init="20000", **more):
        maps = {"annotations": annotations, "labels": labels}
        return {"metadata": {"name": "p", **{k: v for k, v in maps.items() if v is not None}, **more}, "spec": {
            "containers": [{"name": "main", "image": "x", "env": [{"name": "PORT", "value": port}]}],
            "initContainers": [{"name": "init", "image": "x", "env": [{"name": "PORT", "value": init}]}]}}
    config = json.dumps({"allocations": [{"name": "http", "env": "PORT", "annotationKey": "shop/port"}]})
    discovery, = (key for key in keys_in(conditions[0]) if key.endswith("discovery"))
    assert asks(pod({discovery: "{}"}), None) and not asks(pod({discovery: "{}"}), pod())  # it is used once
    own = {"dibs.dev/claim", "dibs.dev/assigned", "dibs.dev/signature"}
    for key in own:  # what dibs has written before, or somebody else: only it can tell
        assert asks(pod({key: "x"}), None) and asks(pod({key: "x"}), pod()) and asks(pod(), pod({key: "x"}))
        assert not asks(pod({key: "x"}), pod({key: "x"}, {"app": "web"}))
    for key in set(keys_in(conditions[0])) - {discovery} - own:
        given = {key: config, "dibs.dev/claim": "0" * 32, "dibs.dev/assigned": "[]", "dibs.dev/signature": "0",
                 "shop/port": "20000", "note": "a"}
        old = pod(given, {"app": "web"})
        assert asks(pod({key: config}), None) and not asks(pod(), None) and not asks(pod({"note": "a"}, {}), None)
        # Changes by others pass without a call of the webhook.
        assert not asks(old, old)
        for other in (pod(given), pod(given, {}), pod(given, {"app": "other", "pod-template-hash": "1"}),
                      pod({**given, "note": "b"}, {"app": "web"}), pod({**given, "cni/ips": "[]"}, {"app": "web"}),
                      pod({k: v for k, v in given.items() if k != "note"}, {"app": "web"}),
                      pod(given, {"app": "web"}, finalizers=["a/b"], ownerReferences=[], deletionTimestamp="2026")):
            assert not asks(other, old) and not asks(old, other), other
        assert not asks(pod({"note": "b"}), pod()) and not asks(pod(), pod({"note": "a"}))
        # A change of the webhook's own annotations does not, whether it changes, removes or adds one.
        for name in (key, *own, "shop/port"):
            changed = pod({**given, name: given[name] + " "}, {"app": "web"})
            gone = pod({k: v for k, v in given.items() if k != name}, {"app": "web"})
            assert asks(changed, old) and asks(old, changed) and asks(gone, old) and asks(old, gone), name
        assert asks(pod(given, {"app": "web"}, port="8080"), old) and asks(pod(given, {"app": "web"}, init="8080"), old)
        assert asks(pod(), old) and asks(pod({}), old) and asks(old, pod())
        for name in ("dibs.dev/group", "dibs.dev/role"):
            labelled, other = (pod(given, {"app": "web", name: value}) for value in "ab")
            assert asks(labelled, old) and asks(old, labelled) and asks(labelled, other) and asks(labelled, pod(given))
            assert not asks(labelled, labelled)


def instance_condition_rules(conditions):
    """The API server asks about role instances whose pods have ports, when they change."""
    def instance(config, annotations=None, **more):
        template = {"metadata": {"annotations": {key: config} if config else {"note": "a"}}, "spec": {}}
        metadata = {"name": "i", **({} if annotations is None else {"annotations": annotations}), **more}
        return {"metadata": metadata, "spec": {"components": [{"name": "plain"}, {"name": "one", "template": template}]}}

    for key in keys_in(conditions[0]):
        one = instance("{}", {"i-one-0.http": "20000"})
        assert is_asked(conditions, one, None) and is_asked(conditions, instance("{}"), None)
        for other in (instance(None), {"metadata": {}}, {"metadata": {}, "spec": {}}):
            assert not is_asked(conditions, other, None) and not is_asked(conditions, other, one)
        assert not is_asked(conditions, one, one)
        assert not is_asked(conditions, instance("{}", {"i-one-0.http": "20000"}, finalizers=["a/b"]), one)
        for changed in (instance("{ }", {"i-one-0.http": "20000"}), instance("{}", {}), instance("{}")):
            assert is_asked(conditions, changed, one) and is_asked(conditions, one, changed)


def admission_rules(objects):
    hooks = hooks_of(objects)
    wanted = {"failurePolicy": "Fail", "sideEffects": "NoneOnDryRun", "admissionReviewVersions": ["v1"],
              "reinvocationPolicy": "IfNeeded"}
    rules = ({"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]},
             {"apiGroups": ["workloads.x-k8s.io"], "apiVersions": ["*"], "resources": ["roleinstances"]})
    for hook, rule in zip(hooks, rules):
        assert {k: hook[k] for k in wanted} == wanted
        assert 1 <= hook["timeoutSeconds"] <= 30 and re.fullmatch(r"[a-z0-9-]+(\.[a-z0-9-]+){2,}", hook["name"])
        assert hook["rules"] == [{**rule, "operations": ["CREATE", "UPDATE"], "scope": "Namespaced"}]
        assert all(re.fullmatch(r"[A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?", c["name"]) for c in hook["matchConditions"])
        assert all(hook[k] == hooks[0][k] for k in ("clientConfig", "namespaceSelector"))
    condition_rules(hooks[0]["matchConditions"])
    instance_condition_rules(hooks[1]["matchConditions"])
    hook = hooks[0]

    def is_left_out(labels):
        return any(e["operator"] == "NotIn" and labels.get(e["key"]) in e["values"]
                   for e in hook["namespaceSelector"]["matchExpressions"])
    own = objects[("Namespace", "dibs")]["metadata"]["labels"]
    assert is_left_out({"kubernetes.io/metadata.name": "kube-system"}) and is_left_out(own)
    assert not is_left_out({"kubernetes.io/metadata.name": "shop"})

    # It leads to the webhook's pods, through a Service whose name the certificate has.
    to = hook["clientConfig"]["service"]
    service = objects[("Service", to["name"])]
    deployment = objects[("Deployment", "dibs-webhook")]
    assert to["namespace"] == service["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    port, = service["spec"]["ports"]
    container, = pod_of(deployment)["containers"]
    assert port["port"] == to.get("port", 443) and chosen(service["spec"]["selector"], labels_of(deployment))
    assert port["targetPort"] in [p["name"] for p in container["ports"]]
    assert f"--listen=:{container['ports'][0]['containerPort']}" in container["args"]


def keys_in(condition):
    return re.findall(r'"([^"]+)"', condition["expression"])


def pod_rules(objects):
    for kind, name in (("Deployment", "dibs-webhook"), ("Deployment", "dibs-controller"), ("DaemonSet", "dibs-node")):
        o = objects[(kind, name)]
        pod = pod_of(o)
        container, = pod["containers"]
        is_node = kind == "DaemonSet"
        assert is_node or o["spec"]["replicas"] == 2
        assert chosen(o["spec"]["selector"]["matchLabels"], labels_of(o))
        assert ("ServiceAccount", pod["serviceAccountName"]) in objects
        assert pod["automountServiceAccountToken"] == (name == "dibs-controller")
        assert container["image"] == "dibs" and container["command"] == ["dibs"]
        assert "requests" in container["resources"] and "memory" in container["resources"]["limits"]
        own, whole = container["securityContext"], pod["securityContext"]
        assert own["allowPrivilegeEscalation"] is False and own["readOnlyRootFilesystem"] is True
        assert own["capabilities"]["drop"] == ["ALL"] and "privileged" not in own
        assert whole["seccompProfile"] == {"type": "RuntimeDefault"}
        assert whole.get("runAsNonRoot", False) != is_node and ("add" in own["capabilities"]) == is_node
        assert all((pod.get(k) is True) == is_node for k in ("hostNetwork", "hostPID")) and "hostIPC" not in pod
        assert any("hostPath" in v for v in pod["volumes"]) == is_node
        assert {m["name"] for m in container["volumeMounts"]} == {v["name"] for v in pod["volumes"]}
        if is_node:  # the administrators' socket is not where pods mount the other one
            public = next(m["mountPath"] for m in container["volumeMounts"] if m["name"] == "socket")
            assert not [a for a in container["args"] if a.startswith(f"--admin-socket={public}/")]
            continue
        assert whole["runAsUser"] > 0 and container["livenessProbe"]["httpGet"]["path"] == "/healthz"
        assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
        for what in ("PodDisruptionBudget", "NetworkPolicy"):
            spec = objects[(what, name)]["spec"]
            assert chosen((spec.get("selector") or spec["podSelector"])["matchLabels"], labels_of(o))
        policy = objects[("NetworkPolicy", name)]["spec"]
        assert policy["policyTypes"] == ["Ingress"]
        # The API server drops empty lists: with one, each apply would change the object and its generation.
        assert all(rule.get("from") != [] for rule in policy["ingress"])
        assert [p["port"] for p in policy["ingress"][0]["ports"]] == [p["name"] for p in container["ports"]]
        assert objects[("PodDisruptionBudget", name)]["spec"]["minAvailable"] == 1


def reference_rules(objects):
    """A named object exists, or is optional."""
    settings = objects[("ConfigMap", "dibs-settings")]["data"]
    used = set()
    for (kind, _), o in objects.items():
        if kind not in ("Deployment", "DaemonSet"):
            continue
        container, = pod_of(o)["containers"]
        for one in container["env"]:
            source = one["valueFrom"]
            if "configMapKeyRef" in source:
                assert source["configMapKeyRef"]["name"] == "dibs-settings"
                used.add(source["configMapKeyRef"]["key"])
            elif "secretKeyRef" in source:
                assert source["secretKeyRef"] ["name"] == "dibs-etcd" and source["secretKeyRef"]["optional"] is True
            else:
                assert one["name"] == "DIBS_NODE" and source["fieldRef"]["fieldPath"] == "spec.nodeName"
        for volume in pod_of(o)["volumes"]:
            secret = volume.get("secret")
            assert not secret or secret["secretName"] in ("dibs-webhook-tls", "dibs-installation") or secret["optional"] is True
        names = {one["name"] for one in container["env"]}
        assert set(re.findall(r"\$\((\w+)\)", " ".join(container["args"]))) <= names
    assert used == set(settings), used ^ set(settings)
    assert all(isinstance(v, str) for v in settings.values())


def binding_rules(objects):
    bound = set()
    for (kind, name), o in objects.items():
        if kind.endswith("Binding"):
            assert (o["roleRef"]["kind"], o["roleRef"]["name"]) in objects
            bound |= {s["name"] for s in o["subjects"]}
            assert all(s["namespace"] == "dibs" for s in o["subjects"])
    assert bound == {"dibs-controller"}


def rules(rendered):
    objects = load(rendered)
    wanted = {"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment",
              "Service", "MutatingWebhookConfiguration", "ConfigMap", "DaemonSet", "NetworkPolicy", "PodDisruptionBudget"}
    assert {kind for kind, _ in objects} == wanted
    cluster = {"Namespace", "ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration"}
    for (kind, _), o in objects.items():
        assert o["metadata"].get("namespace") == (None if kind in cluster else "dibs"), o["metadata"]
    admission_rules(objects)
    pod_rules(objects)
    reference_rules(objects)
    binding_rules(objects)


# ---- rights ----

def granted(objects):
    """(namespace or *, group, resource, name or *, verb)"""
    found = set()
    for (kind, _), o in objects.items():
        if kind not in ("Role", "ClusterRole"):
            continue
        where = o["metadata"].get("namespace", "*")
        for rule in o["rules"]:
            assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"]
            found |= {(where, g, r, n, v) for g in rule["apiGroups"] for r in rule["resources"]
                      for n in rule.get("resourceNames", ["*"]) for v in rule["verbs"]}
    return found


def asked(line):
    """The same of a request, such as "GET /api/v1/pods watch"; None for what every user may discover."""
    method, path, *watch = line.split()
    parts = path.split("/")[1:]
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    if not rest:
        return None
    where = "*"
    if rest[0] == "namespaces" and len(rest) > 2:  # not the list of namespaces itself
        where, rest = rest[1], rest[2:]
    verb = {"GET": "watch" if watch else "get" if len(rest) > 1 else "list", "POST": "create", "PUT": "update",
            "PATCH": "patch", "DELETE": "delete"}[method]
    where = "*" if rest[0] == "events" else where  # beside objects of every namespace
    return where, group, rest[0], rest[1] if len(rest) > 1 else "*", verb


def rights(rendered, dibs, directory, ledger):
    sys.path.insert(0, HERE)
    import kube_controller as cluster
    world = cluster.World(dibs, directory, ledger)
    controller = world.controller()
    world.order(insert=[cluster.assigned("shop", "far", 40000)])
    cluster.until("an Event is written", lambda: world.order(dump="events"))
    wanted = granted(load(rendered))

    def seen():
        return {right for right in map(asked, world.order(counts=True)) if right}
    cluster.until("all is asked for", lambda: len(seen()) >= len(wanted))
    controller.stop()
    assert seen() == wanted, seen() ^ wanted


# ---- what runs ----

def tls(printed, directory):
    objects = load(printed)
    for secret in ("dibs-webhook-tls", "dibs-installation"):
        for name, text in objects[("Secret", secret)]["data"].items():
            with open(os.path.join(directory, name), "wb") as f:
                f.write(base64.b64decode(text, validate=True))
    bundle, = {hook["clientConfig"]["caBundle"] for hook in hooks_of(objects)}
    with open(os.path.join(directory, "bundle"), "wb") as f:
        f.write(base64.b64decode(bundle, validate=True))


def start(printed, workload, directory):
    objects = load(printed)
    kind, name = workload.split("/")
    container, = pod_of(objects[(kind, name)])["containers"]
    settings = objects[("ConfigMap", "dibs-settings")]["data"]
    env = {"PATH": os.environ["PATH"]}
    for one in container["env"]:
        source = one["valueFrom"]
        if "configMapKeyRef" in source:
            env[one["name"]] = settings[source["configMapKeyRef"]["key"]]
        elif "fieldRef" in source:
            env[one["name"]] = "node-1"
    words = [re.sub(r"\$\((\w+)\)", lambda m: env[m[1]], w) for w in container["args"]]
    for mount in container["volumeMounts"]:
        words = [w.replace(f"={mount['mountPath']}/", f"={directory}/{mount['name']}/") for w in words]
    print("\0".join([f"{k}={v}" for k, v in env.items()] + [os.environ["DIBS"]] + words), end="\0")


def capabilities(printed):
    container, = pod_of(load(printed)[("DaemonSet", "dibs-node")])["containers"]
    print(",".join(f"+{c.lower()}" for c in container["securityContext"]["capabilities"]["add"]))


def probe(printed, directory):
    container, = pod_of(load(printed)[("DaemonSet", "dibs-node")])["containers"]
    words = container["readinessProbe"]["exec"]["command"][1:]
    print("\0".join(w.replace("=/run/dibs/", f"={directory}/socket/") for w in words), end="\0")


def pods(path):
    with open(path, encoding="utf-8") as f:
        for o in yaml.safe_load_all(f):
            spec = o["spec"] if o["kind"] == "Pod" else pod_of(o)
            assert spec["hostNetwork"] is True
            for container in spec["containers"]:
                env = {one["name"]: one["value"] for one in container.get("env", [])}
                words = [re.sub(r"\$\((\w+)\)", lambda m: env[m[1]], w) for w in container["command"] + container["args"]]
                if words[0] == "dibs":  # the socket that it names is in a folder of the node that it has
                    mount, = container["volumeMounts"]
                    volume = next(v for v in spec["volumes"] if v["name"] == mount["name"])
                    assert mount["readOnly"] is True and volume["hostPath"]["path"] == "/run/dibs"
                    assert env["DIBS_SOCKET"] == mount["mountPath"] + "/dibs.sock"
                print(json.dumps([f"{k}={v}" for k, v in env.items()] + words))


def hook_of(rendered):
    return hooks_of(load(rendered))[0]


def path(rendered):
    print(hook_of(rendered)["clientConfig"]["service"]["path"])


def keys(rendered):
    print("\n".join(keys_in(hook_of(rendered)["matchConditions"][0])))


def review(key):
    # The part that both formats share.
    config = {"allocations": [{"name": "http", "env": "PORT", "scope": "PodScoped"}]}
    if key.endswith("discovery"):
        config = {"addressRefs": [{"env": "LEADER", "component": "leader"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-", "annotations": {key: json.dumps(config)}},
           "spec": {"containers": [{"name": "main", "image": "x"}]}}
    print(json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "u1", "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "namespace": "shop", "operation": "CREATE",
        "object": pod}}))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
