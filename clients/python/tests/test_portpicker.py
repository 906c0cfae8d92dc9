# SPDX-License-Identifier: MIT
"""dibs.portpicker beside portpicker: the same checks on both."""

from __future__ import annotations

import inspect
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import dibs.portpicker

portpicker = pytest.importorskip("portpicker")
BOTH = [portpicker, dibs.portpicker]


@pytest.fixture(params=BOTH, ids=["portpicker", "dibs.portpicker"])
def module(request: pytest.FixtureRequest) -> Iterator[Any]:
    yield request.param
    for port in list(dibs.portpicker._claims):
        dibs.portpicker.return_port(port)


def public(module: ModuleType) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and value.__module__ == module.__name__
    }


def test_both_have_the_same_names_and_signatures() -> None:
    theirs, ours = public(portpicker), public(dibs.portpicker)
    assert set(theirs) == set(ours)
    assert set(portpicker.__all__) == set(dibs.portpicker.__all__)
    for name in theirs:
        if inspect.isclass(theirs[name]):
            assert theirs[name].__mro__[1:] == ours[name].__mro__[1:]
            continue
        parameters = [inspect.signature(each[name]).parameters.values() for each in (theirs, ours)]
        assert [(p.name, p.default, p.kind) for p in parameters[0]] == [
            (p.name, p.default, p.kind) for p in parameters[1]
        ]


def test_ports_are_free_and_differ(module: Any) -> None:
    ports = [module.pick_unused_port() for _ in range(20)]
    assert len(set(ports)) == 20 and all(isinstance(port, int) for port in ports)
    assert all(module.is_port_free(port) for port in ports)
    assert module.PickUnusedPort() not in ports


def test_a_port_in_use_is_not_free(module: Any) -> None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as used:
            used.bind(("127.0.0.1", 0))
            port = used.getsockname()[1]
            assert not module.is_port_free(port) and not module.IsPortFree(port)
    assert module.is_port_free(port)


def test_bind_returns_the_port_or_none(module: Any) -> None:
    port = module.bind(0, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    assert port > 0 and module.Bind(port, socket.SOCK_DGRAM, socket.IPPROTO_UDP) == port
    with socket.create_server(("127.0.0.1", port)):
        assert module.bind(port, socket.SOCK_STREAM, socket.IPPROTO_TCP) is None


def test_reserved_and_returned_ports_come_first(module: Any) -> None:
    module.add_reserved_port(19610)
    assert module.pick_unused_port() == 19610
    module.return_port(19610)
    assert module.pick_unused_port() == 19610
    module.return_port(1)  # of nobody: only a line in the log
    picked = module.pick_unused_port()
    module.return_port(picked)
    module.return_port(picked)
    assert module.pick_unused_port() != 19610


class PortServer:
    """A port server that lends one port after the other, and knows for which process."""

    def __init__(self, address: str, answers: list[bytes]) -> None:
        self.pids: list[bytes] = []
        self._answers = answers
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(address)
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        for answer in self._answers:
            connection, _ = self._socket.accept()
            with connection:
                self.pids.append(connection.recv(100))
                connection.sendall(answer)

    def close(self) -> None:
        self._thread.join(60)
        self._socket.close()


def test_a_port_server_is_asked_first(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    first = PortServer(one, [b"19611\n", b"19612\n", b"\n", b"19613\n"])
    second = PortServer(other, [b"19614\n", b"19615\n"])
    assert module.pick_unused_port(portserver_address=one) == 19611
    assert module.get_port_from_port_server(one, pid=4711) == 19612
    monkeypatch.setenv("PORTSERVER_ADDRESS", other)
    assert module.pick_unused_port(portserver_address=one) == 19614  # the first one has none
    assert module.pick_unused_port(pid=4712) == 19615
    assert module.GetPortFromPortServer(one) == 19613
    first.close()
    second.close()
    mine = b"%d\n" % os.getpid()
    assert first.pids == [mine, b"4711\n", mine, mine] and second.pids == [mine, b"4712\n"]
    module.return_port(19615)
    assert module.pick_unused_port() == 19615
    # Nobody answers any more: it goes without.
    assert module.get_port_from_port_server(one) is None and module.get_port_from_port_server("") is None
    assert module.pick_unused_port(portserver_address="@no-such-server-" + str(os.getpid())) > 1024


def test_the_module_is_a_program(module: Any) -> None:
    printed = subprocess.run(
        [sys.executable, "-m", module.__name__, str(os.getpid())], capture_output=True, text=True, check=True
    )
    assert module.is_port_free(int(printed.stdout))


# ---- what only dibs.portpicker promises ----


def test_a_picked_port_is_a_claim_of_its_process(sync_client: dibs.Client) -> None:
    mine, parents = dibs.portpicker.pick_unused_port(), dibs.portpicker.pick_unused_port(pid=os.getppid())
    gone = dibs.portpicker.pick_unused_port(pid=2**22 + 1)  # no process: as without a port server
    holders = [sync_client.list(port=port)[0].holder for port in (mine, parents, gone)]
    assert [holder and holder.pid for holder in holders] == [os.getpid(), os.getppid(), os.getpid()]
    assert {b.proto for b in sync_client.list(port=mine)[0].bindings} == {"tcp", "udp"}
    for port in (mine, parents, gone):
        dibs.portpicker.return_port(port)
        assert sync_client.list(port=port) == []


def test_without_a_port_to_be_had_there_is_an_exception(tmp_path: Path) -> None:
    script = """
import dibs.portpicker
try:
    dibs.portpicker.pick_unused_port()
except dibs.portpicker.NoFreePortFoundError as error:
    print(type(error.__cause__).__name__)
"""
    def cause(**environment: str) -> str:
        words = [sys.executable, "-c", script]
        return subprocess.run(words, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True).stdout

    with dibs.Client() as client:
        claims = client.claim_many(count=2, range="19620-19621")
        assert cause(DIBS_RANGE="19620-19621") == "Exhausted\n"
        for claim in claims:
            client.release(claim)
    assert cause(DIBS_SOCKET=str(tmp_path / "nobody")) == "Unavailable\n"
