# SPDX-License-Identifier: MIT
"""How a client waits: the only part that differs between `Client` and `AsyncClient`.

Everything else is written once, as coroutines on non-blocking descriptors. With `Blocking` they never
suspend, so that `run_now` can run them without an event loop.
"""

from __future__ import annotations

import select
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    import asyncio

T = TypeVar("T")


class Wait(Protocol):
    """Waits for descriptors and for time."""

    @property
    def cancelled(self) -> tuple[type[BaseException], ...]:
        """What is raised where a caller that waits is cancelled."""

    async def ready(self, fd: int, *, to_write: bool, deadline: float) -> bool:
        """Wait until `fd` can be read or written; False: the deadline (of time.monotonic) came first."""

    async def pause(self, seconds: float) -> None:
        """Wait so long."""


class Blocking:
    """Waits in the calling thread."""

    cancelled: tuple[type[BaseException], ...] = ()

    async def ready(self, fd: int, *, to_write: bool, deadline: float) -> bool:
        poll = select.poll()
        poll.register(fd, select.POLLOUT if to_write else select.POLLIN)
        left = deadline - time.monotonic()
        # A poll lasts at most 2**31 ms.
        return bool(poll.poll(min(max(left, 0.0), 1e6) * 1000)) or left > 1e6

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)


class EventLoop:
    """Waits in the running event loop, without threads. Only its user has to load asyncio."""

    @property
    def cancelled(self) -> tuple[type[BaseException], ...]:
        import asyncio

        return (asyncio.CancelledError,)

    async def ready(self, fd: int, *, to_write: bool, deadline: float) -> bool:
        import asyncio

        loop = asyncio.get_running_loop()
        future: asyncio.Future[bool] = loop.create_future()

        def finish(is_ready: bool) -> None:
            if not future.done():
                future.set_result(is_ready)

        timer = loop.call_later(max(deadline - time.monotonic(), 0.0), finish, False)
        if to_write:
            loop.add_writer(fd, finish, True)
        else:
            loop.add_reader(fd, finish, True)
        try:
            return await future
        finally:
            timer.cancel()
            if to_write:
                loop.remove_writer(fd)
            else:
                loop.remove_reader(fd)

    async def pause(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)


def run_now(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends, because it waits by `Blocking`."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("a blocking call has suspended")
