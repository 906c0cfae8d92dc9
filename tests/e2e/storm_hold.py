#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kill the daemon and `dibs run` by SIGKILL at random moments, while ports are guarded, passed and reserved.

usage: storm_hold.py DIBS ROUNDS FOLDER

Runs in a network namespace of its own. After each round nothing may hang, the claims end, no port stays blocked, and
ip_local_reserved_ports has only what others put there and the port of a kept claim, whose guard is there again."""
import errno
import os
import random
import signal
import socket
import subprocess
import sys
import time

DIBS, ROUNDS, FOLDER = os.path.abspath(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
FIRST, LAST, FOREIGN = 40000, 40063, "50000"
HANGS_S = 60  # a busy machine may stand still for a while
LIST = "/proc/sys/net/ipv4/ip_local_reserved_ports"
seed = int(os.environ.get("DIBS_TEST_SEED") or time.time_ns() % 1000000)
chance = random.Random(seed)
print(f"# DIBS_TEST_SEED={seed}")
ENV = {**os.environ, "DIBS_LEDGER": f"sqlite:{FOLDER}/storm.db", "STORM_MARK": str(os.getpid()), "DIBS_SOCKET": f"{FOLDER}/storm.sock"}


def until(condition, what):
    end = time.monotonic() + HANGS_S
    while not condition():
        if time.monotonic() > end:
            raise SystemExit(f"not within {HANGS_S} s: {what()}")
        time.sleep(0.01)


def dibs(*words):
    return subprocess.run([DIBS, "-q", *words], env=ENV, cwd=FOLDER, capture_output=True, text=True)


def start_daemon():
    daemon = subprocess.Popen([DIBS, "serve", "--reserve", "--socket", ENV["DIBS_SOCKET"]], cwd=FOLDER,
                              env={**ENV, "DIBS_SOCKET": "none"}, stderr=open(f"{FOLDER}/storm.log", "a", encoding="ascii"))
    until(lambda: daemon.poll() is not None or dibs("ls").returncode == 0, lambda: "the daemon answers")
    if daemon.poll() is not None:
        raise SystemExit("the daemon does not start: " + open(f"{FOLDER}/storm.log", encoding="ascii").read()[-2000:])
    return daemon


def start_run(number):
    project = f"{FOLDER}/p{number}"
    os.makedirs(project, exist_ok=True)
    level = chance.choice([["--hold", "guard"], ["--hold", "fd"], ["--hold", "guard", "--confine"], []])
    proto = chance.choice(["tcp", "udp", "tcp+udp"])
    return subprocess.Popen([DIBS, "-q", "run", *level, "--proto", proto, "--range", f"{FIRST}-{LAST}", "--allow-ephemeral",
                             "-p", "web", "--", "sleep", f"{chance.uniform(0.01, 0.2):.3f}"],
                            cwd=project, env=ENV, stderr=subprocess.DEVNULL)


def marked():
    """The commands of this storm, and dibs, except the daemon."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if f"STORM_MARK={os.getpid()}".encode() in f.read().split(b"\0"):
                    with open(f"/proc/{pid}/cmdline", "rb") as c:
                        found.append((int(pid), c.read().replace(b"\0", b" ").decode()))
        except OSError:
            pass
    return [(pid, line) for pid, line in found if line and " serve " not in line and "dibs-serve" not in line]


def reserved():
    with open(LIST, encoding="ascii") as f:
        return f.read().strip()


def bind(port, kind):
    with socket.socket(socket.AF_INET6, kind) as s:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            s.bind(("::", port))
            return 0
        except OSError as e:
            return e.errno


def blocked():
    return [port for port in range(FIRST, LAST + 1) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM) if bind(port, kind)]


def check(kept):
    until(lambda: not marked(), lambda: f"these end: {marked()}")
    until(lambda: dibs("ls", "--all", "--names").stdout.split() == ["kept"], lambda: "the claims end: " + dibs("ls", "--all").stdout)
    until(lambda: reserved() == f"{kept},{FOREIGN}", lambda: f"reserved are {kept},{FOREIGN}, not {reserved()}")
    until(lambda: not blocked(), lambda: f"these ports are free: {blocked()}")
    until(lambda: bind(kept, socket.SOCK_STREAM) == errno.EADDRINUSE, lambda: f"{kept} has its guard again")


def main():
    with open("/proc/sys/net/ipv4/ip_local_port_range", "w", encoding="ascii") as f:
        f.write("40000 40999")
    with open(LIST, "w", encoding="ascii") as f:
        f.write(FOREIGN)
    daemon = start_daemon()
    claimed = dibs("claim", "/kept", "--port", "40500", "--keep", "--hold", "guard")
    assert claimed.returncode == 0, claimed.stderr
    for number in range(ROUNDS):
        runs = [start_run(k) for k in range(4)]
        time.sleep(chance.uniform(0, 0.15))
        victims = {"daemon": [daemon], "runs": runs, "one": [chance.choice(runs)], "all": [daemon, *runs]}[
            chance.choice(["daemon", "runs", "one", "all"])]
        for victim in victims:
            victim.send_signal(signal.SIGKILL)
        for process in runs:
            process.wait(HANGS_S)
        if daemon in victims:
            daemon.wait(HANGS_S)
            daemon = start_daemon()
        check(40500)
    daemon.terminate()
    daemon.wait(HANGS_S)
    assert reserved() == FOREIGN, reserved()
    assert not os.path.exists(f"{FOLDER}/storm.db-reserved")
    assert not bind(40500, socket.SOCK_STREAM), "the guard outlived its daemon"


main()
