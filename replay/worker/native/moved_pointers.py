"""Pointers that must follow memory which could not be placed where it was captured.

What counts as a pointer is the rule by which the closure was found: an aligned word of eight bytes that falls
into a captured range. Nothing tells it from a number that happens to, so a result that rests on it says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..common.host_bytes import Bytes
from ..job import JobRegion

_WORD = 8
_STEP = 32 * 1024 * 1024  # bytes that are looked through at once


class Move(NamedTuple):
    """A captured range, and where its bytes are now."""

    captured: int
    size: int
    now: int


def new_address(moves: list[Move], word: int) -> int | None:
    """Where what a word points to has gone; None if it points into none of the ranges."""
    for move in moves:
        if 0 <= word - move.captured < move.size:
            return word - move.captured + move.now
    return None


def find(data: Bytes, base: int, moves: list[Move]) -> list[tuple[int, int]]:
    """(offset, word) of each aligned word of ``data``, captured at ``base``, that points into a range."""
    found: list[tuple[int, int]] = []
    if not moves:
        return found
    low = np.uint64(min(m.captured for m in moves))
    high = np.uint64(max(m.captured + m.size for m in moves))
    skew = -base % _WORD
    for start in range(skew, len(data) - _WORD + 1, _STEP):
        part = data[start : start + _STEP]
        words = part[: len(part) // _WORD * _WORD].view(np.uint64)
        for at in np.flatnonzero((words >= low) & (words < high)):
            word = int(words[at])
            if new_address(moves, word) is not None:
                found.append((start + int(at) * _WORD, word))
    return found


@dataclass
class Moves:
    """The regions that are elsewhere for good, and how many pointers to them in memory were changed."""

    moves: list[Move] = field(default_factory=list)
    changed: int = 0

    def apply(self, regions: list[JobRegion], states: list[list[Bytes]]) -> None:
        """Change the words of ``pre`` (and of the regions of ``post`` that differ) in place."""
        if not self.moves:
            return
        pre, post = states
        captured = [region["base"] for region in regions]
        for base, data in zip(captured, pre, strict=True):
            self.changed += self._apply(data, base)
        changed = [region["base"] for region in regions if region["post"]]
        for base, data in zip(changed, post, strict=True):
            self._apply(data, base)

    def apply_to(self, data: bytearray) -> int:
        """Change the words of the launch's parameters; how many."""
        return self._apply(np.frombuffer(data, dtype=np.uint8), 0)

    def _apply(self, data: Bytes, base: int) -> int:
        sites = find(data, base, self.moves)
        for offset, word in sites:
            moved = new_address(self.moves, word)
            assert moved is not None
            data[offset : offset + _WORD] = np.frombuffer(moved.to_bytes(_WORD, "little"), dtype=np.uint8)
        return len(sites)
