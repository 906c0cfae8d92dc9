#!/usr/bin/env bash
# Run the tests of a build folder and count single cases. The last line is
#   N passed, N failed, N skipped
# usage: tools/run-tests.sh FOLDER [meson test option]...
set -u
cd "$(dirname "$0")/.." || exit 1
folder=$1
shift
log=$folder/meson-logs/testlog.json
summary=$folder/test-summary.txt
rm -f "$log" "$summary"
# In memory if it has space: a disk that is busy for seconds would cause elections and expire leases.
memory=
if [ "$(df --output=avail --block-size=1G /dev/shm 2>/dev/null | tail -1)" -ge 4 ] 2>/dev/null &&
    memory=$(mktemp -d /dev/shm/dibs-tests.XXXXXX); then
    chmod 1777 "$memory" # as /tmp: some tests run as other users
    export TMPDIR=$memory
    trap 'rm -rf "$memory"' EXIT
fi
# More than there are cores: many tests mostly wait for leases, elections and deaths of processes.
meson test -C "$folder" --num-processes "${JOBS:-$(($(nproc) * 5 / 2))}" --print-errorlogs "$@"
code=$?
tools/count-tests.py --meson-exit "$code" --allowed-skips tests/allowed-skips.txt "$log" >"$summary.new"
code=$?
mv "$summary.new" "$summary"
cat "$summary"
exit "$code"
