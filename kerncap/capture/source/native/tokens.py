"""CUDA C++ as tokens: enough to find definitions, tolerant of everything else.

No preprocessor runs. Directives are tokens of their own, so that a reader of the stream can keep both
branches of a condition apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_TEXT = 8 << 20

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+|\\\n)
  | (?P<line>\n)
  | (?P<comment>//(?:[^\n\\]|\\.|\\\n)*|/\*.*?(?:\*/|\Z))
  | (?P<raw>(?:u8|[uUL])?R"(?P<delimiter>[^()\\\s]{0,16})\(.*?\)(?P=delimiter)")
  | (?P<string>(?:u8|[uUL])?"(?:[^"\\\n]|\\.|\\\n)*(?:"|\n|\Z))
  | (?P<number>\.?\d(?:[eEpP][+-]|'[\w]|[\w.])*)
  | (?P<character>(?:u8|[uUL])?'(?:[^'\\\n]|\\.)*(?:'|\n|\Z))
  | (?P<word>[A-Za-z_$][\w$]*)
  | (?P<mark>::|->|\[\[|\]\]|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE_END = re.compile(r"(?:[^\n\\/]|\\.|\\\n|/\*.*?\*/|/(?!\*))*", re.DOTALL)


@dataclass(frozen=True)
class Token:
    """``kind`` is word, number, string, mark or directive (its whole text, from the `#`)."""

    kind: str
    text: str
    line: int


def tokenize(text: str) -> Iterator[Token]:
    """The tokens of a file, comments and white space left out. Text beyond ``MAX_TEXT`` is not read."""
    text = text[:MAX_TEXT].replace("\r\n", "\n")
    offset, line, fresh = 0, 1, True
    while offset < len(text):
        found = _TOKEN.match(text, offset)
        assert found is not None  # `mark` takes anything
        kind, value, at = found.lastgroup or "mark", found.group(), line
        if kind == "delimiter":
            kind = "raw"
        if kind == "mark" and value == "#" and fresh:
            ended = _DIRECTIVE_END.match(text, offset)
            value = ended.group() if ended is not None and ended.group() else value
            kind = "directive"
        offset += len(value)
        line += value.count("\n")
        if kind == "line":
            fresh = True
        elif kind not in ("space", "comment"):
            fresh = False
            yield Token("string" if kind in ("raw", "character") else kind, value, at)
