# SPDX-License-Identifier: MIT
"""The verbs about a project's manifest. The program reads manifests, with a daemon, too."""

from __future__ import annotations

from typing import Any

from ._look import Look
from ._read import read
from .records import Change

_Changes = list[Change]


class Project(Look):
    """Verbs about the manifest of the directory."""

    async def env(
        self,
        role: str | None = None,
        *,
        pid: int | None = None,
        group: str | None = None,
        timeout: float | None = None,
    ) -> dict[str, str]:
        """Return the variables of a role of the manifest (ROLE/INSTANCE), or of all roles. Missing ports are
        claimed: kept, or with `pid` held by that process until it ends. With `group` they are other claims than
        those of the project."""
        place, deadline = await self._until(timeout)
        words = ["env", "--json", "--quiet"]
        words += [] if pid is None else [f"--pid={pid}"]
        words += [] if group is None else [f"--group={group}"]
        words += [] if role is None else ["--", role]
        answer: dict[str, str] = await self._run(words, deadline=deadline, place=place)
        return answer

    async def up(self, *, move: bool = False, timeout: float | None = None) -> _Changes:
        """Claim every port of the manifest, all or nothing; release what it does not have any more."""
        return await self._changes(["up", *(["--move"] if move else [])], timeout)

    async def down(self, *, timeout: float | None = None) -> _Changes:
        """Release every port of the manifest."""
        return await self._changes(["down"], timeout)

    async def plan(self, *, timeout: float | None = None) -> _Changes:
        """Return what `up` would change."""
        return await self._changes(["plan"], timeout)

    async def _changes(self, words: list[str], timeout: float | None) -> _Changes:
        place, deadline = await self._until(timeout)
        answer: list[dict[str, Any]] = await self._run([*words, "--json", "--quiet"], deadline=deadline, place=place)
        return [read(Change, {"change": None, **item, "claim": item}) for item in answer]
