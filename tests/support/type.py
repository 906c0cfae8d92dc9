#!/usr/bin/env python3
"""type.py SHELL... : start an interactive shell on a terminal, and type what standard input says.

A line of standard input is sent with its escapes (\\t is the TAB key) and a newline, when the shell has printed
its prompt "ready>" again. Ends with the shell, or after 30 seconds with exit code 1 and what was shown.
"""
import os
import pty
import re
import select
import sys
import time

lines = [line.rstrip("\n").encode().decode("unicode_escape") for line in sys.stdin]
pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(TERM="xterm", COLUMNS="200", LINES="50")
    os.execvp(sys.argv[1], sys.argv[1:])
shown, end = b"", time.monotonic() + 30
prompts = 0
while time.monotonic() < end:
    if not select.select([terminal], [], [], 0.5)[0]:
        continue
    try:
        data = os.read(terminal, 65536)
    except OSError:
        data = b""
    if not data:
        os.waitpid(pid, 0)
        sys.exit(0)
    shown += data
    if len(re.findall(rb"ready> ?", shown)) > prompts and lines:
        prompts = len(re.findall(rb"ready> ?", shown))
        line = lines.pop(0)
        typed, tab, rest = line.partition("\t")
        os.write(terminal, (typed + tab).encode())
        if tab:
            time.sleep(0.3)  # a shell may drop what is typed while it completes
        os.write(terminal, (rest + "\r").encode())
        time.sleep(0.1)
os.kill(pid, 9)
sys.stdout.buffer.write(shown)
sys.exit(1)
