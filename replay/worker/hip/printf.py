"""The text of a `printf` of a kernel, from the words that its message holds: each number is one word, and a
string is as many as it needs, with its end."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Sequence
from typing import Any

_SPEC = re.compile(rb"%([-+ #0']*)(\*|\d*)(?:(\.)(\*|-?\d*))?(?:hh|h|ll|l|j|z|t|L|q)?([diouxXcsfFeEgGaApn%])")
_MOST_BYTES = 1 << 20  # of one conversion
_WORD = 8


def formatted(words: Sequence[int]) -> bytes:
    """The text; a conversion for which there is no word is left as it is written."""
    left = _Words(words)
    return _SPEC.sub(lambda spec: _converted(spec, left), left.string())


class _Words:
    def __init__(self, words: Sequence[int]) -> None:
        self._data = struct.pack(f"<{len(words)}Q", *words)
        self._at = 0

    def take(self, kind: str) -> Any:
        """The next word as `struct` reads ``kind``; None at the end."""
        if self._at + _WORD > len(self._data):
            return None
        [value] = struct.unpack_from(f"<{kind}", self._data, self._at)
        self._at += _WORD
        return value

    def string(self) -> bytes:
        end = self._data.find(b"\0", self._at)
        text = self._data[self._at : end if end >= 0 else len(self._data)]
        self._at += len(text) // _WORD * _WORD + _WORD
        return text


def _converted(spec: re.Match[bytes], words: _Words) -> bytes:
    kind = spec[5]
    if kind == b"%":
        return b"%"
    sizes = [words.take("i") for each in (spec[2], spec[4]) if each == b"*"]
    if kind == b"s":
        value: Any = words.string()
    else:
        value = words.take("d" if kind in b"fFeEgGaA" else "Q")
    if kind == b"n":
        return b""
    if value is None or None in sizes:
        return spec[0]
    made = {float: ctypes.c_double, bytes: ctypes.c_char_p, int: ctypes.c_uint64}[type(value)](value)
    # The device passes a double for it; a long double is larger here.
    text = spec[0].replace(b"L", b"") if isinstance(value, float) else spec[0]
    arguments = [ctypes.c_char_p(text), *(ctypes.c_int(size) for size in sizes), made]
    snprintf = ctypes.CDLL(None).snprintf
    length = min(_MOST_BYTES, max(0, snprintf(None, ctypes.c_size_t(0), *arguments)))
    out = ctypes.create_string_buffer(length + 1)
    snprintf(out, ctypes.c_size_t(length + 1), *arguments)
    return out.raw[:length]
