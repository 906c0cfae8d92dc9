# SPDX-License-Identifier: MIT
"""Measures `dibs serve`, and Google's portserver beside it: samples for bench.py, which makes rows of them."""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time

ROUNDS, SECONDS = 5, 2
CONNECTIONS, RATE_CONNECTIONS, CROWD = 64, 256, 1000
RATE = 15000  # requests a second, for the latency
BURST, AT_A_TIME, BURST_RANGE = 4000, 64, "15000-24999"
ALONE = 1000  # requests, one at a time
FILL = 50000
START_SECONDS = 10
UNLIMITED = ("--quota", "1000000", "--rate", "1000000000")  # all the load is one user's


def answers(path, request=b"GET /readyz HTTP/1.1\r\nHost: dibs\r\nConnection: close\r\n\r\n"):
    """Is there a server that answers with success?"""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(START_SECONDS)
        try:
            client.connect("\0" + path[1:] if path.startswith("@") else path)
            client.sendall(request)
            return client.recv(64).split(b" ")[1:2] == [b"200"] if request else True
        except OSError:
            return False


class Server:
    """A process that is ready when `check` says so."""

    def __init__(self, argv, check, env=None):
        said = tempfile.TemporaryFile("w+")  # not a pipe: a server that logs every request would fill it
        self.process = subprocess.Popen(argv, stdout=said, stderr=said, env={**os.environ, **(env or {})})
        deadline = time.monotonic() + START_SECONDS
        while not check():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                said.seek(0)
                raise RuntimeError(f"{' '.join(argv[:2])} does not start: {said.read(2000).strip()}")
            time.sleep(0.01)

    def rss_mib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:")) / 1024

    def cpu_seconds(self):
        """Of the whole process so far: what a noisy machine does not change much."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=START_SECONDS)


class Bench:
    def __init__(self, build, directory):
        self.bin = os.path.join(build, "bench")
        self.dibs = os.path.join(build, "dibs")
        self.directory = directory

    def serve(self, name, *more, env=None):
        at = os.path.join(self.directory, name)
        argv = [self.dibs, "serve", f"--ledger=sqlite:{at}.db", "--socket", f"{at}.sock", *UNLIMITED, *more]
        return Server(argv, lambda: answers(f"{at}.sock"), env), f"{at}.sock"

    def load(self, *argv):
        done = subprocess.run([os.path.join(self.bin, argv[0]), *map(str, argv[1:])], capture_output=True, text=True,
                              check=False)
        if not done.stdout:
            raise RuntimeError(f"bench/{argv[0]}: {done.stderr.strip()}")
        if done.stderr:
            print(done.stderr.strip()[:2000], flush=True)
        return json.loads(done.stdout)

    def load_on(self, server, *argv):
        """With the server's CPU time for each request, those of the warm-up too."""
        before = server.cpu_seconds()
        one = self.load(*argv)
        one["cpu_us"] = (server.cpu_seconds() - before) * 1e6 / one.get("sent", one["requests"])
        return one

    def http(self):
        """Full speed, a fixed rate and a crowd of connections, in turns on one daemon."""
        kinds = {"full": (f"connections={CONNECTIONS}",),
                 "rate": (f"connections={RATE_CONNECTIONS}", f"rate={RATE}"),
                 "crowd": (f"connections={CROWD}",)}
        out = {kind: [] for kind in kinds}
        server, path = self.serve("http")
        with server:
            for _ in range(ROUNDS):
                for kind, keys in kinds.items():
                    out[kind].append(self.load_on(server, "http", path, f"seconds={SECONDS}", *keys))
        return out

    def portserver(self):
        """The same burst against both, in turns, and against servers that only do what the kernel has to do for a
        request: with trying the port for TCP and UDP (bare), for TCP (tcp), and for the connection alone (blind). Both
        also one request at a time. Without the peer its lists stay empty."""
        address = {who: f"@{who}-bench-{os.getpid()}" for who in ("ours", "theirs", "bare", "tcp", "blind")}
        out = {who: [] for who in (*address, "ours alone", "theirs alone")}
        peer = shutil.which("portserver")
        first, last = BURST_RANGE.split("-")

        def bare(who, *how):
            return Server([os.path.join(self.bin, "bare"), address[who], first, last, *how],
                          lambda: answers(address[who], b""))

        with contextlib.ExitStack() as stack:
            servers = {"ours": stack.enter_context(self.serve("portserver", "--portserver", address["ours"],
                                                              env={"DIBS_RANGE": BURST_RANGE})[0]),
                       "bare": stack.enter_context(bare("bare")),
                       "tcp": stack.enter_context(bare("tcp", "tcp")),
                       "blind": stack.enter_context(bare("blind", "blind"))}
            if peer:
                servers["theirs"] = stack.enter_context(
                    Server([peer, "--portserver_static_pool", BURST_RANGE, "--portserver_address",
                            address["theirs"]], lambda: answers(address["theirs"], b"")))
            for _ in range(ROUNDS):
                for who, server in servers.items():
                    out[who].append(self.load_on(server, "portserver", address[who], BURST, AT_A_TIME))
                for who in ("ours", "theirs"):
                    if who in servers:
                        out[who + " alone"].append(self.load_on(servers[who], "portserver", address[who], ALONE, 1))
        return out

    def memory(self):
        """MiB of a daemon that has only just started, and with many claims made through it."""
        server, path = self.serve("memory")
        with server:
            idle = server.rss_mib()
            filled = self.load("http", path, f"fill={FILL}")
            return {"idle_mib": idle, "full_mib": server.rss_mib(), "fill": filled}
