#!/usr/bin/env bash
# Make the screenshots of docs/UI.md again: real servers of two users, a daemon, and its page in Chromium. Needs root, for
# namespaces of its own: their host is called "workbench", and their users are ana and ben.
# usage: tools/screenshots.sh [BUILD [FOLDER]]
# shellcheck disable=SC2016,SC2153 # the words of other shells; BUILD is exported below
set -eu
cd "$(dirname "$0")/.."
if [ -z "${DIBS_SHOTS:-}" ]; then
    build=$(realpath "${1:-build}") out=$(realpath "${2:-docs/img}")
    BUILD=$build DIBS_SHOTS=$out exec tests/support/with-npm unshare --mount --net --uts --pid --fork --mount-proc "$0"
fi

mount -t tmpfs none /home
mount -t tmpfs none /run
printf '%s\n' root:x:0:0::/root:/bin/sh ana:x:1000:1000::/home/ana:/bin/sh ben:x:1001:1001::/home/ben:/bin/sh >/home/passwd
mount --bind /home/passwd /etc/passwd
hostname workbench
ip link set lo up
mkdir -p /home/bin /home/ana /home/ben /run/dibs
install -m 755 "$BUILD"/dibs "$BUILD"/dibs-serve /home/bin
chown 1000:1000 /home/ana
chown 1001:1001 /home/ben
chmod 755 /home/ana /home/ben # the daemon shows a directory to its own user alone
export PATH=/home/bin:/usr/bin:/bin:/usr/sbin:/sbin TZ=UTC LANG=C.UTF-8
for name in "${!DIBS_@}"; do case $name in DIBS_SHOTS | DIBS_TEST_NPM) ;; *) unset "$name" ;; esac done

# as USER DIRECTORY COMMAND...
as() {
    local user=$1 at=$2
    shift 2
    mkdir -p "$at"
    chown -R "$user" "$at"
    (cd "$at" && HOME=/home/$user XDG_RUNTIME_DIR='' XDG_STATE_HOME='' exec setpriv --reuid="$user" --regid="$(id -u "$user")" --clear-groups "$@")
}
# repository USER DIRECTORY: with one commit
repository() {
    as "$1" "$2" git init -q -b main
    as "$1" "$2" git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m first
}

sysctl -qw net.ipv4.ip_local_reserved_ports=20400-20431,29900-29999
nft add table ip published
nft add chain ip published in '{ type nat hook prerouting priority -100; }'
nft add rule ip published in tcp dport 20500-20503 dnat to 192.0.2.7
dibs --ledger sqlite:/run/dibs/ledger.db serve >/dev/null 2>&1 &
for _ in $(seq 200); do [ ! -S /run/dibs/dibs.sock ] || break; sleep 0.05; done
export DIBS_SOCKET=/run/dibs/dibs.sock DIBS_TIMEOUT=20s

repository ana /home/ana/shop
for branch in search cart; do
    as ana /home/ana/$branch git -C ../shop worktree add -q -b $branch /home/ana/$branch/shop
done
repository ben /home/ben/wiki
server='exec python3 -m http.server "$PORT" --bind 127.0.0.1'
for tree in shop search/shop cart/shop; do
    as ana /home/ana/$tree dibs run -p web -- sh -c "$server" >/dev/null 2>&1 &
    as ana /home/ana/$tree dibs run -p api -- sh -c 'exec node -e "require(\"http\").createServer().listen(process.env.PORT, \"127.0.0.1\")"' >/dev/null 2>&1 &
    as ana /home/ana/$tree dibs get db >/dev/null
    as ana /home/ana/$tree dibs claim --ttl 2h "worker/0" >/dev/null
done
as ana /home/ana/shop dibs run -p cache -- sh -c 'exec redis-server --port "$PORT" --bind 127.0.0.1 --save ""' >/dev/null 2>&1 &
as ana /home/ana/shop dibs claim --keep --port 20010 /shop@main/proxy >/dev/null
as ana /home/ana/shop python3 -m http.server 20010 --bind 127.0.0.1 >/dev/null 2>&1 &
as ana /home/ana/shop dibs claim --keep --port 20020 /shop@main/metrics >/dev/null
as ben /home/ben/wiki dibs run -p web -- sh -c "$server" >/dev/null 2>&1 &
as ben /home/ben/wiki dibs claim --keep db >/dev/null
as ben /home/ben/wiki python3 -m http.server 20700 >/dev/null 2>&1 & # nobody has claimed it
as ben /home/ben/wiki python3 -m http.server 8080 >/dev/null 2>&1 &

# A test suite takes and releases ports for a while.
for i in $(seq 60); do
    port=$(as ana /home/ana/shop dibs claim --ttl 1h "/shop@main/tests/$i")
    [ $((i % 8)) -lt 3 ] || as ana /home/ana/shop dibs release "$port" >/dev/null
    sleep "0.$((RANDOM % 10))"
done
[ -z "${DIBS_SHOTS_LIST:-}" ] || dibs ls --all
export HOME=/home/root DIBS_URL
mkdir -p "$HOME"
DIBS_URL=$(as ana /home/ana/shop dibs ui --no-open)
node tools/screenshots.mjs "$DIBS_SHOTS"
