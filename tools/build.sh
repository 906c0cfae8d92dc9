#!/usr/bin/env bash
# Configures a build folder when needed and builds it; the tests only when they are wanted.
# usage: tools/build.sh FOLDER [meson setup option]...
set -eu
cd "$(dirname "$0")/.."
folder=$1
shift
tests=$(tools/list-tests.sh)
target=program
case " $* " in *" -Dtests=enabled "* | *" -Dfuzz=true "*) target=all ;; esac

if [ ! -f "$folder/build.ninja" ]; then
    meson setup "$folder" "$@"
elif [ "$tests" != "$(cat "$folder/tests.list" 2>/dev/null)" ] ||
    { [ $target = all ] && [ ! -f "$folder/tests/enabled" ]; }; then
    # A test file came or went, or tests are wanted that were left out for lack of packages.
    meson setup --reconfigure "$folder" "$@"
fi
printf '%s\n' "$tests" >"$folder/tests.list"
ninja -C "$folder" -j "${JOBS:-$(nproc)}" $target
