#!/usr/bin/env bash
# Print lines and files of C by module and part, and the sums that have a limit.
# usage: tools/size.sh [REVISION]      (default: the working tree)
set -eu
cd "$(dirname "$0")/.."
revision=${1:-}

files() { # the .c and .h files below src and include
    if [ -n "$revision" ]; then git ls-tree -r --name-only "$revision" -- src include; else git ls-files -- src include; fi |
        grep -E '\.[ch]$'
}
text() { if [ -n "$revision" ]; then git show "$revision:$1"; else cat "$1"; fi; }

files | while read -r file; do
    [ -n "$revision" ] || [ -f "$file" ] || continue
    printf '%s %s\n' "$(dirname "$file")" "$(text "$file" | wc -l)"
done | awk '
    { lines[$1] += $2; files[$1]++; split($1, part, "/"); module = part[1] "/" part[2]
      sum[module] += $2; count[module]++; all += $2; n++ }
    END {
        for (dir in lines) if (!(dir in sum) || count[dir] != files[dir]) printf "%-28s %7d lines %4d files\n", "  " dir, lines[dir], files[dir]
        for (module in sum) printf "%-28s %7d lines %4d files\n", module, sum[module], count[module]
        printf "%-28s %7d lines %4d files\n", "total", all, n
    }' | LC_ALL=C sort -k1,1
