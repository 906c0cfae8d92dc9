#!/usr/bin/env bash
# An installed copy is complete, and a program builds against it through pkg-config and runs.
set -u
# shellcheck source=tests/support/tap.sh
. "$SOURCE/tests/support/tap.sh"
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
root=$tmp/root
read -r -a cc <<<"${CC:-cc}"
export SANITIZE=${SANITIZE:-${DIBS_TEST_SANITIZE:-none}} # this script runs itself, without the DIBS_ variables
sanitize=()
[ "$SANITIZE" = none ] || sanitize=("-fsanitize=$SANITIZE")
unset "${!DIBS_@}" LD_LIBRARY_PATH 2>/dev/null # nothing of the settings of the caller and of Meson
export HOME=$tmp XDG_STATE_HOME=$tmp/state XDG_CONFIG_HOME=$tmp/config XDG_RUNTIME_DIR=$tmp/run
export DIBS_LEDGER=sqlite:$tmp/ledger.db DIBS_LEDGER_MODE=strict DIBS_SOCKET=none

install_copy() { DESTDIR=$root meson install -C "$BUILD" --no-rebuild --quiet; }
find_one() { # find_one PATTERN: exactly one installed file, and it is not empty
    local found
    found=$(find "$root" -path "$1" -size +0)
    [ "$(printf '%s' "$found" | grep -c .)" -eq 1 ] || { echo "$1: found '$found'"; find "$root"; return 1; }
}
is_complete() {
    local pattern
    for pattern in '*/bin/dibs' '*/libexec/dibs/dibs-serve' '*/libexec/dibs/dibs-serve-etcd' '*/libexec/dibs/dibs-kube' '*/libdibs.so.[0-9]*.[0-9]*' '*/include/dibs/dibs.h' '*/pkgconfig/dibs.pc' \
        '*/man/man1/dibs.1' '*/man/man1/dibs-claim.1' '*/man/man1/kubectl-dibs.1' '*/man/man3/dibs.3' '*/man/man3/dibs_open.3' \
        '*/man/man5/dibs.yaml.5' '*/doc/dibs/examples/claim.c' '*/bash-completion/completions/dibs' '*/zsh/site-functions/_dibs' \
        '*/fish/vendor_completions.d/dibs.fish' '*/doc/dibs/LICENSE' '*/share/dibs/dibs.schema.json' '*/bin/kubectl-dibs' \
        '*/systemd/system/dibs.service' '*/systemd/system/dibs.socket' \
        '*/systemd/system/dibs-admin.socket' '*/systemd/user/dibs.service' '*/systemd/user/dibs.socket'; do
        find_one "$pattern" || return 1
    done
}
has_all_headers() {
    diff <(cd "$SOURCE/include/dibs" && ls) <(cd "$(dirname "$(find "$root" -path '*/include/dibs/dibs.h')")" && ls)
}
with_pkg_config() {
    PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$(dirname "$(find "$root" -name dibs.pc)") pkg-config "$@" dibs
}
build_example() {
    local flags
    read -r -a flags <<<"$(with_pkg_config --cflags --libs)"
    "${cc[@]}" "${sanitize[@]}" -std=c17 -Wall -Wextra -Werror -o "$tmp/claim" "$SOURCE/examples/claim.c" "${flags[@]}"
}
library_path=
run_example() {
    local port
    port=$(LD_LIBRARY_PATH=$library_path timeout 20 "$tmp/claim" example/web) || return 1
    if ! [[ $port =~ ^[0-9]+$ ]] || [ "$port" -lt 20000 ] || [ "$port" -gt 32767 ]; then # not of the default pool
        echo "printed '$port'"
        return 1
    fi
}
left_nothing() {
    local rows
    rows=$(LD_LIBRARY_PATH=$library_path "$(find "$root" -path '*/bin/dibs')" ls --json) || return 1
    ! printf '%s' "$rows" | grep -q example/web || { echo "$rows"; return 1; }
}
# The arguments that `make install` gives to Meson: its own command, with a stand-in for Meson that prints its arguments.
takes_blanks() {
    local asked given
    asked=$(make -C "$SOURCE" --no-print-directory -n install PREFIX="$tmp/a place/x/.." | grep '^meson configure') || return 1
    given=$(meson() { printf '<%s>' "$@"; } && eval "$asked")
    [ "$given" = "<configure><build><--prefix><$tmp/a place>" ] || { echo "$given"; return 1; }
}
# The place of a staged copy is not the one that it was built for.
says_what_is_missing() {
    local output
    output=$("$(find "$root" -path '*/bin/dibs')" serve --check-config 2>&1) && return 0 # it is installed here
    [[ $output == "dibs: dibs-serve is missing: it belongs beside dibs or into "*/libexec/dibs* ]] || { echo "$output"; return 1; }
}
finds_program_beside() {
    ln "$(find "$root" -path '*/libexec/dibs/dibs-serve')" "$(dirname "$(find "$root" -path '*/bin/dibs')")/dibs-serve" &&
        ln -s "$(find "$root" -path '*/bin/dibs')" "$tmp/linked" && "$tmp/linked" serve --check-config
}
# Install to the real /usr/local, with layers in memory above it and above /etc, which end with the namespace.
in_real_place() { # in_real_place FUNCTION of this script [ARGUMENT]...
    # shellcheck disable=SC2016 # for the shell there
    unshare --mount bash -eu -c '
        mount --make-rprivate /
        mkdir -p "$1/layers"
        mount -t tmpfs tmpfs "$1/layers"
        for at in /usr/local /etc; do
            mkdir -p "$1/layers$at/new" "$1/layers$at/work"
            mount -t overlay -o "lowerdir=$at,upperdir=$1/layers$at/new,workdir=$1/layers$at/work" overlay "$at"
        done
        exec "${@:2}"' - "$tmp" "$0" "$@"
}
readme_example() { # as a reader of the README builds and runs it
    local flags port
    meson install -C "$BUILD" --no-rebuild --quiet || return 1
    # shellcheck disable=SC2016 # the fence of a block
    sed -n '/^```c$/,/^```$/{/^```/d;p}' "$SOURCE/README.md" >"$tmp/example.c"
    read -r -a flags <<<"$(pkg-config --cflags --libs dibs)"
    "${cc[@]}" "${sanitize[@]}" -o "$tmp/example" "$tmp/example.c" "${flags[@]}" && port=$("$tmp/example") && [[ $port =~ ^[0-9]+$ ]]
}
uninstalled() { # all that was new below /usr/local is gone, and what another program installed there is not
    local left
    find /usr/local | sort >"$tmp/before"
    meson install -C "$BUILD" --no-rebuild --quiet && touch /usr/local/share/man/man1/other.1 || return 1
    tools/uninstall.py "$BUILD" || return 1
    left=$(find /usr/local | sort | comm -13 "$tmp/before" - | grep -v '/other\.1$' | grep dibs)
    if [ -n "$left" ] || [ ! -f /usr/local/share/man/man1/other.1 ] || ldconfig -p | grep libdibs; then
        echo "left: $left"
        return 1
    fi
}
completes() { # completes SHELL: an interactive shell finds the completion in its installed place by itself
    meson install -C "$BUILD" --no-rebuild --quiet || return 1
    if [ "$1" = fish ]; then # of Debian it looks there with this variable alone, which desktops set
        tools/install-notes.sh /usr/local 2>&1 | grep 'note: fish does not search /usr/local/share .*XDG_DATA_DIRS' || return 1
        export XDG_DATA_DIRS=/usr/local/share:/usr/share
        ! tools/install-notes.sh /usr/local 2>&1 | grep . || return 1
    fi
    echo '. /usr/share/bash-completion/bash_completion' >"$tmp/.bashrc"
    echo 'autoload -Uz compinit && compinit -u -D' >"$tmp/.zshrc"
    "$SOURCE/tests/support/complete.py" 'dibs rel' ' --help' 'Usage: dibs release' "$1" -i
}
settings_of_git() { # `make` and its scripts run git only when asked
    [ "$(make -C "$SOURCE" --no-print-directory -n hooks)" = "git config core.hooksPath .githooks" ] || return 1
    ! grep -rn 'git config' "$SOURCE/tools" "$SOURCE/.ci" "$SOURCE/meson.build"
}
has_version() { "$(find "$root" -path '*/bin/dibs')" version | grep -qF "$(with_pkg_config --modversion)"; }

if [ $# -gt 0 ]; then # by in_real_place
    cd "$SOURCE" && "$@"
    exit
fi
check "meson install puts a copy under DESTDIR" install_copy
check "programs, library, header, pkg-config file, man page, completions and schema are there" is_complete
check "every public header is installed" has_all_headers
library_path=$(dirname "$(find "$root" -name 'libdibs.so' | head -n 1)")
check "pkg-config and the program tell the same version" has_version
check "the example builds with pkg-config's flags" build_example
check "the example claims a port, listens on it and prints it" run_example
check "the example's claim is gone after its release" left_nothing
check "a program that dibs executes is missing: dibs says which, and where it belongs" says_what_is_missing
check "it is found beside dibs, through a link" finds_program_beside
check "a PREFIX with blanks in it stays one" takes_blanks
if [ "$(id -u)" -ne 0 ]; then
    skip_case "the README's example in C builds and runs after an install to /usr/local" "not root"
    skip_case "an uninstall removes all that was installed and nothing else" "not root"
else
    check "the README's example in C builds and runs after an install to /usr/local" in_real_place readme_example
    check "an uninstall removes all that was installed and nothing else" in_real_place uninstalled
fi
for shell in bash zsh fish; do
    text="$shell completes a command after an install to /usr/local"
    if [ "$(id -u)" -ne 0 ]; then
        skip_case "$text" "not root"
    elif ! command -v $shell >/dev/null; then
        skip_case "$text" "$shell is not installed"
    else
        check "$text" in_real_place completes $shell
    fi
done
check "only 'make hooks' changes a setting of git" settings_of_git
done_testing
