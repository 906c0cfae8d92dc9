#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2034,SC2154 # variables of what is loaded below, and of the shells inside
# Many at once on one port, one name, one range: what is right for one must be right for a crowd.
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "a port with more claims than one list holds is still reported" {
    python3 - >"$T/observed" <<'PY'
for i in range(1, 1030):
    print(f"tcp 127.0.{i // 256}.{i % 256} 25000")
print("udp 127.0.0.1 25000")
PY
    ok repair --observed "$T/observed"
    ok who 25000
    ok explain 25000
    [ "$(held)" -eq 1030 ]
}

@test "all aligned blocks of a range are given to as many at once" {
    pids=()
    for i in 1 2 3 4 5 6 7 8; do
        dibs claim -n 8 --contiguous --align 8 --range 28000-28063 --order lowest >"$T/block.$i" 2>"$T/err.$i" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done || { cat "$T"/err.*; return 1; }
    [ "$(cat "$T"/block.* | sort -u | wc -l)" -eq 64 ]
}

not_alive() { # its holder is dead, or was found so already
    dibs ls --json "$1" | grep -qE '"life":"dead"|"holder":null'
}

@test "a kept claim whose holder died is not given to another name of the same batch" {
    start "$DIBS" run --keep -p a -- sleep 600
    wait_until 10 dibs who "$(dibs get a)" --json
    wait_until 10 pgrep -P "$STARTED"
    port=$(dibs get a)
    kill -KILL "$STARTED" "$(pgrep -P "$STARTED")"
    wait_until 10 not_alive a
    refused 3 run -p "b=$port" -p a -- true
    ok get a
    prints "$port"
}

# A container is another principal to a daemon.
# bats test_tags=unserved
@test "release --all-mine passes over what a container holds, --force does not" {
    [ "$(id -u)" -eq 0 ] || skip "needs root for a pid namespace"
    start unshare --pid --fork --kill-child --mount-proc sh -c 'sleep 600 & "$DIBS" claim there --pid $! >"$T/there"; wait'
    wait_until 10 test -s "$T/there"
    ok claim here --keep
    unshare --pid --fork --mount-proc "$DIBS" release --all-mine
    [ "$(held)" -eq 1 ]
    unshare --pid --fork --mount-proc "$DIBS" release --all-mine --force
    [ "$(held)" -eq 0 ]
}

@test "a user without the privilege is never offered a privileged port" {
    shared_ledger
    for _ in 1 2 3 4 5 6 7 8; do
        port=$(as_nobody "$DIBS" claim --range 1000-1100)
        [ "$port" -ge 1024 ]
    done
}

@test "assert is exit 3 when a stranger has another address of the port" {
    [ "$(id -u)" -eq 0 ] || skip "needs root to become another user"
    port=$(dibs claim mine --pid $$)
    listen "$port" tcp 127.0.0.2
    ok assert mine
    open=$(mktemp -d /tmp/dibs-crowded.XXXXXX)
    chmod 0777 "$open"
    cp "$DIBS_TEST_SUPPORT/listen.py" "$open"
    # No child of the holder, this shell: what a holder starts is its own, also as another user.
    # shellcheck disable=SC2016 # for the shell there
    sh -c '"$@" 3>&- & echo $! >>"$T/started"' - setpriv --reuid=65534 --clear-groups \
        /usr/bin/python3 "$open/listen.py" "$port" tcp 127.0.0.3 "$open/stranger"
    wait_until 10 test -f "$open/stranger"
    rm -rf "$open"
    refused 3 assert mine
}
