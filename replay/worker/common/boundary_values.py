"""Values on which a comparison or a rounding turns: equal ones, neighbours, ends of a range, zeros, halves,
numbers in the code.

A kernel that has ``>=`` for ``>``, or a case for one number of its own, agrees with the right one elsewhere.
Every fourth element gets such a value (of a few, all); the others stay, and so does most of what holds
between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_FEW = 8
_SHARE = 4
_FACTOR = 4.0  # times the largest value: what is beyond is not meant to be one


def on_boundaries(
    x: Any,
    low: float,
    high: float,
    others: Sequence[Any],
    known: Sequence[float],
    own: Sequence[float],
    turn: int = 0,
) -> Any:
    """A flat array, float64 or of integers, with other values in some places; NaN and infinities stay.

    ``low`` and ``high``: the range of the whole tensor. ``others``: tensors of the same kind that are
    compared with it, perhaps. ``known``: numbers that it may be equal to; ``own``: only if within its range.
    ``turn``: tensors of other turns have such values in other places.
    """
    n = x.size
    step = max(1, int(n * 0.6180339887))
    while math.gcd(step, n) != 1:
        step += 1
    first = n // 3 + turn * (n // 7 + 1)
    places = (np.arange(max(min(n, _FEW), n // _SHARE)) * step + first) % n
    ends = np.flatnonzero((x == low) | (x == high))
    if n > _FEW and ends.size <= 2:
        places = places[~np.isin(places, ends)]  # another one is as large then
    with np.errstate(all="ignore"):
        choices = [*_pairs(x, places, low, high, others), *_numbers(x, places, low, high, known, own)]
    old = x[places].tobytes()
    choices = [values for values in choices if values.astype(x.dtype).tobytes() != old]
    new = x.copy()
    for number, values in enumerate(choices):
        at = places[number :: len(choices)]
        values = values[number :: len(choices)]
        if x.dtype.kind == "f":
            values = np.where(np.isfinite(values) & np.isfinite(x[at]), values, x[at])
        new[at] = values
    return new


def _pairs(x: Any, places: Any, low: float, high: float, others: Sequence[Any]) -> list[Any]:
    """As what is at the same place of another tensor, or next to it in this one."""
    found = []
    for other in [*others, x[(np.arange(x.size) + 1) % x.size]]:
        values = other[places % other.size]
        within = (values >= low) & (values <= high)
        found.append(np.where(within, values, x[places]).astype(x.dtype))
    return found


def _numbers(
    x: Any, places: Any, low: float, high: float, known: Sequence[float], own: Sequence[float]
) -> list[Any]:
    old = x[places]
    if x.dtype.kind == "f":
        most = _FACTOR * max(abs(low), abs(high))
        numbers = [value for value in known if abs(value) <= most]
        numbers += [value for value in (*own, 0.0, -0.0, low, high) if low <= value <= high]
        halves = np.clip(np.floor(old) + 0.5, low, high).astype(x.dtype)
        return [*(np.full(places.size, value, x.dtype) for value in numbers), halves]
    limits = np.iinfo(x.dtype)
    numbers = [low, high]
    for values, is_known in ((known, True), (own, False)):
        for value in [int(value) for value in values if value == int(value)]:
            numbers += [near for near in (value, value - 1, value + 1) if low <= near <= high]
            if is_known and limits.min <= value <= limits.max:
                numbers.append(value)
    if low <= 0 <= high:
        numbers.append(0)
    above = np.where(old < high, old + np.ones(1, x.dtype), old)
    below = np.where(old > low, old - np.ones(1, x.dtype), old)
    return [above, below, *(np.full(places.size, value, x.dtype) for value in dict.fromkeys(numbers))]
