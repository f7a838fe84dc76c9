"""What a launch does to each byte: writes it, reads it before, leaves it as it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kerncap.format import Reproducer, WriteSet
from kerncap.format.write_set import PIECE_BYTES
from kerncap.replay.outcome import Outcome
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits, Packed


@dataclass
class Measured:
    """Per region: bytes that the launch writes, those of them that it also reads, and untouched ones."""

    sizes: list[int]
    written: dict[int, Bits] = field(default_factory=dict)
    also_input: dict[int, Bits] = field(default_factory=dict)
    untouched: dict[int, Bits] = field(default_factory=dict)
    # Idle bytes that were not poisoned: on the host it shows who touches them. Those that always are.
    far: dict[int, Bits] = field(default_factory=dict, repr=False, compare=False)
    near: dict[int, Bits] = field(default_factory=dict, repr=False, compare=False)
    # Of the last run of the captured kernel under this poison, if nothing came after it: the seed,
    # `Connection.changes`, how it ended.
    ran: tuple[int, int, Outcome] | None = field(default=None, repr=False, compare=False)
    # How replays of the captured kernel differ from each other, once that was needed (a `noise_floor.Noise`).
    noise: Any = field(default=None, repr=False, compare=False)

    def add(self, region: int, written: Bits, also_input: Bits | None = None) -> None:
        """More bytes that are written, and those of them that are also input."""
        self.ran = None
        self.written[region] = self._of(self.written, region) | written
        if also_input is not None:
            self.also_input[region] = self._of(self.also_input, region) | also_input

    def leave(self, region: int, bits: Bits) -> None:
        """More bytes that are neither read nor written."""
        self.ran = None
        self.untouched[region] = self._of(self.untouched, region) | bits

    def take(self, region: int, bits: Bits) -> None:
        """Bytes that were left, and are not known to be untouched any more."""
        self.ran = None
        self.untouched[region] = self._of(self.untouched, region) & ~bits

    def all_in_place(self) -> Measured:
        """The same, if nothing may be poisoned."""
        return Measured(self.sizes, dict(self.written), dict(self.written))

    def _of(self, masks: dict[int, Bits], region: int) -> Bits:
        found = masks.get(region)
        return bitmap.empty(self.sizes[region]) if found is None else found

    def output(self, region: int) -> Bits:
        """Written, and not read first: whatever lay there must be gone after a launch."""
        return self._of(self.written, region) & ~self._of(self.also_input, region)

    def in_place(self, region: int) -> Bits:
        """Written, and read first."""
        return self._of(self.written, region) & self._of(self.also_input, region)

    def idle(self, region: int) -> Bits:
        """Neither read nor written: whatever lay there must be there after a launch."""
        return self._of(self.untouched, region) & ~self._of(self.written, region)

    def watched(self, region: int) -> Bits:
        """The idle bytes that the last `poison` went over."""
        idle = self.idle(region)
        return idle & ~self.far[region] if region in self.far else idle

    def poisonable(self, region: int) -> Bits:
        """What a verdict may poison."""
        return self.output(region) | self.idle(region)

    @property
    def compared_bytes(self) -> int:
        """How many bytes a verdict compares."""
        return sum(self.sizes)

    def results(self) -> dict[int, Bits]:
        """The written bytes that are judged."""
        return self.written

    @property
    def written_bytes(self) -> int:
        return sum(bitmap.count(bits) for bits in self.results().values())

    def as_write_set(self) -> WriteSet:
        """The form that a reproducer keeps."""
        of_kind = {
            "written": lambda region: self._of(self.written, region),
            "also_input": self.in_place,
            "untouched": self.idle,
        }
        regions = sorted({*self.written, *self.untouched})
        masks = {(region, kind): of(region) for region in regions for kind, of in of_kind.items()}
        full = np.full(PIECE_BYTES, 0xFF, dtype=np.uint8)

        def piece(region: int, kind: str, start: int, stop: int) -> Packed | None:
            bits = masks[region, kind]
            whole = bits.all_of(start, stop) if stop - start == 8 * PIECE_BYTES else None
            return bits.packed(start, stop) if whole is None else full if whole else None

        return WriteSet.from_pieces({region: self.sizes[region] for region in regions}, piece)


def load(reproducer: Reproducer) -> Measured | None:
    """The write set that the reproducer keeps; None if it keeps none."""
    kept = WriteSet.load(reproducer)
    if kept is None:
        return None
    measured = Measured([region.size for region in reproducer.manifest.regions])
    for region in kept.regions:
        size = measured.sizes[region]
        measured.add(
            region,
            bitmap.of_parts(size, kept.pieces(region, "written")),
            bitmap.of_parts(size, kept.pieces(region, "also_input")),
        )
        measured.leave(region, bitmap.of_parts(size, kept.pieces(region, "untouched")))
    return measured
