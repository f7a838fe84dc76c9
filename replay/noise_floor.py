"""How far a kernel differs from itself: what a verdict must not count as wrong.

Views have a type, and so a largest difference. Elsewhere the bytes that differ say which floating type they
are of, where they are of one: rounding moves the last places of that type only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kerncap.format.schema import Manifest
from kerncap.replay.engine import Engine
from kerncap.replay.outcome import Outcome
from kerncap.replay.tolerance import view_tolerance
from kerncap.replay.verdict_words import BY_DTYPE, Tolerance
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.protocol import View
from kerncap.replay.write_set_units import Unit, units

_MOST_OUTPUTS = 64  # of a stretch that no view describes: of more, all that is noisy there is one
_LARGEST_RELATIVE = 0.05  # of the largest magnitude: sums in another order differ by less

Wanted = tuple[int | View, float, float]


@dataclass
class Inferred:
    """A stretch of a region that no view describes, with the type that its noise has."""

    region: int
    bits: Bits
    view: View
    largest: float


@dataclass
class Noise:
    """Largest differences by view, all bytes that were seen to differ, and what was inferred elsewhere.

    ``written``, by region, tells outputs that no view describes from each other: each has a type of its own,
    and a floor. Without it there is one for each stretch between views.
    """

    views: dict[int, float] = field(default_factory=dict)
    scales: dict[int, float] = field(default_factory=dict)
    bytes: dict[int, Bits] = field(default_factory=dict)
    inferred: list[Inferred] = field(default_factory=list)
    written: dict[int, Bits] = field(default_factory=dict)
    ended: Outcome | None = None  # of a run that did not end well: nothing is known of how it differs

    def __bool__(self) -> bool:
        return bool(self.bytes)

    @property
    def typed(self) -> bool:
        """Whether there is any noise of which the type is known."""
        return bool(self.views or self.inferred)

    def observe(self, engine: Engine, against: str) -> None:
        """Add how memory as it is differs from a state, both being results of the same kernel."""
        manifest = engine.manifest
        found = {region: engine.diff(region, against) for region in engine.differing(against)}
        for region, bits in found.items():
            self.bytes[region] = self.byte_mask(engine, region) | bits
        if not self.bytes:
            return
        for stats in engine.compare([(v, 0.0, 0.0) for v in range(len(manifest.views))], against):
            if stats.different:
                view = stats.view
                self.views[view] = max(self.views.get(view, 0.0), stats.max_abs)
                self.scales[view] = max(self.scales.get(view, 0.0), stats.scale)
        for unit in units(manifest):
            if not unit.views and unit.region in found:
                self._observe_untyped(engine, unit, found[unit.region], against)

    def _observe_untyped(self, engine: Engine, unit: Unit, bits: Bits, against: str) -> None:
        size = engine.manifest.regions[unit.region].size
        for start, stop in self._outputs(unit, size):
            span = bitmap.span(size, start, stop)
            here = bits & span
            if not here.any():
                continue
            known = next(
                (i for i in self.inferred if i.region == unit.region and (i.bits & here).any()), None
            )
            if known is None:
                view = engine.infer(unit.region, start, stop, here, against)
                if view is None:
                    continue
                known = Inferred(unit.region, span, view, 0.0)
                self.inferred.append(known)
            stats = engine.compare([(known.view, 0.0, 0.0)], against)[0]
            known.largest = max(known.largest, stats.max_abs)

    def _outputs(self, unit: Unit, size: int) -> Sequence[tuple[int, int]]:
        """The stretches of a unit that are written, as far as that is known."""
        if unit.region not in self.written:
            return unit.spans
        written = bitmap.widened(self.written[unit.region], 8) & unit.bits(size)
        return bitmap.runs(written, _MOST_OUTPUTS) or unit.spans

    def byte_mask(self, engine: Engine, region: int) -> Bits:
        """The bytes of a region that were seen to differ."""
        found = self.bytes.get(region)
        return bitmap.empty(engine.manifest.regions[region].size) if found is None else found

    def inferred_mask(self, engine: Engine, region: int) -> Bits:
        """The bytes of a region of which the type was inferred."""
        found = bitmap.empty(engine.manifest.regions[region].size)
        for inferred in self.inferred:
            if inferred.region == region:
                found |= inferred.bits
        return found

    def races(self, manifest: Manifest) -> list[int]:
        """The views of floats that differ from run to run by more than the order of a sum explains."""
        return [
            view
            for view, largest in self.views.items()
            if manifest.views[view].dtype.startswith(("float", "bfloat"))
            and largest > _LARGEST_RELATIVE * self.scales[view]
        ]

    def without_floor(self, manifest: Manifest) -> set[int]:
        """The views of which nothing can be said: races, and integers that differ, of which none is near."""
        integers = {
            view for view in self.views if not manifest.views[view].dtype.startswith(("float", "bfloat"))
        }
        return integers.union(self.races(manifest))

    def wanted(
        self, engine: Engine, views: list[int], tolerance: Tolerance = BY_DTYPE, races: bool = False
    ) -> list[Wanted]:
        """What to compare, with how far it may differ: these views, and all that was inferred.

        What differs by more than rounding is allowed for with ``races`` only.
        """
        denied = [] if races else self.races(engine.manifest)
        found: list[Wanted] = []
        for v in views:
            largest = 0.0 if v in denied else self.views.get(v, 0.0)
            dtype = engine.manifest.views[v].dtype
            found.append((v, *view_tolerance(dtype, largest, tolerance.rtol, tolerance.atol)))
        for inferred in self.inferred:
            limits = view_tolerance(inferred.view.dtype, inferred.largest, tolerance.rtol, tolerance.atol)
            found.append((inferred.view, *limits))
        return found


def of_replays(engine: Engine, which: str, runs: int, written: dict[int, Bits] | None = None) -> Noise:
    """What differs between ``runs`` replays on the same pre-state; memory is as the last one left it."""
    noise = Noise(written=written or {})
    for run in range(runs):
        engine.restore()
        outcome = engine.launch(which)
        if not outcome.ok:
            noise.ended = outcome
            break
        if run == 0:
            engine.snapshot("first")
        else:
            noise.observe(engine, "first")
    return noise
