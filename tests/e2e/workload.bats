#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# Many instances of one role. In a network of their own: every number is free there.
load ../support/dibs
load ../support/sandbox

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "G1 G4: 2000 instances have 2000 ports of 5000, the same ones whenever their controller is killed" {
    needs_root
    sandbox_start --net
    export DIBS_RANGE=20000-24999
    seed=${DIBS_TEST_SEED:-$RANDOM}
    run in_sandbox "$SANDBOX" python3 "$BATS_TEST_DIRNAME/instances.py" 2000 3 "$seed"
    printf '%s\n' "$output" | sed 's/^/# /' >&3
    assert_status 0
}

@test "2000 instances released one by one, in any order, and claimed again in another lose none of their ports" {
    needs_root
    sandbox_start --net
    export DIBS_RANGE=20000-24999
    echo 'roles: { worker: { instances: 2000, ports: [ { name: http, env: PORT } ] } }' >dibs.yaml
    in_sandbox "$SANDBOX" "$DIBS" -q up | sort >"$T/before"
    [ "$(cut -d' ' -f2 "$T/before" | sort -u | wc -l)" -eq 2000 ]
    shuf -i 0-1999 | sed 's|.*|/project/worker/&/-/http|' | in_sandbox "$SANDBOX" xargs -n 200 "$DIBS" -q release
    [ "$(sql 'SELECT count(*) FROM claims')" -eq 0 ]
    shuf -i 0-1999 -n 100 | sed 's|.*|worker/&/http|' | in_sandbox "$SANDBOX" xargs -n 1 "$DIBS" -q get >/dev/null
    in_sandbox "$SANDBOX" "$DIBS" -q up | sort | cmp - "$T/before"
}

@test "two projects of one name that begin at once with many ports both get theirs" {
    mkdir -p "$T/one/shop" "$T/two/shop"
    echo 'roles: { worker: { instances: 2000, ports: [ { name: http, env: PORT } ] } }' |
        tee "$T/one/shop/dibs.yaml" >"$T/two/shop/dibs.yaml"
    for round in 1 2 3; do # one of them loses the name in its middle, most of the time
        rm -f "$T"/ledger.db*
        dibs -q ls >/dev/null
        (cd "$T/one/shop" && dibs -q up >"$T/one.out") &
        (cd "$T/two/shop" && dibs -q up >"$T/two.out")
        wait $!
        [ "$(cut -d' ' -f2 "$T/one.out" "$T/two.out" | sort -u | wc -l)" -eq 4000 ]
    done
}
