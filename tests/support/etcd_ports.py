#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""etcd_ports.py N FILE: two ports for each of N members, a line "CLIENT PEER" each, kept until this process ends.

They are bound and never listen: the kernel gives them to nobody, and a member can listen there, because both say
SO_REUSEADDR."""
import os
import signal
import socket
import sys


def guard():
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", 0))
    return sock


n, path = int(sys.argv[1]), sys.argv[2]
guards = [guard() for _ in range(2 * n)]
ports = [sock.getsockname()[1] for sock in guards]
with open(path + ".new", "w") as file:
    for i in range(n):
        file.write("%d %d\n" % (ports[2 * i], ports[2 * i + 1]))
os.rename(path + ".new", path)
signal.pause()
