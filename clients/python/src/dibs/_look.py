# SPDX-License-Identifier: MIT
"""The verbs that look at claims, ports, pools and events."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

from ._claims import Claims, _settings
from ._http import Lost, Stream
from ._place import Place
from ._read import not_understood, number, parse, read, rows
from .errors import Missed, NotFound
from .records import Claim, Event, Pool, Report

_Claims = list[Claim]
_Events = list[Event]
_Pools = list[Pool]

_PAGE = 1000
_POLL = (0.1, 1.0)  # seconds between two looks at the log, without a daemon


class Look(Claims):
    """Verbs that change nothing, but for the pools."""

    async def list(
        self,
        prefix: str | None = None,
        *,
        pool: str | None = None,
        port: int | None = None,
        proto: str | None = None,
        timeout: float | None = None,
    ) -> _Claims:
        """List the claims of all projects and users that the caller may see. `prefix`: whole leading parts of
        the full name."""
        place, deadline = await self._until(timeout)
        if place.socket is None:
            options = {"pool": pool, "port": port, "proto": proto}
            words = ["ls", "--all", "--json"]
            words += [f"--{name}={value}" for name, value in options.items() if value is not None]
            words += [] if prefix is None else ["--", "/" + prefix]
            answer = await self._run(words, deadline=deadline, place=place)
            return [self._claim_from(item) for item in rows(answer)]
        claims: _Claims = []
        after: int | None = None
        while True:
            query = {
                "prefix": prefix,
                "pool": pool,
                "port": port,
                "proto": proto,
                "judge": "true",
                "after": after,
                "limit": _PAGE,
            }
            page = await self._ask(place, "GET", "/v1/claims", query, deadline=deadline)
            claims += [self._claim_from(item) for item in rows(page["claims"])]
            if page["next"] is None:
                return claims
            after = number(page, "next")

    async def explain(
        self,
        which: int | str,
        *,
        proto: str | None = None,
        address: str | None = None,
        pool: str | None = None,
        timeout: float | None = None,
    ) -> Report:
        """Return why a port, or that of a claim's name, can or cannot be claimed, with what to do."""
        place, deadline = await self._until(timeout)
        if place.socket is None or (place.program and isinstance(which, str)):
            options = {"proto": proto, "address": address, "pool": pool}
            words = [f"--{name}={value}" for name, value in options.items() if value is not None]
            words = ["explain", "--json", *words, "--", str(which)]
            return read(Report, await self._run(words, deadline=deadline, place=place))
        port = which if isinstance(which, int) else (await self.find(which, timeout=timeout)).port
        query = {"address": address, "pool": pool}
        return read(Report, await self._report(place, port, deadline, proto or "tcp", query))

    async def who(self, which: int | str, *, timeout: float | None = None) -> Report:
        """Return who claims a port, and who really has it. NotFound: nobody."""
        place, deadline = await self._until(timeout)
        if place.socket is None or (place.program and isinstance(which, str)):
            answer = await self._run(["who", "--json", "--", str(which)], deadline=deadline, place=place)
            return read(Report, answer)
        port = which if isinstance(which, int) else (await self.find(which, timeout=timeout)).port
        answer = await self._report(place, port, deadline, "tcp,udp", {})
        if not answer["claims"] and not answer["sockets"] and not answer["nat"]:
            raise NotFound(f"port {port}: no claim and no socket")
        members = ("port", "claims", "sockets", "nat", "cut")
        return read(Report, {member: answer[member] for member in members})

    async def log(
        self, *, since: int | None = None, limit: int = 50, timeout: float | None = None
    ) -> _Events:
        """Return the newest events, or those with a number above `since`, the oldest first."""
        place, deadline = await self._until(timeout)
        if place.socket is None:
            option = [] if since is None else [f"--since={since}"]
            words = ["log", "--json", *option, f"--limit={limit}"]
            answer = await self._run(words, deadline=deadline, place=place)
        else:
            newest = "true" if since is None else None
            query = {"since": since, "limit": limit, "newest": newest}
            answer = (await self._ask(place, "GET", "/v1/events", query, deadline=deadline))["events"]
        return [read(Event, item) for item in rows(answer)]

    async def pools(self, *, timeout: float | None = None) -> _Pools:
        """List the pools, each with its usage."""
        place, deadline = await self._until(timeout)
        if place.socket is None:
            answer = await self._run(["pool", "--json"], deadline=deadline, place=place)
            return [read(Pool, item) for item in rows(answer)]
        answer = await self._ask(place, "GET", "/v1/pools", self._settings_query(place), deadline=deadline)
        return [read(Pool, await self._with_usage(place, item, deadline)) for item in rows(answer["pools"])]

    async def pool(self, name: str, *, timeout: float | None = None) -> Pool:
        """Return a pool with its usage."""
        place, deadline = await self._until(timeout)
        if place.socket is None:
            answer = await self._run(["pool", "show", "--json", "--", name], deadline=deadline, place=place)
            return read(Pool, answer)
        return read(Pool, await self._with_usage(place, {"name": name}, deadline))

    # ---- events ----

    async def events(
        self, since: int | None = None, *, idle: float | None = None, timeout: float | None = None
    ) -> AsyncGenerator[Event, None]:
        """Follow the changes of the ledger: from now on, or those with a number above `since`. The iteration
        goes on when the daemon is restarted, and ends when there was no event for `idle` seconds. Missed: events
        are gone that it has not seen."""
        place, _ = await self._until(timeout)
        limit = place.timeout if timeout is None else timeout
        follow = self._poll_log if place.socket is None else self._follow
        async for event in follow(place, since, limit, idle):
            yield event

    async def _follow(
        self, place: Place, since: int | None, limit: float, idle: float | None
    ) -> AsyncGenerator[Event, None]:
        daemon = self._daemon(place)
        while True:
            deadline = time.monotonic() + limit
            since = await self._check_since(place, since, deadline)
            try:
                stream = await daemon.stream(f"/v1/events?since={since}", deadline)
            except Lost:
                await self._wait.pause(_POLL[0])
                continue
            try:
                while (event := await self._next(stream, idle)) is not None:
                    since = event.seq
                    yield event
            except TimeoutError:
                return
            finally:
                stream.close()

    async def _check_since(self, place: Place, since: int | None, deadline: float) -> int:
        """Return the number to follow from. Missed: later events are gone, or the ledger is another one."""
        query = {"newest": "true", "limit": 1} if since is None else {"since": since, "limit": 1}
        page = await self._ask(place, "GET", "/v1/events", query, deadline=deadline)
        newest = number(page, "seq")
        if since is None:
            return newest
        if since > newest:
            raise Missed(f"the ledger's newest event is {newest}, not {since}: it is another ledger")
        if since + 1 < (oldest := number(page, "oldest")):
            raise Missed(f"events {since + 1} to {oldest - 1} are gone; list the claims again")
        return since

    @staticmethod
    async def _next(stream: Stream, idle: float | None) -> Event | None:
        """Read the next event; None: the daemon has ended the stream."""
        deadline = time.monotonic() + (1e9 if idle is None else idle)
        while (line := await stream.line(deadline)) is not None:
            if line.startswith("data: "):
                try:
                    return read(Event, parse(line[6:]))
                except ValueError as error:
                    raise not_understood(str(error)) from None
        return None

    async def _poll_log(
        self, place: Place, since: int | None, limit: float, idle: float | None
    ) -> AsyncGenerator[Event, None]:
        newest = await self.log(limit=1, timeout=limit)
        last = newest[-1].seq if newest else 0
        if since is None:
            since = last
        elif since > last:
            raise Missed(f"the ledger's newest event is {last}, not {since}: it is another ledger")
        pause = _POLL[0]
        quiet_since = time.monotonic()
        while True:
            found = await self.log(since=since, limit=_PAGE, timeout=limit)
            if found and found[0].seq > since + 1:
                raise Missed(f"events {since + 1} to {found[0].seq - 1} are gone; list the claims again")
            for event in found:
                since = event.seq
                yield event
            if found:
                pause, quiet_since = _POLL[0], time.monotonic()
                continue
            left = 1e9 if idle is None else quiet_since + idle - time.monotonic()
            if left <= 0:
                return
            await self._wait.pause(min(pause, left))
            pause = min(2 * pause, _POLL[1])

    # ---- answers ----

    async def _report(
        self, place: Place, port: int, deadline: float, proto: str, query: dict[str, Any]
    ) -> Any:
        first, *others = proto.replace("+", ",").split(",")
        query |= {"with": ",".join(others) or None, **self._settings_query(place)}
        return await self._ask(place, "GET", f"/v1/ports/{first}/{port}", query, deadline=deadline)

    @staticmethod
    def _settings_query(place: Place) -> dict[str, Any]:
        return {"settings": json.dumps(_settings(place)["settings"])} if place.settings else {}

    async def _with_usage(self, place: Place, pool: dict[str, Any], deadline: float) -> dict[str, Any]:
        path = "/v1/pools/" + quote(str(pool["name"]), safe="")
        query = self._settings_query(place)
        if "ranges" not in pool:
            pool = await self._ask(place, "GET", path, query, deadline=deadline)
        usage = await self._ask(place, "GET", path + "/usage", query, deadline=deadline)
        return {**pool, "usage": usage}
