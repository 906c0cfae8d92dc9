#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # Python in quotes; variables of what is loaded below
# dibs kube inject. Ports of this file: 14300-14399.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

# One port http, in $PORT and in the annotation test/http.
HTTP='{"allocations": [{"name": "http", "env": "PORT", "annotationKey": "test/http"}]}'

# inject FILE: the result is $T/after.
inject() {
    ok kube inject "$1"
    before=$1
    cp "$T/out" "$T/after"
}

# only STATEMENTS: the documents before (b), changed by these Python statements, are those after it, but for the annotation
# dibs.dev/injected. port(NAME) is the port of a claim, as a text.
only() {
    dibs ls --all --json >"$T/claims"
    "$PYTHON" - "$before" "$T/after" "$T/claims" "$1" <<'END'
import json, sys, yaml
before, after, claims, statements = sys.argv[1:]
ports = {c["name"]: str(c["port"]) for c in json.load(open(claims))}
def port(name):
    return ports[name]
def env(container, *pairs): # new ones stand in front
    container["env"] = [{"name": k, "value": v} for k, v in pairs] + (container.get("env") or [])
def plain(node): # without the annotation
    if isinstance(node, list):
        return [plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    assert node.get("dibs.dev/injected", "true") == "true", node
    return {key: plain(value) for key, value in node.items() if key != "dibs.dev/injected"}
b = list(yaml.safe_load_all(open(before, encoding="utf-8")))
a = list(yaml.safe_load_all(open(after, encoding="utf-8")))
exec(statements)
a = plain(a)
if a != b:
    sys.exit("wanted: %s\ngot:    %s" % (json.dumps(b), json.dumps(a)))
END
}

# kept: every line of the text before is there after it, in its order.
kept() {
    "$PYTHON" -SE - "$before" "$T/after" <<'END'
import sys
before, after = ([line for line in open(name, newline="").read().split("\n")] for name in sys.argv[1:])
rest = iter(after)
for line in before:
    if line not in rest:
        sys.exit("lost or moved: " + repr(line))
END
}

# again: injecting the result changes nothing, neither in the text nor in the ledger.
again() {
    local events
    events=$(sql 'SELECT count(*) FROM events')
    dibs -q kube inject "$T/after" | cmp - "$T/after"
    [ "$(sql 'SELECT count(*) FROM events')" = "$events" ]
}

# pod NAME [LINE]...: a Pod with HTTP, and lines of its spec.
pod() {
    printf 'apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  annotations:\n    dibs.dev/ports: '"'%s'"'\nspec:\n' \
        "$1" "$HTTP"
    shift
    printf '  %s\n' "$@"
}

@test "the label dibs.dev/role names the role of a template, as for the webhook" {
    for role in api web; do
        printf '%s\n' --- 'apiVersion: v1' 'kind: Pod' 'metadata:' "  name: $role-blue" "  labels: { dibs.dev/role: $role }" \
            '  annotations:' "    dibs.dev/ports: '{\"allocations\": [{\"name\": \"http\", \"env\": \"PORT\"}], \"references\": [{\"env\": \"API\", \"from\": \"api.http\"}]}'" \
            'spec: { containers: [{ name: main, image: nginx }] }'
    done >"$T/before.yaml"
    ok kube inject "$T/before.yaml"
    "$PYTHON" - "$T/out" <<'END'
import sys, yaml
api, web = ({e["name"]: e["value"] for e in pod["spec"]["containers"][0]["env"]} for pod in yaml.safe_load_all(open(sys.argv[1])))
assert api["API"] == web["API"] == api["PORT"] != web["PORT"], (api, web)
END
    sed -i 's/api\.http/api-blue.http/' "$T/before.yaml"
    refused 2 kube inject "$T/before.yaml"
    says "no role 'api-blue'"
}

@test "RBG's own example: leader and worker, both scopes, and the worker knows the leader's port" {
    cat >"$T/rbg.yaml" <<'END'
apiVersion: workloads.x-k8s.io/v1alpha2
kind: RoleBasedGroup
metadata:
  name: demo
  namespace: prod
spec:
  roles:
    - name: prefill
      replicas: 1
      customComponentsPattern:
        components:
          - name: leader
            size: 1
            template:
              metadata:
                annotations:
                  rolebasedgroup.workloads.x-k8s.io/port-allocator: |
                    {"allocations": [
                      {"name": "leader-port", "env": "LEADER_PORT", "annotationKey": "test/grpc-port", "scope": "PodScoped"},
                      {"name": "leader-port-static", "env": "LEADER_PORT_STATIC", "annotationKey": "test/grpc-port-static",
                       "scope": "RoleScoped"}]}
              spec:
                containers:
                  - name: engine
                    image: nginx
          - name: worker
            size: 1
            template:
              metadata:
                annotations:
                  rolebasedgroup.workloads.x-k8s.io/port-allocator: |
                    {"references": [{"env": "LEADER_ADDR_PORT", "from": "prefill.leader.leader-port"}]}
              spec:
                containers:
                  - name: engine
                    image: nginx
END
    inject "$T/rbg.yaml"
    [ -z "$errs" ]
    only '
leader, worker = [c["template"] for c in b[0]["spec"]["roles"][0]["customComponentsPattern"]["components"]]
own = port("prod.RoleBasedGroup.demo/prefill/0/leader/leader-port")
shared = port("prod.RoleBasedGroup.demo/prefill/-/leader/leader-port-static")
assert own != shared
env(leader["spec"]["containers"][0], ("LEADER_PORT", own), ("LEADER_PORT_STATIC", shared))
leader["metadata"]["annotations"].update({"test/grpc-port": own, "test/grpc-port-static": shared})
env(worker["spec"]["containers"][0], ("LEADER_ADDR_PORT", own))'
    kept
    again
    [ "$(held)" -eq 2 ]
}

@test "every kind of object has its pods found" {
    for kind in Deployment StatefulSet DaemonSet ReplicaSet ReplicationController Job Rollout; do
        printf 'kind: %s\nmetadata:\n  name: one\nspec:\n  template:\n    metadata:\n      annotations:\n        dibs.dev/ports: '"'%s'"'\n    spec:\n      containers:\n      - name: c\n' \
            "$kind" "$HTTP" >"$T/$kind.yaml"
        inject "$T/$kind.yaml"
        only "
t = b[0]['spec']['template']; p = port('default.$kind.one/one/0/-/http')
env(t['spec']['containers'][0], ('PORT', p)); t['metadata']['annotations']['test/http'] = p"
        kept
        again
    done
    pod one 'containers:' '- name: c' >"$T/Pod.yaml"
    inject "$T/Pod.yaml"
    only '
p = port("default.Pod.one/one/0/-/http")
env(b[0]["spec"]["containers"][0], ("PORT", p)); b[0]["metadata"]["annotations"]["test/http"] = p'
    again
    printf 'kind: CronJob\nmetadata: {name: one}\nspec:\n  jobTemplate:\n    spec:\n      template:\n        metadata: {annotations: {dibs.dev/ports: '"'%s'"'}}\n        spec: {containers: [{name: c}]}\n' \
        "$HTTP" >"$T/CronJob.yaml"
    inject "$T/CronJob.yaml"
    only '
t = b[0]["spec"]["jobTemplate"]["spec"]["template"]; p = port("default.CronJob.one/one/0/-/http")
env(t["spec"]["containers"][0], ("PORT", p)); t["metadata"]["annotations"]["test/http"] = p'
    again
    [ "$(sql 'SELECT count(DISTINCT port) FROM claims')" -eq 9 ] # no two pods share a port
}

@test "a LeaderWorkerSet has a leader and workers, and its workers reach the leader" {
    cat >"$T/lws.yaml" <<END
kind: LeaderWorkerSet
metadata:
  name: llm
spec:
  replicas: 2
  leaderWorkerTemplate:
    size: 4
    leaderTemplate:
      metadata:
        annotations: {dibs.dev/ports: '$HTTP'}
      spec:
        containers:
          - name: c
    workerTemplate:
      metadata:
        annotations:
          dibs.dev/ports: '{"references": [{"env": "LEADER", "from": "llm[1].leader.http"}]}'
      spec:
        containers:
          - name: c
END
    inject "$T/lws.yaml"
    says 'get the same PodScoped ports'
    only '
both = b[0]["spec"]["leaderWorkerTemplate"]; p = port("default.LeaderWorkerSet.llm/llm/0/leader/http")
env(both["leaderTemplate"]["spec"]["containers"][0], ("PORT", p))
both["leaderTemplate"]["metadata"]["annotations"]["test/http"] = p
env(both["workerTemplate"]["spec"]["containers"][0], ("LEADER", p))'
    again
    sed 's/llm\[1\]/llm[2]/' "$T/lws.yaml" >"$T/bad.yaml"
    refused 2 kube inject "$T/bad.yaml"
    says "$T/bad.yaml:17:27: \$LEADER: there is no instance 2, only 2"
}

@test "patterns of RBG's roles, and its instances, are found too" {
    cat >"$T/rbg.yaml" <<END
kind: RoleBasedGroup
metadata: {name: demo}
spec:
  roles:
  - name: router
    standalonePattern:
      template:
        metadata: {annotations: {dibs.dev/ports: '$HTTP'}}
        spec: {containers: [{name: c}]}
  - name: old
    template:
      metadata: {annotations: {dibs.dev/ports: '$HTTP'}}
      spec: {containers: [{name: c}]}
  - name: engine
    leaderWorkerPattern:
      size: 2
      template:
        metadata:
          annotations:
            rolebasedgroup.workloads.x-k8s.io/port-allocator: '{"references": [{"env": "ROUTER", "from": "router.router.http"}]}'
        spec: {containers: [{name: c}]}
---
kind: RoleInstanceSet
metadata: {name: set}
spec:
  roleInstanceTemplate:
    components:
    - name: leader
      template:
        metadata: {annotations: {dibs.dev/ports: '$HTTP'}}
        spec: {containers: [{name: c}]}
---
kind: RoleInstance
metadata: {name: one}
spec:
  components:
  - name: leader
    template:
      metadata: {annotations: {dibs.dev/ports: '$HTTP'}}
      spec: {containers: [{name: c}]}
END
    inject "$T/rbg.yaml"
    only '
roles = b[0]["spec"]["roles"]
def http(t, p):
    env(t["spec"]["containers"][0], ("PORT", p)); t["metadata"]["annotations"]["test/http"] = p
router = port("default.RoleBasedGroup.demo/router/0/-/http")
http(roles[0]["standalonePattern"]["template"], router)
http(roles[1]["template"], port("default.RoleBasedGroup.demo/old/0/-/http"))
env(roles[2]["leaderWorkerPattern"]["template"]["spec"]["containers"][0], ("ROUTER", router))
http(b[1]["spec"]["roleInstanceTemplate"]["components"][0]["template"], port("default.RoleInstanceSet.set/set/0/leader/http"))
http(b[2]["spec"]["components"][0]["template"], port("default.RoleInstance.one/one/0/leader/http"))'
    again
}

@test "objects without the annotation come out byte for byte, and no ledger is needed" {
    printf '# nothing\r\nkind: Service\r\nmetadata: {name: a}\r\n---\r\n\r\nkind: Deployment\r\nspec: {template: {}}\r\n...\r\n- 1\r\n' \
        >"$T/plain.yaml"
    printf '' >"$T/empty.yaml"
    printf '{"kind": "Pod", "metadata": {"annotations": {"dibs.dev/ports": ""}}}' >"$T/off.json"
    for file in plain.yaml empty.yaml off.json; do
        ok kube inject "$T/$file"
        cmp "$T/out" "$T/$file"
        [ -z "$errs" ]
    done
    made_no_ledger
}

@test "comments, order, quotes, blank lines and indentation stay" {
    cat >"$T/web.yaml" <<END
# head

kind: "Deployment"   # quoted
metadata:
   name: web
   labels: { a: 'b' }

spec:
   template:
      spec:
         containers:
            # the first
            - name: web     # its name
              image: "nginx"

              env:          # variables
                 # first of all
                 - name: URL
                   value: http://localhost:\$(PORT)/
              command: [ "x" ]   # last key

            # the second
            - image: >-
                 folded
              name: |
                 block
      metadata:
         # for dibs
         annotations:
            dibs.dev/ports: '$HTTP'   # our own
            other: "1"
# tail
END
    inject "$T/web.yaml"
    kept
    only '
t = b[0]["spec"]["template"]; p = port("default.Deployment.web/web/0/-/http")
for c in t["spec"]["containers"]: env(c, ("PORT", p))
t["metadata"]["annotations"]["test/http"] = p'
    grep -qx '                 - name: PORT' "$T/after"
    grep -qx '            test/http: "[0-9]*"' "$T/after"
    again
}

@test "a file with CRLF keeps it" {
    pod one 'containers:' '- name: c' | sed 's/$/\r/' >"$T/crlf.yaml"
    inject "$T/crlf.yaml"
    kept
    not grep -qv $'\r$' "$T/after"
    only '
p = port("default.Pod.one/one/0/-/http")
env(b[0]["spec"]["containers"][0], ("PORT", p)); b[0]["metadata"]["annotations"]["test/http"] = p'
    again
}

@test "JSON in, JSON out, compact and pretty" {
    "$PYTHON" -SE - "$HTTP" "$T" <<'END'
import json, sys
d = {"kind": "List", "items": [{"kind": "Pod", "metadata": {"name": n, "annotations": {"dibs.dev/ports": sys.argv[1]}},
     "spec": {"hostNetwork": True, "containers": [{"name": "c", "env": [{"name": "A", "value": "ä"}]}, {"name": "d"}]}} for n in "ab"]}
json.dump(d, open(sys.argv[2] + "/compact.json", "w"), separators=(",", ":"))
json.dump(d, open(sys.argv[2] + "/pretty.json", "w"), indent="\t")
END
    for file in compact.json pretty.json; do
        inject "$T/$file"
        "$PYTHON" -SE -m json.tool "$T/after" >/dev/null
        before=$T/pretty.yaml
        tr '\t' ' ' <"$T/$file" >"$before" # PyYAML reads no tabs
        cp "$T/after" "$T/with-tabs"
        tr '\t' ' ' <"$T/with-tabs" >"$T/after"
        only '
for o in b[0]["items"]:
    n = o["metadata"]["name"]; p = port("default.Pod.%s/%s/0/-/http" % (n, n)); c = o["spec"]["containers"]
    for x in c: env(x, ("PORT", p))
    c[0]["ports"] = [{"containerPort": int(p), "hostPort": int(p), "protocol": "TCP"}]
    o["metadata"]["annotations"]["test/http"] = p'
        again
    done
}

@test "variables of the same name are replaced in place, in every container" {
    pod one 'initContainers:' \
        '- {name: i, env: [{name: A, value: "1"}, {name: PORT, valueFrom: {fieldRef: {fieldPath: a}}}]}' \
        'containers:' \
        '- name: a' '  env:' '  - name: PORT' '    value: "80" # the old one' '  - name: B' '    value: $(PORT)' \
        '- name: b' '  env:' '  - name: B' '    value: x' '  - name: PORT' '    valueFrom:' '      configMapKeyRef:' \
        '        name: m' '        key: k' '  image: z' \
        '- name: c' '  env:' '  - name: PORT' '    value:' '  - name: PORT' '    value: 80' \
        '- name: d' '  env: # none' \
        '- name: e' '  env: []' \
        '- name: f' '  env: null' >"$T/one.yaml"
    inject "$T/one.yaml"
    only '
p = port("default.Pod.one/one/0/-/http"); s = b[0]["spec"]
b[0]["metadata"]["annotations"]["test/http"] = p
for c in s["initContainers"] + s["containers"]:
    if not any(v["name"] == "PORT" for v in c["env"] or []):
        env(c, ("PORT", p))
    for v in c["env"]:
        if v["name"] == "PORT":
            v.clear(); v.update(name="PORT", value=p)'
    grep -q '# the old one' "$T/after"
    again
}

@test "metadata and annotations are made where they are missing" {
    for metadata in '' 'metadata:' 'metadata: {}' 'metadata: null' 'metadata: {labels: {a: b}}' 'metadata: {annotations: }' \
        $'metadata:\n            labels:\n              a: b' $'metadata:\n            annotations: {}'; do
        cat >"$T/rbg.yaml" <<END
kind: RoleBasedGroup
metadata:
  name: demo
spec:
  roles:
    - name: r
      components:
        - name: c
          annotations:
            dibs.dev/ports: '$HTTP'
          template:
            ${metadata:-# nothing}
            spec:
              containers:
                - name: c
END
        inject "$T/rbg.yaml"
        only '
t = b[0]["spec"]["roles"][0]["components"][0]["template"]; p = port("default.RoleBasedGroup.demo/r/0/c/http")
env(t["spec"]["containers"][0], ("PORT", p))
t["metadata"] = t.get("metadata") or {}
t["metadata"]["annotations"] = {"test/http": p}'
        again
    done
}

@test "annotations of a component go over those of its template" {
    cat >"$T/rbg.yaml" <<END
kind: RoleBasedGroup
metadata:
  name: demo
spec:
  roles:
  - name: r
    components:
    - name: c
      annotations:
        dibs.dev/ports: '$HTTP'
        test/http: "old"
      template:
        metadata:
          annotations:
            rolebasedgroup.workloads.x-k8s.io/port-allocator: '{"allocations": [{"name": "x", "env": "X"}]}'
        spec:
          containers: [{name: c}]
END
    inject "$T/rbg.yaml"
    only '
c = b[0]["spec"]["roles"][0]["components"][0]; p = port("default.RoleBasedGroup.demo/r/0/c/http")
c["annotations"]["test/http"] = p
env(c["template"]["spec"]["containers"][0], ("PORT", p))'
    again
    [ "$(held)" -eq 1 ]
}

@test "pods in the host's network say which ports of the host they use, once" {
    HTTP='{"allocations": [{"name": "a", "env": "A", "proto": "tcp+udp"}, {"name": "b", "env": "B", "count": 2, "contiguous": true},
           {"name": "c", "env": "C", "count": 2}]}'
    pod one 'hostNetwork: true' 'containers:' '- name: c' '  ports:' '  - containerPort: 80 # kept' '- name: d' >"$T/one.yaml"
    inject "$T/one.yaml"
    only '
def p(name): return port("default.Pod.one/one/0/-/" + name)
def entry(number, proto="TCP"): return {"containerPort": int(number), "hostPort": int(number), "protocol": proto}
c = b[0]["spec"]["containers"]
for x in c: env(x, ("A", p("a")), ("B", p("b")), ("C", p("c") + "," + p("c.1")))
assert int(p("b.1")) == int(p("b")) + 1
c[0]["ports"] += [entry(p("a")), entry(p("a"), "UDP"), entry(p("b")), entry(p("b.1")), entry(p("c")), entry(p("c.1"))]'
    again
    # The scheduler may put several pods with one number on a node.
    HTTP='{"allocations": [{"name": "a", "env": "A", "hostPort": true}, {"name": "b", "env": "B", "scope": "RoleScoped", "hostPort": false}]}'
    pod two 'hostNetwork: true' 'containers:' '- name: c' >"$T/two.yaml"
    inject "$T/two.yaml"
    only '
c, = b[0]["spec"]["containers"]
env(c, ("A", port("default.Pod.two/two/0/-/a")), ("B", port("default.Pod.two/two/-/-/b")))
c["ports"] = [{"containerPort": int(c["env"][0]["value"]), "hostPort": int(c["env"][0]["value"]), "protocol": "TCP"}]'
    again
}

@test "many pods of one template: RoleScoped always, PodScoped only with a network of their own" {
    deployment() { # deployment SCOPE HOST_NETWORK
        cat <<END
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  template:
    metadata:
      annotations:
        dibs.dev/ports: '{"allocations": [{"name": "http", "env": "PORT", "scope": "$1"}]}'
    spec:
      hostNetwork: $2
      containers:
      - name: c
END
    }
    deployment PodScoped true >"$T/web.yaml"
    refused 2 kube inject "$T/web.yaml"
    says "$T/web.yaml:9:25: 3 pods in the host's network"
    says 'RoleScoped'
    says 'dibs kube install --print --ledger etcd://HOST:2379/NAME | kubectl apply -f -'
    [ "$(dibs kube install --print --ledger etcd://HOST:2379/NAME | grep -c '^kind: MutatingWebhookConfiguration')" = 1 ]
    made_no_ledger
    deployment PodScoped false | dibs kube inject - >"$T/shared" 2>"$T/err"
    grep -q 'standard input:9:25: all pods .* the same PodScoped ports' "$T/err"
    # The webhook of a cluster can give such a number to one pod only, so it is not to insist.
    [ "$(grep -c 'dibs.dev/injected' "$T/shared")" -eq 0 ]
    # A rollout and a DaemonSet make a second pod beside the first, too.
    for change in 's/replicas: 3/replicas: 1/' 's/Deployment/DaemonSet/'; do
        deployment PodScoped false | sed "$change" >"$T/one.yaml"
        ok kube inject "$T/one.yaml"
        [ "$(grep -c 'dibs.dev/injected' <<<"$out")" -eq 0 ]
        ok kube inject --release "$T/one.yaml"
    done
    deployment RoleScoped true >"$T/web.yaml"
    inject "$T/web.yaml"
    grep -q '^        dibs.dev/injected: "true"$' "$T/after"
    [ -z "$errs" ]
    only '
p = port("default.Deployment.web/web/-/-/http"); c = b[0]["spec"]["template"]["spec"]["containers"][0]
env(c, ("PORT", p)); c["ports"] = [{"containerPort": int(p), "hostPort": int(p), "protocol": "TCP"}]'
    again
    [ "$(held)" -eq 1 ] # the PodScoped one is obsolete and was released
}

@test "objects of one file and namespace know each other, those of another namespace do not" {
    { pod api 'containers:' '- name: c'; echo ---; HTTP='{"references": [{"env": "API", "from": "api.http"}]}' \
        pod web 'containers:' '- name: c'; } >"$T/two.yaml"
    inject "$T/two.yaml"
    only '
p = port("default.Pod.api/api/0/-/http")
env(b[0]["spec"]["containers"][0], ("PORT", p)); b[0]["metadata"]["annotations"]["test/http"] = p
env(b[1]["spec"]["containers"][0], ("API", p))'
    again
    sed 's/name: api/name: api\n  namespace: other/' "$T/two.yaml" >"$T/other.yaml"
    refused 2 kube inject "$T/other.yaml"
    says "$T/other.yaml:17:21: no role 'api'; there are: web"
    sed 's/api\.http/api.htpp/' "$T/two.yaml" >"$T/wrong.yaml"
    refused 2 kube inject "$T/wrong.yaml"
    says "$T/wrong.yaml:16:21: no port 'htpp' in role 'api'; did you mean 'http'?"
    sed 's/api\.http/api.metrics/' "$T/two.yaml" >"$T/wrong.yaml"
    refused 2 kube inject "$T/wrong.yaml"
    says "no port 'metrics' in role 'api'; there are: http"
    sed 's/api\.http/apo.http/' "$T/two.yaml" >"$T/wrong.yaml"
    refused 2 kube inject "$T/wrong.yaml"
    says "no role 'apo'; did you mean 'api'?"
}

@test "a component discovers another's port by its index" {
    cat >"$T/rbg.yaml" <<END
kind: RoleBasedGroup
metadata: {name: demo}
spec:
  roles:
  - name: r
    components:
    - name: leader
      size: 2
      template:
        metadata: {annotations: {dibs.dev/ports: '$HTTP'}}
        spec: {containers: [{name: c}]}
    - name: worker
      template:
        metadata:
          annotations:
            dibs.dev/ports: '{"allocations": [{"name": "x", "env": "X"}]}'
            rolebasedgroup.workloads.x-k8s.io/component-discovery: |
              {"portRefs": [{"env": "LEADER", "component": "leader", "portName": "http", "index": 1}]}
        spec: {containers: [{name: c}]}
END
    inject "$T/rbg.yaml"
    only '
leader, worker = [c["template"] for c in b[0]["spec"]["roles"][0]["components"]]
p = port("default.RoleBasedGroup.demo/r/0/leader/http")
env(leader["spec"]["containers"][0], ("PORT", p)); leader["metadata"]["annotations"]["test/http"] = p
env(worker["spec"]["containers"][0], ("X", port("default.RoleBasedGroup.demo/r/0/worker/x")), ("LEADER", p))'
    again
    sed 's/"index": 1/"index": 2/' "$T/rbg.yaml" >"$T/bad.yaml"
    refused 2 kube inject "$T/bad.yaml"
    says '$LEADER: there is no pod 2, only 2'
    sed 's/"component": "leader"/"component": "nobody"/' "$T/rbg.yaml" >"$T/bad.yaml"
    refused 2 kube inject "$T/bad.yaml"
    says "no component 'nobody' in role 'r'"
    sed 's/"portName": "http"/"portName": "grpc"/' "$T/rbg.yaml" >"$T/bad.yaml"
    refused 2 kube inject "$T/bad.yaml"
    says "no port 'grpc' in role 'r'"
}

@test "text that an alias shows elsewhere is not changed" {
    pod one 'containers: &c' '- name: c' 'more: *c' >"$T/one.yaml"
    refused 2 kube inject "$T/one.yaml"
    says "$T/one.yaml:9:5: an alias names this text"
    pod one 'shared: &c {name: c}' 'containers:' '- <<: *c' '  image: x' '- *c' >"$T/one.yaml"
    refused 2 kube inject "$T/one.yaml"
    says 'an alias names this text'
    pod one 'shared: &c {image: x}' 'containers:' '- <<: *c' '  name: c' >"$T/one.yaml"
    inject "$T/one.yaml"
    kept
    pod one 'shared: &c {env: [{name: A, value: b}]}' 'containers:' '- <<: *c' '  name: c' >"$T/one.yaml"
    refused 2 kube inject "$T/one.yaml"
    says "'env' comes from a merge"
    [ "$(held)" -eq 1 ]
}

@test "bad input is exit 2 with its place, and nothing is printed, written or claimed" {
    pod one 'containers:' '- name: c' >"$T/good.yaml"
    while IFS='|' read -r change want; do
        sed -E "$change" "$T/good.yaml" >"$T/bad.yaml"
        refused 2 kube inject "$T/bad.yaml" -o "$T/result"
        says "$T/bad.yaml:$want"
    done <<'END'
s/"env": "PORT"/"env": "A B"/|6:21: allocations[0].env is not the name of a variable
s/"name": "http", //|6:21: allocations[0].name is required
s/\}\]\}/}, {"name": "http", "env": "X"}]}/|6:21: port 'http' is there twice in one pod
s/\}\]\}/}, {"name": "x", "env": "PORT"}]}/|6:21: env 'PORT' is there twice in one pod
s/\}\]\}/}], "references": [{"env": "A", "from": "two.http"}]}/|6:21: 
s/\}\]\}/}, ]}/|6:21: failed to parse port allocator config: 
s/'\{.*/[1]/|6:21: an annotation is a text
s/^  name: one/  x: y/|1:1: an object without metadata.name
s/containers:/others:/|6:21: the pod has no containers to give ports to
s/- name: c/- c/|9:5: a container is not a map
s/- name: c/- env: x/|9:10: env is not a list
s/^spec:/spec: [/|
s/^  annotations:/  annotations: \&a/;s/- name: c/- {a: *b}/|9:9: an alias names nothing
END
    { cat "$T/good.yaml"; echo ---; cat "$T/good.yaml"; } >"$T/bad.yaml"
    refused 2 kube inject "$T/bad.yaml" -o "$T/result"
    says "$T/bad.yaml:11:1: this object is in line 1 already"
    refused 2 kube inject
    refused 2 kube eject "$T/good.yaml"
    refused 1 kube inject "$T/missing.yaml"
    [ ! -e "$T/result" ]
    made_no_ledger
}

@test "an annotation on the wrong level is reported" {
    printf 'kind: Deployment\nmetadata: {name: a, annotations: {dibs.dev/ports: "{}"}}\nspec: {template: {spec: {}}}\n' >"$T/a.yaml"
    ok kube inject "$T/a.yaml"
    cmp "$T/out" "$T/a.yaml"
    says 'belongs to the metadata of its pod template'
}

@test "-o writes the file whole, keeps its mode, and the same file may be read and written" {
    pod one 'containers:' '- name: c' >"$T/one.yaml"
    dibs kube inject "$T/one.yaml" >"$T/wanted"
    chmod 0640 "$T/one.yaml"
    ok kube inject "$T/one.yaml" -o "$T/one.yaml"
    [ -z "$out" ]
    cmp "$T/one.yaml" "$T/wanted"
    [ "$(stat -c %a "$T/one.yaml")" = 640 ]
    (umask 027 && dibs kube inject "$T/one.yaml" --output "$T/new.yaml")
    [ "$(stat -c %a "$T/new.yaml")" = 640 ]
    ok kube inject "$T/one.yaml" --json
    json "d == {'text': open('$T/wanted').read()}"
    ok kube inject "$T/one.yaml" --json -o "$T/new.yaml"
    json "d == {'output': '$T/new.yaml'}"
}

@test "a port that cannot be delivered or claimed leaves no claim behind" {
    { pod one 'containers:' '- name: c'; echo ---; HTTP='{"allocations": [{"name": "x", "env": "X", "port": 14300}]}' \
        pod two 'containers:' '- name: c'; } >"$T/two.yaml"
    refused 1 kube inject "$T/two.yaml" -o "$T/no/such/folder"
    [ "$(held)" -eq 0 ]
    try kube inject "$T/two.yaml" -o /dev/full
    [ "$code" -eq 1 ]
    [ "$(held)" -eq 0 ]
    dibs kube inject "$T/two.yaml" >/dev/full 2>"$T/err" && false
    [ "$(held)" -eq 0 ]
    sed 's/"name": "http", "env": "PORT"/"name": "y", "env": "Y", "port": 14300/' "$T/two.yaml" >"$T/both.yaml"
    refused 3 kube inject "$T/both.yaml" -o "$T/result" # each alone could have it
    [ "$(held)" -eq 0 ]
    ok claim mine --port 14300
    refused 3 kube inject "$T/two.yaml" -o "$T/result"
    says 14300
    [ "$(held)" -eq 1 ]
    [ ! -e "$T/result" ]
}

# fixed NAME NUMBER: a Pod whose port is that number.
fixed() { HTTP="{\"allocations\": [{\"name\": \"x\", \"env\": \"X\", \"port\": $2}]}" pod "$1" 'containers:' '- name: c'; }

# claims: name and port of every claim.
claims() { sql 'SELECT name, port FROM claims ORDER BY name'; }

@test "a refused or undelivered injection moves and drops no claim of any object (INV-4)" {
    fixed one 14301 >"$T/one.yaml"
    { cat "$T/one.yaml"; echo ---; HTTP='{"allocations": [{"name": "x", "env": "X"}, {"name": "old", "env": "OLD"}]}' \
        pod two 'containers:' '- name: c'; } >"$T/two.yaml"
    ok kube inject "$T/two.yaml"
    ok claim mine --port 14303
    claims >"$T/wanted"
    { fixed one 14302; echo ---; fixed two 14303; } >"$T/refused.yaml"
    refused 3 kube inject "$T/refused.yaml"
    claims | diff "$T/wanted" -
    { fixed one 14302; echo ---; fixed two 14304; echo ---; fixed three 14305; } >"$T/new.yaml"
    code=0
    dibs kube inject "$T/new.yaml" >/dev/full 2>"$T/err" || code=$?
    [ "$code" -eq 74 ]
    claims | diff "$T/wanted" -
    refused 1 kube inject "$T/new.yaml" -o "$T/no/such/folder"
    claims | diff "$T/wanted" -
    ok kube inject "$T/new.yaml" # and what was put back can be moved again
    [ "$(claims | grep -c -e 14302 -e 14304 -e 14305)" -eq 3 ]
}

@test "two objects of one file swap their ports" {
    { fixed one 14301; echo ---; fixed two 14302; } >"$T/two.yaml"
    ok kube inject "$T/two.yaml"
    { fixed one 14302; echo ---; fixed two 14301; } >"$T/two.yaml"
    inject "$T/two.yaml"
    again
}

@test "claims that cannot be restored are reported" {
    fixed one 14301 >"$T/one.yaml"
    ok kube inject "$T/one.yaml"
    listen 14301
    fixed one 14302 >"$T/new.yaml"
    try kube inject "$T/new.yaml" -o "$T/no/such/folder"
    [ "$code" -eq 1 ]
    says 'could not be put back'
    [ "$(sql 'SELECT port FROM claims')" -eq 14302 ]
    ok kube inject "$T/new.yaml"
}

@test "lists as the API server prints them: the kind of their items is in that of the list" {
    pod one 'containers:' '- name: c' | sed '/^kind/d;/^apiVersion/d;s/^/  /;s/^  metadata/- metadata/' >"$T/items"
    { printf 'kind: PodList\nitems:\n'; cat "$T/items"; } >"$T/list.yaml"
    inject "$T/list.yaml"
    [ -z "$errs" ]
    only '
o = b[0]["items"][0]; p = port("default.Pod.one/one/0/-/http")
env(o["spec"]["containers"][0], ("PORT", p)); o["metadata"]["annotations"]["test/http"] = p'
    again
    { printf 'kind: List\nitems:\n'; cat "$T/items"; } >"$T/list.yaml" # of what?
    ok kube inject "$T/list.yaml"
    cmp "$T/out" "$T/list.yaml"
    says "$T/list.yaml:6:7: an annotation that asks for ports is not used here"
}

@test "pod templates are found wherever they stand" {
    template="{metadata: {annotations: {dibs.dev/ports: '$HTTP'}}, spec: {containers: [{name: c}]}}"
    cat >"$T/all.yaml" <<END
kind: PodTemplate
metadata: {name: one}
template: $template
---
kind: JobSet
metadata: {name: one}
spec:
  replicatedJobs:
  - name: driver
    template: {spec: {template: $template}}
  - name: workers
    replicas: 2
    template: {spec: {parallelism: 3, template: $template}}
---
kind: RayCluster
metadata: {name: one}
spec:
  headGroupSpec: {template: $template}
  workerGroupSpecs:
  - groupName: small
    template: $template
END
    inject "$T/all.yaml"
    [ "$(grep -c . "$T/err")" -eq 1 ]
    says "$T/all.yaml:13:91: all pods of this template get the same PodScoped ports"
    only '
def http(t, name):
    p = port(name + "/http"); env(t["spec"]["containers"][0], ("PORT", p)); t["metadata"]["annotations"]["test/http"] = p
http(b[0]["template"], "default.PodTemplate.one/one/0/-")
for j in b[1]["spec"]["replicatedJobs"]: http(j["template"]["spec"]["template"], "default.JobSet.one/one/0/" + j["name"])
http(b[2]["spec"]["headGroupSpec"]["template"], "default.RayCluster.one/one/0/headGroupSpec")
http(b[2]["spec"]["workerGroupSpecs"][0]["template"], "default.RayCluster.one/one/0/small")'
    again
    sed -i 's/spec: {containers/spec: {hostNetwork: true, containers/' "$T/all.yaml"
    refused 2 kube inject "$T/all.yaml"
    says "6 pods in the host's network"
}

@test "an annotation that belongs to no pod is reported, wherever it stands (INV-10)" {
    cat >"$T/all.yaml" <<END
kind: Service
metadata: {name: a, annotations: {dibs.dev/ports: '{}'}}
---
kind: RoleBasedGroup
metadata: {name: a}
spec: {roles: [{name: r, annotations: {rolebasedgroup.workloads.x-k8s.io/port-allocator: '{}'}}]}
---
values: {annotations: {rolebasedgroup.workloads.x-k8s.io/component-discovery: '{}'}}
END
    ok kube inject "$T/all.yaml"
    cmp "$T/out" "$T/all.yaml"
    [ "$(grep -c 'is not used here' "$T/err")" -eq 3 ]
    made_no_ledger
    for i in {1..20}; do printf -- '---\nkind: Service\nmetadata: {name: s%s, annotations: {dibs.dev/ports: x}}\n' "$i"; done >"$T/many.yaml"
    ok kube inject "$T/many.yaml"
    [ "$(grep -c 'is not used here' "$T/err")" -eq 16 ]
    says '4 more annotations are not used'
}

@test "a component that only discovers others' ports gets them, and a note says that addresses are left out" {
    cat >"$T/rbg.yaml" <<END
kind: RoleBasedGroup
metadata: {name: demo}
spec:
  roles:
  - name: r
    components:
    - name: leader
      template:
        metadata: {annotations: {rolebasedgroup.workloads.x-k8s.io/port-allocator: '$HTTP'}}
        spec: {containers: [{name: c}]}
    - name: worker
      template:
        metadata:
          annotations:
            rolebasedgroup.workloads.x-k8s.io/component-discovery: |
              {"portRefs": [{"env": "LEADER", "component": "leader", "portName": "http"}],
               "addressRefs": [{"env": "ADDRESS", "component": "leader"}]}
        spec: {containers: [{name: c}]}
END
    inject "$T/rbg.yaml"
    says "$T/rbg.yaml:16:1: addressRefs are left out"
    only '
leader, worker = [c["template"] for c in b[0]["spec"]["roles"][0]["components"]]
p = port("default.RoleBasedGroup.demo/r/0/leader/http")
env(leader["spec"]["containers"][0], ("PORT", p)); leader["metadata"]["annotations"]["test/http"] = p
env(worker["spec"]["containers"][0], ("LEADER", p))'
    again
    sed 's/"portName": "http"/"portName": "grpc"/' "$T/rbg.yaml" >"$T/bad.yaml"
    refused 2 kube inject "$T/bad.yaml"
    says 'grpc'
}

@test "--release ends the claims of a file's objects, and no others" {
    pod one 'containers:' '- name: c' >"$T/one.yaml"
    pod two 'containers:' '- name: c' >"$T/two.yaml"
    ok kube inject --release "$T/one.yaml" # nothing there
    says '0 claims ended'
    ok kube inject "$T/one.yaml"
    ok kube inject "$T/two.yaml"
    refused 2 kube inject --release "$T/one.yaml" -o "$T/result"
    [ "$(held)" -eq 2 ]
    sed -i '/dibs.dev/d' "$T/one.yaml" # it asks for nothing any more
    ok kube inject --release "$T/one.yaml"
    [ -z "$out" ]
    says '1 claim ended'
    [ "$(sql 'SELECT name FROM claims')" = default.Pod.two/two/0/-/http ]
    { cat "$T/two.yaml"; echo ---; cat "$T/two.yaml"; } >"$T/twice.yaml"
    ok kube inject --release --json "$T/twice.yaml"
    json "d == {'released': 1}"
    [ "$(held)" -eq 0 ]
    refused 2 kube inject --release - <<<'a: ['
}

@test "an empty token file is named" {
    : >token
    cat >kubeconfig <<'END'
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {tokenFile: token}}]
END
    (umask 077 && printf 'id test\nkey %s\n' 0123456789abcdef0123456789abcdef >installation)
    refused 2 kube controller --kubeconfig kubeconfig --installation installation
    says "token ./token: the file is empty"
}
