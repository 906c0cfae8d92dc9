#!/usr/bin/env bash
# Fail where a tracked file has a word that this project once used instead of the field's own. Metric names are kept:
# their underscores make them other words.
set -eu
cd "$(dirname "$0")/.."
words='office|graves|bereft|census|heed|heeds|doubt|desk|troupe|told|beaten|anew|whoever|everybody|mourned'
found=$(git grep -nwiE "$words" -- . ':!tests/fuzz/corpus' ":!tools/check-words.sh" || true)
[ -z "$found" ] || { printf 'check-words: use the words of the glossary in docs/ARCHITECTURE.md\n%s\n' "$found" >&2; exit 1; }
