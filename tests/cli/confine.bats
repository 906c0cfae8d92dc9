#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034,SC2154 # the inner shell's words; and what is loaded below
# dibs run --confine: the kernel refuses all other TCP ports. Required ports of this file: 12600-12649.
load ../support/dibs
load ../support/sandbox
load cli

setup() {
    dibs_setup
    # The number of the interface: 4 has rules for ports.
    abi=$(python3 -c 'import ctypes; print(ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1))')
}
teardown() { sandbox_teardown; }

BIND="$BATS_TEST_DIRNAME/../support/bind.py"
needs_landlock() {
    [ "$abi" -ge 4 ] || skip "this kernel has no Landlock with rules for ports (ABI $abi)"
}

@test "a confined command binds its own ports and port 0, and no other" {
    needs_landlock
    ok run --confine -p web=12600 -p api=12601 -- sh -c 'for port in $WEB_PORT $API_PORT 0 12602; do python3 "$0" 127.0.0.1 $port; done
        python3 "$0" :: 12602; python3 "$0" --udp 127.0.0.1 12602; sh -c "python3 \"\$0\" 0.0.0.0 12602" "$0"; true' "$BIND"
    [ "$(tr '\n' ' ' <"$T/out")" = "bound bound bound EACCES EACCES bound EACCES " ]
    [ -z "$errs" ]
}

@test "a server that would take the next port gets an error instead" {
    needs_landlock
    listen 12603
    # what a dev server does when its port is in use
    ok run --confine -p web -- python3 -c '
import socket
for port in (12603, 12604):
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", port))
    except OSError as e:
        print(e.strerror)
    else:
        print("moved to", port)'
    [ "$out" = "Permission denied
Permission denied" ]
}

@test "an ordinary user can confine, and connections go everywhere" {
    needs_landlock
    needs_root
    public_folder
    listen 12605
    as_user 65534 env DIBS_LEDGER="sqlite:$PUBLIC/l.db" DIBS_SOCKET=none HOME=/ "$DIBS" run --confine -- python3 -c '
import os, socket
socket.create_connection(("127.0.0.1", 12605))
socket.socket().bind(("", int(os.environ["PORT"])))
try:
    socket.socket().bind(("", 12606))
except OSError as e:
    print(e.strerror)' >"$T/out"
    [ "$(<"$T/out")" = "Permission denied" ]
}

@test "a role binds its own ports and those of its role, but not those it refers to" {
    needs_landlock
    cat >dibs.yaml <<'YAML'
group: shop
roles:
  db: { ports: [ sql ] }
  web:
    ports: [ http, { name: gossip, scope: RoleScoped } ]
    references: [ { env: DB, from: db.sql } ]
YAML
    ok run --confine web -- sh -c 'for port in $HTTP_PORT $GOSSIP_PORT $DB; do python3 "$0" 127.0.0.1 $port; done; true' "$BIND"
    [ "$(tr '\n' ' ' <"$T/out")" = "bound bound EACCES " ]
}

@test "--confine with --listen and with --as" {
    needs_landlock
    ok run --confine --listen web -- sh -c 'python3 "$1" 127.0.0.1 12607; exec python3 "$0"' "${BIND%/*}/activated.py" "$BIND"
    [[ $out = EACCES*listening* ]]
    ok run --confine --as 3000 -- sh -c 'python3 "$0" 127.0.0.1 3000; python3 "$0" 127.0.0.1 3001; true' "$BIND"
    [ "$out" = "bound
EACCES" ]
}

@test "a kernel that cannot confine runs the command with a warning" {
    # a filter that answers ENOSYS, as an older kernel does
    capture python3 - "$DIBS" <<'PY'
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
# load the number of the system call; 444: ENOSYS; else allow
code = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x00050000 | 38), (0x06, 0, 0, 0x7fff0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(program)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filter_, 0, 0) == 0
os.execv(sys.argv[1], ["dibs", "run", "--confine", "--", "echo", "ran"])
PY
    [ "$code" -eq 0 ]
    [ "$out" = ran ]
    [[ $errs = *"warning: --confine: this kernel cannot"* ]]
}
