# SPDX-License-Identifier: MIT
"""What dibs answers, as dataclasses. Their members are those of the HTTP API and of `dibs --json`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from ._read import many, one


class _Owner(Protocol):
    """The client that claimed: it ends the claim with the block."""

    is_async: bool

    def leave(self, claim: Claim) -> Any: ...


class Token(str):
    """The token of a claim, for the process that received it from another one."""


@dataclass(frozen=True, kw_only=True)
class Binding:
    """A protocol and an address that a claim covers; the address `*` is all of both families."""

    proto: str
    address: str
    port: int
    v6only: bool = False


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The process or lease (`kind`) that uses a claim."""

    kind: str
    boot_id: str
    pid: int | None = None
    start_ticks: int | None = None
    pid_namespace: int | None = None
    ttl_ms: int | None = None
    until_boot_ms: int | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A port that is claimed.

    As a context manager it ends the claim with the block: `with` for what a `Client` claimed, `async
    with` for what an `AsyncClient` claimed. A claim that the name had before stays; if it was kept, it
    is kept without a holder again. The block of a child that was forked meanwhile ends nothing.
    """

    id: int
    generation: int
    port: int
    kind: str
    exclusive: bool
    kept: bool
    holder: Holder | None = field(metadata=one(Holder))
    principal: str
    uid: int
    name: str | None
    pool: str | None
    project: str | None
    command: str | None
    netns: int
    bindings: tuple[Binding, ...] = field(metadata=many(Binding))
    created_ms: int
    changed_ms: int
    life: str = "alive"
    orphan: bool = False
    was_there: bool = False
    was_kept: bool = False
    degraded: bool = False
    narrowed: bool = False
    damaged: bool = False
    hold: str = "none"
    hold_note: str | None = None
    node: str | None = None
    env: str | None = None
    keeper: str | None = None
    as_port: int | None = None
    run: int | None = None
    token: str | None = None
    _owner: _Owner | None = field(default=None, init=False, repr=False, compare=False)
    _pid: int | None = field(default=None, init=False, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_owner": None}

    def __enter__(self) -> Claim:
        self._owner_for(is_async=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        owner = self._owner_for(is_async=False)
        if self._pid == os.getpid():
            owner.leave(self)

    async def __aenter__(self) -> Claim:
        self._owner_for(is_async=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        owner = self._owner_for(is_async=True)
        if self._pid == os.getpid():
            await owner.leave(self)

    def _owner_for(self, is_async: bool) -> _Owner:
        if self._owner is None or self._owner.is_async != is_async:
            raise TypeError("'with' is for what a Client claimed, 'async with' for what an AsyncClient claimed")
        return self._owner


@dataclass(frozen=True, kw_only=True)
class Socket:
    """A socket that really exists on a port, with its process as far as the caller may see it."""

    proto: str
    address: str
    port: int
    uid: int
    pid: int | None
    inode: int
    command: str | None
    arguments: str | None = None
    unit: str | None = None
    directory: str | None = None
    holders: bool = False
    below: bool = False
    serves: bool = False
    v6only: bool = False


@dataclass(frozen=True, kw_only=True)
class NatRule:
    """A NAT rule that sends the packets of a port elsewhere."""

    proto: str
    address: str
    port: int
    text: str
    v6only: bool = False


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why a port cannot be claimed by number (`blocks_static`) or chosen (`blocks_dynamic`)."""

    kind: str
    blocks_static: bool
    blocks_dynamic: bool
    text: str
    advice: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """The claims, sockets and NAT rules of a port, and whether it can be claimed."""

    port: int
    claims: tuple[Claim, ...] = field(metadata=many(Claim))
    sockets: tuple[Socket, ...] = field(metadata=many(Socket))
    nat: tuple[NatRule, ...] = field(metadata=many(NatRule))
    cut: bool
    can_claim: bool | None = None
    can_choose: bool | None = None
    verdict: str | None = None
    reasons: tuple[Reason, ...] = field(default=(), metadata=many(Reason))


@dataclass(frozen=True, kw_only=True)
class Event:
    """One change of the ledger."""

    seq: int
    time_ms: int
    what: str
    claim: int
    generation: int
    port: int
    protos: tuple[str, ...] = field(metadata={"read": tuple})
    kind: str
    principal: str
    name: str | None
    actor_uid: int
    actor_pid: int


@dataclass(frozen=True, kw_only=True)
class PoolUsage:
    """How full a pool is, in ports."""

    size: int
    band: int
    static: int
    dynamic: int
    available: int
    withheld: int


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A named range of ports with its policy."""

    name: str
    ranges: str
    scope: str
    band: str
    order: str
    cooldown_ms: int
    usage: PoolUsage | None = field(default=None, metadata=one(PoolUsage))


@dataclass(frozen=True, kw_only=True)
class Change:
    """What `up`, `down` or `plan` does with one port of the manifest."""

    change: str | None
    claim: Claim = field(metadata=one(Claim))
    was: int | None = None
    needs_restart: bool = False
    pod: str | None = None
