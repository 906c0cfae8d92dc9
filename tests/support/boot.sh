#!/usr/bin/env bash
# systemd as the init of namespaces of its own; see tests/e2e/systemd.bats.   usage: boot.sh FOLDER [inside]
# FOLDER is seen inside as /run/test. What systemd and its services write goes into memory: /run, /tmp, /var/lib,
# and a layer above /etc. Everything ends with the namespaces, but the control group FOLDER/cgroup names.
# With a folder FOLDER/root that is booted instead, a whole system with all that it starts by itself; see
# tests/package/install.sh.
set -eu
folder=$1
if [ "${2:-}" != inside ]; then
    # A control group of our own: systemd takes the one it is started in for the root of all.
    mount --make-rprivate /
    mkdir -p "$folder/cgroups"
    mount -t cgroup2 cgroup2 "$folder/cgroups"
    group=$(sed -n 's|^0::/||p' /proc/self/cgroup)/dibs-test.$$
    mkdir "$folder/cgroups/$group"
    echo "$group" >"$folder/cgroup"
    echo $$ >"$folder/cgroups/$group/cgroup.procs"
    exec unshare --pid --net --cgroup --uts --ipc --fork --kill-child "$0" "$folder" inside
fi
if [ -d "$folder/root" ]; then
    cd "$folder/root"
    mount --bind . .
    cd "$PWD"
    mount -t proc proc proc
    mount -t sysfs sysfs sys
    mount -t cgroup2 cgroup2 sys/fs/cgroup
    mount -t tmpfs -o mode=755 tmpfs dev
    mkdir dev/pts dev/shm
    mount -t devpts -o newinstance,ptmxmode=666,gid=5 devpts dev/pts
    ln -s pts/ptmx dev/ptmx
    ln -s /proc/self/fd dev/fd
    for node in null zero full random urandom tty; do touch dev/$node && mount --bind /dev/$node dev/$node; done
    mount -t tmpfs -o mode=755 tmpfs run
    mount -t tmpfs -o mode=1777 tmpfs tmp
    mkdir run/test
    mount --bind "$folder" run/test
    pivot_root . .
    umount -l .
    exec env -i container=test PATH="$PATH" /lib/systemd/systemd --system --log-target=null --show-status=no
fi
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /var/lib
mkdir /var/lib/run
mount -t tmpfs -o mode=755 tmpfs /var/lib/run
mkdir -p /var/lib/run/test /var/lib/run/etc.new /var/lib/run/etc.work /var/lib/run/systemd/system
mount --bind "$folder" /var/lib/run/test
mount -n --move /var/lib/run /run
rmdir /var/lib/run
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t overlay -o lowerdir=/etc,upperdir=/run/etc.new,workdir=/run/etc.work overlay /etc
mount -t cgroup2 cgroup2 /sys/fs/cgroup
printf '[Unit]\nDescription=nothing but what a test starts\nAllowIsolate=yes\n' >/run/systemd/system/test.target
cp -r /run/test/units/. /run/systemd/system/
cd /
exec env -i container=test PATH="$PATH" "$(command -v systemd || echo /lib/systemd/systemd)" --system \
    --unit=test.target --log-target=null --show-status=no
