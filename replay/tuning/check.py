"""Whether a configuration is right, compared where its result lies: once for each, before it is timed.

As `verdict.judge` without what takes long and seldom tells more (a second poison, other contents): those are
for the finalists.
"""

from __future__ import annotations

from kerncap.replay import bitmap
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.measured import SEED_A, Measured
from kerncap.replay.noise import Noise, of_replays
from kerncap.replay.units import extent, outside_views, place_name
from kerncap.replay.verdict import gap_reasons, outside_reasons, run_poisoned, settle
from kerncap.replay.wording import Tolerance, mismatch

_BASELINE_RUNS = {"cuda": 3, "host": 2}  # of the interpreter, which is as sure as it is slow


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

    def problem(self, which: str) -> str | None:
        """Run ``which`` once under poison; what is wrong with its result, or None."""
        engine, manifest = self.engine, self.engine.manifest
        failed = run_poisoned(engine, self.measured, which, SEED_A)
        if failed is not None:
            return failed.summary
        reasons = gap_reasons(engine)
        reasons += outside_reasons(manifest, settle(engine, self.measured, SEED_A))
        if reasons:
            return reasons[0]
        for region in engine.differing("post"):
            if region not in self.measured.written:
                bits = engine.diff(region, "post")
                return outside_reasons(manifest, {region: bits})[0]
            bare = self._bare[region]
            if bare.any():
                left = engine.diff(region, "post") & bare & ~self._noise.byte_mask(engine, region)
                if left.any():
                    where = place_name(manifest, region, bitmap.first(left))
                    return f"{bitmap.count(left):,} bytes differ (first at {where})"
            views = [v for v in self._views if manifest.views[v].region == region]
            for stats in engine.compare(self._noise.wanted(engine, views, self.tolerance), "post"):
                if stats["outside"]:
                    return mismatch(stats)
        return None
