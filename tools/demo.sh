#!/usr/bin/env bash
# `make run`: show the main use on a temporary ledger. Two programs ask for a port at the same moment, and each
# gets its own. A third requests one of these by number, and dibs names its holder.
set -eu
dibs=$(realpath "${1:-build/dibs}")
tmp=$(mktemp -d)
pids=()
finish() {
    [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
    [ ${#pids[@]} -eq 0 ] || wait "${pids[@]}" 2>/dev/null || true
    rm -rf "$tmp"
}
trap finish EXIT
for name in "${!DIBS_@}"; do unset "$name"; done
export DIBS_LEDGER=sqlite:$tmp/ledger.db DIBS_LEDGER_MODE=strict DIBS_SOCKET=none DIBS_GROUP=shop
export demo_dir=$tmp
say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }

say 'Two programs ask for a port at the same moment:'
mkfifo "$tmp/gate"
exec 9<>"$tmp/gate"
for name in web api; do
    # shellcheck disable=SC2016
    (
        read -r _ <&9
        exec 9>&-
        exec "$dibs" run -p $name -- sh -c 'echo "$PORT" >"$demo_dir/$0.new"; mv "$demo_dir/$0.new" "$demo_dir/$0"; exec sleep 60' $name
    ) &
    pids+=($!)
done
printf '\n\n' >&9 # one line for each: both programs start
exec 9>&-
for name in web api; do
    for _ in $(seq 500); do
        [ ! -e "$tmp/$name" ] || break
        sleep 0.02
    done
    [ -e "$tmp/$name" ] || { echo "demo: $name got no port" >&2; exit 1; }
    echo "  $name runs with PORT=$(cat "$tmp/$name")"
done
web=$(cat "$tmp/web")
[ "$web" != "$(cat "$tmp/api")" ] || { echo "demo: both have the same port" >&2; exit 1; }

say '$ dibs ls'
"$dibs" ls

say "A third program wants port $web:"
echo "\$ dibs claim --port $web"
code=0
"$dibs" claim --port "$web" || code=$?
echo "(exit $code: held by someone else)"
[ $code -eq 3 ] || { echo "demo: expected exit 3" >&2; exit 1; }

say 'The program that held it ends; its port is free at once:'
kill "${pids[0]}"
wait "${pids[0]}" 2>/dev/null || true
echo "\$ dibs claim --port $web"
"$dibs" claim --port "$web"

say 'Next: build/dibs help, README.md'
[ -t 1 ] || exit 0

say 'All of it in the browser (Ctrl-C ends it, and so does a minute without a page):'
echo '$ dibs ui'
trap : INT
"$dibs" ui --no-open --quiet --idle 1m
