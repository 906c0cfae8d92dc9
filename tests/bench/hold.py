# SPDX-License-Identifier: MIT
"""Measures what holding a port costs: `dibs run --as` by both ways, and a daemon that enforces claims. Enforcing
needs root; without it these rows say so."""
import json
import os
import socket
import subprocess

import daemon

ROUNDS, CALLS = 5, 4000
STREAMS, FEW = 21, 200  # an open connection is as fast as two threads are placed: many rounds, each beside a plain one
UNCHANGED = 0.95  # of the plain one in the same round, the median
INSIDE = 13000  # the number of --as; free, because plain rounds bind it, too
CLAIMED = (10, 10000)
BINDS = 20000
STATISTICS = "/proc/sys/kernel/bpf_stats_enabled"


def calls(argv, env):
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise RuntimeError(f"bench/hold: {done.stderr.strip()[:500]}")
    return json.loads(done.stdout)


def measure_as(bench, enforcing, result, report):
    """bind, connect and an open connection: plain and under each way, in turns."""
    row, spread, quantile = report
    program = [os.path.join(bench.bin, "hold"), str(INSIDE)]
    under = [bench.dibs, "-q", "run", "--as", str(INSIDE)]
    plain = {**os.environ, "DIBS_LEDGER": f"sqlite:{bench.directory}/as.db"}
    ways = {"plain": (program, plain), "seccomp": ([*under, "--as-by", "seccomp", "--", *program], plain)}
    if enforcing:
        ways["bpf"] = ([*under, "--as-by", "bpf", "--", *program], {**plain, "DIBS_SOCKET": enforcing})

    def in_turns(rounds, n):
        got = {way: [] for way in ways}
        for _ in range(rounds):
            for way, (argv, env) in ways.items():
                got[way].append(calls([*argv, str(n)], env))
        return got

    got = result["as"] = in_turns(ROUNDS, CALLS)
    for way, most in (("seccomp", 30), ("bpf", 1)):
        for what in ("bind", "connect"):
            without = quantile([one[f"{what}_ns"] for one in got["plain"]], 0.5)
            more = [(one[f"{what}_ns"] - without) / 1000 for one in got.get(way, [])]
            row(f"{what} under --as by {way}, over plain", spread(more, 1, 2) if more else "needs root", "us",
                f"<= {most}", quantile(more, 0.5) <= most if more else None)
    streams = result["as, streams"] = in_turns(STREAMS, FEW)
    speeds = {way: [one["mib_per_s"] for one in rounds] for way, rounds in streams.items()}
    for way in [way for way in ways if way != "plain"]:
        ratio = quantile([ours / without for ours, without in zip(speeds[way], speeds["plain"])], 0.5)
        row(f"an open connection under --as by {way}", spread(speeds[way], 1, 0), "MiB/s", f">= {UNCHANGED}x", ratio >= UNCHANGED,
            f"plain {spread(speeds['plain'], 1, 0)}", f"{ratio:.2f}x in the same round")


def kernel_time():
    """(nanoseconds, runs) of the programs that the newest daemon has attached."""
    found = json.loads(subprocess.run(["bpftool", "-j", "prog"], capture_output=True, check=True).stdout)
    one = max((p for p in found if p.get("name") == "bind4"), key=lambda p: p["id"])
    return one.get("run_time_ns", 0), one.get("run_cnt", 0)


def bind_claimed(ports):
    for i in range(BINDS):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", ports[i % len(ports)]))


def measure_binds(bench, row):
    """Time in the kernel for each bind of a claimed port, by the kernel's own statistics."""
    with open(STATISTICS, encoding="ascii") as file:
        before = file.read()
    for n in CLAIMED:
        server, path = bench.serve(f"enforce{n}", "--enforce")
        env = {**os.environ, "DIBS_SOCKET": path}
        with server:
            ports = []
            for first in range(0, n, 1000):
                said = subprocess.run([bench.dibs, "claim", "-n", str(min(1000, n - first)), "--ttl", "1h", "--address", "127.0.0.1",
                                       "--range", "10000-31999"], env=env, capture_output=True, text=True, check=True).stdout
                ports += map(int, said.split())
            bind_claimed(ports[:1])
            with open(STATISTICS, "w", encoding="ascii") as file:
                file.write("1")
            try:
                began = kernel_time()
                bind_claimed(ports)
                ended = kernel_time()
            finally:
                with open(STATISTICS, "w", encoding="ascii") as file:
                    file.write(before)
        each = (ended[0] - began[0]) / max(1, ended[1] - began[1])
        row(f"enforced bind, time in the kernel, {n} claims", f"{each:.0f}", "ns", "<= 300", each <= 300)


def measure_claims(bench, result, report):
    """Requests a second, half of them claims, with and without --enforce, in turns."""
    row, spread, quantile = report
    with_it, its_path = bench.serve("enforcing", "--enforce")
    without, path = bench.serve("plain")
    got = {"enforced": [], "plain": []}
    with with_it, without:
        for _ in range(ROUNDS):
            for name, at in (("enforced", its_path), ("plain", path)):
                got[name].append(bench.load("http", at, f"seconds={daemon.SECONDS}", f"connections={daemon.CONNECTIONS}"))
    result["enforced"] = got
    speeds = {name: [one["per_second"] for one in rounds] for name, rounds in got.items()}
    ratio = quantile(speeds["enforced"], 0.5) / quantile(speeds["plain"], 0.5)
    row("daemon, HTTP, enforced, half claims", spread(speeds["enforced"], 1, 0), "requests/s", ">= 0.9x", ratio >= 0.9,
        f"not enforced {spread(speeds['plain'], 1, 0)}", f"{ratio:.2f}x")


def measure(bench, result, report):
    if os.geteuid() != 0 or not os.path.exists(bench.dibs + "-bpf"):
        measure_as(bench, None, result, report)
        return
    server, path = bench.serve("as", "--enforce")
    with server:
        measure_as(bench, path, result, report)
    measure_binds(bench, report[0])
    measure_claims(bench, result, report)
