"""A candidate on another launch than the captured one: what it computes, not what it knows.

A result that was cached, hard-coded or left over agrees with one input, a wrong tail with one size. So
captured kernel and candidate both run on other values, or with other sizes, in the same memory, and are
compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kerncap.replay import rounding_bias
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.judge_requests import FLOATS, errors, redraw, redrawable, where
from kerncap.replay.memory_names import place_name, view_name
from kerncap.replay.noise_floor import Noise
from kerncap.replay.outcome import Config
from kerncap.replay.poisoned_launch import SEED_B, poison
from kerncap.replay.stray_writes import gap_reasons
from kerncap.replay.tolerance import view_tolerance
from kerncap.replay.verdict_words import BY_DTYPE, Tolerance, mismatch
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.protocol import Difference, ErrorStatistics, Limits
from kerncap.replay.write_set_units import outside_views, units

Perturbed = tuple[list[int], int, bitmap.Bits]  # views, their region, the bytes that may change

EXPECTED = "expected of it"
BEFORE = "before it"
_FOUND = "found of it"


@dataclass
class Shown:
    """Why the candidate fails (if it does), or can't be judged, and what this did and did not show."""

    reasons: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    not_shown: list[str] = field(default_factory=list)
    remedy: str = "a longer --timeout would decide it"  # of what is open
    shifts: dict[int, list[rounding_bias.Shift]] = field(
        default_factory=dict
    )  # by view, of a candidate that agrees
    contents: list[Callable[[], None]] = field(default_factory=list)  # each puts into memory what was shown
    numbers: list[Config] = field(default_factory=list)  # that were passed in what was shown


def on_other_values(engine: Engine, measured: Measured, tolerance: Tolerance, seed: int = 1) -> Shown:
    """Captured kernel and candidate on the same other values; integers that steer stay as they are."""
    views = redrawable(engine.manifest, measured)
    engine.restore()
    changed = redraw(engine, views, seed) if views else []
    if not changed:
        return Shown(not_shown=["other values: no tensor that is read could be given any"])
    names = ", ".join(dict.fromkeys(view_name(engine.manifest, view) for view in changed))
    what = f"other values of {names}"
    shown = Differential(engine, measured, tolerance, what, views, seed).judge()
    integers = not any(engine.manifest.views[view].dtype.startswith(FLOATS) for view in views)
    if shown.shown or shown.reasons or shown.open or not integers or engine.choice.memory != "host":
        return shown
    # Of integers that only change places a count and a sum are the same: some are given twice.
    return Differential(engine, measured, tolerance, what, views, seed, repeats=True).judge()


def on_other_counts(engine: Engine, measured: Measured, tolerance: Tolerance) -> Shown:
    """Captured kernel and candidate on other contents of integers that are counted up in place.

    What adds to zeros and what writes the sum over them give the same. For host memory alone: integers that
    a kernel waits for could make it wait for ever on a device.
    """
    if engine.choice.memory != "host":
        return Shown()
    counted = _counted(engine, measured)
    if not counted:
        return Shown()
    names = [view_name(engine.manifest, view) for views, _, _ in counted for view in views]
    what = f"other contents of {', '.join(dict.fromkeys(names))}"
    return Differential(engine, measured, tolerance, what, [], perturbed=tuple(counted)).judge()


def _counted(engine: Engine, measured: Measured) -> list[Perturbed]:
    """Integers that the application's launch changed in place, but for those that `redraw` changes."""
    engine.restore()
    redrawn = redraw(engine, redrawable(engine.manifest, measured), 1)
    engine.restore()
    found: list[Perturbed] = []
    for unit in units(engine.manifest):
        views = [v for v in unit.views if v not in redrawn]
        if not views or any(engine.manifest.views[v].dtype.startswith(FLOATS) for v in unit.views):
            continue
        bits = measured.in_place(unit.region) & unit.bits(measured.sizes[unit.region])
        if bits.any() and (engine.diff(unit.region, "post") & bits).any():
            found.append((views, unit.region, bits))
    return found


@dataclass
class Differential:
    """Two variants, the captured kernel's and the candidate's, on the same contents.

    ``what`` names the launch for people; ``redrawn`` are views that get other values by ``seed``,
    ``perturbed`` such that are changed where they are written in place (of the captured contents alone it
    can be told whether a result is theirs again).
    """

    engine: Engine
    measured: Measured
    tolerance: Tolerance
    what: str
    redrawn: list[int]
    seed: int = 1
    original: str = ORIGINAL
    candidate: str = CANDIDATE
    timeout_s: float | None = None
    perturbed: tuple[Perturbed, ...] = ()
    repeats: bool = False  # of integers that are redrawn, each second one is given twice

    def judge(self) -> Shown:
        self.manifest = self.engine.manifest
        self._took_too_long = False  # the last launch
        self._is_open = False  # the candidate's was ended since it took longer than it may
        self._prepare()
        self.engine.snapshot(BEFORE)
        self._shown = found = Shown()
        problem = self._launch(self.original) or self._problem()
        if problem:
            found.not_shown.append(f"{self.what}: the captured kernel fails there ({problem})")
            return found
        if not self._told():
            same = "writes the same as before" if self._changes else "writes nothing there"
            found.not_shown.append(f"{self.what}: the captured kernel {same}")
            return found
        self.engine.snapshot(EXPECTED)
        reasons = self._candidate()
        for state in (BEFORE, EXPECTED, _FOUND):
            self.engine.drop(state)
        if reasons:
            (found.open if self._is_open else found.reasons).extend(
                f"on {self.what}: {reason}" for reason in reasons
            )
        elif not found.open:
            found.shown.append(f"as the captured kernel on {self.what}")
            found.contents.append(self._prepare)
        return found

    @property
    def _changes(self) -> bool:
        """Whether contents are others than the captured ones."""
        return bool(self.redrawn or self.perturbed)

    def _prepare(self) -> None:
        self.engine.restore()
        if self.redrawn:
            redraw(self.engine, self.redrawn, self.seed, self.repeats)
        for views, region, bits in self.perturbed:
            self.engine.perturb(views, {region: bits})
        poison(self.engine, self.measured, SEED_B)

    def _launch(self, which: str) -> str:
        """What went wrong, if anything."""
        generation = self.engine.generation
        outcome = self.engine.launch(which, self.timeout_s)
        self._took_too_long = outcome.status == "timeout"
        if not outcome.ok:
            return outcome.message
        if self.engine.generation != generation:
            return "the worker was lost"
        return "; ".join(gap_reasons(self.engine))

    def _problem(self) -> str:
        """Why the captured kernel's result there is no reference; memory is as it left it."""
        return ""

    def _told(self) -> bool:
        """Whether the captured kernel does there what nothing but a computation gives."""
        if not self._changes:
            return bool(self.engine.differing(BEFORE))
        return any(
            (self.engine.diff(region, "post") & written).any()
            for region, written in self.measured.written.items()
        )

    def _candidate(self) -> list[str]:
        self._prepare()
        if problem := self._launch(self.candidate):
            self._is_open = self._took_too_long
            return [problem]
        found = self._compare(self._known_noise())
        reasons = self._elsewhere()
        if any(stats.outside for stats in found):
            return reasons + self._mismatches(found)
        if self.tolerance == BY_DTYPE and any(stats.different for stats in found):
            differing = [self._limits(stats.view, {}) for stats in found if stats.different]
            for stats in errors(self.engine, differing, EXPECTED):
                dtype = self.manifest.views[stats.view].dtype
                if reason := rounding_bias.uses_up(stats, dtype):
                    reasons.append(reason)
                elif reason := self._is_less_exact(stats, dtype):
                    self._shown.open.append(f"on {self.what}: {reason}")
                    self._shown.remedy = "verify --stages smoke,numerics would decide it"
                if dtype.startswith(FLOATS):
                    self._shown.shifts[stats.view] = rounding_bias.shifts(stats, dtype)
        return reasons

    def _is_less_exact(self, stats: ErrorStatistics, dtype: str) -> str:
        return rounding_bias.as_of_float32(stats, dtype)

    def _known_noise(self) -> dict[int, float]:
        """How far the captured kernel was seen to differ from itself on the captured contents."""
        known: Noise | None = self.measured.noise
        if known is None:
            return {}
        races = known.races(self.manifest)
        return {view: largest for view, largest in known.views.items() if view not in races}

    def _compare(self, noise: dict[int, float]) -> list[Difference]:
        return self._compared(noise, self._limits)

    def _compared(
        self, noise: dict[int, float], limits: Callable[[int, dict[int, float]], Limits]
    ) -> list[Difference]:
        wanted = [
            limits(number, noise)
            for number, view in enumerate(self.manifest.views)
            if view.region in self.measured.written
        ]
        return self.engine.compare(wanted, EXPECTED)

    def _limits(self, view: int, noise: dict[int, float]) -> Limits:
        dtype = self.manifest.views[view].dtype
        limits = view_tolerance(dtype, noise.get(view, 0.0), self.tolerance.rtol, self.tolerance.atol)
        return (view, *limits)

    def _mismatches(self, found: list[Difference]) -> list[str]:
        """Reasons that hold against the candidate even if the captured kernel differs from itself."""
        limits = [self._limits(stats.view, {}) for stats in found if stats.outside]
        places = where(self.engine, limits, EXPECTED)
        as_before = set()
        if self._changes:
            post = self.engine.compare(limits, "post")
            as_before = {stats.view for stats in post if not stats.outside}
        self.engine.snapshot(_FOUND)
        self._prepare()
        if not self._launch(self.original):
            noise = self._known_noise()
            for stats in self._compare({}):
                if stats.different:
                    view = stats.view
                    noise[view] = max(noise.get(view, 0.0), stats.max_abs)
            if noise:
                self.engine.restore(_FOUND)
                found = self._compare(noise)
        reasons = []
        for stats in found:
            view = stats.view
            if not stats.outside:
                continue
            if view in as_before:
                why = "cached or stored, not computed"
                if self.perturbed:
                    why = "what was there before is not used"
                reasons.append(f"{stats.name} is the result for the captured values again: {why}")
            else:
                place = f"; {places[view]}" if view in places else ""
                reasons.append(f"differs from the captured kernel: {mismatch(stats)}{place}")
        return reasons

    def _elsewhere(self) -> list[str]:
        """Differences beside all views, in regions that have one: nothing is known of what they mean."""
        reasons = []
        for region in self.engine.differing(EXPECTED):
            stray = self.engine.diff(region, EXPECTED) & outside_views(self.manifest, region)
            if stray.any():
                place = place_name(self.manifest, region, bitmap.first(stray))
                reasons.append(
                    f"{bitmap.count(stray):,} bytes outside the arguments differ (first at {place})"
                )
        return reasons
