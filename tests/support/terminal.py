#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs `dibs run` with signals.py on a terminal of its own: terminal.py FILE press|hangup DIBS...

press: Ctrl-C comes while dibs stands still, so that what dibs hands on afterwards is seen for itself.
hangup: the terminal goes away. FILE is what the command was told."""
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
            sys.exit(f"not within the time; the command was told: {told()}")
        time.sleep(0.01)


def told():
    try:
        with open(report, encoding="ascii") as file:
            return file.read().split()
    except FileNotFoundError:
        return []


pid, terminal = pty.fork()
if pid == 0:
    os.execv(command[0], command)
try:
    wait_for(lambda: told() == ["ready"])
    if what == "press":
        os.kill(pid, signal.SIGSTOP)
        os.waitpid(pid, os.WUNTRACED)
        os.write(terminal, b"\x03")
        wait_for(lambda: "SIGINT" in told())
        os.kill(pid, signal.SIGCONT)
    else:
        os.close(terminal)
        wait_for(lambda: "SIGHUP" in told())
    os.kill(pid, signal.SIGUSR2)
    wait_for(lambda: "SIGUSR2" in told())
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
finally:
    if "SIGUSR2" not in told():
        os.killpg(pid, signal.SIGKILL)
