# SPDX-License-Identifier: MIT
"""Where the tests run: a daemon when DIBS_SOCKET names one, else the program alone; a directory for each."""

from __future__ import annotations

import asyncio
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import dibs

PROGRAM = shutil.which(os.environ.get("DIBS", "dibs")) or "dibs"
HAS_DAEMON = os.environ.get("DIBS_SOCKET", "none") not in ("none", "auto")


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test names of its own, and patience on a busy machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIBS_TIMEOUT", "60s")


class _Each:
    """The verbs of an AsyncClient, each run to its end in an event loop."""

    def __init__(self, client: dibs.AsyncClient, run: Callable[[Any], Any]) -> None:
        self.client = client
        self._run = run

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.client, name)
        if name == "events":
            return lambda *args, **options: iter(self._run(_all(verb(*args, **options))))
        return lambda *args, **options: self._run(verb(*args, **options))


async def _all(events: AsyncGenerator[dibs.Event, None]) -> list[dibs.Event]:
    return [event async for event in events]


@pytest.fixture(params=["Client", "AsyncClient"])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Both clients: what a test says of one is true for the other."""
    if request.param == "Client":
        with dibs.Client() as client:
            yield client
        return
    with asyncio.Runner() as runner:
        each = _Each(dibs.AsyncClient(), runner.run)
        yield each
        runner.run(each.client.close())


@pytest.fixture
def sync_client() -> Iterator[dibs.Client]:
    with dibs.Client() as client:
        yield client


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program as a user would."""
    return subprocess.run(
        [PROGRAM, *words], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )


class Daemon:
    """A daemon of the test's own, with a ledger beside its socket."""

    def __init__(self, folder: Path) -> None:
        self.socket = str(folder / "dibs.sock")
        self._folder = folder
        self._child: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def pid(self) -> int:
        assert self._child
        return self._child.pid

    def start(self) -> None:
        environment = {
            **os.environ,
            "DIBS_SOCKET": "none",
            "DIBS_LEDGER": f"sqlite:{self._folder / 'ledger.db'}",
        }
        admin = self._folder / "admin.sock"
        with open(self._folder / "log", "ab") as log:
            self._child = subprocess.Popen(
                [PROGRAM, "serve", "--socket", self.socket, "--admin-socket", str(admin)],
                env=environment,
                stderr=log,
            )
        for _ in range(3000):
            with dibs.Client(socket=self.socket) as client:
                try:
                    client.log(limit=1)
                    return
                except dibs.Unavailable:
                    assert self._child.poll() is None, (self._folder / "log").read_text()
                    time.sleep(0.02)
        raise AssertionError("the daemon does not answer")

    def send(self, number: signal.Signals) -> None:
        assert self._child
        self._child.send_signal(number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        assert self._child
        self._child.send_signal(signal.SIGCONT)
        self._child.send_signal(number)
        self._child.wait(60)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon that the test may stop. Its folder is public: other users may reach the socket."""
    folder = Path(tempfile.mkdtemp(prefix="dibs-python-"))
    folder.chmod(0o755)
    made = Daemon(folder)
    try:
        yield made
    finally:
        made.stop(signal.SIGKILL)
        shutil.rmtree(folder)


@functools.cache
def is_root() -> bool:
    return os.geteuid() == 0
