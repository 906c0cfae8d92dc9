#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Every recipe of docs/RECIPES.md, as it stands there, with the real programs. A test has the title of its recipe.
load ../support/dibs
load ../support/npm
load ../support/sandbox
load ../support/session
load ../support/slurm

setup() {
    session_setup
    needs curl script
}
teardown() {
    session_teardown
    sandbox_teardown
}

# starts N NAME [TEXT]: the N-th block of the recipe keeps running on a terminal, and the claim's own server answers.
starts() {
    terminal "$2" bash -eu "$T/recipe.$1"
    wait_until 15 serves "$2" "${3:-}" || { cat "$T/$2.screen" >&2; return 1; }
    wait_until 5 dibs assert -q "$2"
}

# ends NAME: by Ctrl-C; its port is free, and will be the same again.
ends() {
    local port
    port=$(dibs get "$1")
    press_ctrl_c "$1"
    wait_until 5 is_closed "$port"
    [ "$(dibs get "$1")" = "$port" ]
}

is_closed() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

@test "Vite" {
    needs_npm
    npm_install
    recipe "Vite"
    echo '<script type="module" src="/main.js"></script>' >index.html
    echo 'export const text = "one"' >main.js
    starts 1 web /main.js
    port=$(dibs get web)
    # Hot reload: the page's connection is on the same port and hears of a change.
    start /usr/bin/python3 "$BATS_TEST_DIRNAME/hot_reload.py" "$port" main.js
    wait "$STARTED"
    # A second server in this directory is refused; another program on this number stops Vite, which takes no other.
    run timeout 20 npm run dev
    assert_output_has "is held by"
    ends web
    listen "$port"
    run timeout 20 dibs run -p "web=$port" -- node_modules/.bin/vite --port "$port" --strictPort
    [ "$status" -ne 0 ]
}

@test "Express" {
    needs_npm
    npm_install
    recipe "Express"
    starts 1 api hello
    ends api
}

@test "A server with an option" {
    needs redis-server redis-cli
    recipe "A server with an option"
    terminal cache bash -eu "$T/recipe.1"
    wait_until 10 dibs assert -q cache
    [ "$(redis-cli -p "$(dibs get cache)" ping)" = PONG ]
    ends cache
}

@test "A server with a fixed number" {
    needs_npm
    npm_install
    recipe "A server with a fixed number"
    starts 1 web "hello from 3000"
    mkdir ../second
    cd ../second
    cp -r ../project/server.js ../project/node_modules .
    terminal second bash -eu "$T/recipe.1"
    wait_until 15 serves web "hello from 3000" || { cat "$T/second.screen" >&2; return 1; }
    [ "$(dibs get web)" != "$(cd ../project && dibs get web)" ]
    is_closed 3000
    cd ../project
    ends web
}

@test "A stack" {
    needs_npm
    needs redis-server redis-cli
    npm_install
    recipe "A stack"
    cat >server.js <<'JS'
const app = require("express")();
app.get("/", (request, response) => response.send(`cache at ${process.env.REDIS_URL}`));
app.listen(process.env.PORT);
JS
    terminal all bash -eu "$T/recipe.1"
    wait_until 15 serves api "cache at redis://localhost:$(dibs get cache/tcp)" || { cat "$T/all.screen" >&2; return 1; }
    ports=("$(dibs get api)" "$(dibs get cache)")
    [ "$(redis-cli -p "${ports[1]}" ping)" = PONG ]
    # The window is closed, and dibs with it: the rest is found and ended.
    kill -KILL "$(cat "$T/all.terminal")"
    type_in 2
    assert_status 0
    for port in "${ports[@]}"; do is_closed "$port"; done
    [ "$(dibs get api) $(dibs get cache)" = "${ports[*]}" ]
}

@test "pytest" {
    recipe "pytest"
    cat >test_server.py <<'PY'
import socket, pytest
@pytest.mark.parametrize("n", range(20))
def test_it_listens(port, n):
    with socket.create_server(("127.0.0.1", port)), open("ports", "a") as ports:
        ports.write(f"{port}\n")
PY
    type_in 1
    assert_status 0
    assert_output_has "20 passed"
    [ "$(sort -u ports | wc -l)" -eq 20 ]
    dibs reap
    [ "$(dibs ls --json)" = "[]" ]
}

@test "node --test" {
    needs node
    recipe "node --test"
    for file in a b c; do
        cat >$file.test.mjs <<'JS'
import { createServer } from "node:http";
import { appendFileSync } from "node:fs";
import test from "node:test";
import { port } from "./ports.mjs";
test("the server answers", async () => {
    const server = createServer((request, response) => response.end("hello")).listen(port());
    const answer = await fetch(`http://localhost:${server.address().port}/`);
    appendFileSync("ports", `${server.address().port} ${await answer.text()}\n`);
    server.closeAllConnections();
    server.close();
});
JS
    done
    type_in 1
    assert_status 0
    assert_output_has "pass 3"
    [ "$(sort -u ports | grep -cx '[0-9]* hello')" -eq 3 ]
}

@test "direnv" {
    needs direnv
    recipe "direnv"
    type_in 1
    assert_status 0
    [ "${lines[-1]}" = "$(dibs get web)" ]
}

@test "Make" {
    needs make
    recipe "Make"
    echo hello >index.html
    terminal web bash -eu "$T/recipe.1"
    wait_until 10 serves web hello
    press_ctrl_c web
    wait_until 5 is_closed "$(dibs get web)"
}

@test "Docker Compose" {
    needs docker-compose
    cat >compose.yaml <<'YAML'
services:
  db:
    image: postgres:15
    ports: ["5432:5432"]
  cache:
    image: redis:7
    ports: ["127.0.0.1:6379:6379"]
YAML
    recipe "Docker Compose"
    type_in 1
    assert_status 0
    docker-compose -f compose.local.yaml config >shown
    /usr/bin/python3 - shown "$(dibs get db/port)" "127.0.0.1:$(dibs get cache/port)" <<'PY'
import sys, yaml
published = []  # either as text or in parts
for name, service in sorted(yaml.safe_load(open(sys.argv[1]))["services"].items()):
    for port in service["ports"]:
        published.append(str(port["published"]) if isinstance(port, dict) else port.rsplit(":", 1)[0])
assert published == [sys.argv[3], sys.argv[2]], published
PY
}

@test "Training on one host" {
    recipe "Training on one host"
    cp "$BATS_TEST_DIRNAME/train.py" .
    type_in 1
    assert_status 0
    assert_output_has "train/0 | 4 ranks met"
    [ "$(grep -o 'ring [0-9]*' <<<"$output" | sort -u | wc -l)" -eq 4 ]
}

@test "A launcher with a block of ports" {
    recipe "A launcher with a block of ports"
    cp "$BATS_TEST_DIRNAME/train.py" "$BATS_TEST_DIRNAME/launch.py" .
    type_in 1
    assert_status 0
    assert_output_has "2 ranks met"
    [ "$(dibs log --json | grep -o '"what":"claimed"' | wc -l)" -eq 9 ]
    mapfile -t rings < <(grep -o 'ring [0-9]*' "$T/typed" | cut -d' ' -f2 | sort)
    [ "${rings[1]:-0}" -eq $((rings[0] + 4)) ] || { cat "$T/typed" >&2; return 1; }
}

@test "Dask" {
    needs dask-scheduler dask-worker
    recipe "Dask"
    terminal scheduler bash -eu "$T/recipe.1"
    wait_until 15 dibs assert -q scheduler
    terminal worker bash -eu "$T/recipe.2"
    run timeout 30 /usr/bin/python3 - "$(dibs get scheduler)" <<'PY'
import sys
from dask.distributed import Client
with Client(f"localhost:{sys.argv[1]}") as client:
    client.wait_for_workers(1)
    print(client.submit(sum, [20, 22]).result(), *client.scheduler_info()["workers"])
PY
    assert_status 0
    read -r sum worker <<<"${lines[-1]}"
    [ "$sum" = 42 ]
    worker=${worker##*:}
    base=$(dibs get --existing worker/0)
    [ "$worker" -ge "$base" ] && [ "$worker" -le $((base + 3)) ]
}

# submit [SBATCH OPTION]...: the recipe as it is typed, by an ordinary user on the first node; $job is the job's number.
submit() {
    local words
    words=$(cat "$T/recipe.1")
    # shellcheck disable=SC2086 # words
    job=$(SLURM_USER=1 on n1 ${words/sbatch/sbatch $*})
    job=${job##* }
}

has_no_claims() { [ "$(on "$1" dibs ls --all --json)" = '[]' ]; } # has_no_claims NODE

@test "Slurm" {
    needs_root
    needs slurmctld slurmd sbatch
    public_folder
    slurm_folder
    recipe "Slurm"
    chmod 0755 prolog task_* epilog
    cp prolog task_prolog epilog "$SLURM/etc"
    mapfile -t conf <slurm.conf
    cp "$BATS_TEST_DIRNAME/train.py" job.sh task_* "$PUBLIC"
    cd "$PUBLIC"
    slurm_start "${conf[@]}"

    # Four ranks on two nodes meet at a port of the first one, also when the user's own variables say something else.
    submit --export=ALL,MASTER_PORT=1,RANK_PORT=1
    first=$job
    # Meanwhile a job of the same user that does not end by itself has ports of its own.
    sed -i 's/^srun.*/srun sleep 600/' job.sh
    submit --output sleeps.out
    wait_until 20 job_has_ended "$first"
    grep -qx "4 ranks met" job.out
    [ "$(grep -c '^ring ' job.out)" -eq 4 ]
    wait_until 20 job_has_steps "$job" 2
    for node in n1 n2; do
        on $node dibs ls --all --json >"$T/claims"
        /usr/bin/python3 - "$T/claims" "$job" <<'PY'
import json, sys
got = [(c["name"], c["principal"]) for c in json.load(open(sys.argv[1]))]
assert got == [(f"slurm/{sys.argv[2]}/{i}", "uid:1") for i in range(9)], got
PY
    done
    # Nothing of either job is left, of the second one after its end by force.
    on n1 scancel "$job"
    for node in n1 n2; do wait_until 20 has_no_claims $node; done
    [ "$(on n2 dibs log --json | grep -o '"what":"released"' | wc -l)" -eq 18 ]

    # A task that holds a port itself: dibs knows its process, and the port is free when it is killed.
    cp task_port "$SLURM/etc/task_prolog"
    # shellcheck disable=SC2016 # for the shell of the job
    sed -i 's/^srun.*/echo "$PORT"; exec sleep 600/' job.sh
    submit --nodes 1 --output task.out
    wait_until 20 grep -qx '[0-9]*' task.out
    port=$(cat task.out)
    [ "$(on n1 dibs ls --all --json --port "$port" | field holder)" != None ]
    on n1 scancel --signal KILL --full "$job"
    wait_until 20 job_has_ended "$job"
    wait_until 10 has_no_claims n1
    cp task_prolog "$SLURM/etc"

    # When no ports are left the job says so, and the nodes stay in use.
    on n1 dibs pool set default --ranges 20000-20003
    submit --output none.out
    wait_until 20 job_has_ended "$job"
    grep -qx "no ports from dibs" none.out
    [ "$(on n1 sinfo -h -o '%D %T')" = '2 idle' ]
}

# daemon: the first block of the recipe. Root's daemon has its sockets in /run, which is another one here; clients of
# the recipe need none of them.
daemon() {
    local words=(bash -eu "$T/recipe.1")
    # shellcheck disable=SC2016 # for the shell there
    [ "$(id -u)" -ne 0 ] || words=(unshare --mount sh -c 'mount -t tmpfs tmpfs /run && exec "$@"' - "${words[@]}")
    terminal daemon "${words[@]}"
    wait_until 10 grep -q msg=serving "$T/daemon.screen" || { cat "$T/daemon.screen" >&2; return 1; }
}

@test "portpicker" {
    recipe "portpicker"
    daemon
    type_in 2
    assert_status 0
    run dibs log --json
    assert_output_has "\"port\":$(cat "$T/typed"),"
}

@test "gRPC's port server" {
    recipe "gRPC's port server"
    daemon
    type_in 2
    assert_status 0
    run dibs log
    assert_output_has "claimed"
    assert_output_has "released"
}

@test "A coding agent" {
    recipe "A coding agent"
    type_in 1
    assert_status 0
    assert_output_has "AGENTS.md"
    assert_output_has '"name":'
}

# bats test_tags=unserved
@test "every recipe has a test here, and is six lines at most" {
    /usr/bin/python3 - "$DOCS/RECIPES.md" "$BATS_TEST_FILENAME" <<'PY'
import re, sys
page, tests = (open(path).read() for path in sys.argv[1:])
sections = re.split(r"^## ", page, flags=re.M)[1:]
tested = set(re.findall(r'^@test "(.*)" \{', tests, re.M))
for section in sections:
    title = section.splitlines()[0]
    blocks = re.findall(r"^```(.*)\n((?:.*\n)*?)```$", section, re.M)
    assert blocks, title
    assert title in tested or all(fence == "sh systemd" for fence, _ in blocks), f"no test runs: {title}"
    for fence, text in blocks:
        assert len(text.splitlines()) <= 6, f"{title}: {len(text.splitlines())} lines"
PY
}
