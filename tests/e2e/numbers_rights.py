#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""An ordinary user gives numbers to a cgroup in which a process could still gain rights: it has the real ones.

usage: numbers_rights.py SOCKET      prints "real" or "replaced" for a process without and one with
PR_SET_NO_NEW_PRIVS, or the status of a refusal"""
import ctypes
import http.client
import json
import os
import socket
import sys

INSIDE, OUTSIDE = 3000, 24999
PR_SET_NO_NEW_PRIVS = 38


def post(child, numbers):
    connection = http.client.HTTPConnection("dibs")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(sys.argv[1])
    connection.request("POST", "/v1/numbers", json.dumps({"pid": child, "numbers": numbers}), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    body = json.load(answer)
    if answer.status != 200:
        sys.exit(f"{answer.status} {body['detail']}")
    return body["cgroup"]


def report(to):
    with socket.socket() as s:
        s.bind(("127.0.0.1", INSIDE))
        s.listen()
        with open("/proc/net/tcp", encoding="ascii") as all_sockets:
            ports = [int(line.split()[1].split(":")[1], 16) for line in list(all_sockets)[1:]]
    os.write(to, b"replaced\n" if OUTSIDE in ports else b"real\n")


def child(go, done):
    os.read(go, 1)
    again, wake = os.pipe()
    if os.fork() == 0:
        os.read(again, 1)
        report(1)
        os._exit(0)
    ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.write(done, b"1")
    os.read(go, 1)
    os.write(wake, b"1")
    os.wait()
    report(1)
    os._exit(0)


go_end, go = os.pipe()
done, done_end = os.pipe()
pid = os.fork()
if pid == 0:
    child(go_end, done_end)
cgroup = post(pid, [])
while True:
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
        if cgroup in f.read():
            break
os.write(go, b"1")
os.read(done, 1)
post(pid, [{"proto": "tcp", "inside": INSIDE, "outside": OUTSIDE, "own": True}])
os.write(go, b"1")
os.waitpid(pid, 0)
