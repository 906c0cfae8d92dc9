#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# A real project (Vite, Express, PostgreSQL, Redis) in several work trees at once: `dibs run --all`, Ctrl-C, SIGKILL of
# dibs, `dibs stop`, again. After each end no process of a tree lives and its ports are free; each start gets the same
# ports, and each tree reaches its own servers. Ports of this file: 24000-24399.
load ../support/dibs
load ../support/npm

setup() {
    dibs_setup
    needs_npm
    needs git curl redis-server setpriv
    PYTHON=$(command -v /usr/bin/python3 || command -v python3)
    POSTGRES=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2>/dev/null | sort | tail -n 1)
    [ -n "$POSTGRES" ] || skip "postgresql is not installed"
    export DIBS_RANGE=24000-24399 POSTGRES TERM=xterm
    HERE=$BATS_TEST_DIRNAME
    first_tree "$T/trees/shop"
    repository "$T/trees/shop"
    trees=("$T/trees/shop")
    for ((i = 1; i < $(long_or 10 3); i++)); do
        git -C "$T/trees/shop" worktree add -q -b "feature/$i" "$T/trees/shop-$i"
        trees+=("$T/trees/shop-$i")
    done
    for tree in "${trees[@]}"; do furnish "$tree"; done
}
teardown() {
    local tree
    for tree in "${trees[@]}"; do (cd "$tree" && dibs -q stop) || true; done
    dibs_teardown
}

# PostgreSQL does not run as root. Another user needs a way into the tree.
as_owner() {
    if [ "$(id -u)" -eq 0 ]; then echo "setpriv --reuid=65534 --regid=65534 --clear-groups --"; fi
}

first_tree() {
    mkdir -p "$1"
    cat >"$1/dibs.yaml" <<END
roles:
  pg:
    ports: [ { name: sql, address: 127.0.0.1 } ]
    command: exec $(as_owner) $POSTGRES/postgres -D data -k \$PWD/data -h 127.0.0.1 -p {sql} -c fsync=off
  redis:
    ports: [ { name: db, address: 127.0.0.1 } ]
    command: [ redis-server, --port, "{db}", --bind, 127.0.0.1, --save, "", --dir, redis ]
  api:
    ports: [ { name: http, env: PORT } ]
    env:
      DATABASE_URL: "postgres://stack@127.0.0.1:{pg.sql}/postgres"
      REDIS_URL: "redis://127.0.0.1:{redis.db}"
    command: [ node, api.mjs ]
  web:
    ports: [ { name: http, env: PORT } ]
    env: { API_URL: "http://127.0.0.1:{api.http}" }
    command: npm run dev
END
    echo '{ "private": true, "scripts": { "dev": "vite" } }' >"$1/package.json"
    cat >"$1/vite.config.mjs" <<'END'
export default {
  clearScreen: false,
  server: { host: "127.0.0.1", port: Number(process.env.PORT), strictPort: true, proxy: { "/api": process.env.API_URL } },
};
END
    echo '<script type="module" src="/main.js"></script>' >"$1/index.html"
    echo 'console.log("page of", import.meta.url)' >"$1/main.js"
    # It tells whose database and whose cache it reaches.
    cat >"$1/api.mjs" <<'END'
import express from "express";
import pg from "pg";
import { createClient } from "redis";
const db = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 2 });
db.on("error", () => {});
const cache = createClient({ url: process.env.REDIS_URL, socket: { reconnectStrategy: 200 } });
cache.on("error", () => {});
await cache.connect();
const app = express();
app.get("/api", async (request, answer) => {
  try {
    const data = await db.query("show data_directory");
    answer.json({
      tree: process.cwd(),
      pg: data.rows[0].data_directory,
      redis: (await cache.configGet("dir")).dir,
      hits: await cache.incr("hits"),
    });
  } catch (problem) {
    answer.status(503).send(String(problem));
  }
});
const server = app.listen(process.env.PORT, "127.0.0.1");
process.once("SIGTERM", () => server.close(() => process.exit(0)));
END
    printf 'node_modules\ndata\nredis\n' >"$1/.gitignore"
}

# furnish TREE: what a user has there besides the checkout.
furnish() {
    local owner
    read -ra owner <<<"$(as_owner)"
    (cd "$1" && npm_install)
    mkdir -p "$1/redis" "$1/data"
    chmod 0755 "$1"
    if [ ! -d "$T/cluster" ]; then
        reachable "$T"
        mkdir "$T/cluster"
        [ ${#owner[@]} -eq 0 ] || chown 65534:65534 "$T/cluster"
        "${owner[@]}" "$POSTGRES/initdb" -D "$T/cluster" -U stack -A trust -N -E UTF8 --no-locale >"$T/initdb.log" 2>&1 ||
            { cat "$T/initdb.log" >&2; return 1; }
    fi
    rmdir "$1/data"
    cp -a "$T/cluster" "$1/data"
}
reachable() { # reachable FOLDER: other users may enter it
    local folder=$1
    while [ "$folder" != / ] && [ "$folder" != /tmp ]; do
        chmod o+x "$folder"
        folder=$(dirname "$folder")
    done
}

# start_all: `dibs run --all` in every tree at once; the pids of dibs are in runners.
start_all() {
    local tree
    runners=()
    for tree in "${trees[@]}"; do
        # What a shell has in the background ignores Ctrl-C by default.
        start env -C "$tree" --default-signal=INT "$DIBS" run --all >"$tree.out" 2>&1
        runners+=("$STARTED")
    done
}
kill_all() { # SIGKILL to every dibs
    local pid
    for pid in "${runners[@]}"; do
        end_process "$pid" || { tail -n 20 "${trees[@]/%/.out}" >&2; return 1; }
    done
}
await_all() {
    local tree
    for tree in "${trees[@]}"; do
        wait_until 40 answers "$tree" || { cat "$tree.out" >&2; return 1; }
    done
}
answers() { curl -sf -m 5 "http://127.0.0.1:$(cd "$1" && dibs get web/http)/api" >"$1.json"; }

# Each tree's page comes from itself, and its answer from its own three servers; nobody listens on another port.
check_all() {
    local tree
    for tree in "${trees[@]}"; do
        answers "$tree"
        "$PYTHON" -SE - "$tree" "$tree.json" <<'END'
import json, sys
tree, answer = sys.argv[1], json.load(open(sys.argv[2]))
want = {"tree": tree, "pg": tree + "/data", "redis": tree + "/redis"}
assert {key: answer[key] for key in want} == want, answer
END
        curl -sf -m 10 "http://127.0.0.1:$(cd "$tree" && dibs get web/http)/main.js" | grep -q 'page of'
        (cd "$tree" && for name in pg/sql redis/db api/http web/http; do dibs -q assert "$name"; done) >/dev/null
    done
    "$PYTHON" -SE "$HERE/stack_processes.py" listen "$T/trees" | sort >"$T/listening"
    for tree in "${trees[@]}"; do
        for name in pg/sql redis/db api/http web/http; do echo "$tree $(cd "$tree" && dibs get "$name")"; done
    done | sort >"$T/ports"
    diff "$T/ports" "$T/listening"
}

# nothing_left: no process in a tree, nobody on its ports, no holder in the ledger.
nothing_left() {
    local left
    left=$("$PYTHON" -SE "$HERE/stack_processes.py" list "$T/trees")
    [ -z "$left" ] || { printf 'left:\n%s\n' "$left" >&2; return 1; }
    while read -r _ port; do
        "$PYTHON" -SE -c 'import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("127.0.0.1", int(sys.argv[1])))' "$port" || return 1
    done <"$T/ports"
    [ "$(sql 'SELECT count(*) FROM claims WHERE holder <> 0')" -eq 0 ]
}

stop_all() {
    local tree pids=() pid
    for tree in "${trees[@]}"; do
        (cd "$tree" && dibs stop) >"$tree.stopped" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || return 1; done
}

@test "work trees of a real stack, all at once: Ctrl-C, SIGKILL of dibs, stop, and again with the same ports" {
    start_all
    await_all
    check_all
    cp "$T/ports" "$T/first"
    [ "$(cut -d' ' -f2 "$T/ports" | sort -u | wc -l)" -eq $((4 * ${#trees[@]})) ]

    # Ctrl-C
    kill -INT "${runners[@]}"
    for pid in "${runners[@]}"; do
        code=0
        wait "$pid" || code=$?
        [ "$code" -eq 130 ]
    done
    nothing_left

    # SIGKILL of dibs, while all runs
    start_all
    await_all
    check_all
    diff "$T/first" "$T/ports"
    kill_all
    run env -C "${trees[0]}" "$DIBS" run web # still there, and not started twice
    assert_status 3
    check_all
    stop_all
    nothing_left

    # SIGKILL of dibs at any moment, also before its commands run
    seed=${DIBS_TEST_SEED:-$RANDOM}
    echo "# DIBS_TEST_SEED=$seed" >&3
    RANDOM=$seed
    for ((round = 0; round < $(long_or 10 2); round++)); do
        start_all
        sleep "$((RANDOM % 2)).$((RANDOM % 10))"
        kill_all
        stop_all
        # Between its claims and its note for dibs stop a killed dibs leaves claims of a dead holder.
        dibs -q reap >/dev/null
        nothing_left
    done

    # One role of one tree, then dibs stop while dibs runs; of one tree tests/cli/stop.bats shows the same.
    [ "$(long_or yes no)" = yes ] || return 0
    start_all
    await_all
    check_all
    diff "$T/first" "$T/ports"
    (cd "${trees[0]}" && dibs -q stop redis)
    kill -0 "${runners[0]}"
    stop_all
    for pid in "${runners[@]}"; do wait "$pid" || true; done
    nothing_left
}
