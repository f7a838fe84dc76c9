"""Functions of the tile language over whole tiles, and its loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.fuzz.sanitizer.tile import RUN, Undecidable, Value, bounded, common, either, pair, spread


def choose(condition: Value, yes: Any, no: Any) -> Value:
    """``tl.where``; what is not taken leaves no trace."""
    yes, no = pair(yes, no)
    kind = common(yes, no)
    if kind[0] != "p":
        yes, no = yes.to(kind), no.to(kind)
    exact = None
    if yes.exact is not None or no.exact is not None or condition.exact is not None:
        exact = np.where(condition.free, yes.free, no.free)
    undefined: Any = False
    if yes.undefined is not False or no.undefined is not False:
        undefined = np.where(condition.data, yes.undefined, no.undefined)
    undefined = either(undefined, condition.undefined)
    wrapped = yes.wrapped or no.wrapped or condition.wrapped
    compared = yes.compared + no.compared + condition.compared
    return Value(np.where(condition.data, yes.data, no.data), kind, exact, undefined, wrapped, compared)


def extreme(operation: Any, left: Any, right: Any) -> Value:
    """``tl.minimum`` and ``tl.maximum`` of integers."""
    left, right = pair(left, right)
    kind = common(left, right)
    exact = None
    if left.exact is not None or right.exact is not None:
        exact = operation(left.free, right.free)
    undefined = either(left.undefined, right.undefined)
    return Value(operation(left.data, right.data), kind, exact, undefined, left.wrapped or right.wrapped)


def fold(value: Value, axis: int, operation: Any) -> Value:
    """``tl.sum``, ``tl.max``, ``tl.min`` along an axis."""
    undefined: Any = False
    if value.undefined is not False:
        flags = spread(value.undefined, value.shape)
        left_out = RUN.zeros and operation is np.sum and not RUN.failed
        undefined = False if left_out else flags.any(axis=axis)
    if value.kind[0] == "f":
        return Value(operation(value.data, axis=axis), value.kind, None, undefined)
    kind = "i32" if value.kind in ("i1", "i8", "i16") else value.kind
    data = operation(np.asarray(value.data).astype(np.int64), axis=axis)
    return bounded(data, None, kind, undefined, value.wrapped)


def running_sum(value: Value) -> Value:
    """``tl.cumsum`` of a one-dimensional integer tile."""
    kind = "i32" if value.kind == "i1" else value.kind
    undefined: Any = False
    if value.undefined is not False:
        undefined = np.logical_or.accumulate(spread(value.undefined, value.shape))
    return bounded(np.cumsum(np.asarray(value.data).astype(np.int64)), None, kind, undefined, value.wrapped)


def applied(operation: Any, value: Value) -> Value:
    """A function of floats, element by element."""
    return Value(operation(value.data), value.kind, None, value.undefined)


def magnitude(value: Value) -> Value:
    """``tl.abs``; that of the least integer is itself."""
    if value.kind[0] in "fu":
        return applied(np.abs, value)
    exact = None if value.exact is None else np.abs(value.exact)
    return bounded(np.abs(np.asarray(value.data)), exact, value.kind, value.undefined, value.wrapped)


def place_of(value: Value, axis: int, operation: Any) -> Value:
    """``tl.argmax`` and ``tl.argmin``: the first of equals."""
    undefined: Any = False
    if value.undefined is not False:
        undefined = spread(value.undefined, value.shape).any(axis=axis)
    return Value(operation(value.data, axis=axis).astype(np.int64), "i32", None, undefined)


def gathered(value: Value, index: Value, axis: int) -> Value:
    """``tl.gather`` in a tile of one dimension; what an index outside of it gives differs by device."""
    assert axis == 0
    if ((index.data < 0) | (index.data >= value.shape[0])).any():
        raise Undecidable("an index of tl.gather outside of its tile")
    undefined = np.asarray(spread(value.undefined, value.shape))[index.data]
    undefined = either(undefined if undefined.any() else False, index.undefined)
    return Value(value.data[index.data], value.kind, None, undefined, value.wrapped)


def ordered(value: Value) -> Value:
    """``tl.sort`` of a tile of one dimension."""
    undefined: Any = False
    if value.undefined is not False:
        undefined = np.full(value.shape, np.any(value.undefined))
    return Value(np.sort(value.data), value.kind, None, undefined, value.wrapped)


def binned(value: Value, bins: int, mask: Any = None) -> Value:
    """``tl.histogram``; what a value in no bin does differs by device."""
    counted = np.ones(value.shape, np.bool_) if mask is None else spread(mask.data, value.shape)
    if ((value.data < 0) | (value.data >= bins))[counted].any():
        raise Undecidable("a value of tl.histogram in no bin")
    undefined = bool(np.any(spread(value.undefined, value.shape) & counted))
    undefined |= mask is not None and bool(np.any(mask.undefined))
    counts = np.bincount(value.data[counted], minlength=bins).astype(np.int64)
    return Value(counts, "i32", None, np.full(bins, True) if undefined else False, value.wrapped)


def interleaved(left: Value, right: Value) -> Value:
    """``tl.interleave``: from either by turns."""
    parts = [np.stack([spread(one, left.shape) for one in both], axis=-1).reshape(-1)
             for both in ((left.data, right.data), (left.undefined, right.undefined))]  # fmt: skip
    return Value(
        parts[0], left.kind, None, parts[1] if parts[1].any() else False, left.wrapped or right.wrapped
    )


MOST_TRIPS = 4096


def counted(*bounds: Any) -> Iterator[Value]:
    """``range`` in a kernel: the counter is as wide as the widest bound."""
    wide = any(isinstance(one, Value) and one.kind == "i64" for one in bounds)
    numbers = [int(one.__index__()) for one in bounds]
    if numbers[2:] == [0]:
        raise Undecidable("a loop with a step of 0")
    if len(bounds) == 3 and isinstance(bounds[2], Value) and numbers[2] < 0:
        # Compiled code compares as if it went up.
        if numbers[0] < numbers[1]:
            raise Undecidable("a loop that counts down from below its end")
        return
    for number, trip in enumerate(range(*numbers)):
        if number >= MOST_TRIPS:
            raise Undecidable("a loop with too many iterations")
        yield Value(trip, "i64" if wide else "i32")
