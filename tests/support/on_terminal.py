#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs a command on a terminal of its own, and prints what it writes there: on_terminal.py COLUMNS COMMAND...

Exits with the command's code. Lines end as in a file; all else is as the terminal gets it."""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

LIMIT_S = 60

columns, command = int(sys.argv[1]), sys.argv[2:]
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.execvp(command[0], command)
written = b""
end = time.monotonic() + LIMIT_S
while True:
    if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
        os.kill(pid, signal.SIGKILL)
        sys.exit(f"not within the time: {command}; it wrote {written!r}")
    try:
        piece = os.read(terminal, 65536)
    except OSError:  # EIO: the last process has closed it
        break
    if not piece:
        break
    written += piece
sys.stdout.buffer.write(written.replace(b"\r\n", b"\n"))
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
