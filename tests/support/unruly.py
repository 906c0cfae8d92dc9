#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""unruly.py UPSTREAM_PORT SEED FILE: a proxy on loopback that spoils answers; its port goes into FILE.

Of each piece that the server says it cuts the connection within, delays, repeats (at once or a little later), garbles, or
passes it on. What the client says is cut at times, too. Always the same for a seed, as far as the pieces are."""
import os
import random
import socket
import sys
import threading
import time

upstream, seed, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
PIECE = 65536


def end(*socks):
    for sock in socks:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def spoil(piece, rng, to):
    """False: it is over."""
    what = rng.random()
    at = rng.randrange(len(piece) + 1)
    if what < 0.08:
        to.sendall(piece[:at])
        return False
    if what < 0.16:
        to.sendall(piece[:at])
        time.sleep(rng.random() * 0.05)
        to.sendall(piece[at:])
        return True
    to.sendall(piece)
    if what < 0.24:
        time.sleep(rng.choice((0, 0, 0.002, 0.01)))
        to.sendall(piece)
    elif what < 0.27:
        to.sendall(bytes(rng.randrange(256) for _ in range(rng.randrange(1, 40))))
    return True


def answer(server, client, rng):
    try:
        piece = server.recv(PIECE)
        while piece and spoil(piece, rng, client):
            piece = server.recv(PIECE)
    except OSError:
        pass
    end(server, client)


def ask(client, server, rng):
    try:
        piece = client.recv(PIECE)
        while piece:
            if rng.random() < 0.05:
                server.sendall(piece[: rng.randrange(len(piece) + 1)])
                break
            server.sendall(piece)
            piece = client.recv(PIECE)
    except OSError:
        pass
    end(server, client)


with socket.socket() as listening:
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)
    with open(path + ".new", "w") as file:
        file.write("%d\n" % listening.getsockname()[1])
    os.rename(path + ".new", path)
    for number in range(100000):
        client, _ = listening.accept()
        try:
            server = socket.create_connection(("127.0.0.1", upstream))
        except OSError:
            client.close()
            continue
        for way, args in ((ask, (client, server)), (answer, (server, client))):
            rng = random.Random("%d %d %s" % (seed, number, way.__name__))
            threading.Thread(target=way, args=(*args, rng), daemon=True).start()
