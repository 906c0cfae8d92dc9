#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Start two ranks of train.py, as a launcher does: MASTER_PORT is the first of nine ports, four for each rank follow."""
import os
import subprocess
import sys

RANKS, RING_SIZE = 2, 4
base = int(os.environ["MASTER_PORT"])
ranks = []
for rank in range(RANKS):
    numbers = {"RANK": rank, "WORLD_SIZE": RANKS, "RING_BASE": base + 1 + rank * RING_SIZE, "RING_SIZE": RING_SIZE}
    ranks.append(subprocess.Popen([sys.executable, "train.py"], env={
        **os.environ, "MASTER_ADDR": "localhost", **{name: str(number) for name, number in numbers.items()}}))
sys.exit(max(rank.wait() for rank in ranks))
