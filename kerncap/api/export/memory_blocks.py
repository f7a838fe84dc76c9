"""What of a launch's memory a project gets: its bytes after the launch, and how to get those before it.

The bytes before are ``after ^ flip``. Where the launch only writes, ``flip`` has all bits set: such a byte
starts as the complement of what must come out, so that it can't pass for a result; everywhere else flipping
gives what the application had there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kerncap.errors import UsageError
from kerncap.format import Reproducer, WriteSet
from kerncap.format.schema import Region

Bytes = npt.NDArray[np.uint8]

STEP = 16 << 20
WORD = 8


@dataclass(frozen=True)
class Span:
    """Bytes [start, stop) of a region."""

    region: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        return self.stop - self.start

    def ends_behind(self, region: int, offset: int) -> bool:
        """Whether a byte of a region lies in it, or right behind it."""
        return self.region == region and self.start <= offset <= self.stop


@dataclass(frozen=True)
class Pointer:
    """A word of memory that holds an address: where it stands, and what it points to."""

    region: int
    offset: int
    target: int
    target_offset: int


@dataclass
class Contents:
    """The contents of a reproducer's memory, read piece by piece. Raises FormatError for what is damaged."""

    reproducer: Reproducer
    poisoned: int = 0  # bytes, of all pieces that were asked for
    changed: int = 0  # bytes that the launch changed or that are poisoned
    _write_set: WriteSet | None = field(init=False)
    _masks: dict[int, Bytes] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._write_set = WriteSet.load(self.reproducer)

    def pieces(self, span: Span) -> Iterator[tuple[int, Bytes, Bytes]]:
        """(offset in the region, bytes after the launch, what to flip of them) of all of ``span``."""
        for start in range(span.start, span.stop, STEP):
            size = min(STEP, span.stop - start)
            after = self.read("post", span.region, start, size)
            flip = after ^ self.read("pre", span.region, start, size)
            only = self.only_written(span.region, start, size)
            if only is not None:
                flip[only] = 0xFF
                self.poisoned += int(only.sum())
            self.changed += int(np.count_nonzero(flip))
            yield start, after, flip

    def read(self, state: str, region: int, start: int, size: int) -> Bytes:
        """Bytes of a region before (``pre``) or after (``post``) the launch."""
        buffer = bytearray(size)
        self.reproducer.read_into("post" if state == "post" else "pre", region, start, memoryview(buffer))
        return np.frombuffer(buffer, np.uint8)

    def writes_outside(self, spans: Sequence[Span], region: int) -> bool:
        """Whether the launch is known to write bytes of a region that none of ``spans`` has."""
        mask = self._written(region)
        if mask is None:
            return False
        size = self.reproducer.manifest.regions[region].size
        inside = np.zeros(size, dtype=bool)
        for span in spans:
            if span.region == region:
                inside[span.start : span.stop] = True
        return bool((np.unpackbits(mask, bitorder="little", count=size).view(bool) & ~inside).any())

    def _written(self, region: int) -> Bytes | None:
        if self._write_set is None or region not in self._write_set.regions:
            return None
        return self._write_set.mask(region, "written")

    def only_written(self, region: int, start: int, size: int) -> npt.NDArray[np.bool_] | None:
        """Which of these bytes are written and not read before; None if that was not measured."""
        if region not in self._masks:
            written = self._written(region)
            if written is None or self._write_set is None:
                return None
            self._masks = {region: written & ~self._write_set.mask(region, "also_input")}
        first = start // 8
        bits = np.unpackbits(self._masks[region][first : -(-(start + size) // 8)], bitorder="little")
        return bits[start - first * 8 :][:size].view(bool)


class Targets:
    """Finds the words of memory that are addresses in some of the regions."""

    def __init__(self, all_regions: Sequence[Region], regions: Iterable[int]) -> None:
        ordered = sorted(
            (all_regions[i].base, all_regions[i].size, i) for i in regions if all_regions[i].size
        )
        self._bases = np.array([base for base, _, _ in ordered], dtype=np.uint64)
        self._ends = np.array([base + size for base, size, _ in ordered], dtype=np.uint64)
        self._regions = [index for _, _, index in ordered]
        self._all = all_regions

    def any(self) -> bool:
        """Whether an address can be found at all."""
        return bool(self._regions)

    def of(self, address: int) -> tuple[int, int] | None:
        """(region, offset) that an address points to."""
        for found in self.pointers(np.array([address], dtype=np.uint64).view(np.uint8), -1, 0):
            return found.target, found.target_offset
        return None

    def pointers(self, data: Bytes, region: int, start: int) -> list[Pointer]:
        """The words of ``data``, which begins at an aligned address ``start`` bytes into ``region``."""
        words = data[: len(data) // WORD * WORD].view(np.uint64)
        if not len(words) or not self._regions:
            return []
        near = np.flatnonzero((words >= self._bases[0]) & (words < self._ends.max()))
        found = []
        for place in near.tolist():
            address = int(words[place])
            owner = int(np.searchsorted(self._bases, np.uint64(address), side="right")) - 1
            if owner >= 0 and address < int(self._ends[owner]):
                target = self._regions[owner]
                offset = address - self._all[target].base
                found.append(Pointer(region, start + place * WORD, target, offset))
        return found


def require_values(reproducer: Reproducer) -> None:
    """Raises UsageError if there is no result to compare with."""
    manifest = reproducer.manifest
    if why := manifest.why_no_result:
        remedy = "capture it with its values, then export"
        if manifest.closure.not_held:
            remedy = "export another launch"
        raise UsageError(f"{reproducer.path}: {why}, so a project could compare nothing; {remedy}")
