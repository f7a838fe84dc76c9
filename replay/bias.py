"""An error that uses the tolerance up: too large for rounding, on most elements.

A tolerance allows for another order of a sum or another exp. Their errors differ from element to element in
size and sign; one that lies just below the tolerance, or on one side wherever it is, was put there. It need
not be in every element: a large median says that it is in half of them.
"""

from __future__ import annotations

from typing import Any

# Median error, in units in the last place, that rounding alone may explain. A tolerance of 16 bits spans
# no more than a few ulps, float64's spans millions.
_ROUNDING_ULPS = {"float64": 64.0, "float32": 8.0, "float16": 2.5, "bfloat16": 2.5}
_LEAST_ELEMENTS = 32
_ONE_SIDED = 0.95
# Mean share of the tolerance. Errors of a normal distribution whose mean size is this have, among so many
# elements, one beyond the tolerance: they fail anyway. (Of 1,000 the largest is some 4 times the mean.)
_SHARE, _SHARE_OF_FEW, _FEW = 0.35, 0.5, 256
_SHARE_ON_ONE_SIDE = 0.2  # what is on one side is no chance, and is let pass where it is small all the same


def uses_up(stats: dict[str, Any], dtype: str) -> str:
    """Why a view that agrees within tolerance does not pass; nothing if its errors look like rounding."""
    most = _ROUNDING_ULPS.get(dtype)
    finite = int(stats["finite"])
    differing = int(stats["positive"]) + int(stats["negative"])
    if most is None or finite < _LEAST_ELEMENTS:
        return ""
    if float(stats["ulp_median"]) <= most:
        return ""
    one_sided = max(stats["positive"], stats["negative"]) >= _ONE_SIDED * differing
    share = float(stats["share_mean"])
    most_share = _SHARE if finite >= _FEW else _SHARE_OF_FEW
    if share <= (_SHARE_ON_ONE_SIDE if one_sided else most_share):
        return ""
    direction = " in the same direction" if one_sided else ""
    return (
        f"{stats['name']}: {differing:,} of {finite:,} elements are off{direction}, by {share:.2g} of the "
        f"tolerance on average (median {stats['ulp_median']:.3g} ulps): no rounding, but an error that uses "
        "up the tolerance"
    )
