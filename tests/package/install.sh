#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The packages in a Debian system that has nothing but what they need: as a container, then with systemd as its init.
# Needs root, mmdebstrap, and Debian's mirror as apt of this machine is set up.
# usage: install.sh FOLDER_OF_PACKAGES
set -u
here=$(cd "$(dirname "$0")" && pwd)
SOURCE=$(cd "$here/../.." && pwd)
# shellcheck source=tests/support/tap.sh
. "$SOURCE/tests/support/tap.sh"
packages=$(realpath "$1")
if [ "$(id -u)" -ne 0 ]; then
    echo "1..0 # SKIP not root"
    exit 0
fi
top=$(mktemp -d) || exit 99
chmod 0755 "$top"
root=$top/root
in_container=(unshare --net --pid --fork --mount-proc="$root/proc" chroot "$root" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive)
finish() {
    if [ -f "$top/starter" ]; then
        kill "$(cat "$top/starter")"
        for _ in $(seq 100); do [ -d "/proc/$(cat "$top/init")" ] || break; sleep 0.1; done
        # shellcheck disable=SC2016 # for the shell there
        unshare --mount bash -c 'mount -t cgroup2 cgroup2 "$1/cgroups" &&
            find "$1/cgroups/$(cat "$1/cgroup")" -depth -type d -exec rmdir {} +' - "$top"
    fi
    rm -rf --one-file-system "$top"
}
trap finish EXIT
trap 'exit 99' INT TERM

# ---- a minimal system ----

# Debian's own sources of this machine's apt, with its proxy: no name of a host is in here.
make_system() {
    local wanted
    # What the packages need comes now: they are installed without a network. The rest is for the cases below.
    wanted=$(dpkg-deb -f "$packages"/dibs_*.deb Depends; echo ,; dpkg-deb -f "$packages"/libdibs0_*.deb Depends)
    wanted=$(sed 's/([^)]*)//g; s/ //g' <<<"$wanted" | tr -d '\n' | sed 's/,,*/,/g')
    apt-config dump | grep -E '^(Acquire::(http|https|ftp)|Acquire::Retries)' >"$top/apt.conf"
    # shellcheck disable=SC2016 # fields of apt
    apt-get indextargets --format '$(ORIGIN)|deb $(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
        sed -n 's/^Debian|//p' >"$top/sources"
    [ -s "$top/sources" ] || { echo "apt of this machine has no source of Debian"; return 1; }
    mmdebstrap --variant=apt --aptopt="$top/apt.conf" \
        --include="$wanted,systemd,passwd,gcc,libc6-dev,pkg-config,man-db,bash-completion,zsh,fish" \
        bookworm "$root" - <"$top/sources" >"$top/mmdebstrap.log" 2>&1 || { tail -n 20 "$top/mmdebstrap.log"; return 1; }
    "${in_container[@]}" useradd --create-home --shell /bin/bash alice &&
        "${in_container[@]}" useradd --create-home --shell /bin/bash bob
}
# Of the package is what is there after it and was not there before. These change with every package or by themselves.
files() {
    find "$root" -xdev \( -path "$root/proc" -o -path "$root/sys" -o -path "$root/dev" -o -path "$root/run" -o -path "$root/tmp" \
        -o -path "$root/var/lib/dpkg" -o -path "$root/var/cache" -o -path "$root/var/log" -o -path "$root/home" \
        -o -path "$root/var/lib/apt" -o -path "$root/var/lib/systemd/timers" \) -prune -o -printf '/%P\n' | sort
}

# ---- as a container ----

copy_packages() { # copy_packages VERSION: as they are, or as a later version of the same
    local file name
    mkdir -p "$root/packages"
    rm -rf "${root:?}/packages"/* "$top/repack"
    for name in dibs libdibs0 libdibs-dev; do
        file=$(echo "$packages/${name}"_*.deb)
        if [ "$1" = as-built ]; then
            cp "$file" "$root/packages/$name.deb"
        else
            dpkg-deb -R "$file" "$top/repack" || return 1
            sed -i -E "s/^Version: .*/Version: $1/; s/(libdibs0 \(= )[^)]*/\1$1/" "$top/repack/DEBIAN/control"
            dpkg-deb -b "$top/repack" "$root/packages/$name.deb" >/dev/null || return 1
            rm -rf "$top/repack"
        fi
    done
}
apt_in() { # apt_in RUNNER... -- ARGUMENT...: apt there, where no network is
    local runner=()
    while [ "$1" != -- ]; do runner+=("$1"); shift; done
    shift
    "${runner[@]}" apt-get -qq -o Dpkg::Use-Pty=0 "$@"
}
has_no_systemd_dependency() { ! dpkg-deb -f "$packages"/dibs_*.deb Depends Recommends Pre-Depends | grep -i systemd; }
installs_in_a_container() { copy_packages as-built && apt_in "${in_container[@]}" -- install /packages/dibs.deb; }
as_user() { "${in_container[@]}" setpriv --reuid="$1" --regid="$1" --init-groups env HOME="/home/$1" bash -euc "$2"; }
works_in_a_container() { # without a daemon: a ledger of one's own
    # shellcheck disable=SC2016 # for the shell there
    as_user alice 'cd; [ "$(dibs get web)" = "$(dibs get web)" ]; [ "$(dibs run -p web printenv WEB_PORT)" = "$(dibs get web)" ]
        port=$(dibs claim); dibs who "$port" >/dev/null; dibs ls --all | grep -q "$port"; test -f .local/state/dibs/ledger.db
        dibs doctor >/dev/null'
}
is_purged() {
    apt_in "${in_container[@]}" -- purge dibs || return 1
    left
}
left() { # fails with the files that are left, but for the group's line
    local left
    files >"$top/after"
    left=$(comm -13 "$top/before" "$top/after" | grep -vE '^/etc/(group|gshadow)-?$|^/packages')
    [ -z "$left" ] || { echo "left: $left"; return 1; }
}

# ---- with systemd ----

boot() {
    timeout -k 5 600 unshare --mount --fork --kill-child "$SOURCE/tests/support/boot.sh" "$top" >"$top/boot.log" 2>&1 &
    echo $! >"$top/starter"
    for _ in $(seq 300); do
        find_init && inside systemctl is-system-running --wait >/dev/null 2>&1 && return
        sleep 0.2
    done
    cat "$top/boot.log"
    inside systemctl list-units --failed
    return 1
}
find_init() { # the process of systemd, below those that made its namespaces
    local pid
    pid=$(cat "$top/starter")
    while [ "$(cat "/proc/$pid/comm")" != systemd ]; do
        pid=$(cat "/proc/$pid/task/$pid/children") && pid=${pid%% *} && [ -n "$pid" ] || return 1
    done
    echo "$pid" >"$top/init"
}
inside() { nsenter --all --target "$(cat "$top/init")" --wdns=/ -- env -i HOME=/root TERM=xterm PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive timeout -k 5 120 "$@"; }
user() { # user NAME SCRIPT: in a new session of that user
    inside setpriv --reuid="$1" --regid="$1" --init-groups env HOME="/home/$1" bash -euc "cd; $2"
}
installs() { apt_in inside -- install /packages/dibs.deb /packages/libdibs0.deb /packages/libdibs-dev.deb; }
has_sockets() {
    inside systemctl is-enabled dibs.socket dibs-admin.socket && inside systemctl is-active dibs.socket dibs-admin.socket &&
        ! inside systemctl is-enabled dibs.service &&
        [ "$(inside stat -c '%a %U %G' /run/dibs/dibs.sock /run/dibs/admin.sock | xargs)" = '666 root root 660 root dibs' ]
}
# shellcheck disable=SC2016 # for the shell there
moves() { # what docs/OPERATING.md says about claims that were made before the daemon was there
    user alice 'was=$(DIBS_SOCKET=none dibs get web); dibs claim --declare "$was" >/dev/null # else the name could get it by chance
        [ "$(dibs get web)" != "$was" ] && dibs release web && dibs release "$was"
        DIBS_SOCKET=none dibs snapshot export claims.json && dibs snapshot import claims.json && [ "$(dibs get web)" = "$was" ]'
}
# shellcheck disable=SC2016 # for the shell there
works() {
    user alice 'port=$(dibs get /shop/web); [ "$(dibs run -p api printenv API_PORT)" = "$(dibs get api)" ]; dibs claim --ttl 1h >/dev/null
        setsid dibs run -p job -- sleep 1000 >/dev/null 2>&1 </dev/null & # runs on while dibs is upgraded
        for _ in $(seq 100); do ! dibs ls | grep -q /job || break; sleep 0.1; done
        echo "$port" >port; dibs doctor | grep -q /run/dibs/dibs.sock' &&
        inside systemctl is-active dibs.service && runs &&
        ! user bob 'dibs claim --port "$(cat /home/alice/port)"' && # one ledger for all users
        claims >"$top/claims" && grep -q /job "$top/claims" && [ "$(wc -l <"$top/claims")" -ge 4 ]
}
# shellcheck disable=SC2016
runs() { inside bash -c 'cat /proc/[0-9]*/comm' 2>/dev/null | grep -qx dibs-serve; }
claims() { # each as which one it is: a name alone would get its port back from a lost ledger, too
    user alice 'dibs ls --all --json' | python3 -c 'import json, sys
for claim in sorted(json.load(sys.stdin), key=lambda claim: claim["id"]):
    print(*(claim[key] for key in ("id", "generation", "port", "name", "principal")))'
}
same_claims() { claims | diff "$top/claims" -; }
# shellcheck disable=SC2016
compiles() {
    user alice 'cp /usr/share/doc/libdibs-dev/examples/claim.c . && gcc -Wall -Werror -o claim claim.c $(pkg-config --cflags --libs dibs)
        [ "$(./claim example/web)" -ge 20000 ]'
}
# shellcheck disable=SC2016 # for the shell there
shows_manuals() {
    user alice 'for page in "1 dibs" "1 dibs-claim" "1 kubectl-dibs" "5 dibs.yaml" "3 dibs" "3 dibs_open"; do
            man $page | grep -q "^NAME" || { echo "no page $page"; exit 1; }
        done
        man --where --all dibs | wc -l | grep -qx 2'
}
completes() { # completes SHELL: of a user who has set up nothing but what Debian's skeleton or the shell asks for
    local command=(setpriv --reuid=alice --regid=alice --init-groups env HOME=/home/alice TERM=xterm "$1" -i)
    user alice 'echo "autoload -Uz compinit && compinit" >.zshrc'
    "$SOURCE/tests/support/complete.py" 'dibs rel' ' --help' 'Usage: dibs release' \
        nsenter --all --target "$(cat "$top/init")" --wdns=/ -- env -i PATH=/usr/bin:/bin "${command[@]}"
}
lets_operators_in() {
    ! user bob 'DIBS_SOCKET=/run/dibs/admin.sock dibs ls' 2>/dev/null || return 1
    inside usermod --append --groups dibs bob && user bob 'DIBS_SOCKET=/run/dibs/admin.sock dibs doctor | grep -q administrator'
}
# shellcheck disable=SC2016
upgrades() { # the claims stay, the sockets stay open, and the new daemon runs
    local was socket code=0
    was=$(inside systemctl show --property MainPID --value dibs.service)
    socket=$(inside stat -c %i /run/dibs/dibs.sock)
    copy_packages 99.0.0 || return 1
    # Someone asks all the time; nobody may be refused, or get a port of another ledger.
    user alice 'for i in $(seq 2000); do [ ! -e enough ] || exit 0; dibs get /shop/web || echo "exit $?"; done' >"$top/asked" 2>&1 &
    installs || code=1
    sleep 1
    user alice 'touch enough'
    wait $!
    [ "$code" -eq 0 ] && [ "$(inside dpkg-query -W -f '${Version}' dibs)" = 99.0.0 ] || return 1
    [ "$(sort -u "$top/asked")" = "$(cat "$root/home/alice/port")" ] || { sort "$top/asked" | uniq -c; return 1; }
    [ "$(wc -l <"$top/asked")" -ge 20 ] || { echo "asked $(wc -l <"$top/asked") times"; return 1; }
    [ "$(inside stat -c %i /run/dibs/dibs.sock)" = "$socket" ] || { echo "the socket is another one"; return 1; }
    [ "$(inside systemctl show --property MainPID --value dibs.service)" != "$was" ] || { echo "the old daemon runs"; return 1; }
    inside systemctl is-active dibs.service && same_claims
}
removes() { # and keeps the ledger alone
    apt_in inside -- remove dibs libdibs0 libdibs-dev || return 1
    ! inside systemctl list-units --no-legend --all 'dibs*' | grep -v not-found || return 1
    ! inside test -e /run/dibs || { inside ls -la /run/dibs; return 1; }
    inside test -f /var/lib/dibs/ledger.db && ! runs
}
comes_back() { installs && same_claims; }
purges() {
    inside bash -c 'mkdir -p /etc/dibs && echo "range: 20000-21000" >/etc/dibs/dibs.yaml' || return 1
    apt_in inside -- purge dibs libdibs0 libdibs-dev || return 1
    left && inside test -f /home/alice/.local/state/dibs/ledger.db
}

check "mmdebstrap makes a minimal system from the sources of this machine's apt" make_system
[ $tap_failed -eq 0 ] || done_testing
files >"$top/before"
check "dibs does not bring systemd into a container" has_no_systemd_dependency
check "dibs installs in a container" installs_in_a_container
check "a user of the container claims, runs and looks, without a daemon" works_in_a_container
check "a purge in a container leaves nothing" is_purged
check "the system boots with systemd" boot
check "the packages install on a system that runs" installs
check "the sockets are enabled and open, for users and for the group of operators" has_sockets
check "a user takes the claims of the own ledger along" moves
check "an ordinary user claims, runs and gets ports through the daemon, which all users share" works
check "a C program builds with pkg-config and runs" compiles
check "the manual pages of commands, files and functions are shown" shows_manuals
for shell in bash zsh fish; do check "$shell completes commands" completes $shell; done
check "members of the group dibs use the administrators' socket" lets_operators_in
check "an upgrade keeps the claims, refuses nobody and restarts the daemon" upgrades
check "a removal leaves the ledger and nothing that runs" removes
check "dibs that is installed again has the same claims" comes_back
check "a purge leaves nothing but the users' own ledgers" purges
done_testing
