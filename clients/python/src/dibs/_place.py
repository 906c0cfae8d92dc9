# SPDX-License-Identifier: MIT
"""Which daemon, settings and names count in a directory, by the rules of the command line."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from .errors import Usage

_ADMIN = "/run/dibs/admin.sock"
_PUBLIC = "/run/dibs/dibs.sock"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
#: The settings that the daemon needs from its caller, as the program sends them.
_CARRIED = ("range", "pool", "band", "order", "cooldown", "ttl", "allow-ephemeral", "allow-blocked")
_DEFAULT = "default"


def seconds(text: str) -> float:
    """Read a duration of dibs: "500ms", "10s", "5m"."""
    found = re.fullmatch(r"([0-9]+)(ms|s|m|h|d)", text)
    if not found:
        raise Usage(f"duration '{text}': expected a number with a unit, such as 500ms, 10s, 5m, 2h or 7d")
    return int(found[1]) * _UNITS[found[2]]


def duration(value: str | timedelta) -> str:
    """Write a duration for dibs; a text stays as it is."""
    return value if isinstance(value, str) else f"{round(value.total_seconds() * 1000)}ms"


@dataclass(frozen=True)
class Setting:
    value: str
    source: str


@dataclass(frozen=True)
class Place:
    """What counts in a directory."""

    socket: str | None  # of the daemon; None: there is none, the program opens the ledger
    is_named: bool  # the caller or a setting names it
    timeout: float
    settings: Mapping[str, str]  # for requests to the daemon
    group: str | None  # of simple names; None: only the program knows it
    project: str | None  # the directory that they belong to
    manifest_problem: str | None
    program: str | None

    def simple(self, name: str) -> tuple[str, str | None] | None:
        """Return the full name of NAME, and the project's directory; None: the program has to find it.

        The program also takes a name of several parts for a full one, and a port of the manifest."""
        if self.group is None or not name or "/" in name or name.isdecimal():
            return None
        return f"{self.group}/{name}", self.project


def place_from(document: Mapping[str, Any] | None, given: Mapping[str, str], program: str | None) -> Place:
    """Make the place of `dibs settings --json`; without it (None) of the environment. `given` are the settings
    that the client was made with."""
    settings = {
        name[5:].lower().replace("_", "-"): Setting(value, "environment")
        for name, value in os.environ.items()
        if name.startswith("DIBS_") and value
    }
    group = project = problem = None
    if document is not None:
        settings = {
            row["name"]: Setting(row["value"], row["source"])
            for row in document["settings"]
            if row["value"] is not None
        }
        problem = document["manifest_problem"]
        if not document["manifest"] and not problem:
            group, project = document["group"], document["project"]
        if project and "\ufffd" in project:  # it is no UTF-8
            group = project = None
    settings |= {name: Setting(value, "flag") for name, value in given.items()}
    if document is None and "group" in settings:
        group = settings["group"].value
    socket, is_named = _find_socket(settings)
    return Place(
        socket=socket,
        is_named=is_named,
        timeout=seconds(settings["timeout"].value) if "timeout" in settings else 5.0,
        settings={
            name.replace("-", "_"): settings[name].value
            for name in _CARRIED
            if name in settings and settings[name].source != _DEFAULT
        },
        group=group,
        project=project,
        manifest_problem=problem,
        program=program,
    )


def _find_socket(settings: Mapping[str, Setting]) -> tuple[str | None, bool]:
    """The rule of src/lib/remote.c: a ledger that is meant, a socket that is named, or one that is there."""
    ledger = settings.get("ledger", Setting("", _DEFAULT))
    socket = settings.get("socket", Setting("auto", _DEFAULT))
    if ledger.source == "environment" and socket.source == _DEFAULT:
        return None, False
    if socket.value == "none":
        return None, True
    if socket.value != "auto":
        return os.path.abspath(socket.value), True
    if os.geteuid() == 0 and os.access(_ADMIN, os.W_OK, effective_ids=True):
        return _ADMIN, False
    if os.path.exists(_PUBLIC):
        return _PUBLIC, False
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    own = f"{runtime}/dibs/dibs.sock"
    try:
        is_own = runtime.startswith("/") and os.stat(own).st_uid in (0, os.geteuid())
    except OSError:
        is_own = False
    return (own, False) if is_own else (None, False)
