"""One line a second for what takes longer than one."""

from __future__ import annotations

import time
from collections.abc import Iterator

from kerncap import log
from kerncap.format.sources import ChunkSource, Piece

INTERVAL_S = 1.0


class Progress:
    """Counts bytes of ``total`` and says so on stderr once a second, never within the first one."""

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._total = total
        self._done = 0
        self._next = time.monotonic() + INTERVAL_S

    def reached(self, done: int) -> None:
        """``done`` bytes so far."""
        self._done = done
        now = time.monotonic()
        if now >= self._next:
            self._next = now + INTERVAL_S
            log.line(f"{self._what}: {log.size(done)} of {log.size(self._total)} read")


class Followed:
    """A source whose progress is said; ``before`` bytes were read of others. See `ChunkSource`."""

    def __init__(self, source: ChunkSource, progress: Progress, before: int) -> None:
        self._source = source
        self._progress = progress
        self._before = before

    def pieces(self, offset: int, size: int, step: int) -> Iterator[Piece]:
        for start, load in self._source.pieces(offset, size, step):
            self._progress.reached(self._before + start)
            yield start, load
