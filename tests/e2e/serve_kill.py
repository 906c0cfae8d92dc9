#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Kills a daemon again and again while clients claim and release; in the end nothing that was answered is lost.

usage: serve_kill.py DIBS SOCKET ROUNDS SEED        (DIBS_LEDGER names the ledger)
"""
import http.client
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time

dibs, path, rounds, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
CLIENTS = 4
chance = random.Random(seed)


class Connection(http.client.HTTPConnection):
    def __init__(self):
        super().__init__("dibs")

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(path)

    def ask(self, method, target, body=None):
        self.request(method, target, json.dumps(body) if body is not None else None)
        answer = self.getresponse()
        return answer.status, json.loads(answer.read())


def start():
    daemon = subprocess.Popen([dibs, "serve", "--socket", path])
    end = time.monotonic() + 20
    while True:
        try:
            Connection().ask("GET", "/v1/daemon")
            return daemon
        except OSError:
            if daemon.poll() is not None or time.monotonic() > end:
                sys.exit(f"seed {seed}: the daemon does not start")
            time.sleep(0.005)


class Client(threading.Thread):
    """Claims, and releases every third claim again. Its answers are in `held` and `ended`, what it asked for
    without an answer in `unsure`."""

    def __init__(self, number):
        super().__init__()
        self.number, self.n = number, 0
        self.held, self.ended, self.unsure, self.wrong = {}, set(), set(), []
        self.was_answered = threading.Event()

    def run(self):
        connection = Connection()
        try:
            while True:
                self.n += 1
                name = f"{self.number}/{self.n}"
                self.unsure.add(name)
                status, claim = connection.ask("POST", "/v1/claims", {"name": name, "keep": True, "holder": None})
                if status != 201:
                    self.wrong.append((name, status, claim))
                    return
                self.held[name] = claim
                if self.n % 3 == 0:
                    status, answer = connection.ask("DELETE", "/v1/claims/" + claim["token"])
                    if (status, answer) != (200, {"released": 1}):
                        self.wrong.append((name, status, answer))
                        return
                    del self.held[name]
                    self.ended.add(name)
                self.unsure.remove(name)
                self.was_answered.set()
        except (OSError, http.client.HTTPException, ValueError):
            self.held.pop(name, None)  # it is among the unsure


print(f"seed {seed}")
clients = []
for n in range(rounds):
    daemon = start()
    young = [Client(n * CLIENTS + i) for i in range(CLIENTS)]
    for client in young:
        client.start()
    young[0].was_answered.wait(20)
    time.sleep(chance.random() * 0.05)
    daemon.kill()
    daemon.wait()
    for client in young:
        client.join(30)
    clients += young

daemon = start()
present, after = {}, 0
while after is not None:
    page = Connection().ask("GET", f"/v1/claims?after={after}&limit=1000")[1]
    present.update((claim["name"], claim) for claim in page["claims"])
    after = page["next"]
wrong = [w for client in clients for w in client.wrong]
for client in clients:
    for name, claim in client.held.items():
        now = present.get(name)
        if not now or (now["id"], now["port"]) != (claim["id"], claim["port"]):
            wrong.append((name, "was answered and is lost", claim, now))
    wrong += [(name, "was released and is there") for name in client.ended if name in present]
known = {name for client in clients for name in (*client.held, *client.unsure)}
wrong += [(name, "was never asked for") for name in present if name not in known]
ports = [claim["port"] for claim in present.values()]
if len(ports) != len(set(ports)):
    wrong.append("a port was given twice")
daemon.terminate()
if daemon.wait() != 0:
    wrong.append("the last daemon did not end well")
held = sum(len(client.held) for client in clients)
print(f"{rounds} deaths, {held} claims, {sum(len(c.ended) for c in clients)} released, {sum(len(c.unsure) for c in clients)} not answered")
for w in wrong[:20]:
    print(w)
sys.exit(1 if wrong or held < rounds else 0)
