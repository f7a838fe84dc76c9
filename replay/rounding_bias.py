"""An error that uses the tolerance up: too large for rounding, on most elements.

A tolerance allows for another order of a sum or another exp. Their errors differ from element to element in
size and sign; one that lies just below the tolerance, or on one side wherever it is, was put there. It need
not be in every element: a large median says that it is in half of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kerncap.replay.tolerance import view_tolerance
from kerncap.replay.worker.protocol import ErrorStatistics

# Median error, in units in the last place, that rounding alone may explain. A tolerance of 16 bits spans
# no more than a few ulps, float64's spans millions.
_ROUNDING_ULPS = {"float64": 64.0, "float32": 8.0, "float16": 2.5, "bfloat16": 2.5}
# Of float64: a share of what one rounding to float32 leaves in the median, and more than orders of sums do.
_OF_FLOAT32_ULPS = 2.0**20
_LEAST_ELEMENTS = 32
_LEAST_SHARE = 0.01  # of the largest value: an error that rounding does not leave
_ONE_SIDED = 0.95
# Mean share of the tolerance. Errors of a normal distribution whose mean size is this have, among so many
# elements, one beyond the tolerance: they fail anyway. (Of 1,000 the largest is some 4 times the mean.)
_SHARE, _SHARE_OF_FEW, _FEW = 0.35, 0.5, 256
_SHARE_ON_ONE_SIDE = 0.2  # what is on one side is no chance, and is let pass if it is small all the same


def hidden(stats: ErrorStatistics, dtype: str) -> str:
    """Why agreement within tolerance shows nothing of a view: its values are hardly larger than that allows.

    Zeros in place of gradients of 1e-7 agree within 1e-5. An honest result that is all rounding errors is
    alike, so nothing is decided.
    """
    relative, absolute = view_tolerance(dtype)
    if stats.abs_max <= max(_LEAST_SHARE, 4 * relative) * stats.scale:
        return ""
    return (
        f"{stats.name}: errors of up to {stats.abs_max:.2g} are within the tolerance ({absolute:.2g}), but "
        f"no value is larger than {stats.scale:.2g}: --atol says how far apart they may be"
    )


def uses_up(stats: ErrorStatistics, dtype: str) -> str:
    """Why a view that agrees within tolerance does not pass; nothing if its errors look like rounding."""
    most = _ROUNDING_ULPS.get(dtype)
    finite = stats.finite
    differing = stats.positive + stats.negative
    if most is None or finite < _LEAST_ELEMENTS:
        return ""
    if stats.ulp_median <= most:
        return ""
    one_sided = max(stats.positive, stats.negative) >= _ONE_SIDED * differing
    share = stats.share_mean
    most_share = _SHARE if finite >= _FEW else _SHARE_OF_FEW
    if share <= (_SHARE_ON_ONE_SIDE if one_sided else most_share):
        return ""
    direction = " in the same direction" if one_sided else ""
    return (
        f"{stats.name}: {differing:,} of {finite:,} elements are off{direction}, by {share:.2g} of the "
        f"tolerance on average (median {stats.ulp_median:.3g} ulps): not rounding, but an error that uses "
        "up the tolerance"
    )


def as_of_float32(stats: ErrorStatistics, dtype: str) -> str:
    """What to say of a view of float64 that has the errors of float32, which its tolerance allows for."""
    if dtype != "float64" or stats.finite < _LEAST_ELEMENTS or stats.ulp_median < _OF_FLOAT32_ULPS:
        return ""
    return (
        f"{stats.name}: errors are within the tolerance, and like those of float32 (median "
        f"{stats.ulp_median:.2g} ulps of float64): --rtol says how far apart they may be"
    )


# A mean error that 16 roundings of float32, all to one side, would not give; float64 has its own.
_LEAST_SHIFT = {"float64": 64 * 2.0**-53}
_LEAST_SHIFT_ELSE = 16 * 2.0**-24
_FEWEST = 64
_DEVIATIONS = 8.0  # of the mean from zero: chance gives no 8, another order of a sum none of one sign
_ALIKE = 2.0  # how far two measurements of one shift may be apart, as a ratio


@dataclass(frozen=True)
class Shift:
    """A mean error that is no chance: ``size`` is signed; of ``outward`` ones, as a share of the values."""

    outward: bool
    size: float
    share: float  # of the mean magnitude

    def agrees(self, other: Shift) -> bool:
        """Whether another sample of values shows the same one."""
        if self.outward != other.outward or self.size * other.size <= 0:
            return False
        return 1 / _ALIKE <= self.size / other.size <= _ALIKE


def shifts(stats: ErrorStatistics, dtype: str) -> list[Shift]:
    """What of a view's error has one sign: added to every element, or away from (towards) zero everywhere."""
    n, magnitude = stats.finite, stats.magnitude_mean
    least = _LEAST_SHIFT.get(dtype, _LEAST_SHIFT_ELSE)
    found = []
    for outward, mean in ((False, stats.signed_mean), (True, stats.outward_mean)):
        deviation = math.sqrt(max(0.0, stats.error_square_mean - mean * mean) / max(1, n))
        if n >= _FEWEST and abs(mean) > least * magnitude > 0 and abs(mean) > _DEVIATIONS * deviation:
            found.append(Shift(outward, mean / magnitude if outward else mean, abs(mean) / magnitude))
    return found


def biased(name: str, dtype: str, first: list[Shift], second: list[Shift]) -> tuple[str, bool]:
    """What to say of a shift that two samples of values show, and whether it is large enough to fail.

    Of 16-bit types one below an eighth of a unit in the last place may be an approximation's: it decides
    nothing. Nothing is said if the samples do not agree.
    """
    for shift in first:
        if any(shift.agrees(other) for other in second):
            kind = f"{shift.size:+.2g} of each value" if shift.outward else f"{shift.size:+.3g}"
            unit = _UNIT.get(dtype, 0.0)
            text = (
                f"{name}: a biased error: {kind} on average, on all values that were tried; "
                "rounding errors have no preferred sign"
            )
            return text, shift.share > unit / 8
    return "", False


_UNIT = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
