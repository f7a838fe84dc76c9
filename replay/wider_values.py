"""A candidate on values that the application did not pass: other signs, larger ones, no zeros.

What leaves out work that the captured values do not need (the sign of what is positive, the maximum that
keeps an exponential finite, a tile of zeros) agrees on every order and size of these values. So captured
kernel and candidate also run beyond them. Two honest kernels may be further apart there: how much the
captured kernel's own results move with its inputs is measured and allowed for, and where it gives more NaN
or infinities than it did, the values are outside its domain.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kerncap.replay import rounding_bias
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import Engine
from kerncap.replay.judge_requests import FLOATS, redraw, redrawable
from kerncap.replay.memory_names import view_name
from kerncap.replay.other_contents import Differential, Shown
from kerncap.replay.poisoned_launch import SEED_B, poison
from kerncap.replay.verdict_words import Tolerance
from kerncap.replay.worker.protocol import Difference, ErrorStatistics, Limits, Spread

_SEED = 5
_FACTOR = 4.0
SLACK = 16.0  # times the tolerance: errors of work that is left out are larger by far
_OF_FLOOR = 4.0
_JITTER, _COARSE_JITTER = 2.0**-20, 2.0**-10
_RESULT = "result with values beyond"


def jitter(coarse: bool) -> float:
    """By which share inputs are moved: as a matrix unit rounds them, if there is or may be one."""
    return _COARSE_JITTER if coarse else _JITTER


def on_wider_values(engine: Engine, measured: Measured, tolerance: Tolerance, coarse: bool) -> Shown:
    """Captured kernel and candidate beyond the captured values; ``coarse``: inputs may be rounded to TF32."""
    views = redrawable(engine.manifest, measured)
    if not any(engine.manifest.views[view].dtype.startswith(FLOATS) for view in views):
        return Shown()  # see `boundary_values`
    names = ", ".join(dict.fromkeys(view_name(engine.manifest, view) for view in views))
    given = nonfinite_of_capture(engine, measured)
    found = Shown()
    for spread, kind in (
        (Spread(_FACTOR, signs=True), "signs and larger values"),
        (Spread(_FACTOR), "larger values"),
    ):
        differential = Beyond(
            engine, measured, tolerance, f"other {kind} of {names}", views, _SEED,
            spread=spread, jitters=(jitter(coarse),), nonfinite=given,
        )  # fmt: skip
        found = differential.judge()
        if found.shown or found.reasons or found.open:
            break
    return found


def biases(engine: Engine, first: Shown, second: Shown) -> Shown:
    """Errors that have one side on both samples of values."""
    found = Shown(remedy="verify --stages smoke,numerics would decide it")
    for view, shifts in first.shifts.items():
        name, dtype = view_name(engine.manifest, view), engine.manifest.views[view].dtype
        text, fails = rounding_bias.biased(name, dtype, shifts, second.shifts.get(view, []))
        if text:
            (found.reasons if fails else found.open).append(text)
    return found


def nonfinite_of_capture(engine: Engine, measured: Measured) -> int:
    engine.restore("post")
    return nonfinite(engine, measured)


def nonfinite(engine: Engine, measured: Measured) -> int:
    """NaN and infinities in what is written, as memory is."""
    views = [v for v, view in enumerate(engine.manifest.views) if view.region in measured.written]
    return sum(stats.nonfinite for stats in engine.nonfinite(views, measured.written))


@dataclass
class Beyond(Differential):
    """Both kernels on values with a spread; ``nonfinite`` is how many results may be none.

    ``floor``, by view: how far results were seen to move with ``jitters`` of the inputs, and the largest
    of them. Where the usual tolerance is enough it need not be known.
    """

    spread: Spread = field(default_factory=Spread)
    jitters: tuple[float, ...] = ()
    nonfinite: int = 0

    def __post_init__(self) -> None:
        self.floor: dict[int, tuple[float, float]] | None = None
        self._unknown = ""  # why the floor is not known

    def judge(self) -> Shown:
        found = super().judge()
        if self._unknown:
            return Shown(not_shown=[f"{self.what}: the captured kernel fails there ({self._unknown})"])
        return found

    def _prepare(self, jitter: float = 0.0) -> None:
        self.engine.restore()
        redraw(self.engine, self.redrawn, self.seed, spread=replace(self.spread, jitter=jitter))
        poison(self.engine, self.measured, SEED_B)

    def _problem(self) -> str:
        return "it gives NaN or infinities" * (nonfinite(self.engine, self.measured) > self.nonfinite)

    def _compare(self, noise: dict[int, float]) -> list[Difference]:
        if self.floor is None:
            found = self._compared(noise, super()._limits)
            if not any(stats.outside for stats in found):
                return found
            self.engine.snapshot(_RESULT)
            self.floor = self._moved()
            self.engine.restore(_RESULT)
            self.engine.drop(_RESULT)
        return super()._compare(noise)

    def _is_less_exact(self, stats: ErrorStatistics, dtype: str) -> str:
        return ""  # two honest kernels may be that far apart here

    def _moved(self) -> dict[int, tuple[float, float]]:
        floor: dict[int, tuple[float, float]] = {}
        for jitter in self.jitters:
            self._prepare(jitter)
            if problem := self._launch(self.original):
                self._unknown = problem
                break
            for stats in super()._compare({}):
                moved, largest = floor.get(stats.view, (0.0, 0.0))
                floor[stats.view] = max(moved, stats.max_abs), max(largest, stats.scale)
        return floor

    def _limits(self, view: int, noise: dict[int, float]) -> Limits:
        _, relative, absolute = super()._limits(view, noise)
        moved, _ = (self.floor or {}).get(view, (0.0, 0.0))
        return view, SLACK * relative, SLACK * absolute + _OF_FLOOR * moved
