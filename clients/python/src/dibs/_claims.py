# SPDX-License-Identifier: MIT
"""The verbs that make, find and end claims."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar, Unpack
from urllib.parse import quote

from ._base import Base
from ._http import Lost, Repeat, new_key
from ._place import Place, duration, seconds
from ._program import log
from ._read import number, read, rows
from ._request import Options, Want, heir, only_one
from .errors import Error, Exhausted, NotFound, Taken, Unavailable, Usage
from .records import Claim, Socket, Token

COUNT_MAX = 4096  # ports of one call, as for the program
T = TypeVar("T")

#: What names an existing claim: the claim itself, its token, a name, or a port of this project.
Which = Claim | Token | str | int

#: One attempt to claim, until a deadline.
_Attempt = Callable[[float], Awaitable[list[Claim]]]

_PAUSES = (0.02, 0.5)  # of `wait`, as in the program
_UNDO = 5.0  # how long a cancelled claim is looked for, to end it


@dataclass(frozen=True)
class _Target:
    """How to name an existing claim."""

    words: list[str]  # to the program
    path: str | None  # to the daemon; None: only the program knows it
    query: Mapping[str, Any]


class Claims(Base):
    """Verbs about one claim or several."""

    # ---- making ----

    async def claim(self, name: str | None = None, /, **options: Unpack[Options]) -> Claim:
        """Claim one port, for the calling process unless the options say otherwise.

        The same name gets the same port again. A name belongs to the project of the directory; one that
        begins with a slash does not. A call that is cancelled ends what it may have claimed.
        """
        [claim] = await self._claim([name], Want(**options))
        return claim

    async def claim_many(
        self,
        /,
        *names: str,
        count: int | None = None,
        contiguous: bool = False,
        align: int | None = None,
        dry_run: bool = False,
        **options: Unpack[Options],
    ) -> list[Claim]:
        """Claim a port for each name, or `count` ports, all or nothing. With one name and a count they are
        NAME/0, NAME/1, ..."""
        if count is not None and (not 1 <= count <= COUNT_MAX or len(names) > 1):
            raise Usage(f"claim: '--count' is from 1 to {COUNT_MAX}, and goes with one name or none")
        shape: dict[str, Any] = {"contiguous": contiguous, "dry_run": dry_run}
        if align is not None:
            shape["align"] = align
        return await self._claim(list(names) or [None], Want(**options), count, shape)

    async def get(
        self,
        name: str,
        /,
        *,
        port: int | None = None,
        prefer: int | None = None,
        range: str | None = None,
        pool: str | None = None,
        proto: str | None = None,
        address: str | Sequence[str] | None = None,
        hold: str | None = None,
        create: bool = False,
        timeout: float | None = None,
    ) -> Claim:
        """Return the kept claim of a name of this project, and make it if there is none. With a manifest
        only its names are made, unless `create` is given."""
        want = Want(
            port=port, prefer=prefer, range=range, pool=pool, proto=proto, address=address, hold=hold
        )
        place, deadline = await self._until(timeout)
        full = self._direct(place, name)
        if full is None:
            words = ["get", "--json", *want.words(), *(["--create"] if create else []), "--", name]
            return self._claim_from(await self._run(words, deadline=deadline, place=place))
        body = {**want.request(), **_named(full), "holder": None, "keep": True, "lookup": True}
        answer = await self._ask(
            place,
            "POST",
            "/v1/claims",
            body=body | _settings(place),
            deadline=deadline,
            repeat=Repeat.KEYED,
            key=new_key(),
        )
        return self._claim_from(answer)

    # ---- finding ----

    async def find(self, which: Which, /, *, timeout: float | None = None) -> Claim:
        """Return a claim as it is now. NotFound: it has ended."""
        place, deadline = await self._until(timeout)
        if isinstance(which, Claim) and not which.token:
            return await self._find_again(place, which, deadline)
        target = await self._target(place, which, deadline)
        if target.path:
            answer = await self._ask(place, "GET", target.path, target.query, deadline=deadline)
        else:
            option = ["--existing"] if type(which) is str else []
            words = ["get", "--json", "--quiet", *option, *target.words]
            answer = await self._run(words, deadline=deadline, place=place)
        return self._claim_from(answer)

    async def assert_listening(self, which: Which, /, *, timeout: float | None = None) -> Socket:
        """Return the socket with which the holder of the claim listens. Taken: somebody else does, or nobody."""
        place, deadline = await self._until(timeout)
        if isinstance(which, Token) and place.socket is None:
            which = await self.find(which, timeout=timeout)
        target = await self._target(place, which, deadline)
        if target.path:
            path = target.path + "/assert"
            answer = await self._ask(place, "GET", path, target.query, deadline=deadline)
        else:
            words = ["assert", "--json", "--", _typed(which)]
            answer = await self._run(words, deadline=deadline, place=place)
        return read(Socket, answer)

    # ---- changing ----

    async def release(self, which: Which, /, *, force: bool = False, timeout: float | None = None) -> int:
        """End a claim and return how many ended: a name also ends NAME/0, NAME/1, ... It is no error when there
        is nothing to end. `force`: also of another project, or with a holder that may live."""
        place, deadline = await self._until(timeout)
        try:
            target = await self._target(place, which, deadline, is_release=True)
        except NotFound:
            return 0
        if target.path:
            query = {**target.query, "force": "true" if force else None}
            answer = await self._ask(place, "DELETE", target.path, query, deadline=deadline)
        else:
            words = ["release", "--json", "--quiet", *(["--force"] if force else []), *target.words]
            answer = await self._run(words, deadline=deadline, place=place)
        return number(answer, "released")

    async def release_all(
        self, *, every_project: bool = False, force: bool = False, timeout: float | None = None
    ) -> int:
        """End all claims of this project, or of all projects of this user."""
        place, deadline = await self._until(timeout)
        words = ["release", "--json", "--quiet", "--yes", "--all"]
        words += ["--every-project"] if every_project else []
        words += ["--force"] if force else []
        return number(await self._run(words, deadline=deadline, place=place), "released")

    async def renew(
        self, which: Which, /, ttl: str | timedelta | None = None, *, timeout: float | None = None
    ) -> Claim:
        """Extend a lease: it ends `ttl` from now, or as long from now as it was."""
        place, deadline = await self._until(timeout)
        target = await self._target(place, which, deadline)
        if target.path and ttl is None:
            found = await self._ask(place, "GET", target.path, target.query, deadline=deadline)
            holder = read(Claim, found).holder
            ttl = timedelta(milliseconds=(holder.ttl_ms if holder else None) or 0)
        length = duration(ttl) if ttl else None
        words = ["renew", "--json", "--quiet", *([f"--ttl={length}"] if length else [])]
        body = {"ttl": length} if length else None
        return await self._change(place, target, "/renew", words, body, Repeat.TWICE, deadline)

    async def transfer(
        self,
        which: Which,
        /,
        *,
        pid: int | None = None,
        ttl: str | timedelta | None = None,
        keep: bool = False,
        timeout: float | None = None,
    ) -> Claim:
        """Give a claim to another holder: a process (by default the calling one), a lease, or nobody. The claim
        that is returned has a new token; the old one is invalid."""
        only_one(pid=pid, ttl=ttl, keep=keep or None)
        place, deadline = await self._until(timeout)
        target = await self._target(place, which, deadline)
        to = heir(pid, ttl, keep)
        words = ["transfer", "--json", "--quiet", *to.words()]
        return await self._change(place, target, "/transfer", words, to.members(), Repeat.ONCE, deadline)

    async def leave(self, claim: Claim, /, *, timeout: float | None = None) -> None:
        """End a claim as the end of its block does: one that the name had before stays. A cancellation
        meanwhile takes effect after that."""
        if not claim.was_there:
            await self._to_its_end(lambda: self.release(claim, timeout=timeout))
        elif claim.was_kept and claim.holder is not None:
            await self._to_its_end(lambda: self._unhold(claim, timeout))

    async def _unhold(self, claim: Claim, timeout: float | None) -> None:
        """Keep a claim for nobody. After a second try its token is an old one: it has no holder any more."""
        with contextlib.suppress(NotFound):
            await self.transfer(claim, keep=True, timeout=timeout)

    async def _to_its_end(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do what ends a claim, again when the task is cancelled meanwhile; then raise the cancellation."""
        end = time.monotonic() + _UNDO
        cancelled: BaseException | None = None
        while True:
            try:
                result = await work()
            except self._wait.cancelled as error:
                cancelled = error
                if time.monotonic() < end:
                    continue
                raise
            except Error as error:
                if cancelled is None:
                    raise
                log.warning("a cancelled call could not end its claim, which ends with its holder: %s", error)
                raise cancelled from None
            if cancelled is not None:
                raise cancelled
            return result

    # ---- a batch ----

    async def _claim(
        self,
        names: list[str | None],
        want: Want,
        count: int | None = None,
        shape: Mapping[str, Any] | None = None,
    ) -> list[Claim]:
        began_ms = int(time.time() * 1000)
        place, _ = await self._until(None)
        patience = 0.0 if want.wait is None else seconds(duration(want.wait))
        timeout = place.timeout if want.timeout is None else want.timeout
        key = want.key or new_key()
        if place.manifest_problem:
            raise Usage(place.manifest_problem)

        async def attempt(until: float) -> list[Claim]:
            requests = self._requests(place, names, want, count)
            if requests is None:
                return await self._claim_by_program(place, names, want, count, shape, key, until)
            return await self._claim_by_daemon(place, requests, shape, key, until)

        try:
            return await self._patiently(attempt, want, patience, timeout)
        except Unavailable as error:
            error.key = key
            raise
        except BaseException as error:
            # Cancelled or interrupted; a coroutine that is closed cannot wait any more.
            if want.key is None and not isinstance(error, (Exception, GeneratorExit)):
                await self._to_its_end(lambda: self._undo(attempt, began_ms))
            raise

    async def _patiently(
        self, attempt: _Attempt, want: Want, patience: float, timeout: float
    ) -> list[Claim]:
        """Claim, and while the ports are held try again until the time is over, as `dibs claim --wait` does."""
        end = time.monotonic() + patience
        pause, longest = _PAUSES
        while True:
            try:
                return await attempt(time.monotonic() + timeout)
            except (Taken, Exhausted) as error:
                differs = error.blocker is not None and error.blocker.differs
                if want.wait is None or differs:
                    raise
                left = end - time.monotonic()
                if left <= 0:
                    waited = type(error)(f"waited {duration(want.wait)}: {error}")
                    waited.blocker = error.blocker
                    raise waited from None
            await self._wait.pause(min(pause, left))
            pause = min(2 * pause, longest)

    def _requests(
        self, place: Place, names: list[str | None], want: Want, count: int | None
    ) -> list[dict[str, Any]] | None:
        """Make the requests for the daemon; None: the program has to make them."""
        if place.socket is None:
            return None
        holder = heir(want.pid, want.ttl, want.keep).members()
        requests = []
        for name in names:
            full = None if name is None else self._direct(place, name, is_claim=True)
            if name is not None and full is None:
                return None
            for i in range(1 if count is None else count):
                named = {} if full is None else _named((f"{full[0]}/{i}" if count is not None else full[0], full[1]))
                requests.append({**want.request(), **named, **holder})
        return requests

    async def _claim_by_daemon(
        self,
        place: Place,
        requests: list[dict[str, Any]],
        shape: Mapping[str, Any] | None,
        key: str,
        deadline: float,
    ) -> list[Claim]:
        settings = _settings(place)
        if shape is None:
            path, body = "/v1/claims", requests[0] | settings
        else:
            path, body = "/v1/batch", {"requests": requests, **shape, **settings}
        answer = await self._ask(
            place, "POST", path, body=body, deadline=deadline, repeat=Repeat.KEYED, key=key
        )
        return [self._claim_from(item) for item in (rows(answer["claims"]) if shape is not None else [answer])]

    async def _claim_by_program(
        self,
        place: Place,
        names: list[str | None],
        want: Want,
        count: int | None,
        shape: Mapping[str, Any] | None,
        key: str,
        deadline: float,
    ) -> list[Claim]:
        words = ["claim", "--json", "--quiet", f"--key={key}"]
        words += want.words() + heir(want.pid, want.ttl, want.keep).words()
        words += [] if count is None else [f"--count={count}"]
        for option, value in (shape or {}).items():
            option = option.replace("_", "-")
            words += [f"--{option}"] if value is True else [] if value is False else [f"--{option}={value}"]
        words += ["--", *(name for name in names if name is not None)]
        return [self._claim_from(item) for item in rows(await self._run(words, deadline=deadline, place=place))]

    async def _undo(self, attempt: _Attempt, began_ms: int) -> None:
        """End what a cancelled call may have claimed: the same key finds it. A claim that is older than the call
        stays, without a holder if it was kept and the call has made this process its holder."""
        try:
            for claim in await attempt(time.monotonic() + _UNDO):
                if claim.name is None or claim.created_ms >= began_ms:
                    await self.release(claim, timeout=_UNDO)
                elif claim.kept and claim.holder is not None and claim.changed_ms >= began_ms:
                    await self._unhold(claim, _UNDO)
        except (NotFound, Taken, Exhausted, Usage):
            pass  # nothing was claimed, or it has ended
        except (Error, Lost) as error:
            log.warning("a cancelled call may have claimed a port, which ends with its holder: %s", error)

    # ---- which claim ----

    def _direct(self, place: Place, name: str, is_claim: bool = False) -> tuple[str, str | None] | None:
        """Return the full name to send to the daemon, and its directory; None: ask the program."""
        if place.socket is None:
            return None
        if place.program:
            if not name.isprintable() or len(name) > 255:  # refused, with the message of the program
                return None
            return (name[1:], None) if is_claim and name.startswith("/") else place.simple(name)
        if name.startswith("/"):
            return name[1:], None
        if place.group is None:
            raise Usage(
                f"'{name}' is a name of a project, which only the program dibs knows, and it is not in PATH: write "
                "/GROUP/NAME, or set DIBS_GROUP"
            )
        return f"{place.group}/{name}", place.project

    async def _target(
        self, place: Place, which: Which, deadline: float, is_release: bool = False
    ) -> _Target:
        """Find out how to name a claim to the daemon and to the program. NotFound: it is known to have ended."""
        token = which if isinstance(which, Token) else which.token if isinstance(which, Claim) else None
        if token is not None:
            return _Target([f"--token={token}"], place.socket and "/v1/claims/" + quote(token, safe=""), {})
        words = ["--", _typed(which)]
        if isinstance(which, Claim):
            if not which.degraded:
                await self._find_again(place, which, deadline)
            if which.project:
                words = [f"--project={which.project}", *words]
            return _Target(words, place.socket and "/v1/claims/-", _query(which))
        # The program knows the project's names and numbers, and that `release NAME` ends NAME/0, NAME/1, ...
        if isinstance(which, int) or (is_release and place.program):
            full = None
        else:
            full = self._direct(place, which)
        if full is not None:
            return _Target(words, "/v1/claims/-", {"name": full[0], "project": full[1]})
        if place.socket and not place.program:
            return _Target(words, "/v1/claims/-", {"port": int(which)})
        return _Target(words, None, {})

    async def _find_again(self, place: Place, claim: Claim, deadline: float) -> Claim:
        """Find a claim by its name or number, and check that it is still the same one."""
        proto = claim.bindings[0].proto
        if claim.name and place.socket is not None:
            found = [await self._ask(place, "GET", "/v1/claims/-", _query(claim), deadline=deadline)]
        elif claim.name:
            words = ["get", "--json", "--quiet", "--force", "--existing", "--", _typed(claim)]
            found = [await self._run(words, deadline=deadline, place=place)]
        elif place.socket is not None:
            query = {"port": claim.port, "proto": proto, "judge": "true"}
            found = rows((await self._ask(place, "GET", "/v1/claims", query, deadline=deadline))["claims"])
        else:
            words = ["ls", "--json", "--all", f"--port={claim.port}", f"--proto={proto}"]
            found = rows(await self._run(words, deadline=deadline, place=place))
        for document in found:
            if (document["id"], document["generation"]) == (claim.id, claim.generation):
                return self._claim_from(document)
        raise NotFound(f"the claim of port {claim.port} has ended, or has another holder now")

    async def _change(
        self,
        place: Place,
        target: _Target,
        action: str,
        words: list[str],
        body: Mapping[str, Any] | None,
        repeat: Repeat,
        deadline: float,
    ) -> Claim:
        """Renew or transfer a claim."""
        if target.path:
            path = target.path + action
            answer = await self._ask(
                place, "POST", path, target.query, body, deadline=deadline, repeat=repeat
            )
        else:
            answer = await self._run([*words, *target.words], deadline=deadline, place=place)
        return self._claim_from(answer)


def _typed(which: Which) -> str:
    """What a user would type for a claim."""
    if isinstance(which, Claim):
        return f"/{which.name}" if which.name else str(which.port)
    return str(which)


def _query(claim: Claim) -> dict[str, Any]:
    """Name a claim without its token to the daemon."""
    return {"name": claim.name} if claim.name else {"port": claim.port, "proto": claim.bindings[0].proto}


def _named(full: tuple[str, str | None]) -> dict[str, Any]:
    name, project = full
    return {"name": name} if project is None else {"name": name, "project": project}


def _settings(place: Place) -> dict[str, Any]:
    return {"settings": dict(place.settings)} if place.settings else {}
