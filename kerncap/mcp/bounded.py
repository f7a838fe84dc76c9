"""Documents cut to a number of bytes, with what was left out, and the rest of them on request."""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import Any

from kerncap.errors import UsageError

# Lists, texts and maps are cut to the first of these lengths with which the whole fits. None is shorter than
# what a schema asks for: tuples of fixed length and objects with required keys stay whole.
_STEPS = ((1000, 8000, 1000), (200, 4000, 400), (50, 1000, 100), (16, 400, 64))
_KEPT_RESULTS = 32
_MOST_LEFT_OUT = 40  # places that are listed


def size(value: Any) -> int:
    """Bytes of JSON."""
    return len(json.dumps(value, ensure_ascii=False).encode())


def cut(document: Any, max_bytes: int) -> tuple[Any, list[dict[str, Any]]]:
    """``document`` in at most ``max_bytes``, and the places that were shortened: at, kept, of.

    Where even the shortest form is too long: None, with the whole document as the one place.
    """
    if size(document) <= max_bytes:
        return document, []
    for items, characters, keys in _STEPS:
        places: list[dict[str, Any]] = []
        short = _shorten(document, "", items, characters, keys, places)
        if size(short) <= max_bytes:
            return short, _told(places)
    return None, [_place("", 0, len(document) if isinstance(document, dict | list | str) else 1)]


def _shorten(
    value: Any, at: str, items: int, characters: int, keys: int, places: list[dict[str, Any]]
) -> Any:
    if isinstance(value, str) and len(value) > characters:
        places.append(_place(at, characters, len(value)))
        return value[: characters - 1] + "…"
    if isinstance(value, list):
        if len(value) > items:
            places.append(_place(at, items, len(value)))
        return [
            _shorten(each, f"{at}/{number}", items, characters, keys, places)
            for number, each in enumerate(value[:items])
        ]
    if isinstance(value, dict):
        if len(value) > keys:
            places.append(_place(at, keys, len(value)))
        return {
            name: _shorten(each, f"{at}/{_escaped(name)}", items, characters, keys, places)
            for name, each in list(value.items())[:keys]
        }
    return value


def _place(at: str, kept: int, of: int) -> dict[str, Any]:
    return {"at": at, "kept": kept, "of": of}


def _told(places: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Similar places, largest first; of very many, only some are listed."""
    places.sort(key=lambda place: place["kept"] - place["of"])
    return places[:_MOST_LEFT_OUT]


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


class Results:
    """The last documents whole, by number, for what was left out of them."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Any] = OrderedDict()
        self._next = 1

    def keep(self, document: Any) -> int:
        number = self._next
        self._next += 1
        self._kept[number] = document
        while len(self._kept) > _KEPT_RESULTS:
            self._kept.popitem(last=False)
        return number

    def read(self, number: int, at: str, offset: int, max_bytes: int) -> dict[str, Any]:
        """Some of the value at a JSON pointer, from item, key or character ``offset`` on.

        Keys: value, of (how long the whole is), next_offset (None: that was the rest), left_out.
        Raises UsageError.
        """
        if number not in self._kept:
            known = ", ".join(map(str, self._kept)) or "none"
            raise UsageError(f"result {number}: not kept any more, or never there (kept: {known})")
        value = _at(self._kept[number], at)
        if not isinstance(value, dict | list | str):
            return {"value": value, "of": 1, "next_offset": None, "left_out": []}
        entries: Any = list(value.items()) if isinstance(value, dict) else value
        count = len(entries) - max(offset, 0)
        while count > 1 and size(entries[offset : offset + count]) > max_bytes:
            count //= 2
        part = entries[max(offset, 0) : max(offset, 0) + count]
        shown, left_out = cut(dict(part) if isinstance(value, dict) else part, max_bytes)
        following = offset + count
        return {
            "value": shown,
            "of": len(entries),
            "next_offset": following if following < len(entries) else None,
            "left_out": [{**place, "at": at + place["at"]} for place in left_out],
        }


def _at(document: Any, pointer: str) -> Any:
    if pointer and not pointer.startswith("/"):
        raise UsageError(f"at {pointer}: expected a JSON pointer, as in /launches/0/findings")
    value = document
    for word in pointer.split("/")[1:]:
        name = word.replace("~1", "/").replace("~0", "~")
        try:
            value = value[int(name)] if isinstance(value, list) else value[name]
        except (KeyError, IndexError, ValueError, TypeError):
            raise UsageError(f"at {pointer}: there is no {name}") from None
    return value
