#!/bin/sh
# Print the linker's version script for a list of exported symbols (libdibs.sym).
set -eu
echo 'DIBS_0 {'
echo 'global:'
sed -e 's/#.*//' -e '/^[[:space:]]*$/d' -e 's/$/;/' -e 's/^/    /' "$1"
echo 'local:'
echo '    *;'
echo '};'
