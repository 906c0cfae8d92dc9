#!/usr/bin/env bash
# Make the source archive of the last commit: tools/dist.sh [FOLDER]      (default: build-dist)
# It is made a second time from a clone, and both must be the same bytes: anybody with the commit can check an archive.
set -eu
cd "$(dirname "$0")/.."
out=$(realpath -ms -- "${1:-build-dist}")
version=$(sed -n "s/.*version: '\\([0-9.]*\\)'.*/\\1/p" meson.build | head -n 1)
name=dibs-$version

archive() { git -C "$1" archive --format=tar --prefix="$name/" HEAD | xz -6 --threads=1; }

rm -rf "$out"
mkdir -p "$out"
archive . >"$out/$name.tar.xz"
git clone --quiet --no-local . "$out/again"
archive "$out/again" | cmp - "$out/$name.tar.xz"
rm -rf "$out/again"
(cd "$out" && sha256sum "$name.tar.xz" | tee "$name.tar.xz.sha256")
