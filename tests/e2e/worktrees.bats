#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# One stack in many work trees at once, with a real git and real servers. Ports of this file: the default pool.
load ../support/dibs
load ../support/two_servers

setup() {
    dibs_setup
    needs git curl
    two_servers "$T/shop"
    repository "$T/shop"
    ten_trees "$T/shop"
    for i in one two; do
        git clone -q "$T/shop" "$T/$i/copy"
        trees+=("$T/$i/copy")
    done
}
teardown() { dibs_teardown; }

# up_everywhere FILE: `dibs up` in all at once; FILE gets "DIRECTORY NAME PORT" lines, sorted.
up_everywhere() {
    local tree pids=() n=0
    for tree in "${trees[@]}"; do
        (cd "$tree" && dibs -q up | sed "s|^|$tree |" >"$T/up.$n") &
        pids+=($!)
        n=$((n + 1))
    done
    for n in "${!pids[@]}"; do wait "${pids[n]}" || return 1; done
    for n in "${!pids[@]}"; do cat "$T/up.$n"; done | sort >"$1"
    [ "$(wc -l <"$1")" -eq 36 ]
}

down_everywhere() {
    local tree
    for tree in "${trees[@]}"; do (cd "$tree" && dibs -q down) || return 1; done
    [ "$(sql 'SELECT count(*) FROM claims')" -eq 0 ]
}

@test "ten work trees and two clones of one name, all at once: disjoint, and the same ports every time" {
    up_everywhere "$T/first"
    [ "$(cut -d' ' -f3 "$T/first" | sort -u | wc -l)" -eq 36 ]
    up_everywhere "$T/again"
    diff "$T/first" "$T/again"
    down_everywhere
    up_everywhere "$T/again"
    diff "$T/first" "$T/again"
}

@test "a lost ledger costs a work tree its ports only where two names prefer one" {
    for tree in "${trees[@]}"; do (cd "$tree" && dibs -q up | sed "s|^|$tree |"); done | sort >"$T/first"
    rm "$T"/ledger.db*
    for tree in "${trees[@]}"; do (cd "$tree" && dibs -q up | sed "s|^|$tree |"); done | sort >"$T/again"
    same=$(comm -12 "$T/first" "$T/again" | wc -l)
    echo "# $same of 36 ports are the same without the ledger" >&3
    [ "$same" -ge 33 ]
}

# run_all TREE: in the background, its pid is $STARTED, its output in TREE.out. What a shell has in the background
# ignores Ctrl-C by default.
run_all() {
    start env -C "$1" --default-signal=INT "$DIBS" run --all >"$1.out" 2>&1
    wait_until 20 serve "$1"
    # They outlive dibs should the test fail. There is no newline at the end.
    read -ra servers <"/proc/$STARTED/task/$STARTED/children" || true
    [ "${#servers[@]}" -eq 2 ]
    printf '%s\n' "${servers[@]}" >>"$T/started"
}

serve() { [ "$(grep -c '| serving$' "$1.out")" -eq 2 ]; } # serve TREE: both servers listen
ended() { ! kill -0 "$1" 2>/dev/null; }

@test "each front end reaches its own back end, never a neighbour's; Ctrl-C ends all of a stack and nothing else" {
    some=("${trees[0]}" "${trees[10]}" "${trees[11]}")
    runners=()
    for tree in "${some[@]}"; do
        run_all "$tree"
        runners+=("$STARTED")
        [ "$tree" != "$T/shop" ] || first=("${servers[@]}")
    done
    for tree in "${some[@]}"; do
        cd "$tree"
        [ "$(curl -sS -m 10 "http://127.0.0.1:$(dibs get web/http)/")" = "by way of $tree" ]
        dibs assert web/http >/dev/null
        dibs assert api/http >/dev/null
    done
    kill -INT "${runners[0]}"
    code=0
    wait "${runners[0]}" || code=$?
    [ "$code" -eq 130 ]
    for pid in "${first[@]}"; do ended "$pid"; done
    # The others have not noticed.
    cd "${some[1]}"
    [ "$(curl -sS -m 10 "http://127.0.0.1:$(dibs get web/http)/")" = "by way of ${some[1]}" ]
    kill -INT "${runners[1]}" "${runners[2]}"
    wait "${runners[1]}" || [ $? -eq 130 ]
    wait "${runners[2]}" || [ $? -eq 130 ]
    [ "$(sql 'SELECT count(*) FROM claims WHERE holder <> 0')" -eq 0 ]
}

@test "who says which work tree and role a port belongs to, and assert that a neighbour's server is not mine" {
    cd "$T/tree-3"
    port=$(dibs get web/http)
    run dibs who "$port"
    assert_output_has "tree-3@feature%2F3/web/0/-/http"
    assert_output_has ", of $T/tree-3"
    start env -C "$T/tree-3" "$DIBS" -q run web -- sleep 600
    wait_until 10 is_held tree-3
    read -ra servers <"/proc/$STARTED/task/$STARTED/children" || true
    printf '%s\n' "${servers[@]}" >>"$T/started"
    listen "$port"
    run dibs who "$port"
    assert_output_has "pid $STARTED"
    assert_output_has ": same-user" # not the holder
    run dibs assert web/http
    assert_status 3
    assert_output_has "$STARTED"
}

is_held() { [ "$(sql "SELECT count(*) FROM claims WHERE project LIKE '%/$1' AND holder <> 0")" -gt 0 ]; }

@test "claims of a work tree that is gone are reaped as stale, unless somebody uses their ports" {
    up_everywhere "$T/first"
    used=$(awk -v tree="$T/tree-5" '$1 == tree && $2 == "api/0/http" { print $3 }' "$T/first")
    listen "$used"
    git -C "$T/shop" worktree remove --force "$T/tree-5"
    git -C "$T/shop" worktree remove --force "$T/tree-6"
    run dibs reap --stale --json
    assert_status 0
    [ "$(sql 'SELECT count(*) FROM claims')" -eq 31 ]
    [ "$(sql "SELECT port FROM claims WHERE project LIKE '%/tree-5'")" = "$used" ]
    [ "$(sql "SELECT count(*) FROM claims WHERE project LIKE '%/tree-6'")" -eq 0 ]
    end_process "$STARTED"
    run dibs reap --stale
    [ "$(sql 'SELECT count(*) FROM claims')" -eq 30 ]
}
