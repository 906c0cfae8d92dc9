# SPDX-License-Identifier: MIT
"""Measures daemons on a real etcd, and beside them the design that Kubernetes uses, on the same etcd in the same run:
samples for bench.py, which makes rows of them."""
import concurrent.futures
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time

import daemon

ROUNDS, SECONDS = 5, 2
CALLERS = (1, 8, 64)
HOSTS = 4
POOL, RANGE = "bench", "20000-32767"


class Cluster:
    """So many members on loopback."""

    def __init__(self, support, members):
        self.directory = tempfile.mkdtemp(prefix="dibs-bench-etcd.")
        path = os.path.join(self.directory, "ports")
        self.processes = [subprocess.Popen([os.path.join(support, "etcd_ports.py"), str(members), path])]
        self.wait(lambda: os.path.exists(path))
        # etcd keeps every version of a key: without compaction its quota is full after some minutes.
        compaction = ("--auto-compaction-mode=revision", "--auto-compaction-retention=1000")
        for i in range(members):
            self.processes.append(subprocess.Popen([os.path.join(support, "etcd-member"), self.directory, str(i),
                                                    *compaction]))
        with open(path, encoding="ascii") as file:
            self.url = "etcd://" + ",".join("127.0.0.1:" + line.split()[0] for line in file)

    @staticmethod
    def wait(condition):
        deadline = time.monotonic() + daemon.START_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError("etcd does not start")
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.directory)


class Bench(daemon.Bench):
    def __init__(self, source, build, directory):
        super().__init__(build, directory)
        self.support = os.path.join(source, "tests", "support")

    def on_etcd(self, cluster, name, scope):
        """A daemon that is a host of its own; what it is asked for comes from the pool."""
        at = os.path.join(self.directory, name)
        env = {"DIBS_LEDGER": f"{cluster.url}/{scope}", "DIBS_NODE": name, "DIBS_TIMEOUT": "30s"}
        argv = [self.dibs, "serve", "--socket", f"{at}.sock", "--admin-socket", f"{at}.admin", "--pool", POOL, *daemon.UNLIMITED]
        if os.geteuid() == 0:
            argv = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', name, *argv]
        return daemon.Server(argv, lambda: daemon.answers(f"{at}.sock"), env), f"{at}.sock"

    def make_pool(self, path, scope):
        """Through a daemon, whose socket that is, as its administrator."""
        env = {**os.environ, "DIBS_SOCKET": path.removesuffix(".sock") + ".admin"}
        deadline = time.monotonic() + daemon.START_SECONDS
        while subprocess.run([self.dibs, "pool", "set", POOL, "--ranges", RANGE, "--scope", scope], env=env,
                             capture_output=True, check=False).returncode:
            if time.monotonic() > deadline:
                raise RuntimeError("the pool cannot be made")

    def together(self, paths, callers):
        """The load on all daemons at once, as one."""
        keys = (f"seconds={SECONDS}", f"connections={callers // len(paths)}")
        with concurrent.futures.ThreadPoolExecutor() as executor:
            all_of = list(executor.map(lambda path: self.load("http", path, *keys), paths))
        return {key: sum(one[key] for one in all_of) for key in ("per_second", "errors", "requests")}

    def on_members(self, members, rounds=ROUNDS):
        """Each scene in turns, the reference among them: (what, callers or servers) -> rounds."""
        out = {}

        def note(what, n, one):
            out.setdefault((what, n), []).append(one)

        with Cluster(self.support, members) as cluster:
            first, own = (self.on_etcd(cluster, f"{scope}-{members}", scope) for scope in ("cluster", "host"))
            with first[0], own[0]:
                for scope, (_, path) in (("cluster", first), ("host", own)):
                    self.make_pool(path, scope)
                for _ in range(rounds):
                    for callers in CALLERS:
                        note("one daemon", callers, self.load_on(first[0], "http", first[1], f"seconds={SECONDS}",
                                                                 f"connections={callers}"))
                    note("reference", 1, self.load("etcd_ref", cluster.url + "/reference", 1, SECONDS))
                    note("host scope", 64, self.load_on(own[0], "http", own[1], f"seconds={SECONDS}", "connections=64"))
                    # Only now: all watchers of the pool get each commit, which costs etcd.
                    with contextlib.ExitStack() as stack:
                        more = [self.on_etcd(cluster, f"more{i}-{members}", "cluster") for i in range(1, HOSTS)]
                        for server, _ in more:
                            stack.enter_context(server)
                        note(f"{HOSTS} daemons", 64, self.together([first[1], *(path for _, path in more)], 64))
                    note("reference", HOSTS, self.load("etcd_ref", cluster.url + "/reference", HOSTS, SECONDS))
        return out


def measure(source, build, directory, result, table):
    """Rows for one member and three. `table`: how rows are made, and what of samples is shown."""
    row, spread, quantile = table
    if not shutil.which("etcd"):
        result["missing_peers"].append("etcd")
        print("bench: etcd is not here and is not measured", file=sys.stderr)
        return
    bench = Bench(source, build, directory)
    for members in (1, 3):
        got = bench.on_members(members)
        speed = {key: [one["per_second"] for one in rounds] for key, rounds in got.items()}
        result[f"etcd, members: {members}"] = {f"{what}, {n}": rounds for (what, n), rounds in got.items()}
        for (what, n), ours in speed.items():
            if what == "reference":
                continue
            servers = HOSTS if what.startswith(str(HOSTS)) else 1
            theirs = speed["reference", servers]
            ratio = quantile(ours, 0.5) / quantile(theirs, 0.5)
            bad = sum(one["errors"] for one in got[what, n])
            goal = 10 if servers > 1 else 20
            is_goal = n == 64 and members == 1 and what != "host scope"
            row(f"etcd, {members} member{'s' if members > 1 else ''}, {what}, callers: {n}",
                spread(ours, 1, 0) + (f", {bad} errors" if bad else ""), "requests/s",
                f">= {goal}x" if is_goal else None, ratio >= goal and not bad if is_goal else None,
                f"bitmap, compare-and-swap {spread(theirs, 1, 0)}", f"{ratio:.1f}x")
