#!/usr/bin/env bash
# Build the Debian packages, and check them with lintian: tools/deb.sh [FOLDER]      (default: build-deb)
# The packages are in FOLDER. They are built from a copy of the tree, so that nothing in it changes; the version is that
# of meson.build, and the changelog is made from it.
set -eu
cd "$(dirname "$0")/.."
out=$(realpath -ms -- "${1:-build-deb}")

of_project() { sed -n "s/$1/\\1/p" meson.build | head -n 1; }
version=$(of_project ".*version: '\\([0-9.]*\\)'.*")
revised=$(of_project "^revised = '\\([0-9-]*\\)'.*")

# The build dependencies are those of tools/debian-packages.txt; a compiler and its C library are always there.
listed=$(awk '$2 == "build" && $1 != "gcc" && $1 != "libc6-dev" { print $1 }' tools/debian-packages.txt | sort)
declared=$(sed -n '/^Build-Depends:/,/^[^ B]/{s/^Build-Depends://; /^ /!d; s/[ ,]//g; p}' debian/control | grep -v debhelper | sort)
if ! diff <(echo "$listed") <(echo "$declared") >&2; then
    echo "deb: Build-Depends of debian/control (>) differ from tools/debian-packages.txt (<)" >&2
    exit 1
fi

rm -rf "$out"
source=$out/dibs-$version
mkdir -p "$source"
if [ -e .git ]; then
    git ls-files -z --cached --others --exclude-standard
else
    find . -mindepth 1 -maxdepth 1 ! -name 'build*' -print0
fi | while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done | xargs -0 cp --parents -r -d -t "$source"

cat >"$source/debian/changelog" <<END_OF_ENTRY
dibs ($version) bookworm; urgency=medium

  * Version $version.

 -- $(sed -n 's/^Maintainer: //p' debian/control)  $(date -u -R -d "$revised")
END_OF_ENTRY
(cd "$source" && dpkg-buildpackage --build=binary --no-sign --jobs="${JOBS:-$(nproc)}")
rm -rf "$source"
lintian --allow-root --fail-on error,warning "$out"/*.changes
echo "deb: lintian found no error and no warning"
ls -l "$out"/*.deb
