#!/usr/bin/env bats
# The log that short-lived processes leave behind: the next process reads it at its start.
# A daemon writes back its log by itself.
# bats file_tags=unserved
load ../support/dibs
load cli

setup() { dibs_setup; }
teardown() { dibs_teardown; }

@test "the write-ahead log stays small when processes follow each other" {
    for _ in $(seq 80); do dibs claim >>"$T/ports"; done
    [ "$(wc -l <"$T/ports")" -eq 80 ]
    # A claim adds some 12 KiB; without a limit this would be near 1 MiB.
    size=$(stat -c %s "$T/ledger.db-wal")
    echo "the log has $size bytes" >&2
    [ "$size" -le 300000 ]
    [ "$(held)" -eq 80 ] # last: it opens the ledger, which empties the log
}
