#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A client of the portserver protocol: one connection for each request, a pid goes there, a port comes back.

usage: portserver.py ADDRESS ask TEXT           prints the answer as it came; TEXT may have \\n, \\r, \\xff
       portserver.py ADDRESS close              says nothing and ends its side
       portserver.py ADDRESS in-a-row N PID     N requests, one after the other
       portserver.py ADDRESS at-once N PID      N connections that all wait before the first one asks
       portserver.py ADDRESS itself N FILE      N requests for itself, one after the other; their ports go to FILE
                                                before it waits to be ended
       portserver.py ADDRESS silent N COMMAND   runs COMMAND while N connections are open and say nothing

Ports are printed one on a line; a request that got none prints an empty line.
"""
import os
import signal
import socket
import subprocess
import sys

ANSWER_SECONDS = 20


def connect(address):
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect("\0" + address[1:] if address.startswith("@") else address)
    client.settimeout(ANSWER_SECONDS)  # not before: connect() would no longer wait for a place in the queue
    return client


def answer(client):
    """All there is until the server closes."""
    text = b""
    while more := client.recv(1024):
        text += more
    client.close()
    return text.decode("ascii")


def ask(address, text):
    client = connect(address)
    try:
        client.sendall(text)
    except BrokenPipeError:  # refused before all was said
        pass
    try:
        return answer(client)
    except ConnectionResetError:  # it had not read all that was said
        return ""


def send_nothing(address):
    client = connect(address)
    client.shutdown(socket.SHUT_WR)
    return answer(client)


def show(answers):
    for text in answers:
        print(text, end="" if text.endswith("\n") else "\n")


def main():
    address, what, *rest = sys.argv[1:]
    if what == "ask":
        sys.stdout.write(ask(address, rest[0].encode("ascii").decode("unicode_escape").encode("latin-1")))
    elif what == "close":
        sys.stdout.write(send_nothing(address))
    elif what == "in-a-row":
        show(ask(address, f"{rest[1]}\n".encode()) for _ in range(int(rest[0])))
    elif what == "at-once":
        clients = [connect(address) for _ in range(int(rest[0]))]
        for client in clients:
            client.sendall(f"{rest[1]}\n".encode())
        show([answer(client) for client in clients])
    elif what == "itself":
        ports = [ask(address, f"{os.getpid()}\n".encode()) for _ in range(int(rest[0]))]
        with open(rest[1] + ".new", "w", encoding="ascii") as file:
            file.writelines(ports)
        os.rename(rest[1] + ".new", rest[1])
        signal.pause()
    elif what == "silent":
        clients = [connect(address) for _ in range(int(rest[0]))]
        return subprocess.run(rest[1:], check=False).returncode
    else:
        sys.exit(f"portserver.py: what is '{what}'?")
    return 0


sys.exit(main())
