# SPDX-License-Identifier: MIT
"""What all verbs share: a place, a daemon or the program, and deadlines."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from ._http import Daemon, Repeat
from ._place import Place, place_from
from ._program import find_program, run_program
from ._read import read
from ._wait import Wait
from .errors import Unavailable
from .records import Claim

T = TypeVar("T")

_SETTINGS = 10.0  # seconds for the program to print its settings, which say how long a call may take


class Base:
    """Asks the daemon of a place, or runs the program there."""

    is_async = True

    def __init__(
        self,
        wait: Wait,
        *,
        socket: str | None,
        group: str | None,
        directory: str | None,
        timeout: float | None,
    ) -> None:
        named = {"socket": socket, "group": group}
        self._wait = wait
        self._given = {name: value for name, value in named.items() if value is not None}
        self._directory = directory
        self._timeout = timeout
        self._places: dict[str, Place] = {}
        self._daemons: dict[str, Daemon] = {}
        #: The client whose verbs these are; its claims belong to it.
        self._owner: Any = self

    def _options(self) -> dict[str, Any]:
        """What makes the same client again, in another process: no connection."""
        return {
            "socket": self._given.get("socket"),
            "group": self._given.get("group"),
            "directory": self._directory,
            "timeout": self._timeout,
        }

    def _close(self) -> None:
        for daemon in self._daemons.values():
            daemon.close()

    # ---- the place ----

    async def _place(self) -> Place:
        """Return what counts here; it is read once for each directory."""
        directory = self._directory or os.getcwd()
        place = self._places.get(directory)
        if place is None:
            document, program = None, find_program()
            if program:
                document = await self._run(["settings", "--json"], deadline=time.monotonic() + _SETTINGS)
            place = place_from(document, self._given, program)
            if self._timeout is not None:
                place = dataclasses.replace(place, timeout=self._timeout)
            self._places[directory] = place
        return place

    async def _until(self, timeout: float | None) -> tuple[Place, float]:
        """Return the place, and the deadline of a call."""
        place = await self._place()
        return place, time.monotonic() + (place.timeout if timeout is None else timeout)

    # ---- the daemon ----

    def _daemon(self, place: Place) -> Daemon:
        assert place.socket is not None
        daemon = self._daemons.get(place.socket)
        if daemon is None:
            daemon = self._daemons[place.socket] = Daemon(self._wait, place.socket, place.is_named)
        return daemon

    async def _ask(
        self,
        place: Place,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        *,
        deadline: float,
        repeat: Repeat = Repeat.TWICE,
        key: str | None = None,
    ) -> Any:
        words = {name: value for name, value in (query or {}).items() if value is not None}
        target = path + ("?" + urlencode(words, doseq=True, quote_via=quote) if words else "")
        return await self._daemon(place).ask(method, target, body, repeat=repeat, key=key, deadline=deadline)

    # ---- the program ----

    async def _run(self, words: Sequence[str], *, deadline: float, place: Place | None = None) -> Any:
        """Run the program in the directory of this client, with the daemon of the place."""
        program = find_program() if place is None else place.program
        if program is None:
            raise Unavailable(
                "this needs the program dibs, and it is neither in PATH nor named by DIBS; the daemon alone "
                "knows full names (/GROUP/NAME), names of a client with a group, and claims of a client"
            )
        environment = {"DIBS_" + name.upper(): value for name, value in self._given.items()}
        if place is not None and place.socket is not None:
            environment["DIBS_SOCKET"] = place.socket
        return await run_program(
            self._wait,
            program,
            words,
            environment=environment,
            directory=self._directory,
            deadline=deadline,
        )

    # ---- answers ----

    def _claim_from(self, document: Mapping[str, Any]) -> Claim:
        claim = read(Claim, document)
        object.__setattr__(claim, "_owner", self._owner)
        object.__setattr__(claim, "_pid", os.getpid())
        return claim
