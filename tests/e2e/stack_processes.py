#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The processes that work in a folder: stack_processes.py list|listen FOLDER.

list: a line for each. listen: "SUBFOLDER PORT" for each TCP port on which they listen."""
import os
import sys

what, folder = sys.argv[1:]


def sockets():
    """The inode and port of each listening TCP socket."""
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as file:
            for line in file.readlines()[1:]:
                fields = line.split()
                if fields[3] == "0A":
                    found[fields[9]] = int(fields[1].rsplit(":", 1)[1], 16)
    return found


ports = sockets() if what == "listen" else {}
lines = set()
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd")
        if not cwd.startswith(folder + "/"):
            continue
        if what == "list":
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                lines.add(f"{pid} {cwd} {file.read().replace(bytes(1), b' ').decode(errors='replace')}")
            continue
        tree = "/".join(cwd.split("/")[:folder.count("/") + 2])
        for fd in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            if target.startswith("socket:[") and target[8:-1] in ports:
                lines.add(f"{tree} {ports[target[8:-1]]}")
    except OSError:
        continue  # it has ended
print("\n".join(sorted(lines)), end="\n" if lines else "")
