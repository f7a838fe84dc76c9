"""Whether a launch gives the same result when some bytes of its memory are something else."""

from __future__ import annotations

from kerncap.api.minimize.delta_debug import Masks
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.plain_run import PlainRun
from kerncap.replay.pointer_words import PointerWords
from kerncap.replay.poisoned_launch import SEED_A, SEED_B
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.write_set_units import Unit


class Probe:
    """Runs the captured kernel on poisoned memory and holds the result against a plain run's.

    ``deadline`` is a `time.monotonic` moment; past it `holds` raises `OutOfTime`.
    """

    def __init__(self, engine: Engine, measured: Measured, deadline: float) -> None:
        self._engine = engine
        self._measured = measured
        self._sizes = [region.size for region in engine.manifest.regions]
        self._plain = PlainRun(engine, ORIGINAL, deadline, "the needs of the launch were not found")

    def start(self) -> None:
        """Raises ReplayError if the launch does not end well as it is."""
        self._plain.run()

    def holds(self, free: Masks) -> bool:
        """Whether nothing depends on these bytes, as far as one kind of contents tells."""
        return self._same(free, SEED_A)

    def holds_twice(self, free: Masks) -> bool:
        """The same, with two kinds of contents."""
        return self._same(free, SEED_A) and self._same(free, SEED_B)

    def _same(self, free: Masks, seed: int) -> bool:
        engine = self._plain.ready()
        for region, bits in free.items():
            if bits.any():
                engine.fill(region, 0, self._sizes[region], seed, bits)
        if not self._plain.launch().ok:
            return False
        for region, bits in free.items():
            # What was written is judged as it is; the rest is as it was put there.
            written = self._measured.written.get(region)
            kept = bits if written is None else bits & ~written
            if kept.any():
                if engine.diff(region, "poison", seed, kept).any():
                    return False  # written if the measured write set knows nothing of it
                engine.put(self._plain.state, region, kept)
        return not self._plain.is_unlike()


def pointer_words(engine: Engine) -> Masks:
    """Words that lead into a region: poison in their place faults, which costs a process each time."""
    words = PointerWords(engine.manifest, engine.pre_files(), engine.pointed_at)
    found: dict[int, Bits] = {}
    for number, region in enumerate(engine.manifest.regions):
        if region.size:
            found[number] = words.of(Unit(number, ((0, region.size),), ()))
    return found
