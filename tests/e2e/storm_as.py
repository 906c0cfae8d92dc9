#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run copies of a stack of real programs with hard-coded port numbers at once, and ask each of them from outside.

usage: storm_as.py DIBS COPIES REQUESTS DIRECTORY WAY [any]

A copy is PostgreSQL (5432), redis (6379), a Node server in cluster mode (3000) that talks to both, nginx (8080)
in front of it, and a static Go server (9000). An answer must come from the copy that was asked, through all of
its parts. DIRECTORY has `other`, the Go program. With `any` there is no manifest: dibs run --as any."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

DIBS, COPIES, REQUESTS, HERE, WAY = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
IS_ANY = sys.argv[6:] == ["any"]
STACK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support", "stack")
LIMIT_S = 300
NUMBERS = {"db": 5432, "cache": 6379, "web": 3000, "proxy": 8080, "other": 9000}

POSTGRES = sorted(os.path.join("/usr/lib/postgresql", v, "bin") for v in os.listdir("/usr/lib/postgresql"))[-1]
NODE = shutil.which("node")
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"

NGINX_CONF = """daemon off; worker_processes 1; pid nginx.pid; error_log stderr crit;
events {{ worker_connections 64; }}
http {{
    access_log off; client_body_temp_path tmp1; proxy_temp_path tmp2; fastcgi_temp_path tmp3;
    uwsgi_temp_path tmp4; scgi_temp_path tmp5; keepalive_requests 100000;
    upstream web {{ server 127.0.0.1:3000; keepalive 4; }}
    server {{ listen 8080; location / {{ proxy_pass http://web; proxy_http_version 1.1;
        proxy_set_header Connection ""; }} }}
}}
"""


def commands(at, name):
    """With --as any a connection to a number that the copy has not bound yet goes to another copy's server. So nothing
    of a copy connects before the sockets of its own servers are there, which they make after they have bound."""
    cache = at + "/redis.sock"
    return {
        "db": [POSTGRES + "/postgres", "-D", at + "/data", "-k", at, "-c", "fsync=off", "-c", "shared_buffers=1MB",
               "-c", "max_connections=10", "-c", "listen_addresses=localhost", "-c", "autovacuum=off", "-c", f"cluster_name={name}"],
        "cache": ["/bin/sh", "-c", f"redis-server --save '' --dir {at} --unixsocket {cache} >/dev/null & r=$!; trap 'kill $r' TERM;"
                  f" until redis-cli -s {cache} SET me {name} >/dev/null 2>&1; do sleep 0.1; done; wait $r; wait $r"],
        "web": ["/bin/sh", "-c", f"until [ -S {cache} ] && [ -S {at}/.s.PGSQL.5432 ]; do sleep 0.1; done; exec {NODE} {STACK}/web.js"],
        "proxy": [NGINX, "-p", at, "-c", at + "/nginx.conf"],
        "other": [HERE + "/other"],
    }


def template():
    """A database for every copy; its server tells the copy's name."""
    data = HERE + "/data"
    subprocess.run([POSTGRES + "/initdb", "-D", data, "-U", "stack", "-A", "trust", "-N", "-E", "UTF8",
                    "--locale=C"], check=True, stdout=subprocess.DEVNULL)
    return data


class Copy:
    def __init__(self, number, data):
        self.name = f"copy-{number}"
        self.at = f"{HERE}/{self.name}"
        os.mkdir(self.at)
        shutil.copytree(data, self.at + "/data")
        os.chmod(self.at + "/data", 0o700)
        with open(self.at + "/nginx.conf", "w", encoding="utf-8") as f:
            f.write(NGINX_CONF.format())
        all_of_it = commands(self.at, self.name)
        roles = {role: {"ports": [{"name": "port", "as": NUMBERS[role]}], "command": all_of_it[role]}
                 for role in all_of_it}
        if not IS_ANY:
            with open(self.at + "/dibs.json", "w", encoding="utf-8") as f:
                json.dump({"group": self.name, "roles": roles}, f)
        with open(self.at + "/all.sh", "w", encoding="utf-8") as f:
            quoted = [" ".join("'" + word.replace("'", "'\\''") + "'" for word in all_of_it[role]) for role in all_of_it]
            f.write("trap 'kill $all' TERM\n" + "".join(line + ' &\nall="$all $!"\n' for line in quoted) + "wait\nwait\n")
        self.ports = {}
        self.has_failed = False

    def start(self):
        self.log = open(self.at + "/log", "wb")
        command = ["--as", "any", "--", "sh", self.at + "/all.sh"] if IS_ANY else ["--all"]
        self.process = subprocess.Popen([DIBS, "run", "--as-by", WAY] + command, cwd=self.at,
                                        env={**os.environ, "COPY": self.name}, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=subprocess.STDOUT)

    def find_ports(self, end):
        """Read dibs' notes about the ports outside."""
        while len(self.ports) < len(NUMBERS):
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"{self.name} does not say its ports")
            with open(self.at + "/log", encoding="utf-8", errors="replace") as f:
                for inside, outside in re.findall(r"port (\d+) of .* is (\d+) outside", f.read()):
                    self.ports[int(inside)] = int(outside)
            time.sleep(0.05)

    def wait_until_up(self, end):
        while True:
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.ports[8080], timeout=10)
                connection.request("GET", "/")
                answer = connection.getresponse()
                last = f"{answer.status} {answer.read()[:200]}"
                if answer.status == 200:
                    socket.create_connection(("127.0.0.1", self.ports[9000]), 5).close()
                    return
            except OSError as e:
                last = repr(e)
            if time.monotonic() > end or self.process.poll() is not None:
                raise AssertionError(f"{self.name} is not up: {last}")
            time.sleep(0.1)

    def check(self, answer, through):
        expected = {"database": self.name, "cache": self.name, "whose": self.name, "listens": 3000,
                    "accepted": 3000, "connected": [5432, 6379]}
        if answer != expected:
            raise AssertionError(f"{self.name} through {through}: {answer}")

    def ask(self):
        """Most requests to the web server itself, over one connection, and some through each other part."""
        for port, n in ((3000, REQUESTS * 7 // 10), (8080, REQUESTS * 2 // 10)):
            connection = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=60)
            for _ in range(n):
                connection.request("GET", "/")
                self.check(json.loads(connection.getresponse().read()), port)
            if not connection.sock:
                raise AssertionError(f"{self.name}: the connection was not kept")
        with socket.create_connection(("127.0.0.1", self.ports[9000]), 60) as other:
            lines = other.makefile("rw")
            for _ in range(REQUESTS // 10):
                lines.write("who?\n")
                lines.flush()
                line = lines.readline()
                if line != f"{self.name} 9000\n":
                    raise AssertionError(f"{self.name}: other says {line!r}")

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"{self.name} does not end") from None


def in_parallel(copies, work):
    failures = []

    def run(copy):
        try:
            work(copy)
        except Exception as e:  # reported below
            failures.append(f"{copy.name}: {type(e).__name__}: {e}")
            copy.has_failed = True
    threads = [threading.Thread(target=run, args=(copy,)) for copy in copies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise AssertionError("\n".join(failures[:5]))


def main():
    data = template()
    copies = [Copy(i, data) for i in range(COPIES)]
    end = time.monotonic() + LIMIT_S
    try:
        for copy in copies:
            copy.start()
        in_parallel(copies, lambda copy: copy.find_ports(end))
        everything = [port for copy in copies for port in copy.ports.values()]
        assert len(set(everything)) == len(everything), "two copies have one port outside"
        in_parallel(copies, lambda copy: copy.wait_until_up(end))
        began = time.monotonic()
        in_parallel(copies, Copy.ask)
        print(f"# {COPIES} copies answered {REQUESTS} requests each in {time.monotonic() - began:.1f} s")
    except AssertionError:
        for copy in sorted(copies, key=lambda copy: not copy.has_failed)[:3]:
            copy.log.flush()
            with open(copy.at + "/log", encoding="utf-8", errors="replace") as f:
                sys.stderr.write(f"---- {copy.name}\n{f.read()[-3000:]}\n")
        raise
    finally:
        in_parallel(copies, Copy.stop)
    held, end = [None], time.monotonic() + 30
    while held and time.monotonic() < end: # dibs itself ends when the last process of the command has
        left = subprocess.run([DIBS, "ls", "--all", "--json"], check=True, stdout=subprocess.PIPE).stdout
        held = [claim for claim in json.loads(left) if claim["holder"]]
    assert not held, f"claims are still held: {held}"


main()
