#!/usr/bin/env bash
# Check that every requirement has its line in docs/REQUIREMENTS.md, and that every test named there exists:
# `name` (file) is a case of tests/file.c that is also run, or a @test of tests/file.bats; tests/file.sh is a file.
set -u
cd "$(dirname "$0")/.." || exit 1
page=docs/REQUIREMENTS.md
failed=0
n=0

say() {
    echo "check-requirements: $*" >&2
    failed=1
}

for series in B:9 D:33 G:12 K:11 M:7 P:16 W:15; do
    for i in $(seq "${series#*:}"); do
        grep -qE "^\| ${series%:*}$i \| [^|]+ \| [^|]*tests?[/_]|^\| ${series%:*}$i \| [^|]+ \| \`" "$page" ||
            say "no line for ${series%:*}$i"
    done
done
# shellcheck disable=SC2016 # the backquotes belong to the page
while IFS=$'\t' read -r name file; do
    n=$((n + 1))
    if [ -f "tests/$file.c" ]; then
        # The case must be defined, and be in the table of cases that are run.
        [ "$(grep -cw -- "$name" "tests/$file.c")" -ge 2 ] || say "tests/$file.c does not run $name"
    elif [ -f "tests/$file.bats" ]; then
        grep -qF -- "@test \"$name\"" "tests/$file.bats" || say "tests/$file.bats has no test '$name'"
    else
        say "there is no tests/$file.c or .bats"
    fi
done < <(grep -oE '`[^`]+` \((unit|contract|cli|e2e)/[a-z0-9_]+\)' "$page" | sed -E 's/^`([^`]+)` \(([^)]+)\)$/\1\t\2/')
while read -r file; do
    [ -f "$file" ] || say "there is no $file"
done < <(grep -oE 'tests/(api|unit|cli|e2e)/[a-z0-9_]+\.sh' "$page")
[ "$n" -gt 0 ] || say "$page names no test"
[ "$failed" -eq 0 ] && echo "check-requirements: $n tests named, all there"
exit "$failed"
