#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Identity where uids have other numbers: root of a user namespace is the same user as outside (INV-3, INV-5).
# shellcheck disable=SC2154 # cli.bash sets code and out
load ../support/dibs
load cli

setup() {
    dibs_setup
    shared_ledger
    NAMESPACE=(env DIBS_SOCKET="$PUBLIC_SOCKET" setpriv --reuid=65533 --regid=65533 --clear-groups unshare --user --map-root-user)
    as_user unshare --user --map-root-user true 2>/dev/null || skip "users may not make user namespaces here"
    cp "$DIBS_TEST_SUPPORT/listen.py" "$T"
}

teardown() { dibs_teardown; }

as_user() { # not the overflow uid
    as_uid 65533 "$@"
}

# as_root_of_a_namespace COMMAND...: as the same user, who is uid 0 there. (A list where `start` needs the pid of the
# program itself.)
as_root_of_a_namespace() {
    "${NAMESPACE[@]}" "$@"
}

# listen_by PORT [PREFIX...]: a listening socket of 127.0.0.1; its process is $STARTED.
listen_by() {
    start "${@:2}" "$PYTHON" -SE "$T/listen.py" "$1" tcp 127.0.0.1 "$T/ready"
    wait_until 10 test -f "$T/ready"
}

# state_is STATE [PREFIX...]: of the only claim, as who is meant sees it.
state_is() {
    capture "${@:2}" "$DIBS" ls --all --json
    json "(\"orphan\" if d[0][\"orphan\"] else d[0][\"life\"]) == \"$1\""
}

# is_over [PREFIX...]: it is a dead holder's, or has ended already.
is_over() {
    [ "$("$@" "$DIBS" ls --all --json)" = '[]' ] || state_is dead "$@"
}

@test "the root of a user namespace is the same user as outside" {
    port=$(as_root_of_a_namespace "$DIBS" claim /web --keep)
    [ "$(as_user "$DIBS" get /web)" = "$port" ]
    [ "$(sql 'SELECT principal FROM claims')" = uid:65533 ]
    as_root_of_a_namespace "$DIBS" release /web
    [ "$(held)" -eq 0 ]
    capture as_root_of_a_namespace "$DIBS" claim /web --pid $$
    [ "$code" -eq 7 ] # a process of another user
}

@test "the root of a user namespace ends only the user's own claims" {
    ok claim /web --port 13900 --json
    token=$(value 'd[0]["token"]')
    as_root_of_a_namespace "$DIBS" release /web 13900
    as_root_of_a_namespace "$DIBS" release --all-mine
    capture as_root_of_a_namespace "$DIBS" release --token "$token"
    [ "$code" -eq 7 ]
    [ "$(held)" -eq 1 ]
}

# The socket of a daemon decides who administers it, not the owner of its ledger.
# bats test_tags=unserved
@test "the root of a user namespace administers the user's own ledger" {
    chown 65533 "$T"/ledger.db*
    ok claim /web --port 13901
    as_user "$DIBS" release /web # without the namespace the user is not root
    [ "$(held)" -eq 1 ]
    as_root_of_a_namespace "$DIBS" release /web
    [ "$(held)" -eq 0 ]
}

@test "a lease from a user namespace stays while its user listens, seen from inside and outside" {
    port=$(as_root_of_a_namespace "$DIBS" claim --address 127.0.0.1)
    listen_by "$port" "${NAMESPACE[@]}"
    as_root_of_a_namespace "$DIBS" renew "$port" --ttl 1ms
    lease_ends "$port"
    state_is orphan
    state_is orphan "${NAMESPACE[@]}"
    end_process "$STARTED"
    wait_until 10 is_over
    wait_until 10 is_over "${NAMESPACE[@]}"
}

# A daemon tells what it sees from its own user namespace.
# bats test_tags=unserved
@test "from a user namespace the socket of a user without a number there has no known owner" {
    ok claim --ttl 1ms --address 127.0.0.1
    listen_by "$out"
    state_is orphan
    state_is unknown "${NAMESPACE[@]}"
}

# A daemon knows the user by the number there.
# bats test_tags=unserved
@test "a user without a number in the user namespace gets an error that says so" {
    capture as_user unshare --user "$DIBS" claim
    [ "$code" -eq 1 ]
    one_line
    says "user namespace"
    [ "$(held)" -eq 0 ]
}

# Whose the file of the ledger is does not matter to who asks a daemon.
# bats test_tags=unserved
@test "doctor shows the root of a user namespace with the uid of its claims" {
    capture as_root_of_a_namespace "$DIBS" doctor
    prints 'a user outside of this user namespace, you are uid 65533'
}
