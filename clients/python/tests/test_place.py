# SPDX-License-Identifier: MIT
"""Which daemon a client asks: the one that the command line asks in the same place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Daemon, command

import dibs

#: Variables (PATH, RUNTIME and LEDGER stand for those of the test) and a settings file; None: no variable.
PLACES: list[tuple[dict[str, str | None], str]] = [
    ({"DIBS_SOCKET": "PATH"}, ""),
    ({"DIBS_SOCKET": "none"}, ""),
    ({"DIBS_SOCKET": "auto", "XDG_RUNTIME_DIR": "RUNTIME"}, ""),
    ({"DIBS_SOCKET": None, "XDG_RUNTIME_DIR": "RUNTIME"}, ""),
    ({"DIBS_SOCKET": None, "XDG_RUNTIME_DIR": "RUNTIME", "DIBS_LEDGER": None}, ""),
    ({"DIBS_SOCKET": "", "XDG_RUNTIME_DIR": "RUNTIME", "DIBS_LEDGER": ""}, ""),
    ({"DIBS_SOCKET": None, "XDG_RUNTIME_DIR": "RUNTIME", "DIBS_LEDGER": None}, "ledger: sqlite:LEDGER"),
    ({"DIBS_SOCKET": None, "DIBS_LEDGER": None}, "socket: PATH"),
    ({"DIBS_SOCKET": None}, "socket: PATH"),
    ({"DIBS_SOCKET": "none"}, "socket: PATH"),
    ({"DIBS_SOCKET": None, "XDG_RUNTIME_DIR": "relative", "DIBS_LEDGER": None}, "ledger: sqlite:LEDGER"),
]


@pytest.mark.parametrize("place", range(len(PLACES)))
def test_it_is_the_daemon_of_the_command_line(
    daemon: Daemon, place: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    (runtime / "dibs").symlink_to(Path(daemon.socket).parent)
    (tmp_path / "config/dibs").mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    words = {"PATH": daemon.socket, "RUNTIME": str(runtime), "LEDGER": str(tmp_path / "ledger.db")}
    variables, file = PLACES[place]
    for name, value in variables.items():
        if value is None:
            monkeypatch.delenv(name)
        else:
            monkeypatch.setenv(name, words.get(value, value))
    for word, text in words.items():
        file = file.replace(word, text)
    (tmp_path / "config/dibs/dibs.yaml").write_text(file)
    findings = json.loads(command("doctor", "--json").stdout)
    answers = [f["text"].split(" answers")[0] for f in findings if f["topic"] == "daemon" and " answers" in f["text"]]
    with dibs.Client() as client:
        assert [client.daemon()] == (answers or [None])
    if file:
        return
    monkeypatch.setenv("DIBS", "/no/such/program")  # the environment alone counts
    with dibs.Client() as client:
        assert [client.daemon()] == (answers or [None])
