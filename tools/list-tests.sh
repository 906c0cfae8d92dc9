#!/bin/sh
# Print the test files, sorted. "served" marks those of the command line that also run through a daemon. Meson
# reads the list when it configures; tools/build.sh configures again when the list has changed.
set -eu
cd "$(dirname "$0")/../tests"
for file in unit/test_*.c contract/test_*.c fuzz/fuzz_*.c api/*.sh cli/*.bats e2e/*.bats; do
    [ ! -f "$file" ] || echo "$file"
    case $file in cli/*) grep -q '^# bats file_tags=unserved$' "$file" || echo "served $file" ;; esac
done | LC_ALL=C sort
