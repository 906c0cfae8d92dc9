# SPDX-License-Identifier: MIT
"""The fixtures, in runs of pytest of their own, with pytest-xdist and without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import HAS_DAEMON, PROGRAM, command

import dibs

pytest.importorskip("xdist")

SERVERS = """
import http.server, os, threading, urllib.request
import pytest

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.text)

    def log_message(self, *args):
        pass

def serve(server, text):
    '''Answer one request with a text, and check that it came from this server.'''
    server.text = text
    port = server.server_address[1]
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
        assert answer.read() == text
    thread.join()
    with open("ports", "a") as ports:
        ports.write(f"{port}\\n")

@pytest.mark.parametrize("n", range(int(os.environ["TESTS"])))
def test_a_server(dibs_port, n):
    with http.server.HTTPServer(("127.0.0.1", dibs_port), Answer) as server:
        serve(server, f"{os.getpid()} {n}".encode())

@pytest.mark.parametrize("n", range(int(os.environ["TESTS"])))
def test_a_server_with_a_socket(dibs_listen, n):
    listener = dibs_listen(address="127.0.0.1")
    server = http.server.HTTPServer(("127.0.0.1", 0), Answer, bind_and_activate=False)
    server.socket.close()
    server.socket, server.server_address = listener.socket, listener.socket.getsockname()
    serve(server, f"{os.getpid()} socket {n}".encode())
"""


def run_pytest(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in this directory, with the plugin."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "dibs.pytest_plugin", *words],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=1200,
    )


def assert_passed(run: subprocess.CompletedProcess[str], n: int) -> None:
    assert run.returncode == 0 and f"{n} passed" in run.stdout, run.stdout + run.stderr


def test_workers_with_real_servers_never_collide() -> None:
    """As many workers as WORKERS says, each with TESTS tests on average: half with a port, half with a socket."""
    workers, tests = int(os.environ.get("WORKERS", "4")), int(os.environ.get("TESTS", "25"))
    Path("test_servers.py").write_text(SERVERS)
    assert_passed(run_pytest("-n", str(workers), TESTS=str(workers * tests // 2)), workers * tests)
    ports = Path("ports").read_text().split()
    assert len(ports) == workers * tests == len(set(ports))
    with dibs.Client() as client:
        assert [claim for claim in client.list() if claim.command and "pytest" in claim.command] == []


def test_the_fixtures_without_workers(tmp_path: Path) -> None:
    Path("dibs.yaml").write_text(
        "roles:\n"
        "  api: { ports: [ { name: http, env: PORT } ] }\n"
        "  web: { ports: [ { name: http, env: PORT } ], references: [ { env: API_PORT, from: api.http } ] }\n"
    )
    Path("test_fixtures.py").write_text(
        """
import os, subprocess
import dibs, pytest

def claims(client):
    return [claim for claim in client.list() if claim.holder and claim.holder.pid == os.getpid()]

def test_ports(dibs_port, dibs_ports, dibs_client):
    more = dibs_ports(3)
    named = dibs_ports("web", "api", proto="udp")
    assert set(named) == {"web", "api"} and len({dibs_port, *more}) == 4 and len(set(named.values())) == 2
    assert len(dibs_ports()) == 1 and len(claims(dibs_client)) == 7
    assert {claim.bindings[0].proto for claim in dibs_client.list(port=named["web"])} == {"udp"}

def test_they_are_released(dibs_client):
    assert claims(dibs_client) == []

def test_a_role(dibs_env, dibs_client):
    variables = dibs_env("web")
    assert set(variables) == {"PORT", "API_PORT"} and dibs_env("web") == variables
    assert set(dibs_env("api")) == {"PORT"} and dibs_env("api")["PORT"] == variables["API_PORT"]
    assert len(claims(dibs_client)) == 2
    with pytest.raises(dibs.NotFound):
        dibs_env("wbe")

def test_named_ports_as_dibs_run_has_them(dibs_env):
    names = ["web", "1-a", "\\xe4"]
    ours = dibs_env(names=names)
    text = subprocess.run(
        [os.environ["DIBS"], "run", *(word for name in names for word in ("-p", name)), "--", "env"],
        capture_output=True, text=True, check=True).stdout
    theirs = dict(line.split("=", 1) for line in text.splitlines() if "PORT" in line.split("=")[0])
    theirs = {name: value for name, value in theirs.items() if name not in os.environ}
    assert set(ours) == set(theirs)
    assert ours["PORT"] == ours["PORT0"] == ours["WEB_PORT"] and ours["DIBS_PORTS"].startswith("web=")

def test_the_role_is_released(dibs_client):
    assert claims(dibs_client) == []

def test_sockets(dibs_listen, dibs_client):
    listener = dibs_listen()
    assert dibs_client.assert_listening(listener.claim).pid == os.getpid()
"""
    )
    assert_passed(run_pytest(DIBS=PROGRAM), 6)


def test_options_choose_the_ports_and_their_holder() -> None:
    Path("test_options.py").write_text(
        """
import sys

def test_option(dibs_port, dibs_listen, dibs_client, request):
    for port in (dibs_port, dibs_listen().port):
        [claim] = dibs_client.list(port=port)
        print("port", port, claim.holder.kind, claim.name, file=sys.stderr)
"""
    )
    shown = run_pytest("-s", "--dibs-range=19630-19639", "--dibs-ttl=3m").stderr
    assert [line.split()[2:] for line in shown.splitlines()] == [["lease", "None"]] * 2
    assert all(19630 <= int(line.split()[1]) <= 19639 for line in shown.splitlines())
    Path("pytest.ini").write_text("[pytest]\ndibs_range = 19640-19649\ndibs_names = true\n")
    shown = run_pytest("-s").stderr
    assert all(19640 <= int(line.split()[1]) <= 19649 for line in shown.splitlines())
    names = [line.split()[3] for line in shown.splitlines()]
    assert names == [f"pytest/main/test_options.py/test_option/{name}" for name in ("port-0", "listen")]
    refused = run_pytest("--dibs-pool=no-such-pool", "--dibs-range=")
    assert refused.returncode == 1 and "no-such-pool" in refused.stdout


def test_a_name_in_the_ledger_is_made_of_any_test_id() -> None:
    Path("pytest.ini").write_text("[pytest]\ndibs_names = true\n")
    Path("test_names.py").write_text(
        """
import pytest

class TestLong:
    @pytest.mark.parametrize("text", ["plain", "a b", "a/b/c/d/e/f/g", "x" * 500, "\\u00e4\\u202e\\U0001f980", "..", "12", ""])
    def test_name(self, dibs_ports, dibs_client, text):
        ports = dibs_ports("web", "a b/" + "y" * 200)
        names = [claim.name for port in ports.values() for claim in dibs_client.list(port=port)]
        assert len(set(names)) == 2
        assert all(name.startswith("pytest/main/test_names.py/TestLong::test_name[") for name in names), names
        assert all(name.count("/") == 4 and len(name) < 320 for name in names)

def test_a_taken_name(dibs_ports, dibs_client, request):
    import os
    name = f"/pytest/main/test_names.py/{request.node.name}/web"
    dibs_client.claim(name, pid=os.getppid())
    [port] = dibs_ports("web").values()
    assert dibs_client.list(port=port)[0].name is None
    dibs_client.release(dibs_client.list(name[1:])[0], force=True)
"""
    )
    assert_passed(run_pytest(), 9)


def test_the_report_of_a_failure_names_the_ports() -> None:
    Path("test_failure.py").write_text("def test_failure(dibs_ports):\n    assert dibs_ports(2) == []\n")
    shown = run_pytest().stdout
    assert "Captured dibs setup" in shown and "ports: " in shown


def test_a_killed_worker_leaves_nothing(tmp_path: Path) -> None:
    Path("test_killed.py").write_text(
        """
import os, signal, time

def test_killed(dibs_port, dibs_listen):
    if not os.path.exists("victim"):
        with open("victim", "w") as file:
            file.write(f"{os.getpid()} {dibs_port} {dibs_listen().port}")
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(600)

def test_other(dibs_port):
    pass
"""
    )
    run = run_pytest("-n", "2")
    assert "crashed while running" in run.stdout and "1 passed" in run.stdout, run.stdout + run.stderr
    pid, *ports = map(int, Path("victim").read_text().split())
    if not HAS_DAEMON:
        command("reap")
    with dibs.Client() as client:
        for _ in range(3000):
            if not any(client.list(port=port) for port in ports):
                break
            time.sleep(0.02)
        assert not any(client.list(port=port) for port in ports)
        for port in ports:
            client.release(client.claim(port=port))


def test_the_whole_run_killed_leaves_nothing() -> None:
    Path("test_hanging.py").write_text(
        """
import os, time

def test_hanging(dibs_port):
    with open(f"hanging.{os.getpid()}", "w") as file:
        file.write(str(dibs_port))
    time.sleep(600)

def test_hanging_too(dibs_port):
    test_hanging(dibs_port)
"""
    )
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "dibs.pytest_plugin", "-n", "2"]
    with open(os.devnull, "w") as null:
        run = subprocess.Popen([sys.executable, *words], stdout=null, stderr=null, start_new_session=True)
    try:
        for _ in range(6000):
            found = [path for path in Path().glob("hanging.*") if path.read_text()]
            if len(found) == 2:
                break
            time.sleep(0.02)
        assert len(found) == 2
    finally:
        os.killpg(run.pid, signal.SIGKILL)  # its workers are of its session
        run.wait()
    for path in found:
        for _ in range(3000):  # a worker of another session ends when its controller has
            try:
                os.kill(int(path.suffix[1:]), 0)
            except ProcessLookupError:
                break
            time.sleep(0.02)
    command("reap")
    with dibs.Client() as client:
        assert [client.list(port=int(path.read_text())) for path in found] == [[], []]


def test_two_runs_at_once_have_roles_of_their_own() -> None:
    Path("dibs.yaml").write_text("roles: { web: { ports: [ { name: http, env: PORT } ] } }\n")
    Path("test_role.py").write_text(
        """
import os, time

def test_role(dibs_env):
    port = dibs_env("web")["PORT"]
    with open(f"role.{os.getpid()}", "w") as file:
        file.write(port)
    while len([name for name in os.listdir() if name.startswith("role.")]) < 2:
        time.sleep(0.01)
"""
    )
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "dibs.pytest_plugin"]
    runs = [subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    for run in runs:
        shown, _ = run.communicate(timeout=600)
        assert run.returncode == 0, shown
    ports = [path.read_text() for path in Path().glob("role.*")]
    assert len(ports) == 2 == len(set(ports))
