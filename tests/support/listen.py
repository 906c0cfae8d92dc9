#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Holds one real socket until it is ended: listen.py PORT tcp|udp|bound|connected ADDRESS READY_FILE.

`bound` is a TCP socket that does not listen; `connected` one that is connected from PORT to a server of its own.

READY_FILE appears, with the port in it, when the socket is bound (and listens)."""
import os
import socket
import sys
import time

port, proto, address, ready = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
family = socket.AF_INET6 if ":" in address else socket.AF_INET
kind = socket.SOCK_DGRAM if proto == "udp" else socket.SOCK_STREAM
with socket.socket(family, kind) as sock:
    if proto == "tcp":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((address, port))
    if proto == "tcp":
        sock.listen(16)
    if proto == "connected":
        server = socket.create_server((address, 0))
        sock.connect(server.getsockname())
    with open(ready + ".new", "w", encoding="ascii") as file:
        file.write(str(sock.getsockname()[1]))
    os.rename(ready + ".new", ready)
    time.sleep(600)
