"""The write set, measured: what a launch writes is found by poisoning memory, not by looking for changes.

A second launch into the same output changes no byte, and yet writes all of them. Unit by unit:
the pre-state with one unit poisoned is run; bytes of it that are not poison any more were written.
If they then hold what the plain run gives they are output; if not, the unit's old contents went into the
result, so it is input too and keeps its pre-state in a verdict.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from kerncap.replay import bitmap
from kerncap.replay.bitmap import Bits
from kerncap.replay.engine import ORIGINAL, Engine, Outcome
from kerncap.replay.tolerance import exceeds, view_tolerance
from kerncap.replay.units import Unit, units

from kerncap.errors import KerncapError, ReplayError
from kerncap.format import Reproducer, WriteSet

SEED_A, SEED_B = 0, 1
_SMALL = 64  # bytes: below it, poison could equal what was written by chance
_SLOWER = 10.0  # a poisoned run may take this much longer than a plain one
_LEAST_TIMEOUT_S = 5.0


class OutOfTime(KerncapError):
    """The measurement did not end before its deadline."""


@dataclass
class Measured:
    """Per region: bytes that the launch writes, and those of them that it also reads."""

    sizes: list[int]
    written: dict[int, Bits] = field(default_factory=dict)
    also_input: dict[int, Bits] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, region: int, bits: Bits, also_input: bool) -> None:
        size = self.sizes[region]
        self.written[region] = self.written.get(region, bitmap.empty(size)) | bits
        if also_input:
            self.also_input[region] = self.also_input.get(region, bitmap.empty(size)) | bits

    def poisonable(self, region: int) -> Bits:
        """What a verdict may poison: written, and not read first."""
        written = self.written.get(region, bitmap.empty(self.sizes[region]))
        if region in self.also_input:
            written = written & ~self.also_input[region]
        return written

    @property
    def written_bytes(self) -> int:
        return sum(bitmap.count(bits) for bits in self.written.values())

    def as_write_set(self) -> WriteSet:
        """The form that a reproducer keeps."""
        masks = {
            region: (region in self.also_input and bool(self.also_input[region].any()), bits)
            for region, bits in self.written.items()
        }
        return WriteSet.from_masks(masks, dict(enumerate(self.sizes)))


def load(reproducer: Reproducer) -> Measured | None:
    """The write set that the reproducer keeps; None if there is none, or if it says too little.

    It knows by region only whether writes are input as well: where a region holds more than one written
    unit, and one of them is input, it is measured again.
    """
    kept = WriteSet.load(reproducer)
    if kept is None:
        return None
    sizes = [region.size for region in reproducer.manifest.regions]
    measured = Measured(sizes)
    for region in kept.regions:
        bits = kept.mask(region)
        if kept.also_input(region):
            parts = [
                u
                for u in units(reproducer.manifest)
                if u.region == region and (bits & _unit_bits(u, sizes)).any()
            ]
            if len(parts) > 1:
                return None
        measured.add(region, bits, kept.also_input(region))
    return measured


def measure(engine: Engine, which: str = ORIGINAL, deadline: float | None = None) -> Measured:
    """Find what ``which`` writes, by replays under poison.

    ``deadline`` is a `time.monotonic` moment. Raises OutOfTime past it, ReplayError when even the plain
    run does not end well.
    """
    return _Measurement(engine, which, deadline).run()


def _unit_bits(unit: Unit, sizes: list[int]) -> Bits:
    return bitmap.span(sizes[unit.region], unit.start, unit.stop)


class _Measurement:
    def __init__(self, engine: Engine, which: str, deadline: float | None) -> None:
        self.engine = engine
        self.which = which
        self.deadline = deadline
        self.manifest = engine.manifest
        self.sizes = [region.size for region in self.manifest.regions]
        self.measured = Measured(self.sizes)
        self.limit_s = engine.timeout_s
        self._generation = 0
        self._noise: dict[int, float] | None = None

    def run(self) -> Measured:
        self._baseline()
        trusted = self.manifest.oracle.kind == "trusted"
        for region in range(len(self.sizes)):
            changed = self.engine.diff(region, "pre")
            if trusted and self.engine.reproducer.chunks_changed(region):
                changed = changed | self._oracle_changes(region)
            if changed.any():
                self.measured.add(region, changed, also_input=False)
        for unit in units(self.manifest):
            self._unit(unit)
        return self.measured

    def _oracle_changes(self, region: int) -> Bits:
        """Bytes that differ between the application's pre-state and post-state."""
        self.engine.restore("post")
        changed = self.engine.diff(region, "pre")
        self.engine.restore("baseline")
        return changed

    def _baseline(self) -> None:
        """One plain run; its result is what poisoned runs are held against."""
        self.engine.restore()
        begin = time.monotonic()
        outcome = self._launch(self.engine.timeout_s)
        if not outcome.ok:
            raise ReplayError(f"the plain replay did not end well: {outcome.message}")
        took = time.monotonic() - begin
        self.limit_s = min(self.engine.timeout_s, max(_LEAST_TIMEOUT_S, took * _SLOWER))
        self.engine.snapshot("baseline")
        self._generation = self.engine.generation

    def _launch(self, limit_s: float) -> Outcome:
        if self.deadline is not None:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise OutOfTime("the write set could not be measured in the time given")
            limit_s = min(limit_s, left)
        return self.engine.launch(self.which, limit_s)

    def _unit(self, unit: Unit) -> None:
        nothing = bitmap.empty(self.sizes[unit.region])
        changed = self.measured.written.get(unit.region, nothing) & _unit_bits(unit, self.sizes)
        first = self._poisoned(unit, SEED_A, None)
        if first is None:
            self._add(unit, changed, also_input=True)
            return
        seen, wrong = first
        seen = seen | changed
        if seen.any() or unit.size < _SMALL:
            second = self._poisoned(unit, SEED_B, None)
            if second is None:
                self._add(unit, seen, also_input=True)
                return
            seen, wrong = seen | second[0], wrong | second[1]
        # Every written byte must hold the plain run's result under both poisons: one that was written under
        # only one of them was written because of what lay there.
        same = not (wrong & seen).any()
        if seen.any() and not same and (seen != _unit_bits(unit, self.sizes)).any():
            # Input and output may share the unit: poison what was written, and that alone.
            again = [self._poisoned(unit, seed, seen) for seed in (SEED_A, SEED_B)]
            same = all(result is not None and not (result[1] & seen).any() for result in again)
        if seen.any():
            self._add(unit, seen, also_input=not same and not self._is_noise(unit, seen))

    def _add(self, unit: Unit, bits: Bits, also_input: bool) -> None:
        if bits.any():
            self.measured.add(unit.region, bits, also_input)

    def _poisoned(self, unit: Unit, seed: int, mask: Bits | None) -> tuple[Bits, Bits] | None:
        """(bytes of the unit that are no poison any more, bytes unlike the plain run's); None if it broke."""
        engine, region = self.engine, unit.region
        if engine.generation != self._generation:
            self._baseline()  # the worker was replaced, and the snapshot went with it
        engine.restore()
        engine.fill(region, unit.start, unit.stop, seed, mask)
        if not self._launch(self.limit_s).ok:
            return None
        poisoned = _unit_bits(unit, self.sizes)
        if mask is not None:
            poisoned &= mask
        return engine.diff(region, "poison", seed) & poisoned, engine.diff(region, "baseline") & poisoned

    def _is_noise(self, unit: Unit, seen: Bits) -> bool:
        """Whether the difference from the baseline is no more than runs of the kernel differ anyway."""
        floor = self._noise_floor()
        views = [v for v in unit.views if v in floor]
        if not views:
            return False
        wanted = [(v, *view_tolerance(self.manifest.views[v].dtype, floor[v])) for v in views]
        self._rerun_poisoned(unit, seen)
        return not any(exceeds(stats) for stats in self.engine.compare(wanted, "baseline"))

    def _rerun_poisoned(self, unit: Unit, seen: Bits) -> None:
        self.engine.restore()
        self.engine.fill(unit.region, unit.start, unit.stop, SEED_A, seen)
        self._launch(self.limit_s)

    def _noise_floor(self) -> dict[int, float]:
        """Views whose contents differ from one plain run to the next, with the largest difference."""
        if self._noise is None:
            self._noise = {}
            everything = [(v, 0.0, 0.0) for v in range(len(self.manifest.views))]
            for _ in range(2):
                self.engine.restore()
                if not self._launch(self.limit_s).ok:
                    break
                for stats in self.engine.compare(everything, "baseline"):
                    if stats["different"]:
                        view = int(stats["view"])
                        self._noise[view] = max(self._noise.get(view, 0.0), float(stats["max_abs"]))
        return self._noise
