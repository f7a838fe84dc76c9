"""memory.bin of a CMake project: what memory held before the launches, what each changes and only writes."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from kerncap.api.export.memory_blocks import STEP, WORD, Bytes, Pointer, Targets
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.log import one_line
from kerncap.replay import byte_effects
from kerncap.replay.ranges.joined_memory import SharedMemory, placed
from kerncap.replay.ranges.memory_between_launches import Change, Timeline
from kerncap.replay.worker.common.bitmap import Bits

_PAGE = 4096
_HEAD = struct.Struct("<IIIIQQ")  # launch, what, region, 0, offset in the region, bytes that follow
_BEFORE, _AFTER, _ONLY_WRITTEN = range(3)  # as main.cpp has them


class MemoryRecords:
    """The records, in the order in which main.cpp reads them. `words`, complete after that, are those of
    memory that point to a variable of a module."""

    def __init__(
        self, launches: Sequence[Reproducer], shared: SharedMemory, timeline: Timeline,
        variables: Sequence[int], left_out: Collection[int],
    ) -> None:  # fmt: skip
        self.words: list[Pointer] = []
        self._launches, self._shared, self._timeline = launches, shared, timeline
        self._left_out = left_out
        self._targets = Targets(shared.regions, variables)

    def __iter__(self) -> Iterator[bytes]:
        """Raises UsageError, naming a variable whose address something writes; FormatError."""
        for region in range(len(self._shared.regions)):
            if region not in self._left_out:
                yield from self._first(region)
        for number, launch in enumerate(self._launches):
            yield from self._changes(number, _BEFORE, self._timeline.before(number))
            yield from self._changes(number, _AFTER, self._timeline.after(number))
            for region, bits in self._only_written(number, launch):
                self._require_no_words(number, region, bits)
                for start, stop in bits.pages():
                    for at in range(start, stop, STEP):
                        packed = bits.packed(at, min(stop, at + STEP))
                        yield _HEAD.pack(number, _ONLY_WRITTEN, region, 0, at, len(packed))
                        yield packed.tobytes()

    def _first(self, region: int) -> Iterator[bytes]:
        size, skew = self._shared.regions[region].size, -self._shared.regions[region].base % WORD
        now = self._timeline.now(region)
        for start in range(0, size, STEP):
            data = now[start : start + STEP]
            for first, stop in _stretches(data):
                yield _HEAD.pack(0, _BEFORE, region, 0, start + first, stop - first)
                yield data[first:stop].tobytes()
        if self._targets.any():
            for start in range(skew, size, STEP):
                self.words += self._targets.pointers(np.array(now[start : start + STEP]), region, start)

    def _changes(self, number: int, what: int, changes: Sequence[Change]) -> Iterator[bytes]:
        for change in changes:
            if change.region in self._left_out:
                continue
            self._require_same_words(number, change)
            for first, stop in _stretches(change.different.view(np.uint8)):
                start = change.start + first
                yield _HEAD.pack(number, what, change.region, 0, start, stop - first)
                yield change.data[first:stop].tobytes()

    def _only_written(self, number: int, launch: Reproducer) -> Iterator[tuple[int, Bits]]:
        measured = byte_effects.load(launch)
        for index in measured.written if measured is not None else ():
            assert measured is not None
            place = self._shared.places[number][index]
            region = self._shared.regions[place.region]
            if place.region not in self._left_out:
                bits = measured.output(index)
                yield place.region, placed(bits, measured.sizes[index], place, region.size)

    # --- addresses of variables ------------------------------------------------------------------------

    def _require_same_words(self, number: int, change: Change) -> None:
        """No address of a variable comes or goes."""
        if not self._targets.any():
            return
        region = self._shared.regions[change.region]
        skew = -region.base % WORD
        start = max(skew, change.start - (change.start - skew) % WORD)
        stop = min(region.size, change.stop + -(change.stop - skew) % WORD)
        data = np.array(self._timeline.now(change.region)[start:stop])
        new = self._targets.pointers(data, change.region, start)
        old = [word for word in self.words if word.region == change.region]
        for word in (*new, *old):
            first, last = word.offset - change.start, word.offset + WORD - change.start
            if change.different[max(first, 0) : max(last, 0)].any():
                self._refuse(number, word)

    def _require_no_words(self, number: int, region: int, bits: Bits) -> None:
        for word in self.words:
            if word.region == region and bits.flags(word.offset, word.offset + WORD).any():
                self._refuse(number, word)

    def _refuse(self, number: int, word: Pointer) -> None:
        name = one_line(self._shared.regions[word.target].name or "a variable")
        path = self._launches[number].path
        launch = "the launch" if len(self._launches) == 1 else f"launch {number}, or something before it,"
        raise UsageError(
            f"{path}: {launch} writes the address of {name} (byte {word.offset} of region {word.region}), "
            "which differs in every process; kerncap replay runs it"
        )


def _stretches(data: Bytes) -> Iterator[tuple[int, int]]:
    """[first, stop) of the stretches of pages that are not all zero."""
    whole = len(data) // _PAGE * _PAGE
    used = data[:whole].reshape(-1, _PAGE).any(axis=1)
    if whole < len(data):
        used = np.append(used, data[whole:].any())
    edges = np.flatnonzero(np.diff(np.concatenate([[False], used, [False]]).astype(np.int8)))
    for first, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield first * _PAGE, min(stop * _PAGE, len(data))
