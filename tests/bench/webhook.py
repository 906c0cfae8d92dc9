# SPDX-License-Identifier: MIT
"""Measures `dibs kube webhook`: two replicas on a real etcd, over TLS, at a fixed rate; samples for bench.py."""
import os
import shutil
import subprocess
import sys

import daemon
import etcd

ROUNDS, SECONDS = 5, 3
RATE = 500  # admissions a second
REPLICAS = 2


def make_certificate(at):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-days", "2", "-keyout", f"{at}.key", "-out", f"{at}.cert", "-subj", "/CN=dibs-bench", "-addext",
                    "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    with open(os.open(f"{at}.installation", os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as f:
        f.write("id bench\nkey 0123456789abcdef0123456789abcdef\n")


class Bench(etcd.Bench):
    def webhook(self, cluster, name, certificate):
        port = int(subprocess.run([os.path.join(self.support, "free_port.py")], check=True, capture_output=True).stdout)
        argv = [self.dibs, "kube", "webhook", "--listen", f"127.0.0.1:{port}", "--tls-cert", f"{certificate}.cert",
                "--tls-key", f"{certificate}.key", "--installation", f"{certificate}.installation", "--start-port", "20000", "--port-range", "40000"]
        env = {"DIBS_LEDGER": f"{cluster.url}/hook", "DIBS_NODE": name, "DIBS_TIMEOUT": "3s"}

        def answers():
            return subprocess.run(["curl", "-sf", "--noproxy", "*", "--cacert", f"{certificate}.cert", "-o", os.devnull,
                                   f"https://127.0.0.1:{port}/readyz"], check=False).returncode == 0
        return daemon.Server(argv, answers, env), f"https://127.0.0.1:{port}/mutate?timeout=10s"

    def reviews(self):
        """Rounds of both kinds in turns: what asks for a port, and what passes."""
        certificate = os.path.join(self.directory, "webhook")
        make_certificate(certificate)
        out = {"claim": [], "pass": []}
        with etcd.Cluster(self.support, 1) as cluster:
            etcd.Cluster.wait(lambda: self.is_open(cluster))
            servers = [self.webhook(cluster, f"hook{i}", certificate) for i in range(REPLICAS)]
            try:
                for _ in range(ROUNDS):
                    for kind, rounds in out.items():
                        rounds.append(self.load("webhook", f"{certificate}.cert", RATE, SECONDS, kind,
                                                *(url for _, url in servers)))
            finally:
                for server, _ in servers:
                    server.__exit__()
        return out

    @staticmethod
    def is_open(cluster):
        return subprocess.run(["curl", "-sf", "--noproxy", "*", "-o", os.devnull,
                               cluster.url.replace("etcd:", "http:") + "/health"], check=False).returncode == 0


def measure(source, build, directory, result, table):
    row, spread, quantile = table
    if not shutil.which("etcd"):
        print("bench: etcd is not here, so the webhook is not measured", file=sys.stderr)
        return
    got = result["webhook"] = Bench(source, build, directory).reviews()
    for kind, what, goal_ms in (("claim", "pods with a port", 10), ("pass", "pods that pass", 1)):
        p99 = [one["p99_us"] for one in got[kind]]
        p50 = [one["p50_us"] for one in got[kind]]
        errors = sum(one["errors"] for one in got[kind])
        row(f"webhook, {REPLICAS} replicas on etcd, {RATE}/s, {what}, p99",
            f"{spread(p99, 1e-3, 2)} p50 {quantile(p50, 0.5) / 1000:.2f}" + (f", {errors} errors" if errors else ""),
            "ms", f"<= {goal_ms}", quantile(p99, 0.5) <= 1000 * goal_ms and not errors)
