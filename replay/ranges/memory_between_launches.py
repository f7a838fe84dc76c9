"""What the application's memory held at each moment of a range, as the captures of its launches say."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.format import Reproducer
from kerncap.format.expanded_size import require_expandable
from kerncap.format.memory_index import State
from kerncap.replay.ranges.joined_memory import Place, SharedMemory
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.common.byte_ranges import Range, minus, union
from kerncap.scratch import Scratch

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Change:
    """Bytes [start, stop) of a region of the range, the chunk of one launch, and which of them are new."""

    region: int
    start: int
    data: Bytes
    different: npt.NDArray[np.bool_]

    @property
    def stop(self) -> int:
        return self.start + len(self.data)


def by_region(changes: Sequence[Change]) -> dict[int, list[Change]]:
    """Changes by the region of the range that they are in."""
    found: dict[int, list[Change]] = {}
    for change in changes:
        found.setdefault(change.region, []).append(change)
    return found


def different(changes: Sequence[Change], size: int) -> Bits:
    """The bytes of a region of ``size`` that changes of it have changed."""
    flags = np.zeros(size, dtype=np.bool_)
    for change in changes:
        flags[change.start : change.stop] = change.different
    return bitmap.of_flags(flags)


class Timeline:
    """The memory of a range as a file for each region, moved from launch to launch.

    It begins as memory was before the first launch; bytes that only later launches reach have the contents
    that the first of these found. Raises FormatError for damaged content, UsageError for too much of it.
    """

    def __init__(self, launches: Sequence[Reproducer], shared: SharedMemory, made: Scratch) -> None:
        self._launches = launches
        self.places = shared.places
        self._folder = made.path
        self._known: list[list[Range]] = [[] for _ in shared.regions]  # bytes that were seen
        self._rows: dict[tuple[int, int, int], npt.NDArray[np.int64]] = {}  # by place and size
        for launch in launches:
            require_expandable(launch)
        for number, region in enumerate(shared.regions):
            with self.file(number).open("wb") as file:
                file.truncate(region.size)
        for launch, places in zip(launches, self.places, strict=True):
            for index, place in enumerate(places):
                self._first_contents(launch, index, place)
        self._known = [[] for _ in shared.regions]
        self._maps: dict[int, Any] = {}

    def file(self, region: int) -> Path:
        """The contents of a region of the range, now."""
        return self._folder / f"{region}.now"

    def now(self, region: int) -> Bytes:
        """The contents of a region of the range, now; to read only."""
        return self._map(region) if os.path.getsize(self.file(region)) else np.zeros(0, np.uint8)

    def before(self, number: int) -> list[Change]:
        """Move to the moment before a launch; what has changed since the launch before it, or its capture."""
        return self._moved(number, "pre")

    def after(self, number: int) -> list[Change]:
        """Move to the moment after a launch; the chunks that it changed."""
        return self._moved(number, "post")

    def _moved(self, number: int, state: State) -> list[Change]:
        places = enumerate(self.places[number])
        return [one for i, place in places for one in self._move(self._launches[number], i, place, state)]

    def _first_contents(self, launch: Reproducer, index: int, place: Place) -> None:
        """Write what of a region no launch before this one has."""
        size = launch.manifest.regions[index].size
        unknown = minus([(place.offset, place.offset + size)], self._known[place.region])
        if not unknown:
            return
        step, (chunks, _) = launch.index.chunk_bytes, launch.index.nonzero("pre", index)
        with self.file(place.region).open("r+b") as file:
            for chunk in chunks:
                first = place.offset + int(chunk) * step
                data = _chunk(launch, "pre", index, int(chunk))
                for start, stop in unknown:
                    low, high = max(first, start), min(first + len(data), stop)
                    if low < high:
                        os.pwrite(file.fileno(), data[low - first : high - first].tobytes(), low)
        self._known[place.region] = union(self._known[place.region], [(place.offset, place.offset + size)])

    def _move(self, launch: Reproducer, index: int, place: Place, state: State) -> Iterator[Change]:
        """Make the contents of a launch's region those of a state; each chunk in which known bytes differ."""
        size = launch.manifest.regions[index].size
        span = (place.offset, place.offset + size)
        key = (place.region, place.offset, size)
        step = launch.index.chunk_bytes
        rows = launch.index.rows(state, index, 0, -(-size // step))
        had = self._rows.get(key)
        chunks = np.flatnonzero(rows != had) if had is not None else np.arange(len(rows))
        unknown = minus([span], self._known[place.region])
        if had is None and unknown == [span]:
            chunks = chunks[:0]  # nobody has seen any of it: it was put there at the beginning
        for chunk in map(int, chunks):
            start = place.offset + chunk * step
            data = _chunk(launch, state, index, chunk)
            now = self._map(place.region)[start : start + len(data)]
            different = now != data
            if not different.any():
                continue
            now[:] = data
            self._forget_rows(key, start, start + len(data))
            yield Change(place.region, start, data, different)
        self._rows[key] = rows
        self._known[place.region] = union(self._known[place.region], [span])

    def _forget_rows(self, own: tuple[int, int, int], start: int, stop: int) -> None:
        """What was known of the chunks of other regions that lie on changed bytes."""
        for key in [key for key in self._rows if key != own and key[0] == own[0]]:
            if key[1] < stop and start < key[1] + key[2]:
                del self._rows[key]

    def _map(self, region: int) -> Any:
        if region not in self._maps:
            self._maps[region] = np.memmap(self.file(region), dtype=np.uint8, mode="r+")
        return self._maps[region]


def _chunk(launch: Reproducer, state: State, region: int, chunk: int) -> Bytes:
    start = chunk * launch.index.chunk_bytes
    size = min(launch.index.chunk_bytes, launch.manifest.regions[region].size - start)
    return np.frombuffer(launch.read(state, region, start, size), dtype=np.uint8)
