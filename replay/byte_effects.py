"""What a launch does to each byte, and the poison that this allows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kerncap.format import Masks, Reproducer, WriteSet
from kerncap.replay import bitmap
from kerncap.replay.bitmap import Bits
from kerncap.replay.engine import Engine

SEED_A, SEED_B = 0, 1


@dataclass
class Measured:
    """Per region: bytes that the launch writes, those of them that it also reads, and untouched ones."""

    sizes: list[int]
    written: dict[int, Bits] = field(default_factory=dict)
    also_input: dict[int, Bits] = field(default_factory=dict)
    untouched: dict[int, Bits] = field(default_factory=dict)
    # How replays of the captured kernel differ from each other, once that was needed (a `noise.Noise`).
    noise: Any = field(default=None, repr=False, compare=False)

    def add(self, region: int, written: Bits, also_input: Bits | None = None) -> None:
        """More bytes that are written, and those of them that are also input."""
        self.written[region] = self._of(self.written, region) | written
        if also_input is not None:
            self.also_input[region] = self._of(self.also_input, region) | also_input

    def leave(self, region: int, bits: Bits) -> None:
        """More bytes that are neither read nor written."""
        self.untouched[region] = self._of(self.untouched, region) | bits

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

    def poisonable(self, region: int) -> Bits:
        """What a verdict may poison."""
        return self.output(region) | self.idle(region)

    @property
    def written_bytes(self) -> int:
        return sum(bitmap.count(bits) for bits in self.written.values())

    def as_write_set(self) -> WriteSet:
        """The form that a reproducer keeps."""
        masks = {
            region: Masks(self._of(self.written, region), self.in_place(region), self.idle(region))
            for region in sorted({*self.written, *self.untouched})
        }
        return WriteSet.from_masks(masks, dict(enumerate(self.sizes)))


def load(reproducer: Reproducer) -> Measured | None:
    """The write set that the reproducer keeps; None if there is none."""
    kept = WriteSet.load(reproducer)
    if kept is None:
        return None
    measured = Measured([region.size for region in reproducer.manifest.regions])
    for region in kept.regions:
        masks = kept.masks(region)
        measured.add(region, masks.written, masks.also_input)
        measured.leave(region, masks.untouched)
    return measured


def poison(engine: Engine, measured: Measured, seed: int, idle: bool = True) -> None:
    """Poison all that may be poisoned in memory as it is; without ``idle`` what is written, and no more."""
    for region, size in enumerate(measured.sizes):
        mask = measured.poisonable(region) if idle else measured.output(region)
        if mask.any():
            engine.fill(region, 0, size, seed, mask)
