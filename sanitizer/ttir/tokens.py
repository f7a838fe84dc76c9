"""TTIR's characters to tokens, and the one error that malformed text gives.

The text may come from a stranger: sizes, nesting and element counts are capped before anything of
that size is made, and every pattern below is linear in the text (a string or a bracket that is
never closed ends its token instead of being tried again from every character).
"""

from __future__ import annotations

import re
from typing import NoReturn

from kerncap.errors import FormatError, KerncapError

MAX_CHARACTERS = 16 << 20  # some 150,000 lines
MAX_TOKENS = 4_000_000
# Regions in regions, and brackets in attributes; each level costs a few Python frames.
MAX_NESTING = 48
# Triton itself refuses tiles of more than 2**20 elements.
MAX_ELEMENTS = 1 << 24
MAX_LITERAL = 1 << 20  # elements that are spelled out one by one
MAX_RESULTS = 65_536

_INNER = r"<[^<>\"\n]*>"
_MIDDLE = rf"<[^<>\"\n]*(?:{_INNER}[^<>\"\n]*)*>"
_ANGLES = rf"<[^<>\"\n]*(?:{_MIDDLE}[^<>\"\n]*)*>"
_STRING = r'"(?:[^"\\\n]|\\.)*"?'
_PARENS_0 = r"\([^()\"\n]*\)"
_PARENS_1 = rf'\((?:[^()"\n]|"[^"\\\n]*"|{_PARENS_0})*\)'

# Types, `dense<…>`, `array<…>` and `loc(…)` are one token each, so that equal ones are read once.
# `findall` gives the tokens without positions, which only an error needs: `_offset` finds them again.
_TOKEN = re.compile(
    rf"""%[\w$.\-]+(?:\#\d+)?
    |loc(?:\(\#\w+\)|{_PARENS_1})
    |dense<(?:[^<>"]*|"0x[0-9A-Fa-f]*")>
    |[A-Za-z_][\w$.]*(?:{_ANGLES})?
    |->|::
    |-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*(?:[eE][+\-]?\d+)?)?)
    |{_STRING}
    |[!\#][\w$.\-]+(?:{_ANGLES})?
    |\^[\w$.\-]+
    |@(?:{_STRING}|[\w$.\-]+)
    |//[^\n]*
    |\S""",
    re.VERBOSE,
)


class TtirError(FormatError):
    """TTIR text that cannot be read; ``line`` is 1-based, ``offset`` counts characters."""

    def __init__(self, line: int, offset: int, message: str) -> None:
        KerncapError.__init__(self, f"TTIR, line {line}: {message}")
        self.path = "TTIR"
        self.offset = offset
        self.line = line


class Tokens:
    """A cursor over the tokens of one text. The empty string stands behind the last token."""

    __slots__ = ("_text", "all", "at", "depth")

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            raise TtirError(1, 0, f"the text has {len(text)} characters; at most {MAX_CHARACTERS} are read")
        self._text = text
        self.all: list[str] = _TOKEN.findall(text)
        if "//" in text:
            self.all = [token for token in self.all if not token.startswith("//")]
        if len(self.all) > MAX_TOKENS:
            raise TtirError(1, 0, f"the text has {len(self.all)} tokens; at most {MAX_TOKENS} are read")
        # Enough to look a few tokens ahead without asking for the length.
        self.all += ["", "", "", ""]
        self.at = 0
        self.depth = 0

    def peek(self) -> str:
        return self.all[self.at]

    def next(self) -> str:
        token = self.all[self.at]
        if not token:
            self.fail("the text ends too early")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.all[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        if self.all[self.at] != token:
            self.fail(f"expected '{token}', found {self.shown()}")
        self.at += 1

    def deeper(self) -> None:
        """One level of nesting more; paired with `shallower`."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail(f"nested deeper than {MAX_NESTING} levels")

    def shallower(self) -> None:
        self.depth -= 1

    def shown(self, at: int | None = None) -> str:
        token = self.all[self.at if at is None else at]
        if not token:
            return "the end of the text"
        return repr(token if len(token) <= 40 else token[:40] + "…")

    def fail(self, message: str, at: int | None = None) -> NoReturn:
        """Raise TtirError at a token (the next one)."""
        raise self.error(message, at)

    def error(self, message: str, at: int | None = None) -> TtirError:
        offset = self._offset(self.at if at is None else at)
        return TtirError(self._text.count("\n", 0, offset) + 1, offset, message)

    def _offset(self, at: int) -> int:
        index = 0
        for match in _TOKEN.finditer(self._text):
            if match.group().startswith("//"):
                continue
            if index == at:
                return match.start()
            index += 1
        return len(self._text)

    def angles(self) -> str:
        """The text of a bracketed ``<…>`` that begins here, however it was cut into tokens."""
        start, depth, parts = self.at, 0, []
        while True:
            token = self.all[self.at]
            if not token or self.at - start > 4096:
                self.fail("'<' is never closed", start)
            self.at += 1
            parts.append(token)
            if token == "<":
                depth += 1
            elif token == ">":
                depth -= 1
                if depth == 0:
                    return "".join(parts)


def unquoted(token: str) -> str:
    r"""The characters of a string literal; MLIR writes ``\22`` for a byte in hexadecimal."""
    body = token[1:-1] if len(token) > 1 and token.endswith('"') else token[1:]
    if "\\" not in body:
        return body
    out = bytearray()
    position = 0
    while position < len(body):
        character = body[position]
        if character != "\\":
            out += character.encode("utf-8", "surrogatepass")
            position += 1
            continue
        pair = body[position + 1 : position + 3]
        if len(pair) == 2 and all(digit in "0123456789abcdefABCDEF" for digit in pair):
            out.append(int(pair, 16))
            position += 3
        else:
            escaped = body[position + 1 : position + 2]
            out += {"n": b"\n", "t": b"\t"}.get(escaped, escaped.encode("utf-8", "surrogatepass"))
            position += 2
    return out.decode("utf-8", "replace")
