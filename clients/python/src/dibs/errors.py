# SPDX-License-Identifier: MIT
"""Exceptions: one class for each exit code of dibs, with its message unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, kw_only=True)
class Blocker:
    """The claim, process or NAT rule that has the port."""

    relation: str
    port: int
    uid: int
    proto: str | None = None
    address: str | None = None
    name: str | None = None
    pid: int | None = None
    command: str | None = None
    since_ms: int | None = None
    differs: bool = False


class Error(Exception):
    """A refusal or failure of dibs. Its text is the message of dibs; `code` is the exit code."""

    code: ClassVar[int] = 1
    blocker: Blocker | None = None
    trouble: str | None = None
    #: Of a claim whose answer was lost: call again with this key to get the same claim.
    key: str | None = None


class Failed(Error):
    """Any failure that no other class describes."""


class Usage(Error):
    """The request is malformed."""

    code = 2


class Taken(Error):
    """Another claim or process has the port or the name; `blocker` describes it."""

    code = 3


class Exhausted(Error):
    """No port is left in the pool, or the user's quota is used up."""

    code = 4


class NotFound(Error):
    """There is no such claim, pool or manifest."""

    code = 5


class Unavailable(Error):
    """The ledger, the daemon or the program cannot be reached in time."""

    code = 6


class Denied(Error):
    """The caller has no right to do this."""

    code = 7


class Missed(Error):
    """Events are gone that the reader has not seen: list the claims again, then follow from now."""
