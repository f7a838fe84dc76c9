"""The write set, measured: what a launch writes is found by poisoning memory, not by looking for changes.

A second launch into the same output changes no byte, and yet writes all of them. Unit by unit:
the pre-state with one unit poisoned is run; bytes of it that are not poison any more were written. If all
else is as the plain run leaves it, nothing of the unit was input: what was written is pure output, the rest
is untouched, and a verdict poisons both. Otherwise the written part and the rest are poisoned alone, and what
the result depends on keeps its pre-state.
"""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.errors import KerncapError
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.other_scalars import scalar_variants
from kerncap.replay.plain_run import OutOfTime, PlainRun
from kerncap.replay.pointer_words import PointerWords
from kerncap.replay.poisoned_launch import LARGE, SEED_A, SEED_B, launch_poisoned
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.write_set_units import Unit, outside_views, units, whole_elements

_SMALL = 64  # bytes: below it, poison could equal what was written by chance
_MANY = 16  # units: so many are not measured one by one if nothing changes in them
_MOST_CRASHES = 12  # each costs a worker: what is not known after so many counts as input


def measure(engine: Engine, which: str = ORIGINAL, deadline: float | None = None) -> Measured:
    """Find what ``which`` writes, by replays under poison.

    ``deadline`` is a `time.monotonic` moment. Raises OutOfTime past it, EndedBadly when even the plain
    run does not end well.
    """
    return _Measurement(engine, which, deadline).run()


@dataclass
class _Run:
    """One run under poison: bytes that were written, bytes that stayed, whether something depends on it."""

    seen: Bits
    left: Bits
    matters: bool


class _Measurement:
    def __init__(self, engine: Engine, which: str, deadline: float | None) -> None:
        self.engine = engine
        self.which = which
        self.manifest = engine.manifest
        self.sizes = [region.size for region in self.manifest.regions]
        self.measured = Measured(self.sizes)
        self._untouched: dict[int, Bits] = {}  # what the plain run neither read nor wrote, if that shows
        self._supposed: list[tuple[Unit, Bits]] = []  # left, and not yet poisoned alone or with all others
        self._crashes = 0
        self._patient = True  # until a run has twice not ended in time
        self._keep_zeros = False
        self.pointers = PointerWords(self.manifest, engine.pre_files(), engine.pointed_at)
        self.plain = PlainRun(engine, which, deadline, "the write set could not be measured")

    def run(self) -> Measured:
        self.plain.run()
        for region in range(len(self.sizes)):
            if self.sizes[region] >= LARGE and (untouched := self.engine.untouched(region)).any():
                self._untouched[region] = untouched
        trusted = self.manifest.oracle.kind == "trusted"
        for region in range(len(self.sizes)):
            changed = self.engine.diff(region, "pre")
            if trusted and self.engine.reproducer.chunks_changed(region):
                changed = changed | self._oracle_changes(region)
            if self.engine.peers is not None and region in self.engine.peers.of_peers:
                changed = changed & ~self.engine.peers.of_peers[region]
            if changed.any():
                self.measured.add(region, changed, changed if region in self.engine.never_poisoned else None)
        alone, many = self._split(
            [u for u in units(self.manifest) if u.region not in self.engine.never_poisoned]
        )
        for unit in alone:
            self._unit(unit)
        self._unwritten(many)
        try:
            self._identities()
            self._together()
        except OutOfTime:
            self.measured.untouched.clear()  # what is known holds; this alone was not confirmed
        self.engine.reload()  # poisoned indices may have led anywhere
        return self.measured

    def _oracle_changes(self, region: int) -> Bits:
        """Bytes that differ between the application's pre-state and post-state."""
        self.engine.restore("post")
        changed = self.engine.diff(region, "pre")
        self.engine.restore(self.plain.state)
        return changed

    # --- many units --------------------------------------------------------------------------------

    def _split(self, found: list[Unit]) -> tuple[list[Unit], list[Unit]]:
        """Units to be measured one by one; and the others, if they are many: what only pointers reach and no
        run has changed, such as the nodes of a list."""
        alone: list[Unit] = []
        many: list[Unit] = []
        for unit in found:
            changed = self.measured.written.get(unit.region, bitmap.empty(self.sizes[unit.region]))
            idle = not unit.views and not (changed & unit.bits(self.sizes[unit.region])).any()
            (many if idle else alone).append(unit)
        return (alone, many) if len(many) > _MANY else (alone + many, [])

    def _unwritten(self, many: list[Unit]) -> None:
        """Units of which all or most are only read: they are poisoned together, and count as input.

        Those that are seen to be written are measured alone.
        """
        if not many or self._crashes >= _MOST_CRASHES:
            return
        if len(many) == 1:
            self._unit(many[0])
            return
        written: set[int] = set()
        for seed in (SEED_A, SEED_B):
            seen = self._poisoned_together(many, seed)
            if seen is None and not self._keep_zeros:
                self._keep_zeros = True  # the last node of a list points nowhere: a word of zeros
                seen = self._poisoned_together(many, seed)
            if seen is None:
                half = len(many) // 2
                self._unwritten(many[:half])
                self._unwritten(many[half:])
                return
            written |= seen
        for number in sorted(written):
            self._unit(many[number])

    def _poisoned_together(self, many: list[Unit], seed: int) -> set[int] | None:
        """Which of the units are written when all are poisoned; None if the run did not end well."""
        engine = self.plain.ready()
        masks = [
            unit.bits(self.sizes[unit.region]) & ~self.pointers.of(unit, self._keep_zeros) for unit in many
        ]
        for unit, mask in zip(many, masks, strict=True):
            whole = unit.bits(self.sizes[unit.region])
            if mask.any():  # a file for each mask is what takes time
                engine.fill(unit.region, unit.start, unit.stop, seed, None if mask == whole else mask)
        if not self.plain.launch().ok:
            self._crashes += 1
            return None
        return {
            number
            for number, (unit, mask) in enumerate(zip(many, masks, strict=True))
            if engine.diff(unit.region, "poison", seed, mask).any()
        }

    # --- one unit ----------------------------------------------------------------------------------

    def _unit(self, unit: Unit) -> None:
        whole = unit.bits(self.sizes[unit.region])
        if unit.region in self._untouched:
            untouched = self._untouched[unit.region]
            self.measured.leave(unit.region, whole & untouched)
            whole = whole & ~untouched
        seen = self.measured.written.get(unit.region, bitmap.empty(self.sizes[unit.region])) & whole
        pointers = self.pointers.of(unit)
        if pointers.any():
            if (seen & pointers).any():
                self.measured.add(unit.region, seen & pointers, also_input=seen & pointers)
            whole, seen = whole & ~pointers, seen & ~pointers
            if not whole.any():
                return
        if self._crashes >= _MOST_CRASHES:
            if seen.any():
                self._in_place(unit, seen)
            return
        runs = []
        for seed in (SEED_A, SEED_B):
            run = self._poisoned(unit, seed, whole)
            if run is None:
                self._in_place_after_a_crash(unit, seen, whole)
                return
            runs.append(run)
            if run.matters and not (seen | run.seen).any() and unit.size >= _SMALL:
                return  # input, and nothing else
            seen = seen | run.seen
        # What was written under only one of the two was written because of what lay there.
        if not any(run.matters or (run.left & seen).any() for run in runs):
            self._output(unit, seen)
            self.measured.leave(unit.region, whole & ~seen)
            return
        rest = whole & ~seen
        if not seen.any():
            return
        if not rest.any():
            self._in_place(unit, seen)
        elif self._does_not_matter(unit, seen, written=True):
            self._output(unit, seen)
        else:
            self._in_place(unit, seen)
            rest = whole & ~self.measured.written[unit.region]
            if rest.any():
                self._supposed.append((unit, rest))
                self.measured.leave(unit.region, rest)

    def _in_place_after_a_crash(self, unit: Unit, seen: Bits, whole: Bits) -> None:
        """A unit that the launch can't do without: what changed in it may still be pure output."""
        if not seen.any():
            return
        if (
            self._crashes < _MOST_CRASHES
            and seen != whole
            and self._does_not_matter(unit, seen, written=True)
        ):
            self._output(unit, seen)
        else:
            self._in_place(unit, seen)

    def _output(self, unit: Unit, bits: Bits) -> None:
        if bits.any():
            self.measured.add(unit.region, bits)

    def _in_place(self, unit: Unit, bits: Bits) -> None:
        bits = whole_elements(self.manifest, unit, bits)
        self.measured.add(unit.region, bits, also_input=bits)

    def _does_not_matter(self, unit: Unit, mask: Bits, written: bool) -> bool:
        """Whether these bytes alone can be poisoned with no effect, all of them or none being written."""
        for seed in (SEED_A, SEED_B):
            run = self._poisoned(unit, seed, mask)
            if run is None or run.matters or (run.left if written else run.seen).any():
                return False
        return True

    def _poisoned(self, unit: Unit, seed: int, mask: Bits) -> _Run | None:
        """Run with these bytes of the unit poisoned; None if it did not end well."""
        engine, region = self.plain.ready(), unit.region
        engine.fill(region, unit.start, unit.stop, seed, mask)
        outcome = self.plain.launch()
        if outcome.status == "timeout" and self._patient:
            # A busy machine stands still for seconds; the limit is for a loop that poison has made endless.
            self.plain.ready()
            engine.fill(region, unit.start, unit.stop, seed, mask)
            outcome = self.plain.launch()
            self._patient = outcome.status != "timeout"
        if not outcome.ok:
            self._crashes += 1
            return None
        seen = engine.diff(region, "poison", seed, mask)
        poison_left = mask & ~seen
        left = poison_left
        if left.any():
            # Poison that is the plain run's byte by chance says nothing.
            left = left & engine.diff(region, self.plain.state)
            engine.put(self.plain.state, region, poison_left)
        return _Run(seen, left, self.plain.is_unlike())

    # --- all units ---------------------------------------------------------------------------------

    def _identities(self) -> None:
        """Find what is written with the value that it has, whatever that is: ``x *= s`` where s is 1.

        No contents show that, but another s does.
        """
        suspects = [unit for unit in units(self.manifest) if unit.views and self._seems_idle(unit)]
        if not suspects:
            return
        for scalars in scalar_variants(self.manifest, self.engine.choice.memory == "host"):
            for region, bits in self._changes_with(scalars, suspects).items():
                self.measured.add(region, bits, also_input=bits)

    def _seems_idle(self, unit: Unit) -> bool:
        """Whether next to nothing of a unit is written: a multiplication by 1 changes signalling NaN only."""
        whole = unit.bits(self.sizes[unit.region])
        written = self.measured.written.get(unit.region, bitmap.empty(self.sizes[unit.region])) & whole
        idle = self.measured.idle(unit.region) & whole
        return bool(idle.any()) and bitmap.count(written) * 16 < unit.size

    def _changes_with(self, scalars: dict[str, str], suspects: list[Unit]) -> dict[int, Bits]:
        """Bytes of idle views that change with other scalars; none if anything else goes astray."""
        try:
            which = self.engine.variant(self.which, scalars)
        except KerncapError:
            return {}
        self.engine.restore()
        if not self.plain.launch(which=which).ok or self.engine.gap_writes():
            return {}
        changed: dict[int, Bits] = {}
        for region in self.engine.differing("pre"):
            bits = self.engine.diff(region, "pre")
            if (bits & outside_views(self.manifest, region)).any():
                return {}
            for unit in suspects:
                if unit.region == region:
                    found = bits & unit.bits(self.sizes[region]) & self.measured.idle(region)
                    if found.any():
                        found = whole_elements(self.manifest, unit, found)
                        changed[region] = changed.get(region, bitmap.empty(self.sizes[region])) | found
        return changed

    def _together(self) -> None:
        """What may be poisoned alone must bear it together: else idle memory is not poisoned."""
        idle = [region for region in self.measured.untouched if self.measured.idle(region).any()]
        if not idle:
            return
        # The last run is the one that a verdict on the captured kernel begins with.
        if all(self._bears(idle, seed) for seed in ((SEED_B, SEED_A) if self._supposed else (SEED_A,))):
            return
        supposed, self._supposed = self._supposed, []
        if not supposed:
            self.measured.untouched.clear()
            return
        for unit, rest in supposed:
            self.measured.take(unit.region, rest)
        for unit, rest in supposed:
            if self._does_not_matter(unit, rest, written=False):
                self.measured.leave(unit.region, rest)
        self._together()

    def _bears(self, idle: list[int], seed: int) -> bool:
        """Whether a launch ends as the plain run with all poisoned, and writes to nothing supposed idle."""
        engine, measured = self.engine, self.measured
        self.plain.keep()
        if not launch_poisoned(engine, measured, self.which, seed, self.plain.launch).ok:
            return False
        for unit, rest in self._supposed:
            rest = rest & measured.watched(unit.region)
            if engine.diff(unit.region, "poison", seed, rest).any():
                return False
        if not any(
            (engine.diff(region, self.plain.state) & ~measured.idle(region)).any()
            for region in engine.differing(self.plain.state)
        ):
            return True
        for region in idle:
            engine.put(self.plain.state, region, measured.idle(region))
        return not self.plain.is_unlike()
