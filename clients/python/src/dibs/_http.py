# SPDX-License-Identifier: MIT
"""HTTP to the daemon over its Unix socket: requests within a deadline, and event streams."""

from __future__ import annotations

import enum
import errno
import json
import os
import select
import socket
import time
import weakref
from collections.abc import Mapping
from typing import Any

from ._read import error_from, parse
from ._wait import Wait
from .errors import Error, Unavailable, Usage

_PAUSE = 0.02  # between two attempts: a daemon restarts within a few of them
_HEAD_MAX = 65536
_BODY_MAX = 64 << 20


class Repeat(enum.Enum):
    """Whether a request may be sent again after its connection was lost."""

    TWICE = enum.auto()  # a second request changes nothing
    KEYED = enum.auto()  # the daemon recognises its key
    ONCE = enum.auto()  # never, once the daemon may have read it


class Lost(Exception):
    """The connection was closed, or could not be opened."""

    def __init__(self, error: Error, was_sent: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.was_sent = was_sent


class TooLate(Unavailable):
    """The deadline has come before the answer."""


class _Strange(Exception):
    """The answer is no HTTP of a daemon."""


def new_key() -> str:
    """Make an Idempotency-Key."""
    return os.urandom(16).hex()


def check_key(key: str) -> None:
    """Refuse a key that cannot be a header. The daemon checks its length."""
    if not key or key != key.strip() or any(ord(c) < 32 or ord(c) == 127 for c in key):
        raise Usage("a key has 1 to 128 bytes, no control characters and no blank at its ends")


class _Connection:
    """A connected socket and the bytes that have been received and not read."""

    def __init__(self, wait: Wait) -> None:
        self._wait = wait
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._buffer = bytearray()

    def close(self) -> None:
        self._socket.close()

    def is_usable(self) -> bool:
        """Is it neither closed by the daemon nor with bytes that no request asked for?"""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not self._buffer and not poll.poll(0)

    async def connect(self, path: str, deadline: float) -> None:
        while True:
            try:
                return self._socket.connect(path)
            except BlockingIOError:  # the queue of the daemon is full
                if time.monotonic() + _PAUSE >= deadline:
                    raise TimeoutError from None
                await self._wait.pause(_PAUSE)

    async def send(self, data: bytes, deadline: float) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._socket.send(view, socket.MSG_NOSIGNAL) :]
            except BlockingIOError:
                if not await self._wait.ready(self._socket.fileno(), to_write=True, deadline=deadline):
                    raise TimeoutError from None
            except OSError:
                return  # the daemon may have sent an error before it closed

    async def _more(self, deadline: float) -> None:
        while True:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                if not await self._wait.ready(self._socket.fileno(), to_write=False, deadline=deadline):
                    raise TimeoutError from None
                continue
            if not data:
                raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
            self._buffer += data
            return

    async def take(self, size: int, deadline: float) -> bytes:
        while len(self._buffer) < size:
            await self._more(deadline)
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def line(self, deadline: float) -> bytes:
        while (end := self._buffer.find(b"\r\n")) < 0:
            if len(self._buffer) > _HEAD_MAX:
                raise _Strange("a line of its answer does not end")
            await self._more(deadline)
        return (await self.take(end + 2, deadline))[:-2]

    async def head(self, deadline: float) -> tuple[int, dict[str, str]]:
        """Read the status and the headers, their names in small letters."""
        words = (await self.line(deadline)).split(b" ")
        if not words[0].startswith(b"HTTP/1.") or len(words) < 2 or not words[1].isdigit():
            raise _Strange("its answer is no HTTP")
        headers: dict[str, str] = {}
        size = 0
        while line := await self.line(deadline):
            name, colon, value = line.partition(b":")
            size += len(line)
            if not colon or size > _HEAD_MAX:
                raise _Strange("the head of its answer is malformed")
            headers[name.decode("latin-1").lower()] = value.strip().decode("latin-1")
        return int(words[1]), headers

    async def chunk(self, deadline: float) -> bytes:
        """Read one chunk of a chunked body; the last one is empty."""
        digits = (await self.line(deadline)).split(b";")[0].strip()
        try:
            size = int(digits, 16) if len(digits) <= 8 else -1
        except ValueError:
            size = -1
        if not 0 <= size <= _BODY_MAX:
            raise _Strange("its answer has a malformed chunk")
        return (await self.take(size + 2, deadline))[:-2]

    async def body(self, headers: Mapping[str, str], deadline: float) -> bytes:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = bytearray()
            while chunk := await self.chunk(deadline):
                body += chunk
                if len(body) > _BODY_MAX:
                    raise _Strange("its answer is too large")
            return bytes(body)
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or len(length) > 9 or int(length) > _BODY_MAX:
            raise _Strange("its answer has no usable length")
        return await self.take(int(length), deadline)


def _take(idle: list[_Connection]) -> _Connection | None:
    """Take a connection out of the list, of which other threads take, too."""
    try:
        return idle.pop()
    except IndexError:
        return None


def _close_all(idle: list[_Connection]) -> None:
    while connection := _take(idle):
        connection.close()


class Daemon:
    """The daemon at a socket. Idle connections are kept for later requests, of any thread or event loop."""

    def __init__(self, wait: Wait, path: str, is_named: bool) -> None:
        self.path = path
        self._wait = wait
        self._is_named = is_named
        self._was_reached = False
        self._pid = os.getpid()
        self._idle: list[_Connection] = []
        weakref.finalize(self, _close_all, self._idle)

    def close(self) -> None:
        """Close the idle connections; a later request opens a new one."""
        _close_all(self._idle)

    async def ask(
        self,
        method: str,
        target: str,
        body: Mapping[str, Any] | None = None,
        *,
        repeat: Repeat = Repeat.TWICE,
        key: str | None = None,
        deadline: float,
    ) -> Any:
        """Send a request, again where that is safe, and return the JSON of its answer."""
        text = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {target} HTTP/1.1\r\nHost: dibs\r\n"
        if key is not None:
            head += f"Idempotency-Key: {key}\r\n"
        if method != "GET":
            head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        request = head.encode() + b"\r\n" + text
        while True:
            try:
                status, headers, answer = await self._attempt(request, deadline)
            except Lost as lost:
                if lost.was_sent and repeat is Repeat.ONCE:
                    raise Unavailable(
                        f"daemon socket {self.path}: the connection was lost before the answer came, so that "
                        "it is not known whether it was done; check before you repeat it"
                    ) from None
                # The first request fails at once without a daemon; a later one waits for its restart.
                if not self._was_reached or not await self._pause(_PAUSE, deadline):
                    raise lost.error from None
                continue
            self._was_reached = True
            after = headers.get("retry-after", "") if status == 429 else ""
            seconds = int(after) if after.isascii() and after.isdigit() and len(after) < 6 else 0
            if status != 429 or not await self._pause(max(seconds, _PAUSE), deadline):
                return self._read(status, answer)

    async def stream(self, target: str, deadline: float) -> Stream:
        """Open an event stream."""
        connection = await self._connect(deadline)
        try:
            await connection.send(
                f"GET {target} HTTP/1.1\r\nHost: dibs\r\nAccept: text/event-stream\r\n\r\n".encode(), deadline
            )
            status, headers = await connection.head(deadline)
            if not headers.get("content-type", "").startswith("text/event-stream"):
                self._read(status, await connection.body(headers, deadline))
                raise self._not_understood("it is no event stream")
            self._was_reached = True
            return Stream(connection)
        except BaseException as error:
            connection.close()
            self._raise(error)
            raise

    async def _pause(self, seconds: float, deadline: float) -> bool:
        if time.monotonic() + seconds >= deadline:
            return False
        await self._wait.pause(seconds)
        return True

    async def _attempt(self, request: bytes, deadline: float) -> tuple[int, dict[str, str], bytes]:
        connection = await self._connection(deadline)
        try:
            await connection.send(request, deadline)
            status, headers = await connection.head(deadline)
            body = await connection.body(headers, deadline)
        except BaseException as error:
            connection.close()
            self._raise(error)
            raise
        if headers.get("connection", "").lower() == "close":
            connection.close()
        else:
            self._idle.append(connection)
        return status, headers, body

    async def _connection(self, deadline: float) -> _Connection:
        if self._pid != os.getpid():  # after a fork the connections are the parent's
            self.close()
            self._pid = os.getpid()
        while connection := _take(self._idle):
            if connection.is_usable():
                return connection
            connection.close()
        return await self._connect(deadline)

    async def _connect(self, deadline: float) -> _Connection:
        connection = _Connection(self._wait)
        try:
            await connection.connect(self.path, deadline)
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError) or not isinstance(error, OSError):
                self._raise(error)
                raise
            if error.errno is None:  # its path is too long
                raise Usage(f"daemon socket {self.path}: {error}") from None
            if error.errno in (errno.EACCES, errno.EPERM):
                raise Unavailable(
                    f"daemon socket {self.path}: you may not use it; name another one with DIBS_SOCKET, or none "
                    f"to use the ledger itself: {error.strerror}"
                ) from None
            unreachable = self._unreachable("no daemon answers", error)
            if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
                raise Lost(unreachable, was_sent=False) from None
            raise unreachable from None
        return connection

    # ---- outcomes ----

    def _raise(self, error: BaseException) -> None:
        """Raise what an error of a connection means; return for others."""
        if isinstance(error, TimeoutError):
            raise TooLate(
                f"daemon socket {self.path}: no answer in time; check it with 'dibs doctor', or wait longer "
                "with a timeout or DIBS_TIMEOUT"
            ) from None
        if isinstance(error, OSError):
            raise Lost(
                self._unreachable("the connection was lost before the answer came", error), was_sent=True
            ) from None
        if isinstance(error, _Strange):
            raise Unavailable(
                f"daemon socket {self.path}: the program that answers is no dibs daemon: {error}"
            ) from None

    def _read(self, status: int, body: bytes) -> Any:
        if status in (414, 431):  # answered by the HTTP library of the daemon, in HTML
            raise Usage("a name, a directory or another text is too long for a request")
        try:
            document = parse(body) if body else None
        except ValueError as error:
            raise self._not_understood(str(error)) from None
        if 200 <= status < 300 and isinstance(document, dict):
            return document
        if isinstance(document, dict) and "detail" in document and isinstance(document.get("code"), int):
            raise error_from(document["code"], str(document["detail"]), document)
        raise self._not_understood(f"HTTP status {status} without a reason")

    def _not_understood(self, why: str) -> Unavailable:
        return Unavailable(
            f"daemon socket {self.path}: its answer is not understood; is it of another version?: {why}"
        )

    def _unreachable(self, what: str, error: OSError) -> Unavailable:
        way = "name another one" if self._is_named else "remove that file"
        return Unavailable(
            f"daemon socket {self.path}: {what}: {error.strerror}; start it with 'dibs serve', {way}, or set "
            "DIBS_SOCKET=none to use the ledger itself"
        )


class Stream:
    """An open event stream."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._text = bytearray()

    def close(self) -> None:
        self._connection.close()

    async def line(self, deadline: float) -> str | None:
        """Read a line; None: the stream has ended. TimeoutError: the deadline came first."""
        while (end := self._text.find(b"\n")) < 0:
            try:
                chunk = await self._connection.chunk(deadline)
            except TimeoutError:
                raise
            except (OSError, _Strange):
                return None
            if not chunk:
                return None
            self._text += chunk
            if len(self._text) > _BODY_MAX:
                return None
        line = self._text[:end].decode(errors="replace")
        del self._text[: end + 1]
        return line
