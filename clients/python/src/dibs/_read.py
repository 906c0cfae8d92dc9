# SPDX-License-Identifier: MIT
"""Reads answers of dibs: JSON objects into dataclasses."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

T = TypeVar("T")

#: Members whose names are words of Python, or whose value is an object of its own.
_MEMBER = {"as_port": "as"}


@functools.cache
def _fields(kind: Any) -> tuple[tuple[str, str, Callable[[Any], Any] | None], ...]:
    return tuple(
        (field.name, _MEMBER.get(field.name, field.name), field.metadata.get("read"))
        for field in dataclasses.fields(kind)
        if field.init
    )


def read(kind: type[T], document: Mapping[str, Any]) -> T:
    """Make a `kind` from the members that it has; ignore others, which a newer dibs may have added."""
    values = {}
    for name, member, convert in _fields(cast(Any, kind)):
        if member in document:
            value = document[member]
            values[name] = convert(value) if convert and value is not None else value
    return kind(**values)


def one(kind: type[T]) -> dict[str, Any]:
    """Metadata of a field that is an object of that kind."""
    return {"read": lambda value: read(kind, value)}


def many(kind: type[T]) -> dict[str, Any]:
    """Metadata of a field that is a list of objects of that kind."""
    return {"read": lambda value: tuple(read(kind, item) for item in value)}
