"""Which bytes of a source are strings and comments: only these can tell something private."""

from __future__ import annotations

import bisect
import re
from functools import cached_property

_PYTHON = re.compile(
    rb"\"\"\"(?:[^\"\\]|\\.|\"(?!\"\"))*(?:\"\"\"|\Z)|'''(?:[^'\\]|\\.|'(?!''))*(?:'''|\Z)|"
    rb"\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?|#[^\n]*",
    re.DOTALL,
)
_C = re.compile(
    rb"//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n]){0,8}'|^\s*#[^\n]*",
    re.DOTALL | re.MULTILINE,
)
_IDENTIFIER = re.compile(rb"[A-Za-z_]\w*")
_OF_PYTHON = (".py", ".pyi")
_OF_C = (
    ".cu", ".cuh", ".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".hip", ".inl", ".inc", ".ptx",
    ".ttir", ".ttgir", ".llir", ".ll", ".amdgcn", ".s",
)  # fmt: skip


class Code:
    """Where a source has strings and comments."""

    def __init__(self, data: bytes, pattern: re.Pattern[bytes]) -> None:
        self._data, self._pattern = data, pattern

    @classmethod
    def of(cls, name: str, data: bytes) -> Code | None:
        """None for a file that is no source by its name."""
        if name.endswith(_OF_PYTHON):
            return cls(data, _PYTHON)
        return cls(data, _C) if name.endswith(_OF_C) else None

    def tells(self, start: int) -> bool:
        """Whether the byte at ``start`` lies in a string or a comment."""
        number = bisect.bisect_right(self._starts, start) - 1
        return number >= 0 and start < self._spans[number][1]

    def identifiers(self) -> set[str]:
        """The words of the code itself."""
        rest = self._pattern.sub(b" ", self._data)
        return {word.decode("ascii", "replace") for word in set(_IDENTIFIER.findall(rest))}

    @cached_property
    def _spans(self) -> list[tuple[int, int]]:
        return [match.span() for match in self._pattern.finditer(self._data)]

    @cached_property
    def _starts(self) -> list[int]:
        return [start for start, _ in self._spans]
