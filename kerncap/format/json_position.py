"""Where a value is in a JSON text: for error messages only, so slow and forgiving."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator

Step = str | int
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def path_of(message: str) -> tuple[str, tuple[Step, ...]]:
    """Split msgspec's ``text - at `$.regions[0].base``` into the text and the steps.

    A step that msgspec does not name (``[...]``, a key of a mapping) ends the path.
    """
    text, found, tail = message.partition(" - at `")
    if not found:
        return message, ()
    steps: list[Step] = []
    for match in re.finditer(r"\.([A-Za-z_][A-Za-z_0-9]*)|\[(\d+)\]|\[\.\.\.\]", tail):
        if match[1] is not None:
            steps.append(match[1])
        elif match[2] is not None:
            steps.append(int(match[2]))
        else:
            break
    return text, tuple(steps)


def byte_offset(data: bytes, steps: Iterable[Step]) -> int:
    """Byte offset of the value at ``steps``; of the nearest one around it if there is none."""
    text = data.decode("utf-8", "replace")
    at = _SPACE.match(text).end()  # type: ignore[union-attr]
    for step in steps:
        below = None
        try:
            for key, start in _children(text, at):
                if key == step:
                    below = start
                    if isinstance(step, int):
                        break  # of keys written twice the last one counts, so go on for those
        except (ValueError, RecursionError, IndexError):
            pass  # the text is broken further on; what was found before still holds
        if below is None:
            break
        at = below
    return len(text[:at].encode())


def _children(text: str, at: int) -> Iterator[tuple[Step, int]]:
    """(key or number, position of the value) of each child of the container at ``at``."""
    opening = text[at]
    if opening not in "[{":
        return
    at = _skip(text, at + 1)
    number = 0
    while text[at] not in "]}":
        key: Step = number
        if opening == "{":
            key, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        yield key, at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)
        number += 1


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
