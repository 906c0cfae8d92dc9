#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Sessions of seven users. Each does what the pages say, with the real programs, and checks what the user sees: what is
# printed, how commands end, and that the servers really answer.
# shellcheck disable=SC2030,SC2031 # each test is a subshell of its own
bats_require_minimum_version 1.5.0
load ../support/dibs
load ../support/npm
load ../support/sandbox
load ../support/session

setup() {
    session_setup
    needs curl script git
}
teardown() {
    session_teardown
    sandbox_teardown
}

is_closed() { ! (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# three_trees: a project with what is in the working directory, in three work trees: shop, shop-fix and shop-next.
three_trees() {
    cp -rP . "$T/shop"
    repository "$T/shop"
    git -C "$T/shop" worktree add -qb fix "$T/shop-fix"
    git -C "$T/shop" worktree add -qb next "$T/shop-next"
}

@test "a web developer runs Vite in three worktrees at once, and each keeps its port" {
    needs_npm
    recipe "Vite"
    echo node_modules >.gitignore
    three_trees
    for tree in shop shop-fix shop-next; do
        cd "$T/$tree"
        npm_install
        echo "<p>this is $tree</p>" >index.html
        terminal $tree bash -eu "$T/recipe.1"
    done
    for tree in shop shop-fix shop-next; do
        cd "$T/$tree"
        wait_until 20 serves web "this is $tree" || { cat "$T/$tree.screen" >&2; return 1; }
        dibs get web >>"$T/first"
    done
    [ "$(sort -u "$T/first" | wc -l)" -eq 3 ]
    run dibs ls --all --names
    assert_output_has "shop@main/web"
    assert_output_has "shop-fix@fix/web"
    assert_output_has "shop-next@next/web"
    # Another program wants the port of the first one, by number and by name.
    cd "$T/shop-fix"
    run dibs run -p "other=$(head -1 "$T/first")" -- true
    assert_status 3
    assert_output_has "'shop@main/web'"
    cd "$T/shop"
    run npm run dev
    assert_status 3
    assert_output_has "is held by 'shop@main/web'"
    # Everything is stopped, one way or the other, and comes again the next day.
    for tree in shop shop-fix; do press_ctrl_c $tree; done
    cd "$T/shop-next"
    dibs stop
    wait_until 5 is_closed "$(tail -1 "$T/first")"
    for tree in shop shop-fix shop-next; do
        cd "$T/$tree"
        rm "$T/$tree.keys"
        terminal $tree bash -eu "$T/recipe.1"
        wait_until 20 serves web "this is $tree"
        dibs get web >>"$T/second"
    done
    diff "$T/first" "$T/second"
}

@test "a test author runs pytest twice and node --test at once, and no test meets another's server" {
    needs node
    recipe "pytest"
    cat >test_server.py <<'PY'
import http.server, os, pytest, threading, time, urllib.request
@pytest.mark.parametrize("n", range(12))
def test_it_answers(port, n):
    with http.server.ThreadingHTTPServer(("localhost", port), http.server.SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert urllib.request.urlopen(f"http://localhost:{port}/conftest.py").read()
        server.shutdown()
    with open(os.environ["T"] + "/ports", "a") as ports:
        ports.write(f"{port}\n")
PY
    start pytest -q -n 2 >"$T/one" 2>&1
    one=$STARTED
    start pytest -q -n 2 >"$T/two" 2>&1
    two=$STARTED
    recipe "node --test"
    cat >server.test.mjs <<'JS'
import { createServer } from "node:http";
import { appendFileSync } from "node:fs";
import test from "node:test";
import { port } from "./ports.mjs";
for (let n = 0; n < 6; n++)
    test(`server ${n} answers`, async () => {
        const server = createServer((request, response) => response.end(String(n))).listen(port());
        const number = server.address().port;
        if (await (await fetch(`http://localhost:${number}/`)).text() !== String(n)) throw new Error("another's server");
        appendFileSync(`${process.env.T}/ports`, `${number}\n`);
        server.closeAllConnections();
        server.close();
    });
JS
    type_in 1
    wait "$one" || { cat "$T/one"; return 1; }
    wait "$two" || { cat "$T/two"; return 1; }
    assert_output_has "pass 6"
    grep -q "12 passed" "$T/one"
    grep -q "12 passed" "$T/two"
    [ "$(sort -u "$T/ports" | wc -l)" -eq 30 ]
    # A test process that is killed leaves nothing behind, either.
    start /usr/bin/python3 -c 'import os, subprocess, time
subprocess.check_call(["dibs", "claim", "--pid", str(os.getpid()), "left"])
time.sleep(600)' >"$T/left"
    wait_until 10 grep -qx '[0-9]*' "$T/left"
    end_process "$STARTED"
    dibs reap
    [ "$(dibs ls --all --json)" = "[]" ]
}

@test "an engineer for continuous integration has jobs of two users that share a machine, and one that dies" {
    needs_root
    needs setpriv
    public_folder
    cd "$PUBLIC"
    start "$PUBLIC/dibs" serve --socket "$PUBLIC/sock" --admin-socket "$PUBLIC/admin" --portserver @dibs-ci 2>serve.log
    export DIBS_SOCKET=$PUBLIC/sock
    unset DIBS_LEDGER
    wait_until 10 "$PUBLIC/dibs" ls
    cat >job.py <<'PY'
import portpicker, socket, sys, time
ports = [portpicker.pick_unused_port() for _ in range(20)]
servers = [socket.create_server(("127.0.0.1", port)) for port in ports]
print(*ports, flush=True)
time.sleep(600)
PY
    for uid in 65533 65534; do
        start setpriv --reuid=$uid --regid=$uid --clear-groups env PORTSERVER_ADDRESS=@dibs-ci HOME="$PUBLIC" \
            /usr/bin/python3 job.py >ports.$uid
        echo "$STARTED" >job.$uid
    done
    wait_until 15 has_ports ports.65533
    wait_until 15 has_ports ports.65534
    [ "$(cat ports.* | tr ' ' '\n' | sort -u | wc -l)" -eq 40 ]
    # One user cannot take or end the other's port.
    read -r port _ <ports.65533
    other=(setpriv --reuid=65534 --regid=65534 --clear-groups env -u XDG_CONFIG_HOME HOME="$PUBLIC" "$PUBLIC/dibs")
    run "${other[@]}" claim --port "$port"
    assert_status 3
    assert_output_has "pid $(cat job.65533)"
    run "${other[@]}" release --force "$port"
    assert_output_has "nothing of yours to release"
    claims_are 40
    # The job that is killed leaves its 20 ports at once; the other one keeps its own.
    end_process "$(cat job.65533)"
    wait_until 5 claims_are 20
    run curl -s --unix-socket "$PUBLIC/sock" http://dibs/metrics
    assert_output_has 'dibs_watched_processes{by="pidfd"} 1'
    run "$PUBLIC/dibs" claim --port "$port"
    assert_status 0
}
has_ports() { [ "$(wc -w <"$1")" -eq 20 ]; }
claims_are() {
    local n
    n=$("$PUBLIC/dibs" ls --all --json | /usr/bin/python3 -c 'import json, sys; print(len(json.load(sys.stdin)))')
    [ "$n" -eq "$1" ] || { echo "$n claims instead of $1" >&2; return 1; }
}

@test "a C programmer installs the library, and builds and runs the example of the README" {
    local root=$T/root flags cc library
    DESTDIR=$root meson install -C "$BUILD" --no-rebuild --quiet
    awk '$0 == "```" { on = 0 } on; $0 == "```c" { on = 1 }' "$DOCS/../README.md" >example.c
    grep -q dibs_claim_ports example.c
    # shellcheck disable=SC2016 # the backquotes are those of the page
    command=$(grep -o '`cc example.c [^`]*`' "$DOCS/../README.md")
    command=${command//\`/}
    [ -n "$command" ]
    read -r -a cc <<<"${CC:-cc}"
    case ${DIBS_TEST_SANITIZE:-none} in none) ;; *) cc+=("-fsanitize=$DIBS_TEST_SANITIZE") ;; esac
    library=$(dirname "$(find "$root" -name dibs.pc)")
    export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$library # where it was installed
    flags=$(eval "echo ${command#cc }")
    # shellcheck disable=SC2086 # words
    run "${cc[@]}" -Wall -Wextra -Werror $flags
    assert_status 0
    LD_LIBRARY_PATH=$(dirname "$library") run ./a.out
    assert_status 0
    [[ $output =~ ^[0-9]+$ ]]
    run dibs log
    assert_output_has "$output"
    run dibs who "${lines[0]%% *}"
}

@test "an engineer of machine learning trains in two checkouts at once" {
    recipe "Training on one host"
    cp "$BATS_TEST_DIRNAME/train.py" .
    cp -r . "$T/other"
    start setsid timeout 60 bash -eu "$T/recipe.1" >"$T/one" 2>&1
    one=$STARTED
    cd "$T/other"
    type_in 1
    assert_status 0
    assert_output_has "4 ranks met"
    wait "$one" || { cat "$T/one"; return 1; }
    grep -q "4 ranks met" "$T/one"
    # Two masters, and eight blocks of eight ports that nobody else has.
    dibs ls --all --json >"$T/claims"
    /usr/bin/python3 - "$T/claims" "$T/one" "$T/typed" <<'PY'
import json, re, sys
masters = [claim["port"] for claim in json.load(open(sys.argv[1]))]
bases = [int(base) for path in sys.argv[2:] for base in re.findall(r"\| ring (\d+)$", open(path).read(), re.M)]
assert len(masters) == 2 and len(bases) == 8, (masters, bases)
ports = masters + [base + i for base in bases for i in range(8)]
assert len(set(ports)) == len(ports), ports
PY
}

@test "an operator sees who has what, ends what is forgotten, saves the claims and brings them back" {
    needs_root
    needs setpriv
    public_folder
    cd "$PUBLIC"
    export DIBS_LEDGER=sqlite:$T/ledger.db
    start "$PUBLIC/dibs" serve --socket "$PUBLIC/sock" --admin-socket "$PUBLIC/admin" --quota 3 2>serve.log
    daemon=$STARTED
    wait_until 10 "$PUBLIC/dibs" --socket "$PUBLIC/sock" ls
    user=(setpriv --reuid=65534 --regid=65534 --clear-groups env -u DIBS_LEDGER -u XDG_CONFIG_HOME HOME="$PUBLIC" \
        DIBS_SOCKET="$PUBLIC/sock" "$PUBLIC/dibs")
    port=$("${user[@]}" claim --keep /shop/web)
    "${user[@]}" claim --keep /shop/api
    "${user[@]}" claim --keep /shop/db
    run "${user[@]}" claim --keep /shop/more
    [ "$status" -ne 0 ]
    assert_output_has "has 3 claims here, and may have 3"
    export DIBS_SOCKET=$PUBLIC/admin
    unset DIBS_LEDGER
    run dibs ls --all
    assert_output_has shop/web
    run dibs explain "$port"
    assert_output_has "shop/web"
    run dibs doctor
    assert_status 0
    curl -s --unix-socket "$PUBLIC/sock" http://dibs/metrics | promtool check metrics
    dibs snapshot export "$T/claims.json"
    dibs release --force "$port"
    run dibs who "$port"
    [[ $output != *shop/web* ]]
    # The machine is set up again.
    kill "$daemon"
    wait "$daemon"
    rm "$T"/ledger.db*
    start env DIBS_LEDGER="sqlite:$T/ledger.db" "$PUBLIC/dibs" serve --socket "$PUBLIC/sock" --admin-socket "$PUBLIC/admin" 2>>serve.log
    wait_until 10 dibs ls
    dibs snapshot import "$T/claims.json"
    [ "$("${user[@]}" get /shop/web)" = "$port" ]
}

@test "two coding agents work in two worktrees, read JSON, and leave each other's servers alone" {
    needs python3
    recipe "A coding agent"
    three_trees
    cd "$T/shop-fix"
    start setsid "$DIBS" run -p web -- /usr/bin/python3 -m http.server "{web}" >"$T/first.log" 2>&1
    first=$STARTED
    echo "$first" >>"$T/sessions"
    wait_until 10 dibs assert -q web
    port=$(dibs get web)
    cd "$T/shop"
    type_in 1 # the recipe, to its end, while the other one's server runs
    assert_status 0
    assert_output_has AGENTS.md
    grep '^\[' <<<"$output" >list.json
    /usr/bin/python3 - list.json "$T/shop" "$port" <<'PY'
import json, sys
claims = json.load(open(sys.argv[1]))
assert [claim["name"] for claim in claims] == ["shop@main/web"], claims
assert claims[0]["project"] == sys.argv[2] and claims[0]["port"] != int(sys.argv[3]), claims
PY
    # What it must not touch is refused with a code and a name, also as JSON.
    run --separate-stderr dibs claim --port "$port" --json
    assert_status 3
    [ -z "$output" ]
    # shellcheck disable=SC2154 # set by run
    /usr/bin/python3 -c 'import json, sys
error = json.loads(sys.argv[1])["error"]
assert error["exit"] == 3 and "shop-fix@fix/web" in error["message"], error' "$stderr"
    run dibs release "$port"
    assert_status 3
    assert_output_has "$T/shop-fix"
    curl -sf "http://localhost:$port/" | grep -q AGENTS.md
    # It ends its own server, and finds the port free and the name as before.
    cd "$T/shop-fix"
    dibs stop web
    wait "$first" || true
    is_closed "$port"
    [ "$(dibs get web)" = "$port" ]
}
