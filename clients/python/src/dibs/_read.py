# SPDX-License-Identifier: MIT
"""Reads answers of dibs: JSON objects into dataclasses and exceptions.

An answer without what every version has is `Unavailable`: the program that answers is another one, or of a
version that nobody expected.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from .errors import (
    Blocker,
    Denied,
    Error,
    Exhausted,
    Failed,
    NotFound,
    Taken,
    Unavailable,
    Usage,
)

T = TypeVar("T")

#: Members whose names are words of Python, or whose value is an object of its own.
_MEMBER = {"as_port": "as"}

_BY_CODE = {kind.code: kind for kind in (Failed, Usage, Taken, Exhausted, NotFound, Unavailable, Denied)}


def not_understood(why: str) -> Unavailable:
    """Make the exception for an answer that lacks something."""
    return Unavailable(
        f"an answer is not understood; are daemon, program and client of different versions?: {why}"
    )


class Document(dict[str, Any]):
    """An object of JSON; a member that is used must be there."""

    def __missing__(self, member: str) -> Any:
        raise not_understood(f"it has no '{member}'")


def parse(text: bytes | str) -> Any:
    """Read JSON. ValueError: it is none."""
    try:
        return json.loads(text, object_hook=Document)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def rows(value: Any) -> list[Document]:
    """Check that a value is a list of objects."""
    if not isinstance(value, list) or not all(isinstance(item, Document) for item in value):
        raise not_understood("there is no list where one must be")
    return value


def number(document: Any, member: str) -> int:
    """Return a member that is a whole number."""
    value = document[member] if isinstance(document, Document) else None
    if not isinstance(value, int):
        raise not_understood(f"'{member}' is no number")
    return value


@functools.cache
def _fields(kind: Any) -> tuple[tuple[str, str, Callable[[Any], Any] | None], ...]:
    return tuple(
        (field.name, _MEMBER.get(field.name, field.name), field.metadata.get("read"))
        for field in dataclasses.fields(kind)
        if field.init
    )


def read(kind: type[T], document: Mapping[str, Any]) -> T:
    """Make a `kind` from the members that it has; ignore others, which a newer dibs may have added."""
    if not isinstance(document, dict):
        raise not_understood(f"there is no {kind.__name__} where one must be")
    values = {}
    try:
        for name, member, convert in _fields(cast(Any, kind)):
            if member in document:
                value = document[member]
                values[name] = convert(value) if convert and value is not None else value
        return kind(**values)
    except TypeError as error:
        raise not_understood(f"{kind.__name__}: {error}") from None


def one(kind: type[T]) -> dict[str, Any]:
    """Metadata of a field that is an object of that kind."""
    return {"read": lambda value: read(kind, value)}


def many(kind: type[T]) -> dict[str, Any]:
    """Metadata of a field that is a list of objects of that kind."""
    return {"read": lambda value: tuple(read(kind, item) for item in value)}


def error_from(code: int, message: str, document: Mapping[str, Any]) -> Error:
    """Make the exception of a problem document, or of the error that the program prints."""
    error = _BY_CODE.get(code, Failed)(message)
    blocker = document.get("blocker")
    if isinstance(blocker, dict):
        error.blocker = read(Blocker, blocker)
    error.trouble = document.get("trouble")
    return error
