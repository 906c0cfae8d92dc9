#!/bin/sh
# Prints the files that become tests, sorted. Meson reads it when it configures; tools/build.sh
# configures again when the answer has changed, so that a new file is never forgotten.
set -eu
cd "$(dirname "$0")/../tests"
for file in unit/test_*.c contract/test_*.c fuzz/fuzz_*.c api/*.sh cli/*.bats e2e/*.bats; do
    [ ! -f "$file" ] || echo "$file"
done | LC_ALL=C sort
