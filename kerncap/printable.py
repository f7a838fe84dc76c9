r"""Text of strangers, safe for a terminal or a page: what steers or hides is written out.

Names, strings, paths and errors come from reproducers and programs. A terminal obeys some of their
characters (ESC, BEL, backspace, CR, the C1 controls), reorders others (bidirectional marks), and shows some
not at all (tag characters, zero-width ones). Each of these becomes its escape, as in ``\x1b`` or ``\u202e``;
letters of all languages stay. A second call changes nothing.
"""

from __future__ import annotations

import json

# Unicode calls these letters, marks or symbols, but nothing is seen of them: fillers, joiners and selectors
# (Default_Ignorable_Code_Point), and the braille cell without a dot.
_UNSEEN = (
    (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x2800, 0x2800),
    (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF),
)  # fmt: skip


def printable(text: str) -> str:
    """``text`` with everything escaped that is no visible character; line feeds and tabs stay."""
    return text.translate(_lines)


def visible(text: object, limit: int = 600) -> str:
    """``text`` on one line, cut to ``limit`` characters: line feeds and tabs are escaped as well."""
    raw = str(text)
    line = raw[: limit + 1].translate(_line)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def printable_json(document: str) -> str:
    """``document``, which is JSON, with escapes of JSON for the same characters: it means the same."""
    return document.translate(_json)


class _Escapes(dict[int, str]):
    """What stands for each code point, found out when one is first seen."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        shown = self[code] = character if _is_seen(code, character) else _escape(code, character)
        return shown


def _is_seen(code: int, character: str) -> bool:
    return character.isprintable() and not any(first <= code <= last for first, last in _UNSEEN)


def _escape(code: int, character: str) -> str:
    # JSON writes every other unprintable character as an escape by itself, and knows no `\x7f`.
    if character == "\x7f":
        return "\\u007f"
    # `ascii` takes what it can for a visible ASCII character: none of these is one.
    return ascii(character)[1:-1]


class _JsonEscapes(_Escapes):
    def __missing__(self, code: int) -> str:
        character = chr(code)
        shown = self[code] = character if _is_seen(code, character) else json.dumps(character)[1:-1]
        if character == "\x7f":
            shown = self[code] = "\\u007f"
        return shown


_line = _Escapes()
_lines = _Escapes({ord("\n"): "\n", ord("\t"): "\t"})
_json = _JsonEscapes(_lines)
