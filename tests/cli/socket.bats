#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # variables come from, and go to, what is loaded below
# The same commands through a daemon: which one is asked, and that nobody can tell the difference. Ports: 17000-17099.
# Has its daemons itself.
# bats file_tags=unserved
load ../support/dibs
load ../support/serve
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

# both ARGUMENT...: through the daemon, and on a ledger of its own; exit code, stdout and stderr are the same, but for
# what is another one each time: paths, times, tokens, pids and ports that dibs chose.
both() {
    local which
    for which in daemon direct; do
        if [ $which = daemon ]; then
            DIBS_SOCKET=$ADMIN try "$@"
        else
            DIBS_LEDGER=sqlite:$T/direct.db try "$@"
        fi
        { echo "exit $code"; cat "$T/out"; echo "stderr:"; cat "$T/err"; } | sed -E \
            -e "s#$T/(ledger|direct)\.db#LEDGER#g" \
            -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9:]{8}Z?/TIME/g' \
            -e 's/"(created|changed|time|until_boot|since)(_boot)?_ms":[0-9]+/"\1_ms":0/g' \
            -e 's/"token":"[^"]*"/"token":""/g' \
            -e 's/"actor_pid":[0-9]+/"actor_pid":0/g' \
            -e 's/pid [0-9]+$/pid PID/' \
            -e 's/[0-9]+m[0-9]+s left/LEFT/' >"$T/$which"
    done
    diff "$T/direct" "$T/daemon" || { echo "of: dibs $*" >&2; return 1; }
}

@test "the same words, exit codes and JSON through a daemon as without" {
    serve_start
    listen 17001
    both claim web --port 17000 --json
    both claim web --port 17000
    both claim web --port 17002 # the name has another
    both claim --port 17001     # a stranger listens
    both claim --port 17001 --json
    both claim --declare 17003 --keep /declared --json
    both claim both --port 17004 --proto tcp+udp --address 127.0.0.1 --address ::1 --json
    both claim --range 17005 one --keep
    both claim --range 17005 # exhausted
    both claim -n 3 many --range 17010-17012 --contiguous --dry-run
    both claim --pool nosuch
    both claim 'bad name'
    both claim held --port 17006 --pid $$ --json
    both claim nobody --pid 999999999
    both get web
    both get --json other --range 17007
    both renew web --ttl 2h --json
    both renew held
    both renew nothing
    both transfer web --keep --json
    both transfer --token 1.1.00000000000000000000000000000000 --keep
    both renew --token ../../x --ttl 1s
    both ls
    both ls --json
    both ls --names --all
    both ls --audit web
    both ls --proto udp
    both who 17001
    both who 17004 --json
    both who 17099
    both explain 17001
    both explain 17000 --json
    both explain 17008 --range 17008-17009 # a setting of the asker
    both assert web
    both assert nothing
    both pool set mine --ranges 17030-17049 --band 4 --cooldown 1s
    both pool set mine --order nosuch
    both pool
    both pool show mine --json
    both pool show nosuch
    both pool rm mine
    both pool rm mine
    both snapshot export --format k8s --pool default
    both repair --dry-run --pool nosuch
    both reap --dry-run
    both release 17004 --dry-run
    both release both nothing
    both release --token nonsense
    both release --all-mine
    both log --since 0
    both log --since 0 --json
    both ls --json
}

@test "a long history comes page by page, and its end alone" {
    serve_start
    export DIBS_SOCKET=$ADMIN
    ok claim -n 1500 many --range 21000-22999 --keep
    ok log --since 0 --json
    json '[e["seq"] for e in d] == list(range(1, 1501))'
    ok log -n 1200 --json
    json '[e["seq"] for e in d] == list(range(301, 1501))'
    ok log -n 5 --json
    json '[e["seq"] for e in d] == list(range(1496, 1501))'
    ok ls --json
    json 'len({c["id"] for c in d}) == 1500'
    ok release --all-mine
}

@test "a snapshot goes through a daemon and back, with every member as it was" {
    serve_start
    export DIBS_SOCKET=$ADMIN
    ok claim web --port 17050 --keep
    ok claim api --port 17051 --ttl 1h
    ok pool set mine --ranges 17060-17069
    ok snapshot export "$T/first.json"
    ok release --all-mine
    ok pool rm mine
    ok snapshot import "$T/first.json" --json
    json 'd == {"imported": 2}'
    ok snapshot export "$T/second.json"
    "$PYTHON" -SE - "$T/first.json" "$T/second.json" <<'END'
import json, sys
first, second = (json.load(open(path)) for path in sys.argv[1:])
for claim in first["claims"] + second["claims"]:
    for key in "id", "generation", "created", "created_ms", "changed_ms":
        claim.pop(key)
assert first == second, (first, second)
END
}

@test "a directory whose name is no UTF-8 keeps its names through a daemon" {
    serve_start
    export DIBS_SOCKET=$ADMIN
    mkdir "$T/"$'odd \xff&?'
    cd "$T/"$'odd \xff&?'
    ok get web
    first=$out
    ok get web
    [ "$out" = "$first" ]
    DIBS_SOCKET=none ok get web # one ledger, one directory
    [ "$out" = "$first" ]
    ok ls --json
    json 'len(d) == 1 and d[0]["project_base64"]'
}

@test "a daemon that dies is waited for, and what it had promised is there" {
    serve_start
    export DIBS_SOCKET=$ADMIN
    ok get web
    first=$out
    serve_stop KILL
    refused 6 get web # nobody is there, and the socket was named
    says "$ADMIN"
    says "start it with 'dibs serve'"
    says "DIBS_SOCKET=none"
    serve_start
    export DIBS_SOCKET=$ADMIN
    ok get web
    [ "$out" = "$first" ]
}

@test "named nowhere, the socket that is there is used: the administrators' for root, the system's, one's own" {
    needs_root
    needs unshare
    mkdir "$T/run" "$XDG_RUNTIME_DIR/dibs"
    SOCKET_DIR=$T/run serve_start
    # shellcheck disable=SC2016 # for the shell there
    echo 'mount -t tmpfs none /run && mkdir /run/dibs && mount --bind "$T/run" /run/dibs && unset DIBS_SOCKET DIBS_LEDGER && exec "$@"' >"$T/look"
    inside() { capture unshare -m sh "$T/look" "$@"; }
    inside "$DIBS" doctor
    [ "$code" -eq 0 ] || complain "as root"
    prints '/run/dibs/admin.sock answers'
    prints 'an administrator'
    rm "$T/run/admin.sock"
    inside "$DIBS" doctor
    prints '/run/dibs/dibs.sock answers'
    not grep -q administrator "$T/out"
    inside "$DIBS" claim web --keep --port 17070
    [ "$out" = 17070 ]
    [ "$(sql "SELECT port FROM claims")" = 17070 ]
    # One's own, when the system has none; that of somebody else's folder is not.
    mv "$T/run/dibs.sock" "$XDG_RUNTIME_DIR/dibs/dibs.sock"
    inside "$DIBS" doctor
    prints "$XDG_RUNTIME_DIR/dibs/dibs.sock answers"
    chown 65533 "$XDG_RUNTIME_DIR/dibs/dibs.sock"
    inside "$DIBS" doctor
    not grep -q answers "$T/out"
    chown 0 "$XDG_RUNTIME_DIR/dibs/dibs.sock"
    # It is there, but nobody answers: never silently another ledger.
    serve_stop KILL
    inside "$DIBS" ls
    [ "$code" -eq 6 ]
    says "remove that file"
    says "start it with 'systemctl --user start dibs.socket'"
    inside "$DIBS" doctor
    [ "$code" -eq 1 ]
    cp -a "$XDG_RUNTIME_DIR/dibs/dibs.sock" "$T/run/dibs.sock"
    inside "$DIBS" ls
    [ "$code" -eq 6 ]
    says "start it with 'systemctl start dibs.socket'"
    mv "$T/run/dibs.sock" "$T/run/admin.sock"
    inside "$DIBS" ls
    [ "$code" -eq 6 ]
    says "start it with 'systemctl start dibs-admin.socket'"
    rm "$T/run/admin.sock"
    inside "$DIBS" ls --socket none
    [ "$code" -eq 0 ]
    inside env DIBS_LEDGER="sqlite:$T/other.db" "$DIBS" ls
    [ "$code" -eq 0 ]
    rm "$XDG_RUNTIME_DIR/dibs/dibs.sock"
    inside "$DIBS" ls
    [ "$code" -eq 0 ]
}

@test "doctor checks through the daemon, and shows the caller's principal" {
    serve_start
    DIBS_SOCKET=$SOCKET ok doctor
    prints "$SOCKET answers, version $(dibs version | cut -d " " -f 2), pid $DAEMON: you are $(id -un) (uid $(id -u))"
    prints 'claims: 0 of unknown state'
    [ "$(grep -c 'range = ' "$T/out")" -eq 1 ]
    DIBS_SOCKET=$T/no.sock try doctor --json
    [ "$code" -eq 1 ]
    json 'any(f["topic"] == "daemon" and f["severity"] == "problem" for f in d)'
}

@test "a socket is named by its whole path, also from below" {
    serve_start
    cd "$T"
    DIBS_SOCKET=none ok ls --socket "${SOCKET##*/}"
    mkdir -p "$XDG_CONFIG_HOME/dibs"
    echo 'socket: here.sock' >"$XDG_CONFIG_HOME/dibs/dibs.yaml"
    refused 2 ls
    says "whole path"
    refused 2 ls --socket "$T/$(printf 'x%.0s' {1..200})"
    echo "socket: $SOCKET" >"$XDG_CONFIG_HOME/dibs/dibs.yaml"
    unset DIBS_SOCKET
    ok doctor
    prints "$SOCKET answers"
    ok doctor --ledger "$DIBS_LEDGER"
    not grep -q answers "$T/out"
    ok doctor --socket none
    not grep -q answers "$T/out"
}
