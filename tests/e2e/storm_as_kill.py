#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kill `dibs run --as` and its notifier by SIGKILL at random moments, again and again.

usage: storm_as_kill.py DIBS CALLS ROUNDS WAY

The command, `CALLS churn`, uses its number all the time for a moment and then ends. Whatever was killed: the
command must end, never hang; no process of dibs may stay; and no port may stay claimed."""
import os
import random
import signal
import subprocess
import sys
import time

DIBS, CALLS, ROUNDS, WAY = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
AT_ONCE = 4
HANGS_S = 60  # a busy machine may stand still for a while
# LeakSanitizer looks from a process of its own, and waits forever if that one is killed.
WITHOUT_LEAKS = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}
seed = int(os.environ.get("DIBS_TEST_SEED") or time.time_ns() % 1000000)
chance = random.Random(seed)
print(f"# DIBS_TEST_SEED={seed}")


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return [int(child) for child in f.read().split()]
    except OSError:
        return []


def with_mark(mark):
    """The processes that have this variable: dibs, its notifier, and the command."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as f:
                if mark in f.read().split(b"\0"):
                    with open(f"/proc/{pid}/cmdline", "rb") as c:
                        found.append((int(pid), c.read().replace(b"\0", b" ").decode()))
        except OSError:
            pass
    return found


def of_process(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as f:
            return f.read().strip()
    except OSError as e:
        return e.strerror


def wait_for(run, mark, which):
    """Wait until dibs has ended; if it hangs, say where each process stands."""
    try:
        run.wait(HANGS_S)
    except subprocess.TimeoutExpired:
        for pid, command in with_mark(mark):
            state = [line for line in of_process(pid, "status").splitlines() if line.startswith(("State", "PPid", "Threads"))]
            print(f"# {pid} {command}: {state} in {of_process(pid, 'wchan')}\n{of_process(pid, 'stack')}")
        raise AssertionError(f"{which} was killed, and dibs run hangs") from None


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def one_round(number):
    mark = f"STORM_MARK={os.getpid()}.{number}"
    name, value = mark.split("=")
    run = subprocess.Popen([DIBS, "-q", "run", "--as-by", WAY, "--as", "3000", "--", CALLS, "churn", "3000"],
                           env={**os.environ, **WITHOUT_LEAKS, name: value}, stderr=subprocess.PIPE)
    return mark.encode(), run, time.monotonic() + chance.uniform(0, 0.15), chance.choice(["first", "second", "both"])


def main():
    started = []
    killed = {"first": 0, "second": 0, "both": 0}
    for number in range(ROUNDS):
        started.append(one_round(number))
        if len(started) < AT_ONCE and number < ROUNDS - 1:
            continue
        for _, run, when, which in sorted(started, key=lambda r: r[2]):
            time.sleep(max(0.0, when - time.monotonic()))
            second = children(run.pid) # none yet, or the notifier
            killed[which] += bool(second) or which == "first"
            if which in ("first", "both"):
                kill(run.pid)
            if which in ("second", "both"):
                for pid in second:
                    kill(pid)
        for mark, run, _, which in started:
            wait_for(run, mark, which)
            said = run.stderr.read().decode()
            assert "not so:" not in said, f"{which} was killed: {said}"
            end = time.monotonic() + HANGS_S
            while left := with_mark(mark):
                assert time.monotonic() < end, f"{which} was killed, and these are left: {left}"
                time.sleep(0.01)
        started.clear()
    subprocess.run([DIBS, "-q", "reap"], check=True, stdout=subprocess.DEVNULL)
    held = subprocess.run([DIBS, "ls", "--all", "--json"], check=True, stdout=subprocess.PIPE).stdout
    assert held == b"[]\n", f"ports are still claimed: {held}"
    assert min(killed.values()) > 0, f"too few were killed: {killed}"
    print(f"# killed: {killed}")


main()
