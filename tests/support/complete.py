#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Complete a word in a real shell: complete.py TYPED REST EXPECTED SHELL...

Runs SHELL on a terminal of its own, types TYPED, presses TAB, types REST and presses Enter. Fails unless the shell then
prints EXPECTED, which only the completed line does. Tries again, because a shell that starts may drop what is typed."""
import os
import pty
import select
import signal
import sys
import time

TRIES, TRY_S = 5, 8

typed, rest, expected, command = sys.argv[1], sys.argv[2], sys.argv[3].encode(), sys.argv[4:]
pid, terminal = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm"
    os.execvp(command[0], command)


def read_until(what, seconds):
    global written
    end = time.monotonic() + seconds
    while what is None or what not in written:
        if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            return False
        try:
            written += os.read(terminal, 65536)
        except OSError:  # EIO: the shell has ended
            return False
    return True


written, is_found = b"", False
read_until(None, 1)  # its prompt
for _ in range(TRIES):
    os.write(terminal, b"\x15" + typed.encode() + b"\t" + rest.encode() + b"\r")
    is_found = read_until(expected, TRY_S)
    if is_found:
        break
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
if not is_found:
    sys.exit(f"{command}: no {expected!r} after {typed!r} TAB {rest!r}; it wrote {written!r}")
