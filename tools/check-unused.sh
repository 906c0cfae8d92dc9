#!/usr/bin/env bash
# List the functions that the linker drops from every program and from the shared library. The compiler reports
# unused static functions. A function that only tests call is a finding, too.
# usage: tools/check-unused.sh [BUILD FOLDER]
set -eu
cd "$(dirname "$0")/.."
build=${1:-build-unused}
# Without optimisation: a function that is inlined everywhere would be missing.
tools/build.sh "$build" -Dtests=disabled -Doptimization=0 -Dc_args='-ffunction-sections -fdata-sections' \
    -Dc_link_args=-Wl,--gc-sections >"$build.log" 2>&1 || { cat "$build.log"; exit 1; }
rm -f "$build.log"

functions() { # functions LETTERS FILE...: the functions of these kinds (T global, t local) in the files
    nm --defined-only "${@:2}" | awk -v kinds="$1" 'NF == 3 && index(kinds, $2) { print $3 }' | LC_ALL=C sort -u
}
linked=("$build"/dibs "$build"/libdibs.so)
for program in "$build"/dibs-*; do
    [ ! -f "$program" ] || [ ! -x "$program" ] || linked+=("$program")
done
unused=$(LC_ALL=C comm -23 <(functions T "$build"/libdibs*.a) <(functions Tt "${linked[@]}"))
[ -n "$unused" ] || exit 0
echo "unused: no program calls these functions:" >&2
for name in $unused; do
    grep -rnE "^[a-z].*\b$name\(" src --include='*.c' | sed -nE "1s/^([^:]*:[0-9]+):.*/\1: $name/p" >&2
done
exit 1
