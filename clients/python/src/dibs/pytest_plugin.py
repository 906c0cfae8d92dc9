# SPDX-License-Identifier: MIT
"""Fixtures for pytest: ports that no other test, worker or run has.

`dibs_port` is a port, `dibs_ports` makes several, `dibs_env` an environment, `dibs_listen` sockets. They
belong to the process that runs the test: they are free after the test, and at the latest when the process
has ended, also when it was killed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, Unpack, overload

import pytest

import dibs

from ._request import Options

log = logging.getLogger("dibs")

_SETTINGS = {
    "pool": "the pool that the ports of tests are chosen from",
    "range": "the ports that those of tests are chosen from, as 24000-24999",
    "ttl": "let a lease of this length hold the ports of tests, as 10m, instead of the process",
    "names": "true: the ports of tests have names in the ledger, made of the test's id",
}
_PART_MAX = 63  # bytes of one part of a name
_GROUPS = 64  # runs of one directory at the same time


class Ports(Protocol):
    """Makes ports for a test: `dibs_ports(3)` a list, `dibs_ports("web", "api")` a dictionary."""

    @overload
    def __call__(self, count: int = 1, /, **options: Unpack[Options]) -> list[int]: ...

    @overload
    def __call__(self, name: str, /, *names: str, **options: Unpack[Options]) -> dict[str, int]: ...


class Environment(Protocol):
    """Makes the environment of a role of the manifest, or of ports with names as `dibs run -p` makes it."""

    def __call__(self, role: str | None = None, /, *, names: Sequence[str] = ()) -> dict[str, str]: ...


class Listen(Protocol):
    """Makes a port with its bound and listening sockets."""

    def __call__(self, name: str | None = None, /, **options: Unpack[Options]) -> dibs.Listener: ...


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("dibs", "ports of dibs")
    for name, help_text in _SETTINGS.items():
        group.addoption(f"--dibs-{name}", metavar=name.upper(), help=help_text)
        parser.addini(f"dibs_{name}", help_text)


def _setting(config: pytest.Config, name: str) -> str | None:
    given = config.getoption(f"dibs_{name}") or config.getini(f"dibs_{name}")
    return str(given) if given else None


@pytest.fixture(scope="session")
def dibs_client() -> Iterator[dibs.Client]:
    """The client of this process."""
    with dibs.Client() as client:
        yield client


class _Test:
    """What one test has claimed."""

    def __init__(self, client: dibs.Client, request: pytest.FixtureRequest) -> None:
        self.client = client
        self.node = request.node
        self.config = request.config
        self.claims: list[dibs.Claim] = []
        self.listeners: list[dibs.Listener] = []
        self.groups: list[str] = []
        self.has_names = _setting(self.config, "names") in ("true", "yes", "1", "on")

    # ---- ports ----

    def claim(self, names: Sequence[str], options: dict[str, Any]) -> list[dibs.Claim]:
        """Claim a port for each name. A name in the ledger is left out when another run has it."""
        options = {**self._defaults(options), **options}
        found: list[dibs.Claim] = []
        if self.has_names:
            try:
                found = self.client.claim_many(*(self._full(name) for name in names), **options)
            except dibs.Taken as error:
                if error.blocker is None or error.blocker.relation != "same_name":
                    raise
        if not found:
            found = self.client.claim_many(count=len(names), **options)
        self.claims += found
        self._show([claim.port for claim in found])
        return found

    def listen(self, name: str | None, options: dict[str, Any]) -> dibs.Listener:
        named = self._full(name or "listen") if self.has_names else None
        listener = self.client.listen(named, **{**self._defaults(options), **options})
        self.listeners.append(listener)
        self._show([listener.port])
        return listener

    def _defaults(self, options: dict[str, Any]) -> dict[str, Any]:
        defaults: dict[str, Any] = {}
        if not options.keys() & {"pool", "range", "port"}:
            place = "pool" if _setting(self.config, "pool") else "range"
            defaults[place] = _setting(self.config, place)
        if not options.keys() & {"pid", "ttl", "keep"}:
            defaults["ttl"] = _setting(self.config, "ttl")
        return {name: value for name, value in defaults.items() if value is not None}

    def _full(self, name: str) -> str:
        path, _, test = self.node.nodeid.partition("::")
        return "/" + "/".join(_part(part) for part in ("pytest", _worker(), path, test or path, name))

    def _show(self, ports: Sequence[int]) -> None:
        """Let the report of a failure list the ports."""
        self.node.add_report_section("setup", "dibs", "ports: " + ", ".join(map(str, ports)))

    # ---- environments ----

    def environment(self, role: str | None, names: Sequence[str]) -> dict[str, str]:
        if role is not None or not names:
            return self._role(role)
        ports = {name: str(claim.port) for name, claim in zip(names, self.claim(names, {}))}
        variables = {"PORT": ports[names[0]]}
        variables |= {f"PORT{i}": ports[name] for i, name in enumerate(names)}
        variables |= {_variable(name): port for name, port in ports.items()}
        return variables | {"DIBS_PORTS": " ".join(f"{name}={port}" for name, port in ports.items())}

    def _role(self, role: str | None) -> dict[str, str]:
        """Get the ports of a role in a group of this worker. A second run at the same time has another one."""
        group = _part(f"pytest-{Path(os.getcwd()).name}-{_worker()}", _PART_MAX - 4)
        for i in range(_GROUPS):
            mine = group if i == 0 else f"{group}.{i + 1}"
            try:
                variables = self.client.env(role, pid=os.getpid(), group=mine)
            except dibs.Taken as error:
                is_last = i + 1 == _GROUPS
                if is_last or error.blocker is None or error.blocker.relation != "same_name":
                    raise
                continue
            self.groups.append(mine)
            return variables
        raise AssertionError("the loop has returned or raised")

    # ---- the end ----

    def end(self) -> None:
        """Release everything. What cannot be released now ends with this process."""
        for listener in self.listeners:
            listener.close()
        try:
            for claim in [*self.claims, *(listener.claim for listener in self.listeners)]:
                self.client.leave(claim)
            for group in self.groups:
                for claim in self.client.list(group):
                    if claim.holder and claim.holder.pid == os.getpid():
                        self.client.release(claim)
        except dibs.Unavailable as error:
            log.warning("ports of %s are free when this process ends: %s", self.node.nodeid, error)


def _worker() -> str:
    return os.environ.get("PYTEST_XDIST_WORKER", "main")


def _variable(name: str) -> str:
    """WEB_PORT of "web", as `dibs run -p web` has it."""
    word = re.sub(b"[^A-Za-z0-9]", b"_", name.encode(errors="surrogateescape")).decode().upper()
    return ("_" if name[:1].isdecimal() else "") + word + "_PORT"


def _part(text: str, most: int = _PART_MAX) -> str:
    """Make a part of a name: without slashes, blanks and control characters, cut with a hash at the end."""
    part = re.sub(r"[^\w.\[\]@,:;()+=-]", "_", text.replace("/", ".")) or "_"
    if part.isdecimal() or set(part) == {"."}:
        part = "_" + part
    raw = part.encode(errors="replace")
    if len(raw) <= most and part.isascii():
        return part
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]
    return raw[: most - 13].decode("ascii", errors="ignore") + "~" + digest


@pytest.fixture
def _dibs_test(dibs_client: dibs.Client, request: pytest.FixtureRequest) -> Generator[_Test, None, None]:
    test = _Test(dibs_client, request)
    yield test
    test.end()


@pytest.fixture
def dibs_ports(_dibs_test: _Test) -> Ports:
    """Make ports for this test: dibs_ports(3) is a list, dibs_ports("web", "api") a dictionary."""

    def make(*asked: Any, **options: Any) -> Any:
        if len(asked) == 1 and isinstance(asked[0], int):
            asked = tuple(f"port-{i}" for i in range(asked[0]))
            return [claim.port for claim in _dibs_test.claim(asked, options)]
        names = asked or ("port-0",)
        claims = _dibs_test.claim(names, options)
        ports = {name: claim.port for name, claim in zip(names, claims)}
        return ports if asked else list(ports.values())

    return make


@pytest.fixture
def dibs_port(dibs_ports: Ports) -> int:
    """A port for this test."""
    return dibs_ports()[0]


@pytest.fixture
def dibs_env(_dibs_test: _Test) -> Environment:
    """Make the environment of a role of the manifest, dibs_env("web"), with ports of this worker, or of ports
    with names: dibs_env(names=["web", "api"]) has PORT, WEB_PORT and API_PORT."""

    def make(role: str | None = None, /, *, names: Sequence[str] = ()) -> dict[str, str]:
        return _dibs_test.environment(role, names)

    return make


@pytest.fixture
def dibs_listen(_dibs_test: _Test) -> Listen:
    """Make a port whose socket is bound and listens already: no race at all."""

    def make(name: str | None = None, /, **options: Any) -> dibs.Listener:
        return _dibs_test.listen(name, options)

    return make


