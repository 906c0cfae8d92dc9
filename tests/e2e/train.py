#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Train nothing, but meet as PyTorch's ranks do: rank 0 listens on MASTER_PORT, the others connect, and each uses the
ports from RING_BASE on for itself, or RANK_PORT alone."""
import os
import socket
import sys
import time

rank, world, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
base = int(os.environ.get("RING_BASE") or os.environ["RANK_PORT"])
size = int(os.environ.get("RING_SIZE", "8")) if "RING_BASE" in os.environ else 1
ring = [socket.create_server(("localhost", base + i)) for i in range(size)]
os.write(1, f"ring {base}\n".encode())  # at once: the other ranks write, too
LIMIT_S = 30
end = time.monotonic() + LIMIT_S
if rank == 0:
    with socket.create_server((os.environ["MASTER_ADDR"], port)) as server:
        server.settimeout(LIMIT_S)
        others = [server.accept()[0] for _ in range(world - 1)]
        met = {0} | {int(other.recv(16)) for other in others}
        assert met == set(range(world)), met
        os.write(1, f"{len(met)} ranks met\n".encode())  # the first rank that ends, ends all
        for other in others:
            other.sendall(b"go")
        for other in others:
            other.recv(1)  # its end
else:
    while True:
        try:
            master = socket.create_connection((os.environ["MASTER_ADDR"], port), timeout=LIMIT_S)
            break
        except OSError:
            if time.monotonic() > end:
                sys.exit("no master")
            time.sleep(0.05)
    master.sendall(str(rank).encode())
    assert master.recv(2) == b"go"
