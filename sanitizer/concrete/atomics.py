"""Atomic operations of many lanes: each lane sees what the lanes before it left behind.

Lanes are ordered by program, then by their place in the tile. If no two of them meet, all go at once;
else the first lane of each place goes, then the second of each, and so on.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kerncap.sanitizer.concrete.ops_arith import signed, unsigned
from kerncap.sanitizer.concrete.values import Array, Incomplete, Ints

Combine = Callable[[Array, Array], Array]


def _on_unsigned(compute: Combine) -> Combine:
    def apply(x: Array, y: Array) -> Array:
        return signed(compute(unsigned(x), unsigned(y)))

    return apply


def _increment(x: Array, y: Array) -> Array:
    old, limit = unsigned(x), unsigned(y)
    return signed(np.where(old >= limit, 0, old + old.dtype.type(1)).astype(old.dtype))


def _decrement(x: Array, y: Array) -> Array:
    old, limit = unsigned(x), unsigned(y)
    low = (old == 0) | (old > limit)
    return signed(np.where(low, limit, old - old.dtype.type(1)).astype(old.dtype))


def combiner(kind: str, floating: bool) -> Combine:
    """(old value, operand) -> new value. Raises Incomplete for a kind that is not known."""
    table: dict[str, Combine] = {
        "add": np.add,
        "fadd": np.add,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "exch": lambda x, y: y,
        "xchg": lambda x, y: y,
        "max": np.fmax if floating else np.maximum,
        "min": np.fmin if floating else np.minimum,
        "umax": np.maximum if floating else _on_unsigned(np.maximum),
        "umin": np.minimum if floating else _on_unsigned(np.minimum),
        "inc": _increment,
        "dec": _decrement,
    }
    if kind not in table:
        raise Incomplete(f"the atomic operation {kind} has no semantics here")
    return table[kind]


def in_order(
    places: Ints,
    start: Array,
    operate: Callable[[Array, Ints], Array],
    ufunc: np.ufunc | None = None,
    operands: Array | None = None,
) -> tuple[Array, Array]:
    """What each lane finds, and what the last lane of its place leaves there.

    ``places`` identifies memory cells, ``start`` is their content before. ``operate(old, lanes)`` gives
    the new values for the lanes (indices) that find ``old``; where numpy has a ufunc for it, that and
    its operands make few places with many lanes fast.
    """
    old = start.copy()
    if not len(places):
        return old, old.copy()
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    first = np.ones(len(places), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    if first.all():
        return old, operate(old, np.arange(len(places)))
    # The rank of each lane among those of its place.
    begin = np.flatnonzero(first)
    if ufunc is not None and operands is not None and len(begin) * len(begin) < len(places):
        return _accumulated(order, begin, start, operands, ufunc)
    group = np.cumsum(first) - 1
    rank = np.arange(len(places)) - begin[group]
    current = start[order[begin]]  # per place
    final = np.empty_like(start)
    by_rank = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[by_rank], np.arange(rank.max() + 2))
    for turn in range(len(bounds) - 1):
        at = by_rank[bounds[turn] : bounds[turn + 1]]
        lanes, cells = order[at], group[at]
        old[lanes] = current[cells]
        current[cells] = operate(old[lanes], lanes)
    final[order] = current[group]
    return old, final


def _accumulated(
    order: Ints, begin: Ints, start: Array, operands: Array, ufunc: np.ufunc
) -> tuple[Array, Array]:
    """Place by place: numpy accumulates from the first to the last, as the lanes do."""
    old, final = np.empty_like(start), np.empty_like(start)
    for lanes in np.split(order, begin[1:]):
        chain = np.concatenate([start[lanes[:1]], operands[lanes]])
        after = ufunc.accumulate(chain, dtype=chain.dtype)
        old[lanes], final[lanes] = after[:-1], after[-1]
    return old, final


def summed(places: Ints, start: Array, operands: Array) -> tuple[Array, Array]:
    """`in_order` for the addition of integers, by prefix sums: any number of lanes may meet."""
    if not len(places):
        return start.copy(), start.copy()
    order = np.argsort(places, kind="stable")
    ordered, values = places[order], operands[order]
    first = np.ones(len(places), dtype=np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    begin = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    total = np.cumsum(values, dtype=values.dtype)
    before = total - values  # wraps as the sums do
    within = before - before[begin][group]
    old, final = np.empty_like(start), np.empty_like(start)
    old[order] = start[order] + within
    ends = np.append(begin[1:], len(places)) - 1
    sums = (total[ends] - before[begin])[group]
    final[order] = start[order] + sums
    return old, final
