#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints a port that nobody uses just now."""
import socket

with socket.socket() as sock:
    sock.bind(("", 0))
    print(sock.getsockname()[1])
