"""A candidate on values far from the captured ones: very large, very small, and far from zero.

A softmax without its maximum, a maximum over lanes that are 0, a variance as E[x²]-m², a norm without its
epsilon: each agrees on values of ordinary size. The application may never have others, so a difference
decides nothing, as in `boundary_values`. Where the captured kernel's own results move too much with their
inputs, two honest kernels need not agree: NaN and infinities are compared there, and it is said that no more
was.
"""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.replay.boundary_values import REMEDY
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import Engine
from kerncap.replay.judge_requests import FLOATS, redrawable
from kerncap.replay.memory_names import view_name
from kerncap.replay.other_contents import Shown
from kerncap.replay.verdict_words import Tolerance
from kerncap.replay.wider_values import Beyond, jitter, nonfinite_of_capture
from kerncap.replay.worker.protocol import Limits, Spread

_SEED = 7
# An exponential of float32 overflows at 89; of 2^-20 the square is below any epsilon.
_LARGEST, _SMALLEST = 256.0, 2.0**-20
_AWAY = {"float64": 2.0**24}  # of which float64's square loses what float32's loses of 2^12
_AWAY_ELSE = 2.0**12
_SENSITIVE = 1 / 16  # of a result, by which rounding of its inputs moves it: nothing is compared
_NO_LIMIT = 1e300  # that an infinity is beyond
_TIMEOUT_S = 10.0  # of the captured kernel: a loop until an error is small may never end there


def on_extreme_values(engine: Engine, measured: Measured, tolerance: Tolerance, coarse: bool) -> Shown:
    """Captured kernel and candidate on floats of other magnitudes; ``coarse``: see `wider_values`."""
    manifest = engine.manifest
    views = redrawable(manifest, measured)
    dtypes = {manifest.views[view].dtype for view in views}
    found = Shown(remedy=REMEDY)
    if not any(dtype.startswith(FLOATS) for dtype in dtypes):
        return found
    names = ", ".join(dict.fromkeys(view_name(manifest, view) for view in views))
    given = nonfinite_of_capture(engine, measured)
    away = min(_AWAY.get(dtype, _AWAY_ELSE) for dtype in dtypes)
    for spread, kind in (
        (Spread(offset=away), f"values of {names} far from zero"),
        (Spread(offset=-away), f"values of {names} far below zero"),
        (Spread(largest=_LARGEST), f"values of {names} up to {_LARGEST:g}"),
        (Spread(largest=_SMALLEST), f"values of {names} below {_SMALLEST:.1g}"),
    ):
        shown = _Extreme(
            engine, measured, tolerance, kind, views, _SEED,
            spread=spread, jitters=(jitter(coarse), jitter(coarse) / 2), nonfinite=given,
        ).judge()  # fmt: skip
        found.open += shown.open + shown.reasons
        found.shown += shown.shown
        found.contents += shown.contents
        found.not_shown += shown.not_shown
        if found.open:
            return found
    found.not_shown.append(f"NaN and infinities in {names} that were not captured")
    return found


@dataclass
class _Extreme(Beyond):
    """Results that move too much with their inputs are compared as finite or not."""

    def _launch(self, which: str) -> str:
        self.timeout_s = min(self.engine.timeout_s, _TIMEOUT_S) if which == self.original else None
        return super()._launch(which)

    def judge(self) -> Shown:
        found = super().judge()
        if found.shown and any(map(self._is_sensitive, self.floor or {})):
            found.shown, found.contents = [], []
            found.not_shown.append(f"{self.what}: results of the captured kernel move too much with them")
        return found

    def _is_sensitive(self, view: int) -> bool:
        moved, largest = (self.floor or {}).get(view, (0.0, 0.0))
        return moved > _SENSITIVE * largest

    def _limits(self, view: int, noise: dict[int, float]) -> Limits:
        _, relative, absolute = super()._limits(view, noise)
        return view, relative, _NO_LIMIT if self._is_sensitive(view) else absolute
