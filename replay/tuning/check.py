"""Whether a configuration is right, compared on the device: once for each, before it is timed.

As `verdict.judge` without what takes long and seldom tells more. All configurations are of one source, so
what can be wrong with one is a size, a mask or a race: nothing that hides within the tolerance on purpose.
"""

from __future__ import annotations

from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.memory_names import place_name
from kerncap.replay.noise_floor import Noise, Wanted, of_replays
from kerncap.replay.poisoned_launch import SEED_A, SEED_B
from kerncap.replay.stray_writes import gap_reasons, outside_reasons
from kerncap.replay.verdict_words import BY_DTYPE, Tolerance, mismatch
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.protocol import Difference
from kerncap.replay.write_set_units import extent, outside_views, units

_BASELINE_RUNS = {"cuda": 3, "hip": 3, "host": 2}  # of the interpreter, which is as sure as it is slow
_EXPECTED = "expected"
_OUTSIDE = "expected outside of views"
_MOST_KEPT_BYTES = 8 << 30


class Checker:
    """What is the same for every configuration of one launch: the kernel's own noise, what views cover."""

    def __init__(self, engine: Engine, measured: Measured, tolerance: Tolerance) -> None:
        self.engine = engine
        self.measured = measured
        self.tolerance = tolerance
        manifest = engine.manifest
        self._noise: Noise = of_replays(engine, ORIGINAL, _BASELINE_RUNS[engine.choice.memory])
        self._views = [
            number
            for number, view in enumerate(manifest.views)
            if view.region in measured.written and extent(view)[0] < extent(view)[1]
        ]
        self._bare = {region: outside_views(manifest, region) for region in measured.written}
        # What the captured kernel leaves alone keeps its contents: whatever is written there shows.
        self._fills = [fill for region in measured.written for fill in self._output(region)]
        # What is no result of several launches is put into the captured state, after each run.
        self._keeps = (
            engine.choice.memory != "host" and engine.one_launch and sum(measured.sizes) <= _MOST_KEPT_BYTES
        )
        self._kept_in = -1  # the worker that has the oracle on its device

    def problem(self, which: str, seed: int = SEED_A) -> str | None:
        """Run ``which`` once under poison; what is wrong with its result, or None."""
        engine, manifest = self.engine, self.engine.manifest
        oracle = self._oracle()
        failed = self._run(which, seed)
        if failed:
            return failed
        reasons = gap_reasons(engine)
        if reasons:
            return reasons[0]
        for region in engine.differing(oracle):
            if region not in self.measured.written:
                bits = engine.diff(region, oracle)
                return outside_reasons(manifest, {region: bits})[0]
            views = [v for v in self._views if manifest.views[v].region == region]
            wanted = self._noise.wanted(engine, views, self.tolerance)
            problem = self._outside(wanted, oracle)
            if problem:
                return problem
            beside = self._beside_views(region, oracle)
            if beside:
                return beside
        return None

    def _outside(self, wanted: list[Wanted], oracle: str) -> str:
        """What is wrong with these views; statistics are had only if anything is outside."""
        engine = self.engine
        if engine.within(wanted, oracle):
            return ""
        for asked, stats in zip(wanted, engine.compare(wanted, oracle), strict=True):
            if stats.outside and not self._is_rounding(asked, stats, oracle):
                return mismatch(stats)
        return ""

    def _beside_views(self, region: int, oracle: str) -> str:
        """What differs in a region if no view is. Changes memory that was compared already."""
        engine, bare = self.engine, self._bare[region]
        if not bare.any():
            return ""
        if self._keeps:  # looked at on the device: nearly always there is nothing
            for start, stop in self._spans(region):
                engine.fill(region, start, stop, SEED_B)
            if region not in engine.differing(_OUTSIDE):
                return ""
            oracle = _OUTSIDE
        left = engine.diff(region, oracle) & bare & ~self._noise.byte_mask(engine, region)
        if not left.any():
            return ""
        where = place_name(engine.manifest, region, bitmap.first(left))
        return f"{bitmap.count(left):,} bytes differ (first at {where})"

    def _output(self, region: int) -> list[tuple[int, int, int, Bits | None]]:
        """What is poisoned of a region: [start, stop), or of that the bytes of a mask."""
        size, mask = self.measured.sizes[region], self.measured.output(region)
        spans = [
            (start, stop)
            for start, stop in self._spans(region)
            if (bitmap.span(size, start, stop) & mask).any()
        ]
        if bitmap.of_ranges(size, spans) == mask:  # a mask goes through a file and the host
            return [(region, start, stop, None) for start, stop in spans]
        return [(region, 0, size, mask)] if mask.any() else []

    def _spans(self, region: int) -> list[tuple[int, int]]:
        """The bytes that views cover."""
        return [
            span
            for unit in units(self.engine.manifest)
            if unit.region == region and unit.views
            for span in unit.spans
        ]

    def _oracle(self) -> str:
        """The state that results are compared with: on the device, if there is room. Changes memory."""
        if not self._keeps:
            return "post"
        if self._kept_in != self.engine.generation:
            self.engine.restore("post")
            self.engine.snapshot(_EXPECTED)
            for region, bare in self._bare.items():
                for start, stop in self._spans(region) if bare.any() else ():
                    self.engine.fill(region, start, stop, SEED_B)
            self.engine.snapshot(_OUTSIDE)
            self._kept_in = self.engine.generation
        return _EXPECTED

    def _run(self, which: str, seed: int) -> str:
        """Launch on the poisoned pre-state; how that ended, if not well."""
        self.engine.restore()
        for region, start, stop, mask in self._fills:
            self.engine.fill(region, start, stop, seed, mask)
        outcome = self.engine.launch(which)
        if outcome.ok:
            return ""
        return f"the kernel raised: {outcome.message}" if outcome.status == "error" else outcome.message

    def _is_rounding(self, asked: Wanted, stats: Difference, oracle: str) -> bool:
        """Whether no element is farther off than the dtype's relative tolerance of the largest one near.

        Another tile sums in another order: what that changes is of the size of what is summed, and so more
        than the tolerance of a sum that happens to be small. The user's own tolerance is taken as it is.
        """
        view, rtol, atol = asked
        if self.tolerance != BY_DTYPE or not rtol or not stats.scale:
            return False
        return self.engine.within([(view, rtol, atol + rtol * stats.scale)], oracle)
