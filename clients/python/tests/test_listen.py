# SPDX-License-Identifier: MIT
"""Claims with their sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from typing import Any

import pytest
from conftest import HAS_DAEMON, Daemon, is_root

import dibs


def test_a_port_with_its_socket_takes_connections_at_once(client: Any) -> None:
    listener = client.listen("web")
    with socket.create_connection(("127.0.0.1", listener.port)), socket.create_connection(("::1", listener.port)):
        pass
    assert listener.claim.hold == "fd" and not os.get_inheritable(listener.socket.fileno())
    assert client.assert_listening(listener.claim).pid == os.getpid()
    listener.close()
    client.release(listener.claim)


def test_each_binding_has_a_socket(client: Any) -> None:
    listener = client.listen(proto="tcp,udp", address=["127.0.0.1", "::1"])
    found = {(each.getsockname()[0], each.type) for each in listener.sockets}
    assert found == {
        (address, kind) for address in ("127.0.0.1", "::1") for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)
    }
    assert {each.getsockname()[1] for each in listener.sockets} == {listener.port}
    listener.close()
    client.release(listener.claim)


def test_the_block_ends_with_both(sync_client: dibs.Client) -> None:
    with sync_client.listen() as listener:
        pass
    assert listener.socket.fileno() == -1
    with pytest.raises(dibs.NotFound):
        sync_client.find(listener.claim)


class _Thief:
    """Binds the ports that a client claims, before the client does."""

    def __init__(self, client: dibs.Client, at_most: int) -> None:
        self.stolen: list[socket.socket] = []
        self._claim = client._verbs.claim
        self._left = at_most

    async def claim(self, *names: Any, **options: Any) -> dibs.Claim:
        claim = await self._claim(*names, **options)
        if self._left > 0:
            self._left -= 1
            stolen = socket.create_server(("", claim.port), family=socket.AF_INET6, dualstack_ipv6=True)
            self.stolen.append(stolen)
        return claim


def test_a_port_that_another_process_takes_before_the_bind_is_replaced(
    sync_client: dibs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    thief = _Thief(sync_client, 3)
    monkeypatch.setattr(sync_client._verbs, "claim", thief.claim)
    with sync_client.listen() as listener:
        assert len(thief.stolen) == 3
        for stolen in thief.stolen:
            assert stolen.getsockname()[1] != listener.port
            assert sync_client.list(port=stolen.getsockname()[1]) == []
    # One that was asked for by number is refused, and nothing stays claimed.
    thief = _Thief(sync_client, 9)
    monkeypatch.setattr(sync_client._verbs, "claim", thief.claim)
    with pytest.raises(dibs.Taken, match="^port 19510 is in use by another process$"):
        sync_client.listen(port=19510)
    assert sync_client.list(port=19510) == []
    # So is the eighth that is lost.
    with pytest.raises(dibs.Taken, match="is in use by another process"):
        sync_client.listen()
    assert len(thief.stolen) == 9
    assert all(sync_client.list(port=stolen.getsockname()[1]) == [] for stolen in thief.stolen)
    for stolen in thief.stolen:
        stolen.close()


def test_a_guard_keeps_the_port_until_it_is_bound(daemon: Daemon) -> None:
    with dibs.Client(socket=daemon.socket) as client:
        with client.claim(hold="guard") as claim, pytest.raises(OSError, match="in use"):
            socket.socket(socket.AF_INET6).bind(("::", claim.port))
        with client.listen(hold="guard") as listener:
            assert listener.claim.hold == "guard"
            socket.create_connection(("127.0.0.1", listener.port)).close()


LISTENERS = """
import dibs, socket, sys
with dibs.Client(timeout=120) as client:
    listeners = [client.listen(range="19520-19599") for _ in range(int(sys.argv[1]))]
    for listener in listeners:
        with socket.create_connection(("127.0.0.1", listener.port)) as one, listener.socket.accept()[0] as other:
            other.sendall(b"%d" % listener.port)
            assert one.recv(16) == b"%d" % listener.port
    print(*(listener.port for listener in listeners))
    sys.stdin.read()
    for listener in listeners:
        listener.close()
"""


def test_processes_that_listen_at_once_never_get_one_port_twice() -> None:
    """80 ports, 4 processes with 18 sockets each, and a stranger that asks nobody."""
    strangers: list[socket.socket] = []
    is_over = threading.Event()

    def steal() -> None:
        for port in range(19520, 19600, 12):
            if is_over.is_set():
                return
            try:
                strangers.append(socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True))
            except OSError:
                pass

    children = [
        subprocess.Popen(
            [sys.executable, "-c", LISTENERS, "18"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    thief = threading.Thread(target=steal)
    thief.start()
    ports = []
    for child in children:
        assert child.stdout
        ports += child.stdout.readline().split()
    is_over.set()
    thief.join()
    taken = [str(stranger.getsockname()[1]) for stranger in strangers]
    assert len(ports) == 72 == len(set(ports)) and not set(ports) & set(taken)
    for child in children:
        child.communicate()
        assert child.returncode == 0
    for stranger in strangers:
        stranger.close()


@pytest.mark.skipif(not is_root() or HAS_DAEMON, reason="needs root, and looks at the bind alone")
def test_a_port_that_may_not_be_bound_is_denied(sync_client: dibs.Client) -> None:
    from dibs._listen import open_sockets

    claim = sync_client.claim(address="127.0.0.1")
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        object.__setattr__(claim.bindings[0], "port", 81)
        try:
            open_sockets(claim, 1)
        except dibs.Denied:
            os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
