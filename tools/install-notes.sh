#!/bin/sh
# Say which programs do not find an installed file by themselves, and what to do. `make install` ends with it.
# usage: install-notes.sh PREFIX
set -eu
PATH=$PATH:/usr/sbin:/sbin
library=$(find "$1"/lib* -name libdibs.so -printf '%h\n' | head -n 1)
ldconfig -p | grep -qF " => $library/libdibs.so" ||
    echo "note: the dynamic linker does not search $library: link programs with -Wl,-rpath,$library" >&2
case :${XDG_DATA_DIRS:-}:/usr/share: in
*":$1/share:"*) ;;
*) ! command -v fish >/dev/null || echo "note: fish does not search $1/share for completions: set XDG_DATA_DIRS=$1/share:/usr/share" >&2 ;;
esac
