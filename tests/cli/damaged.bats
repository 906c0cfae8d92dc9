#!/usr/bin/env bats
# shellcheck disable=SC2034,SC2154 # variables of what is loaded below
# One damaged record harms itself alone (INV-6).
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "a damaged pool is set aside, blocks nobody, and can be set anew" {
    ok pool set p --ranges 21000-21010
    sql "UPDATE pools SET ranges='junk'"
    ok claim
    refused 5 claim --pool p
    ok pool set p --ranges 21000-21010
    ok claim --pool p
}

@test "an event with an absurd number does not stop the following claims" {
    ok claim --keep a
    sql "INSERT INTO events SELECT 9223372036854775807,cursor,time_ms,kind,claim,generation,port,protos,dynamic,actor_uid,actor_pid,principal,name FROM events LIMIT 1"
    ok claim --keep b
    [ "$(held)" -eq 2 ]
}

@test "a damaged name never leads to another's claim, and is mended" {
    web=$(dibs get web)
    ok get db
    sql "UPDATE names SET claim=(SELECT id FROM claims WHERE name LIKE '%/db') WHERE name LIKE '%/web'"
    ok release web
    [ "$(held)" -eq 2 ]
    ok reap
    ok get web
    prints "$web"
}

@test "doctor has nothing to say against a stored pool" {
    ok pool set p --ranges 21000-21010
    ok doctor
    case $out$errs in *'cannot start a transaction'*) return 1 ;; esac
    case $out in *"pool 'p'"*) ;; *) return 1 ;; esac
}
