# SPDX-License-Identifier: MIT
"""Refusals: each exception, hostile names, and daemons that do not behave."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import HAS_DAEMON, PROGRAM, Daemon, command, is_root

import dibs

HOSTILE = [
    "",
    " ",
    "a b",
    "/",
    "//",
    "..",
    "a/../b",
    "--all",
    "-n",
    "$(id)",
    "`id`",
    "a'b\"c",
    "a\nb",
    "a\r\nX-Evil: 1",
    "a\0b",
    "a\x1b[31m",
    "%2e%2e%2f",
    "a?force=true",
    "a#b",
    "a&all=true",
    "8080",
    "１２３",
    "-",
    "a" * 400,
    "ä" * 63,
    "\u202egnp.exe",
    "\U0001f980",
    "\ud800",
    "1.1.00000000000000000000000000000000",
    "*",
    "a/b/c/d/e/f/g",
    "@main/x",
]


@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:24])
def test_a_hostile_name_is_refused_as_on_the_command_line_or_is_only_a_name(client: Any, name: str) -> None:
    try:
        by_program = command("claim", "--json", "--dry-run", "--pid", str(os.getpid()), "--", name)
    except ValueError:  # such a word cannot be typed
        with pytest.raises(dibs.Usage):
            client.claim(name)
        return
    if by_program.returncode != 0:
        with pytest.raises(dibs.Error) as refused:
            client.claim(name)
        error = json.loads(by_program.stderr)["error"]
        assert (refused.value.code, str(refused.value)) == (error["exit"], error["message"])
        return
    claim = client.claim(name)
    assert claim.name == json.loads(by_program.stdout)[0]["name"]
    assert client.find(name).id == claim.id and client.claim(name).id == claim.id
    assert client.release(name) == 1


def test_taken_describes_the_holder_of_the_port(client: Any) -> None:
    claim = client.claim("first")
    with pytest.raises(dibs.Taken) as refused:
        client.claim("second", port=claim.port)
    blocker = refused.value.blocker
    assert blocker and (blocker.relation, blocker.port, blocker.name) == ("same_holder", claim.port, claim.name)
    assert blocker.pid == os.getpid() and claim.name in str(refused.value) and refused.value.code == 3


def test_an_exhausted_pool_is_exhausted(client: Any) -> None:
    claims = client.claim_many(count=2, range="19500-19501")
    with pytest.raises(dibs.Exhausted, match="^no free port left in pool '19500-19501'") as refused:
        client.claim(range="19500-19501")
    assert refused.value.code == 4
    with pytest.raises(dibs.Exhausted):
        client.claim_many(count=3, range="19500-19502", contiguous=True)
    for claim in claims:
        client.release(claim)


def test_a_count_that_no_dibs_takes_is_refused_before_requests_are_made_of_it(client: Any) -> None:
    for count in (-1, 0, 4097, 2**30):
        with pytest.raises(dibs.Usage):
            client.claim_many("many", count=count, dry_run=True)


def test_not_found_usage_and_failed(client: Any) -> None:
    with pytest.raises(dibs.NotFound, match="no claim is named '.*/nobody'"):
        client.find("nobody")
    with pytest.raises(dibs.NotFound):
        client.claim(pid=2**22 + 1)
    for options in ({"port": 70000}, {"range": "5-1"}, {"ttl": "5"}, {"proto": "icmp"}, {"hold": "strong"}):
        with pytest.raises(dibs.Usage):
            client.claim(**options)
    with pytest.raises(dibs.Usage, match="cannot be used together"):
        client.claim(port=20000, prefer=20000)
    with pytest.raises(dibs.Usage):
        client.claim(key="a\r\nX-Evil: 1")
    with pytest.raises(TypeError):
        client.claim(prot="tcp")
    with pytest.raises(dibs.Failed, match="'enforce' cannot be had"):
        client.claim(hold="enforce")


def test_another_users_claim_is_denied(daemon: Daemon) -> None:
    if not is_root():
        pytest.skip("needs root")
    with dibs.Client(socket=daemon.socket) as client:
        claim = client.claim("/mine")
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        os.environ["DIBS"] = "/no/such/program"
        try:
            with dibs.Client(socket=daemon.socket) as client:
                client.release(claim)
        except dibs.Denied:
            os._exit(0)
        except dibs.Error:
            os._exit(2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_daemon_that_is_named_must_answer(client: Any, tmp_path: Path) -> None:
    kind = dibs.Client if isinstance(client, dibs.Client) else dibs.AsyncClient
    nobody = str(tmp_path / "nobody.sock")
    refused = command("claim", "--json", DIBS_SOCKET=nobody)
    assert refused.returncode == 6
    with pytest.raises(dibs.Unavailable) as error:
        _verb(client, kind(socket=nobody))
    assert str(error.value) == json.loads(refused.stderr)["error"]["message"]
    with pytest.raises(dibs.Usage, match="too long"):
        _verb(client, kind(socket="/" + "x" * 200))


def _verb(like: Any, client: Any) -> dibs.Claim:
    """Claim with the client, as the given one does."""
    claim: dibs.Claim = client.claim() if isinstance(client, dibs.Client) else like._run(client.claim())
    return claim


def test_without_the_program_the_daemon_serves_full_names(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIBS", "/no/such/program")
    monkeypatch.delenv("DIBS_TIMEOUT")
    with dibs.Client(socket=daemon.socket) as client:
        claim = client.claim("/shop/web", address="127.0.0.1")
        assert client.find("/shop/web").id == client.find(claim.port).id == claim.id
        assert client.get("/shop/db").name == "shop/db"
        assert client.who(claim.port).claims[0].id == claim.id
        with pytest.raises(dibs.Usage, match="DIBS_GROUP"):
            client.claim("web")
        with pytest.raises(dibs.Unavailable, match="needs the program"):
            client.env("web")
        assert client.release("/shop/web") == 1 and client.release(client.get("/shop/db").port) == 1
    with dibs.Client(socket=daemon.socket, group="shop") as client:
        assert client.claim("web").name == "shop/web" and client.release("web") == 1
    with dibs.Client(socket="none") as client, pytest.raises(dibs.Unavailable, match="needs the program"):
        client.claim()


@pytest.mark.skipif(HAS_DAEMON, reason="the daemon has the ledger")
def test_without_a_ledger_a_port_is_degraded_or_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DIBS_LEDGER", "sqlite:/dev/null/ledger")
    with dibs.Client() as client, pytest.raises(dibs.Unavailable):
        client.claim()
    monkeypatch.setenv("DIBS_LEDGER_MODE", "fallback")
    monkeypatch.setenv("DIBS_MRU_FILE", str(tmp_path / "mru"))
    with dibs.Client() as client, client.claim() as claim:
        assert claim.degraded and claim.token is None


def test_a_program_that_is_no_dibs_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho hello\n")
    other.chmod(0o755)
    monkeypatch.setenv("DIBS", str(other))
    with dibs.Client() as client, pytest.raises(dibs.Failed, match="no JSON"):
        client.claim()
    other.write_text("#!/bin/sh\nkill -SEGV $$\n")
    with dibs.Client() as client, pytest.raises(dibs.Failed, match="signal 11"):
        client.claim()


# ---- daemons that do not behave ----


class Unruly:
    """A server that answers each connection with these bytes, and then closes it, or answers nothing."""

    def __init__(self, path: str) -> None:
        self.answers: list[bytes] = []
        self.is_silent = False
        self.requests: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self.requests.append(connection.recv(65536))
            if not self.is_silent:
                connection.sendall(self.answers.pop(0) if self.answers else b"")
                connection.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for connection in self._open:
            connection.close()


@pytest.fixture
def unruly(tmp_path: Path) -> Iterator[tuple[Unruly, str]]:
    path = str(tmp_path / "unruly.sock")
    server = Unruly(path)
    yield server, path
    server.close()


STRANGE = {
    "no HTTP": b"220 mail.example.org ESMTP\r\n\r\n",
    "a head without an end": b"HTTP/1.1 200 OK\r\n" + b"x" * 200_000,
    "a header without a colon": b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
    "no JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "a huge length": b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
    "a negative length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "a malformed chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "JSON without an end": b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b"[" * 99999,
    "no object": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "no list of claims": b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + b'{"claims": 1}',
    "no claims": b"HTTP/1.1 200 OK\r\nContent-Length: 14\r\n\r\n" + b'{"next": null}',
    "a claim without a port": b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n" + b'{"claims": [{}], "next": null}',
    "an error without a reason": b"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("strange", STRANGE)
def test_a_strange_answer_is_reported(unruly: tuple[Unruly, str], strange: str) -> None:
    server, path = unruly
    server.answers = [STRANGE[strange]]
    with dibs.Client(socket=path) as client, pytest.raises(dibs.Unavailable) as error:
        client.list()
    assert str(error.value).startswith(f"daemon socket {path}: ") or "is not understood" in str(error.value)


def test_a_claim_whose_answer_is_not_understood_can_be_asked_for_again(unruly: tuple[Unruly, str]) -> None:
    server, path = unruly
    server.answers = [b"HTTP/1.1 201 Created\r\nContent-Length: 11\r\n\r\n" + b'{"port": 1}']
    with dibs.Client(socket=path) as client, pytest.raises(dibs.Unavailable, match="missing") as error:
        client.claim()
    assert error.value.key and error.value.key.encode() in server.requests[0]


def test_an_answer_that_was_cut_off_is_asked_for_again_with_the_same_key(unruly: tuple[Unruly, str]) -> None:
    server, path = unruly
    whole = b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"claims": []}'[:-1]
    first = b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\n" + b'{"events":[],"seq":0,"oldest"'
    server.answers = [first]
    with dibs.Client(socket=path) as client:
        with pytest.raises(dibs.Unavailable, match="the connection was lost"):
            client.log()  # the first request of a client does not wait for a daemon
        server.answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 33\r\n\r\n" + b'{"events":[],"seq":0,"oldest":0} ']
        assert client.log() == []
        server.requests.clear()
        problem = b'{"detail": "taken", "code": 3}'
        answer = b"HTTP/1.1 409 Conflict\r\nContent-Length: %d\r\n\r\n" % len(problem) + problem
        server.answers = [whole[:20], b"HTTP/1.1 429 Wait\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n", answer]
        with pytest.raises(dibs.Taken, match="^taken$"):
            client.claim()
    keys = {line for request in server.requests for line in request.split(b"\r\n") if line.startswith(b"Idem")}
    assert len(server.requests) == 3 and len(keys) == 1
    # A transfer is not repeated: a second one would find another token.
    with dibs.Client(socket=path) as client:
        server.answers = [b"HTTP/1.1 200 OK\r\nContent-Length: 33\r\n\r\n" + b'{"events":[],"seq":0,"oldest":0} ', whole[:20]]
        client.log()
        with pytest.raises(dibs.Unavailable, match="check before you repeat it"):
            client.transfer(dibs.Token("1.1.0"))


def test_a_silent_daemon_is_given_up_at_the_deadline(client: Any, unruly: tuple[Unruly, str]) -> None:
    server, path = unruly
    server.is_silent = True
    kind = dibs.Client if isinstance(client, dibs.Client) else dibs.AsyncClient
    with pytest.raises(dibs.Unavailable, match="no answer in time") as late:
        _verb(client, kind(socket=path, timeout=0.2))
    assert late.value.key and late.value.key.encode() in server.requests[0]


def test_a_program_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "slow"
    slow.write_text(f'#!/bin/sh\n[ "$1" = claim ] || exec {PROGRAM} "$@"\necho $$ >pid\nexec sleep 600\n')
    slow.chmod(0o755)
    monkeypatch.setenv("DIBS", str(slow))
    with dibs.Client(socket="none") as client, pytest.raises(dibs.Unavailable, match="does not end in time"):
        client.claim(timeout=0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path("pid").read_text()), 0)
