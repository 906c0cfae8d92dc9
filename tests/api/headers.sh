#!/usr/bin/env bash
# Each public header compiles alone, as C17 and as C++, under strict flags.
set -u
# shellcheck source=tests/support/tap.sh
. "$SOURCE/tests/support/tap.sh"
flags=(-fsyntax-only -Wall -Wextra -Wpedantic -Werror -Wshadow -Wundef -I "$SOURCE/include")
read -r -a cc <<<"${CC:-cc}"
# One declaration of our own: by the letter of ISO C a file may not be empty, and a header of macros is.
alone() { # alone HEADER COMPILER...
    printf '#include <%s>\ntypedef int not_empty;\n' "$1" | "${@:2}" "${flags[@]}" -
}

for header in "$SOURCE"/include/dibs/*.h; do
    name=dibs/${header##*/}
    check "$name compiles alone as C17" alone "$name" "${cc[@]}" -std=c17 -Wstrict-prototypes -x c
    if command -v g++ >/dev/null; then
        check "$name compiles alone as C++" alone "$name" g++ -std=c++11 -x c++
    else
        skip_case "$name compiles alone as C++" "g++ is not installed"
    fi
done
done_testing
