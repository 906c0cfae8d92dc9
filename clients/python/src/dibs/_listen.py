# SPDX-License-Identifier: MIT
"""The sockets of a claim: claim a port, bind it and listen, in one call."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Unpack

from ._claims import Claims
from ._request import Options
from .errors import Denied, Failed, Taken
from .records import Binding, Claim

_TRIES = 8  # ports that other processes take between the probe of dibs and our bind
_SCTP = 132
_ANY = {"*": "::", "localhost": "127.0.0.1"}


class Listener:
    """A claim with its sockets, one for each binding: those of TCP listen, those of UDP are bound.

    The block of `with` (of a `Client`) or `async with` (of an `AsyncClient`) ends with both.
    """

    def __init__(self, claim: Claim, sockets: Sequence[socket.socket]) -> None:
        self.claim = claim
        self.sockets = tuple(sockets)

    @property
    def port(self) -> int:
        return self.claim.port

    @property
    def socket(self) -> socket.socket:
        """The first socket, which is the only one of most claims."""
        return self.sockets[0]

    def close(self) -> None:
        """Close the sockets. The claim stays with its holder."""
        for each in self.sockets:
            each.close()

    def __enter__(self) -> Listener:
        self.claim.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self.claim.__exit__(kind, error, trace)

    async def __aenter__(self) -> Listener:
        await self.claim.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        await self.claim.__aexit__(kind, error, trace)


def open_sockets(claim: Claim, backlog: int) -> list[socket.socket]:
    """Bind a socket for each binding of a claim, and let those of TCP listen. Taken: the port is in use."""
    sockets: list[socket.socket] = []
    try:
        for binding in claim.bindings:
            sockets.append(_open(binding))
            _bind(sockets[-1], binding, backlog)
    except OSError as error:
        for each in sockets:
            each.close()
        if error.errno == errno.EADDRINUSE:
            raise Taken(f"port {claim.port} is in use by another process") from None
        kind = Denied if error.errno == errno.EACCES else Failed
        raise kind(f"cannot bind {binding.proto} {binding.address}:{claim.port}: {error.strerror}") from None
    return sockets


def _open(binding: Binding) -> socket.socket:
    family = socket.AF_INET6 if binding.address == "*" or ":" in binding.address else socket.AF_INET
    if binding.proto == "udp":
        return socket.socket(family, socket.SOCK_DGRAM)
    return socket.socket(family, socket.SOCK_STREAM, _SCTP if binding.proto == "sctp" else 0)


def _bind(sock: socket.socket, binding: Binding, backlog: int) -> None:
    if sock.family == socket.AF_INET6:  # only the wildcard is dual-stack
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if binding.address == "*" else 1)
    if binding.proto != "udp":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((_ANY.get(binding.address, binding.address), binding.port))
    if binding.proto != "udp":
        sock.listen(backlog)


class Listening(Claims):
    """The verb that claims with sockets."""

    async def listen(
        self, name: str | None = None, /, *, backlog: int = 4096, **options: Unpack[Options]
    ) -> Listener:
        """Claim a port, bind it and listen: no moment is left in which another process can take the port that
        this returns. A port that dibs chooses and another process takes meanwhile is replaced. Nothing stays
        claimed after an error."""
        wanted: dict[str, Any] = dict(options)
        if not wanted.keys() & {"ttl", "keep", "hold"}:
            wanted["hold"] = "fd"
        tries = 0
        while True:
            tries += 1
            claim = await self.claim(name, **wanted)
            try:
                return Listener(claim, open_sockets(claim, backlog))
            except (Taken, Denied, Failed) as error:
                if not claim.was_there:
                    await self._to_its_end(lambda: self.release(claim, force=True))
                is_fixed = claim.was_there or wanted.keys() & {"port", "declare"}
                if is_fixed or not isinstance(error, Taken) or tries == _TRIES:
                    raise
