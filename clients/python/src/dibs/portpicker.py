# SPDX-License-Identifier: MIT
"""The interface of Google's portpicker 1.5.2, with ports that dibs claims.

    import dibs.portpicker as portpicker

A port server that the caller or PORTSERVER_ADDRESS names is asked first, as there. Instead of looking for a
port that is free at the moment, pick_unused_port() then claims one: no other process that asks dibs gets it
as long as the process lives that it was picked for.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Sequence

from ._client import Client
from .errors import Denied, Error, NotFound, Usage
from .records import Claim

__all__ = (
    "bind",
    "is_port_free",
    "pick_unused_port",
    "return_port",
    "add_reserved_port",
    "get_port_from_port_server",
)

_KINDS = ((socket.SOCK_STREAM, socket.IPPROTO_TCP), (socket.SOCK_DGRAM, socket.IPPROTO_UDP))

_lock = threading.Lock()
_client: Client | None = None
_spare: set[int] = set()  # reserved, or of a port server and returned: picked first
_lent: set[int] = set()  # of a port server, or reserved, and picked
_claims: dict[int, Claim] = {}  # of dibs, and picked


class NoFreePortFoundError(Exception):
    """There is no port to be had."""


def add_reserved_port(port: int) -> None:
    """Add a port that the caller has from elsewhere: the next pick returns it."""
    with _lock:
        _spare.add(port)


def return_port(port: int) -> None:
    """Give a picked port back: a later pick may return it. The claim of a port of dibs ends."""
    with _lock:
        claim = _claims.pop(port, None)
        if claim is None and port in _lent:
            _lent.remove(port)
            _spare.add(port)
            return
    if claim is not None:
        _dibs().release(claim)
    elif port in _spare:
        logging.info("port %s was returned already", port)
    else:
        logging.info("port %s was returned, but it was not picked here", port)


def bind(port: int, socket_type: int, socket_proto: int) -> int | None:
    """Return the port if a socket of this type can be bound to it on IPv6 and IPv4, as far as the kernel has
    them, else None. Port 0 lets the kernel choose one."""
    has_family = False
    for family in (socket.AF_INET6, socket.AF_INET):
        try:
            probe = socket.socket(family, socket_type, socket_proto)
        except OSError:
            continue
        has_family = True
        with probe:
            try:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("", port))
                if socket_type == socket.SOCK_STREAM:
                    probe.listen(1)
                port = probe.getsockname()[1]
            except OSError:
                return None
    return port if has_family else None


def is_port_free(port: int) -> bool:
    """Can TCP and UDP sockets be bound to the port now?"""
    return all(bind(port, kind, proto) for kind, proto in _KINDS)


def pick_unused_port(pid: int | None = None, portserver_address: str | None = None) -> int:
    """Return a port for TCP and UDP that is claimed for a process: `pid`, by default the calling one.

    A reserved or returned port comes first, then one of the port server at `portserver_address`, then one
    of that which PORTSERVER_ADDRESS names, then one of dibs. Raises NoFreePortFoundError.
    """
    with _lock:
        if _spare:
            port = _spare.pop()
            _lent.add(port)
            return port
    for address in (portserver_address, os.environ.get("PORTSERVER_ADDRESS")):
        found = get_port_from_port_server(address, pid=pid) if address else None
        if found:
            return found
    try:
        claim = _claim(pid)
    except Error as error:
        raise NoFreePortFoundError(str(error)) from error
    with _lock:
        _claims[claim.port] = claim
    return claim.port


def get_port_from_port_server(portserver_address: str | None, pid: int | None = None) -> int | None:
    """Ask a port server for a port: None when it does not answer, or has none. The address is a path, or
    begins with @ in the abstract namespace."""
    if not portserver_address:
        return None
    address = "\0" + portserver_address[1:] if portserver_address[0] == "@" else portserver_address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
            server.connect(address)
            server.sendall(b"%d\n" % (os.getpid() if pid is None else pid))
            answer = server.recv(1024)
    except OSError as error:
        print(f"the port server {portserver_address} does not answer: {error}", file=sys.stderr)
        return None
    try:
        port = int(answer.split(b"\n")[0])
    except ValueError:
        print(f"the port server {portserver_address} has no port", file=sys.stderr)
        return None
    with _lock:
        _lent.add(port)
    return port


def _dibs() -> Client:
    global _client
    with _lock:
        if _client is None:
            _client = Client()
        return _client


def _claim(pid: int | None) -> Claim:
    """Claim for that process, else for the calling one: without a port server the pid has no meaning there."""
    client = _dibs()
    if pid is not None and pid != os.getpid():
        try:
            return client.claim(proto="tcp,udp", pid=pid)
        except (Denied, NotFound, Usage) as error:
            logging.info("the port is held by this process, not by %s: %s", pid, error)
    return client.claim(proto="tcp,udp")


# The names that portpicker had before.
Bind = bind
IsPortFree = is_port_free
PickUnusedPort = pick_unused_port
GetPortFromPortServer = get_port_from_port_server


def main(argv: Sequence[str]) -> None:
    """Print a port for the process argv[1]. Without one it is a lease of ten minutes: this process ends."""
    pid = int(argv[1]) if len(argv) > 1 else None
    if pid is None and not os.environ.get("PORTSERVER_ADDRESS"):
        print(_dibs().claim(proto="tcp,udp", ttl="10m").port)
    else:
        print(pick_unused_port(pid=pid))


if __name__ == "__main__":
    main(sys.argv)
