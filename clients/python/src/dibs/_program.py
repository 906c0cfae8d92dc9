# SPDX-License-Identifier: MIT
"""Runs the program `dibs`, within a deadline."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ._read import error_from, parse
from ._wait import Wait
from .errors import Error, Failed, Unavailable, Usage

log = logging.getLogger("dibs")

#: The program has its own deadline; so much later it is ended.
GRACE = 2.0
#: The longest timeout that the program takes: a day.
LONGEST = 86400.0


def find_program() -> str | None:
    """Return the program that $DIBS names, else the one in PATH; None: there is none."""
    return shutil.which(os.environ.get("DIBS") or "dibs")


async def run_program(
    wait: Wait,
    program: str,
    words: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: str | None,
    deadline: float,
) -> Any:
    """Run a command and return the JSON that it prints. A child that is not waited for is killed."""
    left = min(max(deadline - time.monotonic(), 0.001), LONGEST)
    environment = {**os.environ, **environment, "DIBS_TIMEOUT": f"{max(int(left * 1000), 1)}ms"}
    with open(os.memfd_create("dibs-stderr"), "w+b") as errors:
        try:
            child = subprocess.Popen(
                [program, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                cwd=directory,
            )
        except ValueError as error:  # a NUL, or half of a surrogate pair
            raise Usage(f"a word for dibs cannot be one: {error}") from None
        except OSError as error:
            raise Unavailable(f"cannot run {program}: {error.strerror}") from None
        try:
            output = await _output(wait, child, time.monotonic() + left + GRACE)
        finally:
            await _end(wait, child)
        errors.seek(0)
        return _answer(program, child.returncode, output, errors.read().decode(errors="replace"))


async def _output(wait: Wait, child: subprocess.Popen[bytes], deadline: float) -> bytes:
    assert child.stdout is not None
    fd = child.stdout.fileno()
    os.set_blocking(fd, False)
    output = bytearray()
    while True:
        try:
            data = os.read(fd, 65536)
        except BlockingIOError:
            if not await wait.ready(fd, to_write=False, deadline=deadline):
                raise Unavailable("the program dibs does not end in time; 'dibs doctor' checks its ledger") from None
            continue
        if not data:
            break
        output += data
    while child.poll() is None and time.monotonic() < deadline:
        await _exited(wait, child, deadline)
    return bytes(output)


async def _exited(wait: Wait, child: subprocess.Popen[bytes], deadline: float) -> None:
    try:
        fd = os.pidfd_open(child.pid)
    except OSError:  # an old kernel, or a filter of system calls
        return await wait.pause(0.005)
    try:
        await wait.ready(fd, to_write=False, deadline=deadline)
    finally:
        os.close(fd)


async def _end(wait: Wait, child: subprocess.Popen[bytes]) -> None:
    assert child.stdout is not None
    child.stdout.close()
    if child.poll() is None:
        child.kill()
        await _exited(wait, child, time.monotonic() + GRACE)
        child.poll()


def _answer(program: str, code: int | None, output: bytes, errors: str) -> Any:
    lines = errors.splitlines()
    if code == 0:
        for line in lines:
            log.warning("%s", line.removeprefix("dibs: "))
        try:
            return parse(output) if output.strip() else None
        except ValueError:
            raise Failed(f"{program}: its answer is no JSON; is it another program of this name?") from None
    for line in reversed(lines):
        if error := _error_in(line):
            raise error
    how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    raise Failed(f"{program}: it ended by {how}" + (f": {lines[-1]}" if lines else ""))


def _error_in(line: str) -> Error | None:
    """Read an error that the program prints."""
    try:
        document = parse(line)
    except ValueError:
        return None
    error = document.get("error") if isinstance(document, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("exit"), int):
        return None
    return error_from(error["exit"], str(error.get("message")), error)
