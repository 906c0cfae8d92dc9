#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A service manager that keeps descriptors as systemd's FD store does, and a daemon that is restarted under it.

usage: fd_store.py DIBS FOLDER"""
import array
import os
import signal
import socket
import subprocess
import sys
import time

DIBS, FOLDER = os.path.abspath(sys.argv[1]), sys.argv[2]
ENV = {**os.environ, "DIBS_LEDGER": f"sqlite:{FOLDER}/store.db", "DIBS_SOCKET": f"{FOLDER}/store.sock"}
WITHIN_S = 30
manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
manager.bind(f"{FOLDER}/notify")
store = {}  # name: descriptors


def drain(wanted):
    """Take messages until one has this line."""
    manager.settimeout(WITHIN_S)
    while True:
        data, control, flags, _ = manager.recvmsg(4096, socket.CMSG_SPACE(64 * 4))
        fds = array.array("i")
        for _, _, part in control:
            fds.frombytes(part[:len(part) - len(part) % fds.itemsize])
        lines = data.decode().split("\n")
        fields = dict(line.split("=", 1) for line in lines if line)
        if "FDSTORE" in fields:
            assert fields["FDPOLL"] == "0" and fds, fields
            store.setdefault(fields["FDNAME"], []).extend(fds)
        elif "FDSTOREREMOVE" in fields:
            for fd in store.pop(fields["FDNAME"], []):
                os.close(fd)
        if wanted in lines:
            return


def start():
    """Start the daemon with all that is stored."""
    names, fds = [], []
    for name, stored in store.items():
        names += [name] * len(stored)
        fds += stored
    child = os.fork()
    if child == 0:
        above = [os.dup(fd) for fd in fds]  # out of the way of 3, 4, ...
        high = [os.dup2(fd, 200 + i) for i, fd in enumerate(above)]
        for i, fd in enumerate(high):
            os.dup2(fd, 3 + i, inheritable=True)
        os.closerange(3 + len(high), 1000)
        env = {**ENV, "DIBS_SOCKET": "none", "NOTIFY_SOCKET": f"{FOLDER}/notify", "LISTEN_PID": str(os.getpid()), "LISTEN_FDS": str(len(fds)),
               "LISTEN_FDNAMES": ":".join(names)}
        os.execve(DIBS, ["dibs", "serve", "--socket", ENV["DIBS_SOCKET"]], env if fds else {k: v for k, v in env.items() if not k.startswith("LISTEN")})
    drain("READY=1")
    return child


def stop(child, number):
    os.kill(child, number)
    os.waitpid(child, 0)


def dibs(*words, **more):
    return subprocess.run([DIBS, "-q", *words], env={**ENV, **more}, cwd=FOLDER, check=True, capture_output=True, text=True).stdout.split()


def is_free(port, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as s:
        try:
            s.bind(("127.0.0.1", port))
            return True
        except OSError:
            return False


daemon = start()
idle = int(dibs("claim", "/idle", "--keep", "--hold", "guard", "--proto", "tcp+udp")[0])
busy = int(dibs("claim", "/busy", "--keep", "--hold", "guard")[0])
drain("FDSTORE=1")
while len(store) < 2:
    drain("FDSTORE=1")
assert sorted(len(fds) for fds in store.values()) == [1, 2], store
program = socket.create_server(("127.0.0.1", busy))  # with SO_REUSEADDR

# while no daemon runs, the ports are guarded
stop(daemon, signal.SIGKILL)
assert not is_free(idle) and not is_free(idle, socket.SOCK_DGRAM)

# the next one takes the guards over, also of a port whose program listens: no new guard could be bound there
daemon = start()
assert len(store) == 2, store
program.close()
assert not is_free(busy), "there was a moment without a guard"

# an orderly restart keeps them, too
stop(daemon, signal.SIGTERM)
assert len(store) == 2 and not is_free(idle)
daemon = start()

# the end of a claim ends what is stored
dibs("release", "/idle")
drain("FDSTOREREMOVE=1")
assert len(store) == 1 and is_free(idle) and is_free(idle, socket.SOCK_DGRAM)

# and so does an end while no daemon ran
stop(daemon, signal.SIGKILL)
dibs("release", "/busy", DIBS_SOCKET="none")
assert not is_free(busy)
daemon = start()
end = time.monotonic() + WITHIN_S
while store and time.monotonic() < end:
    drain("FDSTOREREMOVE=1")
assert not store and is_free(busy)
stop(daemon, signal.SIGTERM)
