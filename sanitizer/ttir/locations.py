"""``loc(…)``: where an operation comes from, through the aliases that TTIR keeps at both ends of the file."""

from __future__ import annotations

import re

from kerncap.sanitizer.ttir.ir import UNKNOWN_LOCATION, Frame, Location
from kerncap.sanitizer.ttir.tokens import unquoted

_MAX_DEPTH = 40
# Call stacks of inlined functions are short; aliases that double each other are not of a kernel.
_MAX_FRAMES = 64

ALIAS = re.compile(r"^(#\w+)[ \t]*=[ \t]*loc\((.*)\)[ \t\r]*$", re.MULTILINE)
_PART = re.compile(r'"(?:[^"\\\n]|\\.)*"?|#[\w$.\-]+|[A-Za-z_]+|\d+|\S')
_PLACE = re.compile(r'"([^"\\]*)":(\d{1,9}):(\d{1,9})')
_NAMED = re.compile(r'"([^"\\]*)"\((#\w+)\)')


class Locations:
    """The aliases of one text, read when they are asked for."""

    def __init__(self, aliases: dict[str, str]) -> None:
        self._aliases = aliases
        self._known: dict[str, Location] = {"unknown": UNKNOWN_LOCATION}
        self._depth = 0

    def read(self, token: str) -> Location:
        """Of a whole ``loc(…)``. What is not understood is unknown: a location decides nothing."""
        return self._inside(token[4:-1])

    def _inside(self, text: str) -> Location:
        if text in self._aliases:
            return self._alias(text)
        found = self._known.get(text)
        if found is None:
            # Claimed before it is read, so that an alias that leads back to itself ends.
            self._known[text] = UNKNOWN_LOCATION
            found = self._known[text] = self._read(text)
        return found

    def _alias(self, name: str) -> Location:
        found = self._known.get(name)
        if found is None:
            text = self._aliases.get(name)
            if text is None or self._depth > _MAX_DEPTH:
                return UNKNOWN_LOCATION
            self._known[name] = UNKNOWN_LOCATION
            self._depth += 1
            found = self._known[name] = self._inside(text)
            self._depth -= 1
        return found

    def _read(self, text: str) -> Location:
        place = _PLACE.fullmatch(text)
        if place:
            return Location((Frame(place[1], int(place[2]), int(place[3])),))
        named = _NAMED.fullmatch(text)
        if named:
            inner = self._alias(named[2])
            return Location(inner.frames, named[1])
        parts = _PART.findall(text)
        parts += ["", "", "", "", ""]
        return self._parse(parts, 0, 0)[0]

    def _parse(self, parts: list[str], at: int, depth: int) -> tuple[Location, int]:
        part = parts[at]
        if depth > _MAX_DEPTH or not part:
            return UNKNOWN_LOCATION, len(parts) - 1
        if part.startswith("#"):
            return self._alias(part), at + 1
        if part == "loc" and parts[at + 1] == "(":
            inner, at = self._parse(parts, at + 2, depth + 1)
            return inner, at + (parts[at] == ")")
        if part == "callsite" and parts[at + 1] == "(":
            callee, at = self._parse(parts, at + 2, depth + 1)
            at += parts[at] == "at"
            caller, at = self._parse(parts, at, depth + 1)
            frames = (callee.frames + caller.frames)[:_MAX_FRAMES]
            # A variable of an inlined function is named by the callee; where the callee names
            # nothing, the caller's assignment is what the source calls the value.
            return Location(frames, callee.name or caller.name), at + (parts[at] == ")")
        if part == "fused":
            return self._fused(parts, at + 1, depth)
        if part.startswith('"'):
            return self._quoted(parts, at, depth)
        return UNKNOWN_LOCATION, at + 1

    def _quoted(self, parts: list[str], at: int, depth: int) -> tuple[Location, int]:
        text = unquoted(parts[at])
        if parts[at + 1] == "(":
            inner, after = self._parse(parts, at + 2, depth + 1)
            return Location(inner.frames, text), after + (parts[after] == ")")
        if parts[at + 1] != ":":
            return Location((), text), at + 1
        line, column = parts[at + 2], parts[at + 4] if parts[at + 3] == ":" else "0"
        after = at + (5 if parts[at + 3] == ":" else 3)
        # A range ("file":1:2 to 3:4) ends elsewhere; its start is what a reader wants.
        if parts[after] == "to":
            while parts[after] and parts[after] not in (")", ",", "]", "at"):
                after += 1
        numbers = [int(n) if n.isdecimal() and len(n) < 10 else 0 for n in (line, column)]
        return Location((Frame(text, numbers[0], numbers[1]),)), after

    def _fused(self, parts: list[str], at: int, depth: int) -> tuple[Location, int]:
        """Several places for one operation: the first that is known stands for it."""
        while parts[at] and parts[at] != "[":  # fused<metadata>[…]
            at += 1
        at += 1
        chosen = UNKNOWN_LOCATION
        while parts[at] and parts[at] != "]":
            if parts[at] == ",":
                at += 1
                continue
            one, at = self._parse(parts, at, depth + 1)
            if not chosen.frames and (one.frames or chosen.name is None):
                chosen = Location(one.frames, chosen.name or one.name)
        return chosen, at + 1
