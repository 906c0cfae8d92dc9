#!/bin/sh
# Prints the files that become tests, sorted; behind "served" those of the command line that run a second time
# through a daemon. Meson reads it when it configures; tools/build.sh configures again when the answer has changed,
# so that a new file is never forgotten.
set -eu
cd "$(dirname "$0")/../tests"
for file in unit/test_*.c contract/test_*.c fuzz/fuzz_*.c api/*.sh cli/*.bats e2e/*.bats; do
    [ ! -f "$file" ] || echo "$file"
    case $file in cli/*) grep -q '^# bats file_tags=unserved$' "$file" || echo "served $file" ;; esac
done | LC_ALL=C sort
