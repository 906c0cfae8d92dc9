#!/bin/sh
# Announce the installed library to the dynamic linker. Meson runs it after an install without DESTDIR.
# usage: after-install.sh LIBRARY_FOLDER
set -eu
PATH=$PATH:/usr/sbin:/sbin
[ "$(id -u)" -ne 0 ] || ldconfig
ldconfig -p | grep -qF " => $1/libdibs.so" ||
    echo "note: the dynamic linker does not search $1: link programs with -Wl,-rpath,$1" >&2
