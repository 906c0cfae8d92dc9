# SPDX-License-Identifier: MIT
"""Cancellation, interruption, several event loops, and a daemon that is restarted in the middle."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import PROGRAM, Daemon, command

import dibs


async def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the condition has not come true")


class Relay:
    """Stands between a client and the daemon, and can hold back an answer that the daemon has given."""

    def __init__(self, path: str, daemon: str) -> None:
        self.path = path
        self.holds = False
        self.held = threading.Event()
        self._daemon = daemon
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as daemon:
            daemon.connect(self._daemon)
            while request := client.recv(65536):
                daemon.sendall(request)
                answer = daemon.recv(65536)
                if self.holds:
                    self.holds = False
                    self.held.set()
                    client.recv(1)  # until the client gives up
                    return
                client.sendall(answer)


@pytest.fixture
def relay(daemon: Daemon, tmp_path: Path) -> Relay:
    return Relay(str(tmp_path / "relay.sock"), daemon.socket)


def test_a_cancelled_claim_that_the_daemon_has_made_is_ended(relay: Relay) -> None:
    async def main() -> None:
        async with dibs.AsyncClient(socket=relay.path) as client:
            kept = await client.get("/kept")
            for name in (None, "/cancelled", "/kept"):
                relay.held.clear()
                relay.holds = True
                task = asyncio.create_task(client.claim(name))
                await wait_for(relay.held.is_set)
                assert len(await client.list()) == (1 if name == "/kept" else 2)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                # What the name had before stays as it was.
                [left] = await client.list()
                assert left.id == kept.id and left.holder is None

    asyncio.run(main())


def test_a_cancelled_claim_that_the_daemon_has_not_read_yet_leaves_nothing(daemon: Daemon) -> None:
    async def main() -> None:
        async with dibs.AsyncClient(socket=daemon.socket) as client:
            await client.log()
            daemon.send(signal.SIGSTOP)
            task = asyncio.create_task(client.claim())
            await asyncio.sleep(0.1)
            assert not task.done()
            task.cancel()
            await asyncio.sleep(0)
            daemon.send(signal.SIGCONT)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await client.list() == []

    asyncio.run(main())


def test_a_task_that_is_cancelled_at_any_moment_and_again_leaves_nothing() -> None:
    seed = os.environ.get("DIBS_TEST_SEED", str(time.time_ns()))
    print("DIBS_TEST_SEED", seed)
    at = random.Random(seed)
    tasks = int(os.environ.get("TASKS", "36"))

    async def use(client: dibs.AsyncClient, name: str | None) -> None:
        if at.random() < 0.3:
            async with await client.listen(name):
                await asyncio.sleep(at.uniform(0, 0.002))
        else:
            async with await client.claim(name):
                await asyncio.sleep(at.uniform(0, 0.002))

    async def main() -> None:
        async with dibs.AsyncClient() as client:
            await client.get("kept")
            before = {claim.id for claim in await client.list()}
            longest = 0.003 if await client.daemon() else 0.03
            ended = []
            for i in range(0, tasks, 3):
                running = [asyncio.create_task(use(client, name)) for name in (None, f"name-{i}", "kept")]
                for _ in range(3):
                    for task in running:
                        await asyncio.sleep(at.uniform(0, longest))
                        task.cancel()
                ended += await asyncio.gather(*running, return_exceptions=True)
                assert {claim.id for claim in await client.list()} == before, i
                assert (await client.find("kept")).holder is None, i
            assert all(result is None or isinstance(result, asyncio.CancelledError) for result in ended), ended
            await client.release("kept")

    asyncio.run(main())


#: A program that claims, and is killed before it has said so: the first time only.
HALTING = f"""#!/bin/sh
[ "$1" = claim ] || exec {PROGRAM} "$@"
if mkdir halted 2>/dev/null; then
    {PROGRAM} "$@" >answer
    echo $$ >pid
    exec sleep 600
fi
exec {PROGRAM} "$@"
"""


def test_a_cancelled_claim_kills_the_program_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    halting = tmp_path / "halting"
    halting.write_text(HALTING)
    halting.chmod(0o755)
    monkeypatch.setenv("DIBS", str(halting))

    async def main() -> None:
        client = dibs.AsyncClient(socket="none")
        task = asyncio.create_task(client.claim("web"))
        await wait_for(lambda: Path("pid").exists() and Path("pid").read_text() != "")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert tmp_path.name + "/web" in Path("answer").read_text()
        with pytest.raises(ProcessLookupError):
            os.kill(int(Path("pid").read_text()), 0)
        assert await client.list(tmp_path.name) == []

    monkeypatch.setenv("DIBS_LEDGER", f"sqlite:{tmp_path}/ledger.db")
    asyncio.run(main())


def test_an_interrupted_claim_leaves_nothing(daemon: Daemon, relay: Relay) -> None:
    """The same for Ctrl-C in a program without an event loop."""
    script = f"""
import dibs, sys, time
client = dibs.Client(socket={relay.path!r})
client.log()
print("ready", flush=True)
sys.stdin.readline()
try:
    client.claim("/interrupted")
except KeyboardInterrupt:
    print("interrupted", flush=True)
time.sleep(600)
"""
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdin and child.stdout and child.stdout.readline() == "ready\n"
        relay.holds = True
        child.stdin.write("\n")
        child.stdin.flush()
        assert relay.held.wait(60)
        with dibs.Client(socket=daemon.socket) as client:
            assert [claim.name for claim in client.list()] == ["interrupted"]
            child.send_signal(signal.SIGINT)
            assert child.stdout.readline() == "interrupted\n"
            assert client.list() == []
    finally:
        child.kill()
        child.communicate()


def test_many_tasks_share_a_client() -> None:
    async def main() -> None:
        async with dibs.AsyncClient() as client:
            claims = await asyncio.gather(*(client.claim() for _ in range(40)))
            assert len({claim.port for claim in claims}) == 40
            async with await client.claim() as claim:
                assert (await client.find(claim)).id == claim.id
            with pytest.raises(dibs.NotFound):
                await client.find(claim)
            with pytest.raises(TypeError):
                claim.__enter__()
            await asyncio.gather(*(client.release(claim) for claim in claims))

    asyncio.run(main())


def test_two_event_loops_use_one_client_one_after_the_other_and_at_once() -> None:
    client = dibs.AsyncClient()
    ports: list[int] = []

    async def claim() -> None:
        for _ in range(5):
            ports.append((await client.claim()).port)
            await asyncio.sleep(0)

    for _ in range(2):
        asyncio.run(claim())
    threads = [threading.Thread(target=asyncio.run, args=(claim(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ports) == 20 == len(set(ports))
    asyncio.run(client.close())


def test_the_event_loop_is_not_blocked_and_no_thread_is_used(daemon: Daemon) -> None:
    async def main() -> None:
        client = dibs.AsyncClient(socket=daemon.socket)
        await client.log()
        threads = set(threading.enumerate())
        daemon.send(signal.SIGSTOP)
        task = asyncio.create_task(client.claim())
        for _ in range(100):
            await asyncio.sleep(0.001)
        assert not task.done()
        daemon.send(signal.SIGCONT)
        assert (await task).port
        assert (await dibs.AsyncClient(socket="none").claim()).port
        assert set(threading.enumerate()) <= threads
        await client.close()

    asyncio.run(main())


def test_calls_and_events_go_on_when_the_daemon_is_restarted(daemon: Daemon) -> None:
    async def main() -> None:
        async with dibs.AsyncClient(socket=daemon.socket) as client:
            seen: list[dibs.Event] = []

            async def follow() -> None:
                async for event in client.events(0):
                    seen.append(event)

            follower = asyncio.create_task(follow())
            first = await client.claim("/first")
            await wait_for(lambda: len(seen) == 1)
            for number in (signal.SIGTERM, signal.SIGKILL):
                await asyncio.to_thread(daemon.stop, number)
                waiting = asyncio.create_task(client.claim())
                await asyncio.sleep(0.1)
                assert not waiting.done()
                await asyncio.to_thread(daemon.start)
                await waiting
            assert (await client.find(first)).id == first.id
            assert await client.release(first) == 1
            await wait_for(lambda: len(seen) == 4)
            assert [event.what for event in seen] == ["claimed", "claimed", "claimed", "released"]
            assert [event.seq for event in seen] == [1, 2, 3, 4]
            follower.cancel()
            with pytest.raises(asyncio.CancelledError):
                await follower

    asyncio.run(main())


def test_a_reader_of_another_ledger_has_missed_events(daemon: Daemon, tmp_path: Path) -> None:
    async def main() -> None:
        async with dibs.AsyncClient(socket=daemon.socket) as client:
            for _ in range(3):
                await client.claim()
            events = client.events(0)
            for _ in range(3):
                await anext(events)
            await asyncio.to_thread(daemon.stop)
            for file in Path(daemon.socket).parent.glob("ledger.db*"):
                file.unlink()
            await asyncio.to_thread(daemon.start)
            with pytest.raises(dibs.Missed, match="another ledger"):
                await anext(events)

    asyncio.run(main())


def test_a_stream_of_events_ends_when_it_is_idle_or_closed() -> None:
    async def main() -> None:
        async with dibs.AsyncClient() as client:
            assert [event async for event in client.events(idle=0.1)] == []
            events = client.events()
            reading = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0.5)
            claim = await client.claim()
            event = await asyncio.wait_for(reading, 60)
            assert (event.what, event.port) == ("claimed", claim.port)
            await events.aclose()

    asyncio.run(main())


def test_the_program_and_the_client_see_the_same_claims() -> None:
    async def main() -> None:
        async with dibs.AsyncClient() as client:
            claim = await client.claim("web")
            assert command("get", "web").stdout == f"{claim.port}\n"

    asyncio.run(main())
