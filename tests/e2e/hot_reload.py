#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Be the page of a Vite server: hot_reload.py PORT FILE

Loads FILE, opens the WebSocket of the client that Vite serves, changes FILE, and waits for the message about it."""
import base64
import json
import os
import re
import socket
import sys
import urllib.request

port, file = int(sys.argv[1]), sys.argv[2]


def fetch(path):
    with urllib.request.urlopen(f"http://localhost:{port}{path}", timeout=20) as answer:
        return answer.read().decode()


def exactly(length):
    data = b""
    while len(data) < length:
        more = connection.recv(length - len(data))
        assert more, "the server closed the connection"
        data += more
    return data


def message():
    head = exactly(2)
    length = head[1] & 127
    if length == 126:
        length = int.from_bytes(exactly(2), "big")
    return json.loads(exactly(length))


fetch("/")
fetch(f"/{file}")  # only what was loaded is reloaded
token = re.search(r'wsToken = "([^"]+)"', fetch("/@vite/client"))
connection = socket.create_connection(("localhost", port), timeout=20)
connection.sendall((f"GET /?token={token.group(1) if token else ''} HTTP/1.1\r\nHost: localhost:{port}\r\n"
                    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                    f"Sec-WebSocket-Protocol: vite-hmr\r\nOrigin: http://localhost:{port}\r\n"
                    f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n").encode())
answer = b""
while not answer.endswith(b"\r\n\r\n"):
    answer += exactly(1)
assert answer.startswith(b"HTTP/1.1 101"), answer
assert message()["type"] == "connected"
with open(file, "a", encoding="ascii") as out:
    out.write("// changed\n")
while True:
    said = message()
    if said["type"] in ("update", "full-reload"):
        print(said)
        break
