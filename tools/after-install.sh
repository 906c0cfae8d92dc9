#!/bin/sh
# Announce the installed library to the dynamic linker. Meson runs it after an install without DESTDIR, and shows nothing of
# what it prints.
set -eu
PATH=$PATH:/usr/sbin:/sbin
[ "$(id -u)" -ne 0 ] || ldconfig
