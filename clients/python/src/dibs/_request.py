# SPDX-License-Identifier: MIT
"""What a caller asks for, as words for the program and as members of a request to the daemon."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypedDict

from ._http import check_key
from ._place import duration
from .errors import Usage


class Options(TypedDict, total=False):
    """What a port shall be, and who holds it: the options of `dibs claim`."""

    port: int
    """This port or an error."""
    prefer: int
    """This port if it can be had."""
    declare: int
    """Record that you use this port yourself."""
    range: str
    """Choose from these ports: "8000-8099,9000"."""
    pool: str
    """Choose from this pool."""
    proto: str
    """tcp (the default), udp, sctp; one number for several: "tcp,udp"."""
    address: str | Sequence[str]
    """The addresses to be bound; * by default."""
    hold: str
    """How the kernel holds the port: auto, none, guard, fd, enforce."""
    pid: int
    """This process holds it until it ends; without pid, ttl and keep it is the calling process."""
    ttl: str | timedelta
    """A lease of this length holds it: "10m"."""
    keep: bool
    """Nobody holds it; it stays until it is released."""
    wait: str | timedelta
    """Wait so long for a port that is held."""
    key: str
    """A repeated call with the same key gets the same claims."""
    timeout: float
    """Seconds that the call may take; the client's by default."""


@dataclass(kw_only=True)
class Want:
    """The options of a call."""

    port: int | None = None
    prefer: int | None = None
    declare: int | None = None
    range: str | None = None
    pool: str | None = None
    proto: str | None = None
    address: str | Sequence[str] | None = None
    hold: str | None = None
    pid: int | None = None
    ttl: str | timedelta | None = None
    keep: bool = False
    wait: str | timedelta | None = None
    key: str | None = None
    timeout: float | None = None

    def __post_init__(self) -> None:
        only_one(port=self.port, prefer=self.prefer, declare=self.declare)
        only_one(range=self.range, pool=self.pool)
        only_one(pid=self.pid, ttl=self.ttl, keep=self.keep or None)
        if self.key is not None:
            check_key(self.key)

    def addresses(self) -> list[str]:
        if self.address is None:
            return []
        return [self.address] if isinstance(self.address, str) else list(self.address)

    def words(self) -> list[str]:
        """Return the options for the program, but for the holder, wait and key."""
        values = {name: getattr(self, name) for name in ("port", "prefer", "declare", "range", "pool", "hold")}
        values["proto"] = self.proto
        words = [f"--{name}={value}" for name, value in values.items() if value is not None]
        return words + [f"--address={address}" for address in self.addresses()]

    def request(self) -> dict[str, Any]:
        """Return the members of a request, but for the name and the holder."""
        body: dict[str, Any] = {}
        for mode, port in (("required", self.port), ("preferred", self.prefer), ("declared", self.declare)):
            if port is not None:
                body |= {"mode": mode, "port": port}
        for member, value in (("ranges", self.range), ("pool", self.pool), ("hold", self.hold)):
            if value is not None:
                body[member] = value
        if self.proto is not None or self.address is not None:
            proto = self.proto or "tcp"
            body["bindings"] = [{"proto": proto, "address": address} for address in self.addresses() or ["*"]]
        return body


def only_one(**options: Any) -> None:
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise Usage(f"claim: '--{given[0]}' and '--{given[1]}' cannot be used together")


@dataclass(frozen=True)
class Heir:
    """A holder: a process, a lease, or nobody."""

    pid: int | None
    ttl: str | None

    def words(self) -> list[str]:
        if self.ttl is not None:
            return [f"--ttl={self.ttl}"]
        return ["--keep"] if self.pid is None else [f"--pid={self.pid}"]

    def members(self) -> dict[str, Any]:
        if self.ttl is not None:
            return {"holder": {"kind": "lease", "ttl": self.ttl}}
        if self.pid is None:
            return {"holder": None, "keep": True}
        return {"holder": {"kind": "process", "pid": self.pid}}


def heir(pid: int | None, ttl: str | timedelta | None, keep: bool) -> Heir:
    if ttl is not None:
        return Heir(None, duration(ttl))
    return Heir(None if keep else os.getpid() if pid is None else pid, None)
