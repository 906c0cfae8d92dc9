#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""relay.py UPSTREAM_PORT: a relay on loopback that loses messages on request.

Says its port, then takes commands of one letter and answers each with a line. The next Txn that changes something
    a   is done, and its answer lost
    r   is lost itself
    h   is held back, and the caller's connection closed;   g   lets it go, and says what was answered
    w   as a, and all that comes then waits for o
    d   is not meant: watches get no more changes and no error
    c   cuts all connections and lets nobody in until o
    ?   says how many were lost"""
import socket
import sys
import threading

upstream = int(sys.argv[1])
lock = threading.Lock()
opened = threading.Event()
opened.set()
state = {"mode": "", "is_cut": False, "lost": 0, "held": b"", "is_deaf": False}
connected = set()


def end(*socks):
    for sock in socks:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def lose(*socks):
    with lock:
        state["lost"] += 1
    end(*socks)


def read_request(sock, rest):
    """One whole request, and what was read behind it; b"" at the end."""
    while b"\r\n\r\n" not in rest:
        piece = sock.recv(65536)
        if not piece:
            return b"", b""
        rest += piece
    head = rest.index(b"\r\n\r\n") + 4
    length = 0
    for line in rest[:head].split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(rest) < head + length:
        rest += sock.recv(65536)
    return rest[: head + length], rest[head + length :]


def take_mode(request):
    with lock:
        mode = state["mode"] if b"/v3/kv/txn" in request[:64] and b"equest_put" in request else ""
        if mode:
            state["mode"] = ""
        if mode == "w":
            opened.clear()
    return mode


def ask(client, server, dropped, watching):
    rest = b""
    try:
        while True:
            request, rest = read_request(client, rest)
            if not request:
                break
            if b"/v3/watch" in request[:64]:
                watching.set()
            mode = take_mode(request)
            if mode == "h":
                state["held"] = request
            if mode in ("h", "r"):
                lose(client, server)
                return
            if mode:
                dropped.set()
            else:
                opened.wait(30)
            server.sendall(request)
    except OSError:
        pass
    end(client, server)


def answer(client, server, dropped, watching):
    try:
        piece = server.recv(65536)
        while piece:
            if dropped.is_set():
                lose(client, server)
                return
            if not (watching.is_set() and state["is_deaf"]):
                client.sendall(piece)
            piece = server.recv(65536)
    except OSError:
        pass
    end(client, server)


def serve(listening):
    for _ in range(100000):
        client, _ = listening.accept()
        if state["is_cut"]:
            client.close()
            continue
        server = socket.create_connection(("127.0.0.1", upstream))
        connected.update((client, server))
        flags = (threading.Event(), threading.Event())
        for way in (ask, answer):
            threading.Thread(target=way, args=(client, server, *flags), daemon=True).start()


def let_go():
    with socket.create_connection(("127.0.0.1", upstream)) as server:
        server.sendall(state["held"].replace(b"HTTP/1.1\r\n", b"HTTP/1.0\r\n", 1))
        text = b""
        piece = server.recv(65536)
        while piece:
            text += piece
            piece = server.recv(65536)
    return text.split(b"\r\n\r\n", 1)[-1].decode().strip().replace("\n", " ")


with socket.socket() as listening:
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)
    threading.Thread(target=serve, args=(listening,), daemon=True).start()
    print(listening.getsockname()[1], flush=True)
    command = sys.stdin.read(1)
    while command:
        said = "ok"
        if command == "?":
            said = str(state["lost"])
        elif command == "g":
            said = let_go()
        elif command == "d":
            state["is_deaf"] = True
        elif command == "c":
            state["is_cut"] = True
            end(*connected)
        elif command == "o":
            state["is_cut"] = False
            opened.set()
        else:
            with lock:
                state["mode"] = command
        print(said, flush=True)
        command = sys.stdin.read(1)
