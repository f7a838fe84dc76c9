"""session.conf: the options for a native shim, which has no JSON parser (docs/session.md)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

Scalar = bool | int | str | None


def encode(options: Mapping[str, Scalar]) -> bytes:
    """One ``key=value`` a line, values percent-encoded; what is None is left out."""
    lines = [f"{key}={_value(value)}\n" for key, value in options.items() if value is not None]
    return os.fsencode("".join(lines))


def reverse_polish(expression: list[Any]) -> str:
    """A parsed ``--where`` as tokens with a space between, operands first."""
    return " ".join(_tokens(expression))


def _value(value: Scalar) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return "".join(_escaped(c) if c == "%" or c < " " or c == "\x7f" else c for c in str(value))


def _escaped(character: str) -> str:
    return f"%{ord(character):02X}"


def _tokens(expression: list[Any]) -> list[str]:
    kind, *rest = expression
    if kind == "const":
        return _constant(rest[0])
    if kind == "name":
        return [f"n:{_word(rest[0])}"]
    if kind == "attr":
        return [*_tokens(rest[0]), f"attr:{_word(rest[1])}"]
    if kind == "item":
        return [*_tokens(rest[0]), f"item:{rest[1]}"]
    return [token for operand in rest for token in _tokens(operand)] + [kind]


def _constant(value: Any) -> list[str]:
    if isinstance(value, list):
        return [token for item in value for token in _constant(item)] + [f"list:{len(value)}"]
    if value is None:
        return ["c:n:"]
    if isinstance(value, (bool, int)):
        return [f"c:i:{int(value)}"]  # True equals 1 in the hook, too
    if isinstance(value, float):
        return [f"c:f:{value.hex()}"]
    return [f"c:s:{_word(value)}"]


def _word(text: str) -> str:
    return quote(text, safe="", errors="surrogateescape")
