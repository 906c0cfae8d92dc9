#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs `dibs run` with signals.py on a terminal of its own: terminal.py FILE press|hangup DIBS...

press: Ctrl-C comes while dibs stands still, so that the test sees which signals dibs forwards afterwards.
hangup: the terminal goes away. FILE has the signals that the command got."""
import os
import pty
import signal
import sys
import time

report, what, command = sys.argv[1], sys.argv[2], sys.argv[3:]
LIMIT_S = 20


def wait_for(fact):
    end = time.monotonic() + LIMIT_S
    while not fact():
        if time.monotonic() > end:
            sys.exit(f"not within the time; the command got: {received()}")
        time.sleep(0.01)


def received():
    try:
        with open(report, encoding="ascii") as file:
            return file.read().split()
    except FileNotFoundError:
        return []


pid, terminal = pty.fork()
if pid == 0:
    os.execv(command[0], command)
try:
    wait_for(lambda: received() == ["ready"])
    if what == "press":
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        os.write(terminal, b"\x03")
        wait_for(lambda: "SIGINT" in received())
        os.kill(pid, signal.SIGCONT)
    else:
        os.close(terminal)
        wait_for(lambda: "SIGHUP" in received())
    os.kill(pid, signal.SIGUSR2)
    wait_for(lambda: "SIGUSR2" in received())
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
finally:
    if "SIGUSR2" not in received():
        os.killpg(pid, signal.SIGKILL)
