"""What is left for a run: time and operations."""

from __future__ import annotations

import time

_EVERY = 256  # instructions between two looks at the clock


class TooMuch(Exception):
    """More time or work than there is."""


class Work:
    """What is left for a run: operations on elements, and the time it has to end."""

    def __init__(self, most: int, seconds: float) -> None:
        self.done, self._most, self._end, self._turns = 0, most, time.monotonic() + seconds, 0

    def spend(self, elements: int) -> None:
        self.done += elements
        self._turns += 1
        if self.done > self._most or self._turns % _EVERY == 0 and time.monotonic() > self._end:
            raise TooMuch
