#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Kill a daemon that enforces claims, `dibs run`, and its command, by SIGKILL at random moments.

usage: storm_enforce.py DIBS BIND_ONCE FOLDER KILLS     (as root)

While the daemon lives, a stranger cannot bind the port of a command that runs. While none lives, any process can bind
everything. At the end no cgroup is left, no claim, and no port that cannot be bound. DIBS_TEST_SEED repeats a run."""
import json
import os
import random
import signal
import subprocess
import sys
import time

DIBS, BIND, FOLDER, KILLS = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
SEED = int(os.environ.get("DIBS_TEST_SEED") or time.time_ns() % 1000000)
STALL_S = 60  # a busy machine may stand still for a while
dice = random.Random(SEED)
print(f"# DIBS_TEST_SEED={SEED}")
ENV = {**os.environ, "DIBS_LEDGER": f"sqlite:{FOLDER}/ledger.db", "DIBS_SOCKET": f"{FOLDER}/dibs.sock"}
ports, counts = set(), {"daemon": 0, "run": 0, "command": 0, "refused": 0}


def own_cgroup():
    """A cgroup for this process and all that it starts: others may have some of dibs' elsewhere."""
    root = next(line.split()[1] for line in open("/proc/self/mounts") if line.split()[2] == "cgroup2")
    inside = next(line[3:].strip() for line in open("/proc/self/cgroup") if line.startswith("0::"))
    path = f"{root}{inside.rstrip('/')}/storm.{os.getpid()}"
    os.mkdir(path)
    with open(f"{path}/cgroup.procs", "w") as procs:
        procs.write(str(os.getpid()))
    return path


def wait(what, condition):
    end = time.monotonic() + STALL_S
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"not within {STALL_S} s: {what}")
        time.sleep(0.02)


def start_daemon():
    for name in ("dibs.sock", "admin.sock"):
        if os.path.exists(f"{FOLDER}/{name}"):
            os.unlink(f"{FOLDER}/{name}")
    daemon = subprocess.Popen([DIBS, "serve", "--enforce", "--socket", f"{FOLDER}/dibs.sock", "--admin-socket", f"{FOLDER}/admin.sock"],
                              env=ENV, stderr=open(f"{FOLDER}/log", "a"))
    wait("the daemon answers", lambda: subprocess.run([DIBS, "ls"], env=ENV, capture_output=True).returncode == 0)
    return daemon


def start_run():
    """A command that says its port and process, leaves a child behind, and ends by itself."""
    line = f"echo $PORT $$; ( ( sleep 0.3; {BIND} $PORT addr ) & ); sleep 0.{dice.randint(0, 9)}"
    numbers = ["--as", "3000"] if dice.random() < 0.3 else ["-p", f"x{dice.randint(0, 99)}"]
    return subprocess.Popen([DIBS, "-q", "run", *numbers, "--", "sh", "-c", line], env=ENV, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)


def outside_of(pid):
    for claim in json.loads(subprocess.run([DIBS, "ls", "--all", "--json"], env=ENV, capture_output=True).stdout or "[]"):
        if claim["holder"] and claim["holder"].get("pid") == pid:
            return claim["port"]
    return None


def binds(port):
    return subprocess.run(["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", BIND, str(port), "addr"],
                          capture_output=True, text=True).stdout.strip()


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def one_kill(daemon):
    run = start_run()
    words = run.stdout.readline().split()
    if len(words) == 2:
        pid = int(words[1])
        port = outside_of(pid)
        if port:
            ports.add(port)
            answer = binds(port)
            # The command may have ended in between: then the port is nobody's.
            if answer == "ok" and outside_of(pid) == port:
                sys.exit(f"port {port} of process {pid} could be bound by a stranger")
            counts["refused"] += answer == "EADDRINUSE"
    victim = dice.choice(["daemon", "run", "command"])
    time.sleep(dice.random() * 0.05)
    counts[victim] += 1
    if victim == "daemon":
        kill(daemon.pid)
        daemon.wait()
        for port in ports:
            if binds(port) not in ("ok", ""):
                wait(f"port {port} without a daemon", lambda: binds(port) == "ok")
        daemon = start_daemon()
    elif victim == "run":
        kill(run.pid)
    elif len(words) == 2:
        kill(int(words[1]))
    run.stdout.close()
    run.wait()
    return daemon


def cgroups(path):
    return [name for name in os.listdir(path) if name.startswith("dibs-run.")]


def main():
    cgroup = own_cgroup()
    daemon = start_daemon()
    for _ in range(KILLS):
        daemon = one_kill(daemon)
    wait("all claims have ended", lambda: subprocess.run([DIBS, "ls", "--all", "--json"], env=ENV, capture_output=True,
                                                        text=True).stdout.strip() == "[]")
    wait("all cgroups are gone", lambda: not cgroups(cgroup))
    for port in ports:
        wait(f"port {port} at the end", lambda: binds(port) == "ok")
    daemon.terminate()
    daemon.wait()
    # Leave the cgroup, so that it can be removed.
    with open(f"{os.path.dirname(cgroup)}/cgroup.procs", "w") as procs:
        procs.write(str(os.getpid()))
    os.rmdir(cgroup)
    print(f"{KILLS} kills: {counts}, {len(ports)} ports")
    assert counts["refused"] > 0


main()
