#!/usr/bin/env bash
# Configure a build folder when needed and build it; the tests only when they are enabled.
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
    # A test file was added or removed, or tests are enabled that packages were missing for.
    meson setup --reconfigure "$folder" "$@"
fi
printf '%s\n' "$tests" >"$folder/tests.list"
ninja -C "$folder" -j "${JOBS:-$(nproc)}" $target
