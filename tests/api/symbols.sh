#!/usr/bin/env bash
# The library exports exactly the symbols of libdibs.sym, and the headers declare these.
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
needs_only() { # needs_only FILE LIBRARY...: what the dynamic linker loads for it
    local needed
    needed=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[lib\(.*\)\.so.*\]/\1/p' | grep -vxF "$(printf '%s\n' "${@:2}")")
    [ -z "$needed" ] || { echo "also loads: $needed"; false; }
}
loads_nothing_late() { # it would need these functions
    ! nm -D --undefined-only "$1" | grep -E '\bdl(m?open|sym)\b'
}
is_hardened() {
    local program
    for program in "$DIBS" "$DIBS-serve" "$DIBS-serve-etcd" "$DIBS-kube"; do
        readelf -hW "$program" | grep -q 'Type:.*DYN' || { echo "$program: not PIE"; return 1; }
        readelf -dW "$program" | grep -qE 'BIND_NOW|FLAGS_1.*NOW' || { echo "$program: no full RELRO"; return 1; }
        readelf -lW "$program" | grep -q GNU_RELRO || { echo "$program: no RELRO"; return 1; }
    done
}

check "libdibs.sym is sorted and names nothing twice" is_sorted
check "the headers declare exactly what libdibs.sym lists" same listed declared
check "the library exports exactly what libdibs.sym lists" same listed exported
check "every function of libdibs.sym is called wrongly by unit/test_misuse.c" same listed misused
if [ "${DIBS_TEST_SANITIZE:-none}" = none ]; then
    check "the library exports nothing beside its version node" nothing_unversioned
    check "the library needs SQLite, jansson, libfyaml, libm and libc alone" needs_only "$BUILD/libdibs.so" sqlite3 jansson fyaml m c
    check "the library loads nothing at run time" loads_nothing_late "$BUILD/libdibs.so"
    check "the daemon of one host needs no libcurl" needs_only "$DIBS-serve" sqlite3 jansson fyaml microhttpd gnutls m c
fi
if [ "${DIBS_TEST_STATIC:-no}" = yes ]; then
    check "dibs makes the dynamic linker load nothing but libc and libm" needs_only "$DIBS" m c
fi
check "the programs are position independent with full RELRO" is_hardened
done_testing
