"""The bytes that assembly writes as numbers: debug sections of PTX hold paths as ``.b8 47, 104, …``."""

from __future__ import annotations

import re

_LINE = re.compile(rb"^[ \t]*\.b8[ \t]+([0-9][0-9, \t]*)", re.MULTILINE)
_NUMBER = re.compile(rb"\d+")


class PtxBytes:
    """All ``.b8`` numbers of a text as bytes, and the text with other ones in their places."""

    def __init__(self, text: bytes) -> None:
        self._text = text
        self._places = [
            match.span() for line in _LINE.finditer(text) for match in _NUMBER.finditer(text, *line.span(1))
        ]
        self.bytes = bytes(int(text[start:stop]) & 255 for start, stop in self._places)

    def replaced(self, data: bytes) -> bytes:
        """The text with ``data``, which is as long as ``bytes``, in place of them."""
        if data == self.bytes:
            return self._text
        out, end = [], 0
        for (start, stop), old, new in zip(self._places, self.bytes, data, strict=True):
            if old != new:
                out += [self._text[end:start], str(new).encode()]
                end = stop
        return b"".join([*out, self._text[end:]])
