"""Ratios of paired times: two variants timed in turns, so that what slows one round slows both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_RESAMPLES = 2000
_SEED = 20
_TAIL = 2.5  # percent on either side


@dataclass(frozen=True)
class Ratio:
    """A median of ratios and its 95 % interval."""

    median: float
    low: float
    high: float

    @property
    def differs(self) -> bool:
        """Whether the interval leaves 1 out: one of the two is faster."""
        return self.low > 1 or self.high < 1


def median(times_ms: Sequence[float]) -> float:
    """The median. Raises ValueError for no times at all."""
    if not len(times_ms):
        raise ValueError("no times to take a median of")
    return float(np.median(np.asarray(times_ms, dtype=np.float64)))


def ratio(base_ms: Sequence[float], other_ms: Sequence[float]) -> Ratio:
    """``other`` in terms of ``base`` (2: it takes twice as long), times of the same round side by side.

    The interval is a bootstrap of the rounds, the same each time. Raises ValueError for lists of unequal
    length, for none, and for times that are not positive.
    """
    base, other = (np.asarray(times, dtype=np.float64) for times in (base_ms, other_ms))
    if base.shape != other.shape or not base.size:
        raise ValueError(
            f"paired times are as many on both sides and at least one: {base.size}, {other.size}"
        )
    if not (base > 0).all() or not (other > 0).all():
        raise ValueError("a time of zero or less has no ratio")
    ratios = other / base
    chosen = np.random.default_rng(_SEED).integers(0, ratios.size, (_RESAMPLES, ratios.size))
    low, high = np.percentile(np.median(ratios[chosen], axis=1), [_TAIL, 100 - _TAIL])
    return Ratio(float(np.median(ratios)), float(low), float(high))
