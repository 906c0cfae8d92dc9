#!/usr/bin/env bash
# What the library exports is libdibs.sym, no more and no less, and that is what the headers declare.
set -u
# shellcheck source=tests/support/tap.sh
. "$SOURCE/tests/support/tap.sh"
export LC_ALL=C

listed() { sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$SOURCE/libdibs.sym"; }
exported() { # sanitizers add names of their own, which nobody versions
    nm -D --defined-only "$BUILD/libdibs.so" | awk '$3 ~ /@@DIBS_0$/ { sub(/@@DIBS_0/, "", $3); print $3 }' | sort
}
unversioned() { nm -D --defined-only "$BUILD/libdibs.so" | awk '$3 !~ /@/ && $2 != "A" { print $3 }'; }
declared() {
    cat "$SOURCE"/include/dibs/*.h | tr '\n' ' ' | grep -oE 'DIBS_API [^;]*;' |
        grep -oE '\bdibs_[a-z0-9_]+ ?\(' | tr -d '( ' | sort -u
}
same() { diff -u --label "$1" <("$1") --label "$2" <("$2"); }
is_sorted() { listed | sort -c -u; }
misused() { grep -ohE '\bdibs_[a-z0-9_]+\(' "$SOURCE"/tests/unit/test_misuse*.c | tr -d '(' | sort -u; }
nothing_unversioned() { [ -z "$(unversioned)" ] || { unversioned; false; }; }
needs_only_libc() {
    local needed
    needed=$(readelf -d "$DIBS" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vxE 'libc\.so\.[0-9]+|libm\.so\.[0-9]+')
    [ -z "$needed" ] || { echo "also loads: $needed"; false; }
}
# What a claim really loads, with all that comes late.
claims_with_only_libc() {
    local dir loaded
    dir=$(mktemp -d) || return 1
    loaded=$(cd "$dir" && HOME=$dir XDG_STATE_HOME=$dir DIBS_SOCKET=none DIBS_LEDGER=sqlite:$dir/ledger.db LD_DEBUG=files \
        "$DIBS" claim symbols-test 2>&1 | sed -n 's/.*calling init: .*\/\(lib[^/]*\)$/\1/p' |
        grep -vxE 'libc\.so\.[0-9]+|libm\.so\.[0-9]+')
    rm -r "$dir"
    [ -z "$loaded" ] || { echo "also loads: $loaded"; false; }
}
is_hardened() {
    readelf -hW "$DIBS" | grep -q 'Type:.*DYN' || { echo "not PIE"; return 1; }
    readelf -dW "$DIBS" | grep -qE 'BIND_NOW|FLAGS_1.*NOW' || { echo "no full RELRO"; return 1; }
    readelf -lW "$DIBS" | grep -q GNU_RELRO || { echo "no RELRO"; return 1; }
}

check "libdibs.sym is sorted and names nothing twice" is_sorted
check "the headers declare exactly what libdibs.sym lists" same listed declared
check "the library exports exactly what libdibs.sym lists" same listed exported
check "every function of libdibs.sym is called wrongly by unit/test_misuse.c" same listed misused
if [ "${DIBS_TEST_SANITIZE:-none}" = none ]; then
    check "the library exports nothing beside its version node" nothing_unversioned
fi
if [ "${DIBS_TEST_STATIC_SQLITE:-no}" = yes ]; then
    check "the program makes the dynamic linker load nothing but libc and libm" needs_only_libc
    check "a claim loads nothing but libc and libm, not late either" claims_with_only_libc
fi
check "the program is position independent with full RELRO" is_hardened
done_testing
