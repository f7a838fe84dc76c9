"""A source that says how far it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kerncap.format.region_sources import ChunkSource, Piece


class Followed:
    """``reached`` gets the bytes before each piece, and ``before`` more. See `ChunkSource`."""

    def __init__(self, source: ChunkSource, reached: Callable[[int], None], before: int) -> None:
        self._source = source
        self._reached = reached
        self._before = before

    def pieces(self, offset: int, size: int, step: int) -> Iterator[Piece]:
        for start, load in self._source.pieces(offset, size, step):
            self._reached(self._before + start)
            yield start, load
