"""Dataclasses as lines of JSON and back, by their annotations: both ends of a pipe read and write with this.

Reading is strict and total. A line that is too long, no JSON, or of another type than its annotation says (a
field that is missing, or one too many) raises Unreadable, and nothing else: the process at the other end may
run a stranger's code. Standard library only, since the replay worker reads with it too.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import select
import time
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
MAX_LINE_BYTES = 16 << 20  # what is written comes to some MB: errors of 4,096 views, 100,000 times
_PART_BYTES = 1 << 20
_encode = json.JSONEncoder(default=vars).encode
_SHOWN = 40  # characters of a name that is not known


class Unreadable(ValueError):
    """What was read is not what its annotation says; the message begins with the place."""


# --- lines -----------------------------------------------------------------------------------------------


def line(message: Any) -> bytes:
    """One line: a dataclass becomes an object of all its fields."""
    return _encode(message).encode() + b"\n"


def send(fd: int, message: bytes) -> None:
    """Write all of it. Raises OSError if nobody reads any more."""
    while message:
        message = message[os.write(fd, message) :]


class Lines:
    """The lines that come out of a pipe."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._parts: list[bytes] = []
        self._size = 0

    def next(self, timeout_s: float | None = None) -> bytes | None:
        """A line without its end; None if the pipe was closed.

        Raises TimeoutError, or Unreadable for a line that does not end.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        part = self._parts.pop() if self._parts else b""
        self._size = 0
        while b"\n" not in part:
            self._parts.append(part)
            self._size += len(part)
            if self._size > MAX_LINE_BYTES:
                raise Unreadable(f"a line of more than {MAX_LINE_BYTES >> 20} MiB")
            if deadline is not None:
                ready, _, _ = select.select([self._fd], [], [], max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise TimeoutError
            part = os.read(self._fd, _PART_BYTES)
            if not part:
                return None
        last, _, left = part.partition(b"\n")
        whole = b"".join((*self._parts, last))
        self._parts = [left]
        return whole


# --- by annotation ---------------------------------------------------------------------------------------


def read(kind: type[T], text: bytes | str) -> T:
    """A line as ``kind``. Raises Unreadable."""
    found: T = fit(kind, parse(text))
    return found


def parse(text: bytes | str) -> Any:
    """The JSON of a line. Raises Unreadable."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable("not JSON") from None


def fit(kind: Any, value: Any) -> Any:
    """A JSON value as ``kind`` has it. Raises Unreadable for one that does not fit."""
    return _reader(kind)(value)


@functools.cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    """What reads a value of this annotation."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return lambda value: value
    if dataclasses.is_dataclass(kind):
        return _object(kind)
    if origin is typing.Literal:
        return _one_of(inner)
    if origin in (typing.Union, types.UnionType):
        return _first_fit(kind, [_reader(each) for each in inner])
    if origin is list:
        return _list(_reader(inner[0]))
    if origin is tuple:
        return _tuple([_reader(each) for each in inner])
    if origin is dict:
        return _dict(inner[0], _reader(inner[1]))
    if kind is float:
        return _float
    if kind in (bool, int, str, types.NoneType):
        return _plain(kind)
    raise TypeError(f"{kind}: no annotation of a message")


def _differs(expected: str, value: Any) -> Unreadable:
    return Unreadable(f"expected {expected}, found {type(value).__name__}")


def _plain(kind: type) -> Callable[[Any], Any]:
    def reads(value: Any) -> Any:
        if type(value) is not kind:  # a bool is no int here
            raise _differs("null" if kind is types.NoneType else kind.__name__, value)
        return value

    return reads


def _float(value: Any) -> float:
    if type(value) is float:
        return value
    if type(value) is int and abs(value) < 1 << 1000:
        return float(value)
    raise _differs("float", value)


def _one_of(words: tuple[Any, ...]) -> Callable[[Any], Any]:
    def reads(value: Any) -> Any:
        if type(value) not in (str, int) or value not in words:
            raise Unreadable(f"expected one of {', '.join(map(str, words))}")
        return value

    return reads


def _first_fit(kind: Any, readers: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def reads(value: Any) -> Any:
        problem = None
        for reader in readers:
            try:
                return reader(value)
            except Unreadable as error:
                problem = problem or error
        raise problem or Unreadable(f"expected {kind}")

    return reads


def _list(reader: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def reads(value: Any) -> Any:
        if type(value) is not list:
            raise _differs("list", value)
        found: list[Any] = []
        try:
            for each in value:
                found.append(reader(each))
        except Unreadable as error:
            raise Unreadable(f"{len(found)}: {error}") from None
        return found

    return reads


def _tuple(readers: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def reads(value: Any) -> Any:
        if type(value) is not list or len(value) != len(readers):
            raise _differs(f"a list of {len(readers)}", value)
        return tuple(reader(each) for reader, each in zip(readers, value, strict=True))

    return reads


def _dict(keys: type, reader: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def key(text: str) -> Any:
        if keys is str:
            return text
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise Unreadable("expected a number as key")
        return int(text)

    def reads(value: Any) -> Any:
        if type(value) is not dict:
            raise _differs("object", value)
        try:
            return {key(name): reader(each) for name, each in value.items()}
        except Unreadable as error:
            raise Unreadable(f"a value: {error}") from None

    return reads


def _object(kind: Any) -> Callable[[Any], Any]:
    hints = typing.get_type_hints(kind)
    read = fields({each.name: hints[each.name] for each in dataclasses.fields(kind)})
    return lambda value: kind(**read(value))


def fields(kinds: dict[str, Any]) -> Callable[[Any], dict[str, Any]]:
    """What reads an object of these fields, each as its kind, and no other. It raises Unreadable."""
    readers = {name: _reader(kind) for name, kind in kinds.items()}

    def reads(value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _differs("object", value)
        if value.keys() != readers.keys():
            more, less = sorted(value.keys() - readers.keys()), sorted(readers.keys() - value.keys())
            unknown = f"an unknown field {ascii(more[0])[:_SHOWN]}" if more else f"no field {less[0]}"
            raise Unreadable(unknown)
        found = {}
        for name, reader in readers.items():
            try:
                found[name] = reader(value[name])
            except Unreadable as error:
                raise Unreadable(f"{name}: {error}") from None
        return found

    return reads
