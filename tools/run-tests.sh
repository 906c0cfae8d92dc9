#!/usr/bin/env bash
# Runs the tests of a build folder and counts single cases. The last line is
#   N passed, N failed, N skipped
# usage: tools/run-tests.sh FOLDER [meson test option]...
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$1
shift
log=$folder/meson-logs/testlog.json
summary=$folder/test-summary.txt
rm -f "$log" "$summary"
# One more than there are cores: many wait for leases, elections and the deaths of others most of their time.
meson test -C "$folder" --num-processes "${JOBS:-$(($(nproc) + 1))}" --print-errorlogs "$@"
code=$?
tools/count-tests.py --meson-exit "$code" --allowed-skips tests/allowed-skips.txt "$log" >"$summary.new"
code=$?
mv "$summary.new" "$summary"
cat "$summary"
exit "$code"
