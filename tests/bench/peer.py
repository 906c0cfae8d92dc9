#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""port-for, asked in the three ways that dibs is asked; see peer.mjs.

usage: peer.py once | serve | herd FIRST LAST
"""
import json
import os
import socket
import sys
import time

import port_for


def serve():
    for line in sys.stdin:
        count = int(line.split()[1])
        samples = []
        for _ in range(count):
            began = time.perf_counter_ns()
            port_for.select_random()
            samples.append(time.perf_counter_ns() - began)
        print(json.dumps(samples), flush=True)


def herd(first, last):
    os.write(1, b"ready\n")
    while os.read(0, 1):
        pass
    try:
        port = port_for.select_random(set(range(first, last + 1)))
    except port_for.PortForException:
        os.write(1, b"0 none\n")
    else:
        time.sleep(int(os.environ["HERD_LATER_MS"]) / 1000)
        server = socket.socket()
        try:
            server.bind(("127.0.0.1", port))
            server.listen()
            os.write(1, b"%d ok\n" % port)
        except OSError:
            os.write(1, b"%d taken\n" % port)
    time.sleep(120)


if sys.argv[1] == "serve":
    serve()
elif sys.argv[1] == "herd":
    herd(int(sys.argv[2]), int(sys.argv[3]))
else:
    print(port_for.select_random())
