#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Measures dibs and its peers in one interleaved run, prints a table and writes BUILD/bench.json.

usage: bench.py SOURCE BUILD          (started by tests/bench/run)

Nothing here asserts a time. A goal that is missed is printed as missed; only what could not be measured at all
makes the exit code 1. A peer that cannot be had is named, and the rest goes on.
"""
import json
import os
import platform
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import daemon
import etcd
import hold
import webhook

SOURCE, BUILD = sys.argv[1], sys.argv[2]
HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.join(BUILD, "bench")
NODE_DIR = os.path.join(BUILD, "bench-node")
DIBS = os.path.join(BUILD, "dibs")
PYTHON = "/usr/bin/python3"  # Debian's: the one that has python3-port-for
NODE = shutil.which("node")
TRUE = shutil.which("true")
CALL_ROUNDS, CALLS = 8, 400  # library and in-process peers
PROCESS_ROUNDS, PEER_EVERY, WARM_UP = 120, 4, 5
HERDS, HERD_SIZE, HERD_PORTS = 3, 32, 64
HERD_LATER_MS = 1000  # from the answer until the server that was given the port binds it
CROWD_SIZE, CROWD_RANGE = 1000, "20000-21999"

rows = []  # of the table
result = {"rows": rows, "samples": {}, "missing_peers": []}
failures = []


def quantile(samples, q):
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * q))]


def summary(samples):
    return {name: quantile(samples, q) for name, q in (("p10", 0.1), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99))}


def keep(name, samples, unit):
    result["samples"][name] = {"unit": unit, "n": len(samples), **summary(samples)}


def spread(samples, scale=1.0, digits=1):
    s = summary(samples)
    return f"{s['p50'] * scale:.{digits}f} ({s['p10'] * scale:.{digits}f}-{s['p90'] * scale:.{digits}f})"


def row(what, ours, unit, goal=None, met=None, peer="", ratio=""):
    met_text = "" if met is None else "yes" if met else "NO"
    rows.append({"what": what, "goal": goal or "", "ours": ours, "unit": unit, "peer": peer, "ratio": ratio,
                 "met": met_text})


def times(theirs, ours):
    return f"{theirs / ours:.1f}x" if ours > 0 else ""


class Worker:
    """A program that answers each line with one line."""

    def __init__(self, argv, env=None):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[0]} ended unexpectedly ({self.process.wait()})")
        return line

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- the machine and the peers ----


def first_line(*argv):
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
    except (OSError, subprocess.CalledProcessError, IndexError):
        return "unknown"


def read_text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return "unknown"


def machine(directory):
    models = re.findall(r"model name\s*: (.*)", read_text("/proc/cpuinfo"))
    dirty = subprocess.run(["git", "-C", SOURCE, "status", "--porcelain", "--untracked-files=no"],
                           capture_output=True, text=True, check=False).stdout.strip()
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "governor": read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load_before": os.getloadavg()[0],
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": platform.release(),
        "file_system": first_line("findmnt", "-n", "-o", "FSTYPE", "-T", directory),
        "compiler": first_line(os.environ.get("CC", "gcc"), "--version"),
        "sqlite": first_line("pkg-config", "--modversion", "sqlite3"),
        "node": first_line(NODE or "node", "--version"),
        "python": first_line(PYTHON, "--version"),
        "commit": first_line("git", "-C", SOURCE, "rev-parse", "--short=12", "HEAD") + ("+changes" if dirty else ""),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def find_peers():
    """Name -> the command before once, serve, herd."""
    peers = {}
    for name in ("get-port", "portfinder"):
        package = os.path.join(NODE_DIR, "node_modules", name, "package.json")
        if NODE and os.path.exists(package):
            with open(package, encoding="utf-8") as file:
                result["machine"][name] = json.load(file)["version"]
            peers[name] = [NODE, os.path.join(HERE, "peer.mjs"), name]
    if subprocess.run([PYTHON, "-c", "import port_for"], capture_output=True, check=False).returncode == 0:
        result["machine"]["port-for"] = first_line("dpkg-query", "-W", "-f", "${Version}\n", "python3-port-for")
        peers["port-for"] = [PYTHON, os.path.join(HERE, "peer.py")]
    if shutil.which("portserver"):  # a server: bench_portserver() starts it
        result["machine"]["portserver"] = first_line("dpkg-query", "-W", "-f", "${Version}\n", "python3-portpicker")
    for name in ("get-port", "portfinder", "port-for", "portserver"):
        if name not in result["machine"]:
            result["missing_peers"].append(name)
            print(f"bench: peer {name} is not here and is not measured", file=sys.stderr)
    return peers


# ---- row 1: choosing a free port in memory ----


def bench_pick():
    out = subprocess.run([os.path.join(BIN, "pick")], capture_output=True, text=True, check=True).stdout
    lines = out.splitlines()
    for name, ours, theirs in zip(lines[0::3], lines[1::3], lines[2::3]):
        ours, theirs = json.loads(ours), json.loads(theirs)
        keep(f"pick: {name}", ours, "ns")
        keep(f"pick: {name}, model of Kubernetes", theirs, "ns")
        ratio = times(quantile(theirs, 0.5), quantile(ours, 0.5))
        row(f"pick, {name}", spread(ours), "ns", "<= 100", quantile(ours, 0.5) <= 100,
            f"model of Kubernetes {spread(theirs)}", ratio)


# ---- row 2: durable claim and release in one process ----


def bench_calls(peers, directory):
    ledger = Worker([os.path.join(BIN, "ledger"), "serve", directory])
    scenes = json.loads(ledger.read())
    workers = {name: Worker(argv + ["serve"]) for name, argv in peers.items()}
    asks = [(scene, lambda n, i=i: ledger.ask(f"{i} {n}")) for i, scene in enumerate(scenes)]
    for name, worker in workers.items():
        for host in ("127.0.0.1", "*") if name != "port-for" else ("127.0.0.1",):
            asks.append((f"{name}, {host}", lambda n, w=worker, h=host: w.ask(f"{h} {n}")))
    samples = {name: [] for name, _ in asks}
    for turn in range(-1, CALL_ROUNDS):
        for i in range(len(asks)):
            name, ask = asks[(i + turn) % len(asks)]
            # get-port without an address listens on each one of the host: a few are enough.
            got = json.loads(ask(CALLS if name in scenes else CALLS // 8))
            if turn >= 0:
                samples[name] += got
    for worker in [ledger, *workers.values()]:
        worker.close()
    for name, values in samples.items():
        keep(f"call: {name}", values, "ns")
    for scene in scenes:
        address = scene.split(",")[0]
        ours = quantile(samples[scene], 0.5) / 1000
        limit = 75 if address == "*" else 60
        goal, met = f"<= {limit}", ours <= limit
        if "empty" not in scene:
            base = quantile(samples[f"{address}, empty"], 0.5) / 1000
            goal, met = f"<= 1.5x empty ({ours / base:.2f}x)", ours <= 1.5 * base
        theirs = samples.get(f"get-port, {address}")
        peer = f"get-port {spread(theirs, 1e-3, 0)}, not durable" if theirs else ""
        p99 = quantile(samples[scene], 0.99) / 1000
        ratio = times(quantile(theirs, 0.5) / 1000, ours) if theirs else ""
        row(f"claim + release, {scene}", f"{spread(samples[scene], 1e-3)} p99 {p99:.0f}", "us", goal, met, peer, ratio)
    for name in samples:
        if name not in scenes and not name.startswith("get-port"):
            row(f"in-process pick, {name}", "", "us", peer=spread(samples[name], 1e-3, 0))


# ---- rows 3 and 4: whole processes ----


def fill(path, count, address, ports):
    subprocess.run([os.path.join(BIN, "ledger"), "fill", path, str(count), address, ports], check=True)


def make_stack(directory, roles=200, ports=5):
    """A project with that many roles and ports, claimed."""
    project = os.path.join(directory, "stack")
    os.mkdir(project)
    with open(os.path.join(project, "dibs.yaml"), "w", encoding="ascii") as file:
        file.write("roles:\n")
        for role in range(roles):
            names = ", ".join(f"{{ name: p{port}, env: P{port}_PORT }}" for port in range(ports))
            file.write(f"  r{role}: {{ ports: [ {names} ] }}\n")
    return project


def commands(peers, directory):
    """Name -> (argv, every how many rounds)."""
    path = {name: os.path.join(directory, name + ".db") for name in ("cold", "named", "many", "full", "run", "stack")}
    fill(path["cold"], 1, "*", "30000-30999")
    fill(path["named"], 1, "*", "30000-30999")
    fill(path["run"], 1, "*", "30000-30999")
    fill(path["many"], 50000, "127.0.0.1", "1024-19999,32768-65535")
    fill(path["full"], 12640, "*", "20000-32767")
    on = {name: f"--ledger=sqlite:{at}" for name, at in path.items()}
    stack = make_stack(directory)
    there = [shutil.which("env"), "-C", stack, DIBS, "-q"]
    subprocess.run([*there, "up", on["stack"]], stdout=subprocess.DEVNULL, check=True)
    out = {
        "dibs claim": ([DIBS, "claim", on["cold"]], 1),
        "dibs claim, its name again": ([DIBS, "claim", on["named"], "/web"], 1),
        "dibs claim, 50,000 held": ([DIBS, "claim", on["many"]], 1),
        "dibs claim, pool 99 % full": ([DIBS, "claim", on["full"], "--ttl", "1ms"], 2),
        "dibs run true": ([DIBS, "run", on["run"], TRUE], 1),
        "dibs down, 1,000 ports": ([*there, "down", on["stack"]], PEER_EVERY),
        "dibs up, 1,000 ports": ([*there, "up", on["stack"]], PEER_EVERY),
        "dibs up again": ([*there, "up", on["stack"]], PEER_EVERY),
        "dibs env": ([*there, "env", on["stack"]], PEER_EVERY),
        "dibs env of a role": ([*there, "env", "r7", on["stack"]], PEER_EVERY),
        "env, nothing else": ([shutil.which("env"), "-C", stack, TRUE], PEER_EVERY),
        "true": ([TRUE], 1),
        "dibs version": ([DIBS, "version"], 1),
        "empty program, static": ([os.path.join(BIN, "empty-static")], 1),
        "empty program, dynamic": ([os.path.join(BIN, "empty-dynamic")], 1),
        "python3 -c 0": ([PYTHON, "-c", "0"], PEER_EVERY),
    }
    if NODE:
        out["node -e 0"] = ([NODE, "-e", "0"], PEER_EVERY)
    for name, argv in peers.items():
        out[f"{name}, whole process"] = (argv + ["once"], PEER_EVERY)
    return out


def time_processes(all_commands):
    spawn = Worker([os.path.join(BIN, "spawn")])
    names = list(all_commands)
    samples = {name: [] for name in names}
    for turn in range(-WARM_UP, PROCESS_ROUNDS):
        for i in range(len(names)):
            name = names[(i + turn) % len(names)]
            argv, every = all_commands[name]
            if turn % every:
                continue
            ns, status = map(int, spawn.ask("\t".join(argv)).split())
            if status:
                raise RuntimeError(f"'{' '.join(argv)}' ended with {status}")
            if turn >= 0:
                samples[name].append(ns / 1e6)
    spawn.close()
    for name, values in samples.items():
        keep(f"process: {name}", values, "ms")
    return samples


def bench_processes(peers, directory):
    samples = time_processes(commands(peers, directory))
    middle = {name: quantile(values, 0.5) for name, values in samples.items()}
    start = "node -e 0" if NODE else "python3 -c 0"
    for name in ("dibs claim", "dibs claim, its name again", "dibs claim, 50,000 held"):
        row(name + ", cold process", spread(samples[name], 1, 2), "ms", "<= 3.0", middle[name] <= 3.0,
            f"{start} {spread(samples[start])}", times(middle[start], middle[name]))
    row("dibs claim, pool 99 % full, cold", spread(samples["dibs claim, pool 99 % full"], 1, 2), "ms")
    over = middle["dibs run true"] - middle["true"]
    row("dibs run true, over bare true", f"{over:.2f}, whole {spread(samples['dibs run true'], 1, 2)}", "ms", "<= 3.0",
        over <= 3.0, f"true {spread(samples['true'], 1, 2)}")
    env = middle["env, nothing else"] - middle["true"]  # what brought dibs into the project's directory
    for name, limit in (("dibs up, 1,000 ports", 60), ("dibs up again", 60), ("dibs env", 12),
                        ("dibs env of a role", 12)):
        ours = middle[name] - env
        row(f"{name}, 200 roles with 5 ports", f"{ours:.1f}, with env -C {spread(samples[name])}", "ms", f"<= {limit}",
            ours <= limit)
    for name in samples:
        if name in ("node -e 0", "python3 -c 0") or name.endswith("whole process"):
            row(f"start: {name}", "", "ms", peer=spread(samples[name]),
                ratio=times(middle[name], middle["dibs claim"]))
    dynamic = middle["empty program, dynamic"] - middle["empty program, static"]
    row("start: dibs version", spread(samples["dibs version"], 1, 2), "ms",
        peer=f"empty program {middle['empty program, static']:.2f} static, "
        f"{middle['empty program, dynamic']:.2f} dynamic")
    row("dynamic linker, libc alone", f"{dynamic:.2f}", "ms")
    row("dibs version over an empty static program",
        f"{middle['dibs version'] - middle['empty program, static']:.2f}", "ms")
    bench_linker()


def bench_linker():
    """The dynamic linker's own statistics; cycles, the median of some runs."""
    totals, relocations = [], []
    for _ in range(15):
        text = subprocess.run([DIBS, "version"], capture_output=True, text=True, check=True,
                              env={**os.environ, "LD_DEBUG": "statistics"}).stderr
        total = re.search(r"total startup time in dynamic loader: (\d+) cycles", text)
        relocation = re.search(r"time needed for relocation: (\d+) cycles", text)
        if total and relocation:
            totals.append(int(total.group(1)))
            relocations.append(int(relocation.group(1)))
    if totals:
        keep("linker: total", totals, "cycles")
        row("dynamic linker of dibs, by LD_DEBUG=statistics", spread(totals, 1e-3, 0), "kcycles",
            peer=f"relocation {quantile(relocations, 0.5) / 1000:.0f} of them")


# ---- row 8: many at once ----


def free_block(size):
    """The first of `size` ports in a row on which nobody listens."""
    start = 21000
    while start + size < 32000:
        held = []
        try:
            for port in range(start, start + size):
                held.append(socket.socket())
                held[-1].bind(("127.0.0.1", port))
            return start
        except OSError:
            start += len(held)
        finally:
            for one in held:
                one.close()
    raise RuntimeError("no free block of ports for the herd")


def herd(argv, count):
    """Starts `count` processes, lets all go at once, returns (ok, distinct ports, seconds).

    The gate is one pipe that all read: closing it is the signal. They report through another one."""
    gate_in, gate_out = os.pipe()
    report_in, report_out = os.pipe()
    processes = []
    try:
        for _ in range(count):
            processes.append(subprocess.Popen(argv, stdin=gate_in, stdout=report_out))
        os.close(report_out)
        os.close(gate_in)
        with os.fdopen(report_in) as report:
            for _ in range(count):
                if report.readline() != "ready\n":
                    raise RuntimeError(f"{argv[0]}: not ready")
            began = time.monotonic()
            os.close(gate_out)
            answers = [report.readline().split() for _ in range(count)]
            took = time.monotonic() - began
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
    ok = [port for port, what in answers if what == "ok"]
    return len(ok), len(set(port for port, _ in answers if port != "0")), took


def bench_herds(peers, directory):
    first = free_block(HERD_PORTS)
    last = first + HERD_PORTS - 1
    taker = os.path.join(BIN, "taker")
    argvs = {"dibs": [taker, DIBS, f"{first}-{last}"]}
    for name, argv in peers.items():
        argvs[name] = argv + ["herd", str(first), str(last)]
    result["herd"] = {}
    for later_ms in (0, HERD_LATER_MS):
        lost = {name: [] for name in argvs}
        os.environ["HERD_LATER_MS"] = str(later_ms)
        for turn in range(HERDS):
            os.environ["DIBS_LEDGER"] = f"sqlite:{directory}/herd-{later_ms}-{turn}.db"
            for name, argv in argvs.items():
                lost[name].append(HERD_SIZE - herd(argv, HERD_SIZE)[0])
        result["herd"][f"bound after {later_ms} ms"] = lost
        theirs = ", ".join(f"{name} {'/'.join(map(str, n))}" for name, n in lost.items() if name != "dibs")
        when = f"bound {later_ms / 1000:.0f} s later" if later_ms else "bound at once"
        row(f"{HERD_SIZE} in {HERD_PORTS} ports, {when}: binds lost", "/".join(map(str, lost["dibs"])), "", "0",
            not any(lost["dibs"]), theirs)
    os.environ["HERD_LATER_MS"] = "0"
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096) if soft < 4096 else soft, hard))
    os.environ["DIBS_LEDGER"] = f"sqlite:{directory}/crowd.db"
    ok, distinct, took = herd([taker, DIBS, CROWD_RANGE], CROWD_SIZE)
    result["crowd"] = {"processes": CROWD_SIZE, "ok": ok, "distinct": distinct, "seconds": took}
    row(f"{CROWD_SIZE} behind a barrier: binds lost", f"{CROWD_SIZE - ok}, {distinct} distinct ports, {took:.1f} s", "",
        "0", ok == CROWD_SIZE)


# ---- the daemon ----


def all_of(rounds, key):
    return [one[key] for one in rounds]


def bench_http(bench):
    got = result["http"] = bench.http()
    full, rate, crowd = got["full"], got["rate"], got["crowd"]
    bad = {kind: sum(all_of(rounds, "errors")) + sum(all_of(rounds, "stalls")) for kind, rounds in got.items()}
    note = {kind: f", {n} errors or stalls" if n else "" for kind, n in bad.items()}
    speed = all_of(full, "per_second")
    row(f"daemon, HTTP, {daemon.CONNECTIONS} connections, half claims",
        f"{spread(speed, 1, 0)}, {quantile(all_of(full, 'cpu_us'), 0.5):.0f} us CPU each{note['full']}", "requests/s",
        ">= 36000", quantile(speed, 0.5) >= 36000 and not bad["full"])
    p99 = all_of(rate, "p99_us")
    row(f"daemon, HTTP at {daemon.RATE}/s, p99", f"{spread(p99, 1e-3, 2)} p50 "
        f"{quantile(all_of(rate, 'p50_us'), 0.5) / 1000:.2f}{note['rate']}", "ms", "<= 5",
        quantile(p99, 0.5) <= 5000 and not bad["rate"])
    row(f"daemon, HTTP, {daemon.CROWD} connections at once: errors or stalls",
        f"{bad['crowd']}, {quantile(all_of(crowd, 'per_second'), 0.5):.0f} requests/s, slowest "
        f"{max(all_of(crowd, 'max_us')) / 1000:.0f} ms", "", "0", not bad["crowd"])


def bench_portserver(bench):
    got = result["portserver"] = bench.portserver()

    def beside(ours, theirs, what, goal=None, nothing=None):
        speeds, others = all_of(got[ours], "per_second"), all_of(got[theirs], "per_second")
        bad = 0 if nothing else sum(one["refused"] + one["twice"] for one in got[ours])
        note = f", {quantile(all_of(got[ours], 'cpu_us'), 0.5):.0f} us CPU each"
        note += f", {bad} refused or twice" if bad else ""
        ratio = quantile(speeds, 0.5) / quantile(others, 0.5) if others else 0
        row(what, spread(speeds, 1, 0) + note, "requests/s", f">= {goal}x" if goal else None,
            ratio >= goal and not bad if goal and others else None,
            f"portserver {spread(others, 1, 0)}, not durable" if others and not nothing else "",
            f"{ratio:.1f}x" if others else "")

    beside("ours", "theirs", f"daemon, portserver protocol, {daemon.AT_A_TIME} at a time", 8)
    beside("ours alone", "theirs alone", "daemon, portserver protocol, one at a time", 2.5)
    for who, nothing in (("bare", "records nothing"), ("tcp", "tries TCP alone"),
                         ("blind", "tries no port")):
        beside(who, "theirs", f"{daemon.AT_A_TIME} at a time, a bare server that {nothing}", nothing=nothing)


def bench_memory(bench):
    got = result["memory"] = bench.memory()
    row("daemon, RSS when idle", f"{got['idle_mib']:.1f}", "MiB", "<= 8", got["idle_mib"] <= 8)
    note = f", {got['fill']['errors']} errors" if got["fill"]["errors"] else ""
    row(f"daemon, RSS with {daemon.FILL} claims", f"{got['full_mib']:.1f}{note}", "MiB", "<= 24",
        got["full_mib"] <= 24 and not note)


# ---- the report ----


def print_table():
    columns = ("what", "goal", "ours", "unit", "peer", "ratio", "met")
    heads = {**{c: c for c in columns}, "met": "met?"}
    widths = {c: max(len(str(r[c])) for r in [heads, *rows]) for c in columns}
    for r in [heads, *rows]:
        print("  ".join(str(r[c]).ljust(widths[c]) for c in columns).rstrip())
    print("\nMedians, in brackets the 10th to the 90th percentile.")


def main():
    with tempfile.TemporaryDirectory(prefix="bench-", dir=BUILD) as directory:
        for name in [name for name in os.environ if name.startswith("DIBS_")]:
            del os.environ[name]
        os.environ.update({"DIBS_SOCKET": "none", "DIBS_LEDGER_MODE": "strict", "DIBS_TIMEOUT": "120s",
                           "HOME": directory, "XDG_CONFIG_HOME": directory, "NODE_MODULES": NODE_DIR})
        result["machine"] = machine(directory)
        peers = find_peers()
        served = daemon.Bench(BUILD, directory)
        report = (row, spread, quantile)
        steps = {"choosing a port": bench_pick,
                 "calls of the library": lambda: bench_calls(peers, directory),
                 "processes": lambda: bench_processes(peers, directory),
                 "many at once": lambda: bench_herds(peers, directory),
                 "HTTP": lambda: bench_http(served),
                 "the portserver protocol": lambda: bench_portserver(served),
                 "memory": lambda: bench_memory(served),
                 "holding a port": lambda: hold.measure(served, result, report),
                 "clusters": lambda: etcd.measure(SOURCE, BUILD, directory, result, report),
                 "admissions": lambda: webhook.measure(SOURCE, BUILD, directory, result, report)}
        for number, (what, step) in enumerate(steps.items(), 1):
            if sys.stderr.isatty():
                print(f"bench: {number} of {len(steps)}, {what}", file=sys.stderr, flush=True)
            try:
                step()
            except (OSError, RuntimeError, ValueError, subprocess.SubprocessError) as error:
                failures.append(str(error))
    result["failures"] = failures
    print("; ".join(f"{key} {value}" for key, value in result["machine"].items()) + "\n")
    print_table()
    with open(os.path.join(BUILD, "bench.json"), "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    print("".join(f"bench: could not be measured: {failure}\n" for failure in failures), end="", file=sys.stderr)
    return 1 if failures else 0


sys.exit(main())
