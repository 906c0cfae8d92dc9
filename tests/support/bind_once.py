#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Bind a socket, close it, and print "ok" or the name of the error.

usage: bind_once.py PORT [tcp|udp] [ADDRESS] [addr] [port] [v6only]      addr, port: SO_REUSEADDR, SO_REUSEPORT"""
import errno
import socket
import sys

port = int(sys.argv[1])
words = sys.argv[2:]
kind = socket.SOCK_DGRAM if "udp" in words else socket.SOCK_STREAM
address = next((word for word in words if "." in word or ":" in word), "::")
with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind) as s:
    if ":" in address:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int("v6only" in words))
    if "addr" in words:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if "port" in words:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        s.bind((address, port))
    except OSError as e:
        print(errno.errorcode[e.errno])
    else:
        print("ok")
