#!/usr/bin/env bash
# Install missing Debian packages. Runs only one dpkg-query, and no apt, when none is missing.
# usage: tools/deps.sh [build|test|check|bench|package]...      (default: all of them)
set -eu
cd "$(dirname "$0")/.."
tags=" ${*:-build test check bench package} "

wanted=()
while read -r package tag option _; do
    case $package in '' | '#'*) continue ;; esac
    case $tags in *" $tag "*) ;; *) continue ;; esac
    case $option in unless:*) command -v "${option#unless:}" >/dev/null && continue ;; esac
    wanted+=("$package")
done <tools/debian-packages.txt

if ! command -v dpkg-query >/dev/null; then
    echo "deps: not a Debian system; install what tools/debian-packages.txt names" >&2
    exit 0
fi
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null | sed -n 's/^installed //p') || true
missing=()
for package in "${wanted[@]}"; do
    case $'\n'$installed$'\n' in *$'\n'"$package"$'\n'*) ;; *) missing+=("$package") ;; esac
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "deps: missing packages; as root, run:" >&2
        echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "deps: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq >&2
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
