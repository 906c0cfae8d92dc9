"""Bind a port as a stranger or as a server would.

usage: bind.py [--udp] [--reuse addr|port|both] [--as UID] [--hold] ADDRESS PORT

Prints "bound", or the name of the error (EADDRINUSE). A TCP socket also listens. --hold keeps the socket until
the process is ended.
"""
import argparse
import errno
import os
import socket
import sys
import time

options = argparse.ArgumentParser()
options.add_argument("--udp", action="store_true")
options.add_argument("--reuse", choices=["addr", "port", "both"], default="")
options.add_argument("--as", dest="uid", type=int)
options.add_argument("--hold", action="store_true")
options.add_argument("address")
options.add_argument("port", type=int)
given = options.parse_args()
if given.uid is not None:
    os.setresuid(given.uid, given.uid, given.uid)
s = socket.socket(socket.AF_INET6 if ":" in given.address else socket.AF_INET,
                  socket.SOCK_DGRAM if given.udp else socket.SOCK_STREAM)
if given.reuse in ("addr", "both"):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if given.reuse in ("port", "both"):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
try:
    s.bind((given.address, given.port))
    if not given.udp:
        s.listen()
except OSError as e:
    print(errno.errorcode[e.errno])
    sys.exit(1)
print("bound", flush=True)
if given.hold:
    time.sleep(600)
