# SPDX-License-Identifier: MIT
"""`Client` and `AsyncClient`: the same verbs, waiting in the thread or in the event loop."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from ._listen import Listening
from ._project import Project
from ._wait import Blocking, EventLoop, run_now

P = ParamSpec("P")
T = TypeVar("T")


class _Verbs(Project, Listening):
    """All verbs."""

    async def daemon(self) -> str | None:
        """Return the socket of the daemon that is asked; None: there is none, and the program is run."""
        return (await self._place()).socket


class AsyncClient(_Verbs):
    """Claims ports from asyncio, through the daemon or the program.

    `socket` names the daemon ("none": no daemon), `group` the group of names, `directory` the project; by
    default they are those of the command line here. `timeout` is how many seconds a call may take. One
    client may be used by several tasks and event loops at once.
    """

    def __init__(
        self,
        *,
        socket: str | None = None,
        group: str | None = None,
        directory: str | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(EventLoop(), socket=socket, group=group, directory=directory, timeout=timeout)

    def __reduce__(self) -> tuple[Callable[[], AsyncClient], tuple[()]]:
        return functools.partial(AsyncClient, **self._options()), ()

    async def close(self) -> None:
        """Close the connections. Claims stay with their holders."""
        self._close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()


def _now(
    verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]
) -> Callable[Concatenate[Client, P], T]:
    """Make the method of Client that runs this verb and waits for its end."""

    @functools.wraps(verb)
    def method(self: Client, /, *args: P.args, **options: P.kwargs) -> T:
        return run_now(verb(self._verbs, *args, **options))

    return method


def _each(
    verb: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]
) -> Callable[Concatenate[Client, P], Generator[T, None, None]]:
    """Make the method of Client that yields what this verb yields."""

    @functools.wraps(verb)
    def method(self: Client, /, *args: P.args, **options: P.kwargs) -> Generator[T, None, None]:
        items = verb(self._verbs, *args, **options)
        try:
            while True:
                try:
                    item = run_now(_next(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            run_now(_close(items))

    return method


async def _next(items: AsyncGenerator[T, None]) -> T:
    return await items.__anext__()


async def _close(items: AsyncGenerator[T, None]) -> None:
    await items.aclose()


class Client:
    """Claims ports, through the daemon or the program.

    `socket` names the daemon ("none": no daemon), `group` the group of names, `directory` the project; by
    default they are those of the command line here. `timeout` is how many seconds a call may take. One
    client may be used by several threads at once, by the child of a fork, and by a process to which it is
    sent (multiprocessing).
    """

    is_async = False

    def __init__(
        self,
        *,
        socket: str | None = None,
        group: str | None = None,
        directory: str | None = None,
        timeout: float | None = None,
    ) -> None:
        self._verbs = _Verbs(Blocking(), socket=socket, group=group, directory=directory, timeout=timeout)
        self._verbs._owner = self

    claim = _now(_Verbs.claim)
    claim_many = _now(_Verbs.claim_many)
    listen = _now(_Verbs.listen)
    get = _now(_Verbs.get)
    find = _now(_Verbs.find)
    assert_listening = _now(_Verbs.assert_listening)
    release = _now(_Verbs.release)
    release_all = _now(_Verbs.release_all)
    renew = _now(_Verbs.renew)
    transfer = _now(_Verbs.transfer)
    leave = _now(_Verbs.leave)
    list = _now(_Verbs.list)
    who = _now(_Verbs.who)
    explain = _now(_Verbs.explain)
    log = _now(_Verbs.log)
    pools = _now(_Verbs.pools)
    pool = _now(_Verbs.pool)
    events = _each(_Verbs.events)
    env = _now(_Verbs.env)
    up = _now(_Verbs.up)
    down = _now(_Verbs.down)
    plan = _now(_Verbs.plan)
    daemon = _now(_Verbs.daemon)

    def __reduce__(self) -> tuple[Callable[[], Client], tuple[()]]:
        return functools.partial(Client, **self._verbs._options()), ()

    def close(self) -> None:
        """Close the connections. Claims stay with their holders."""
        self._verbs._close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
