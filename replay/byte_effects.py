"""What a launch does to each byte, and the poison that this allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kerncap.format import Reproducer, WriteSet
from kerncap.format.write_set import PIECE_BYTES
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.outcome import Outcome
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits, Packed

SEED_A, SEED_B = 0, 1
LARGE = 4 * 1024 * 1024  # bytes: all of a smaller region is poisoned


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
    # How replays of the captured kernel differ from each other, once that was needed (a `noise.Noise`).
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

    @property
    def written_bytes(self) -> int:
        return sum(bitmap.count(bits) for bits in self.written.values())

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


def poison(engine: Engine, measured: Measured, seed: int, idle: bool = True, sparing: bool = True) -> None:
    """Poison all that may be poisoned in restored memory; without ``idle`` what is written, and no more.

    ``sparing``: large stretches of idle memory that nobody has touched on the host stay as they are, and
    `strays` tells whether a launch touches them.
    """
    measured.far = _far(engine, measured) if idle and sparing else {}
    for region, size in enumerate(measured.sizes):
        mask = measured.output(region)
        if idle:
            mask = mask | measured.watched(region)
        if mask.any():
            engine.fill(region, 0, size, seed, mask)
    for region, far in measured.far.items():
        beside = far & ~engine.untouched(region)  # in a page with what was poisoned
        if beside.any():
            measured.far[region] = far & ~beside
            engine.fill(region, 0, measured.sizes[region], seed, beside)


def launch_poisoned(
    engine: Engine, measured: Measured, which: str, seed: int, launch: Callable[[], Outcome] | None = None
) -> Outcome:
    """Restore, poison what is not read, launch.

    Of the captured kernel on the host memory may hold just that already: its last run answers, once.
    """
    known, measured.ran = measured.ran, None
    mine = which == ORIGINAL and engine.choice.memory == "host"
    if known is not None and mine and known[:2] == (seed, engine.connection.changes):
        return known[2]
    for last in (False, False, True):
        engine.restore()
        poison(engine, measured, seed, sparing=not last)
        outcome = launch() if launch else engine.launch(which)
        if not outcome.ok or not strays(engine, measured):
            break
    if mine and outcome.ok:
        measured.ran = seed, engine.connection.changes, outcome
    return outcome


def _far(engine: Engine, measured: Measured) -> dict[int, Bits]:
    found = {}
    for region in measured.untouched if engine.choice.memory == "host" else ():
        if measured.sizes[region] < LARGE:
            continue
        far = bitmap.whole_pages(measured.idle(region) & engine.untouched(region))
        if region in measured.near:
            far = far & ~measured.near[region]
        if far.any():
            found[region] = far
    return found


def strays(engine: Engine, measured: Measured) -> bool:
    """Whether a launch has touched what was not poisoned. From now on that is."""
    found = False
    for region, far in measured.far.items():
        touched = far & ~engine.untouched(region)
        if touched.any():
            near = bitmap.of_ranges(measured.sizes[region], touched.pages())
            measured.near[region] = measured.near[region] | near if region in measured.near else near
            found = True
    return found
