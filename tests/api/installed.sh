#!/usr/bin/env bash
# An installed copy is complete, and a program builds against it through pkg-config and runs.
set -u
# shellcheck source=tests/support/tap.sh
. "$SOURCE/tests/support/tap.sh"
tmp=$(mktemp -d) || exit 99
trap 'rm -rf "$tmp"' EXIT
root=$tmp/root
read -r -a cc <<<"${CC:-cc}"
sanitize=()
[ "${DIBS_TEST_SANITIZE:-none}" = none ] || sanitize=("-fsanitize=$DIBS_TEST_SANITIZE")
unset "${!DIBS_@}" 2>/dev/null # nothing of the caller's settings
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
    for pattern in '*/bin/dibs' '*/libexec/dibs/dibs-serve' '*/libexec/dibs/dibs-kube' '*/libdibs.so.[0-9]*.[0-9]*' '*/include/dibs/dibs.h' '*/pkgconfig/dibs.pc' \
        '*/man/man1/dibs.1' '*/bash-completion/completions/dibs' '*/zsh/site-functions/_dibs' \
        '*/fish/vendor_completions.d/dibs.fish' '*/doc/dibs/LICENSE' '*/share/dibs/dibs.schema.json' \
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
has_version() { "$(find "$root" -path '*/bin/dibs')" version | grep -qF "$(with_pkg_config --modversion)"; }

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
done_testing
