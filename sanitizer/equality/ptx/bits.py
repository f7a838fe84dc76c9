"""Instructions on the bits of integers, by table, as in `integers`.

Source: PTX ISA 9.0, "Integer Arithmetic Instructions", "Logic and Shift Instructions", "prmt".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kerncap.sanitizer.equality.numbers import Array, NotModelled
from kerncap.sanitizer.equality.ptx.integers import fit, typed, width_of

_ONE = np.uint64(1)
_NONE = np.uint64(0xFFFFFFFF)


def _below(count: Array) -> Array:
    """Ones in the lowest ``count`` bits."""
    kept = (_ONE << np.minimum(count, np.uint64(63))) - _ONE
    return np.asarray(np.where(count >= 64, ~np.uint64(0), kept))


def _population(type_: str, bits: Array) -> Array:
    return np.bitwise_count(fit(bits, width_of(type_))).astype(np.uint64)


def _highest(bits: Array, width: int) -> Array:
    """The place of the highest one; `_NONE` of zero."""
    found = np.full(bits.shape, _NONE, dtype=np.uint64)
    for at in range(width):
        found = np.where(bits >> np.uint64(at) & _ONE, np.uint64(at), found)
    return found


def _leading_zeros(type_: str, bits: Array) -> Array:
    width = width_of(type_)
    found = _highest(fit(bits, width), width)
    return np.asarray(np.where(found == _NONE, np.uint64(width), np.uint64(width - 1) - found))


def _find(shift_amount: bool) -> Callable[..., Array]:
    """The highest bit that is not the sign."""

    def apply(type_: str, bits: Array) -> Array:
        width = width_of(type_)
        value = fit(bits, width)
        if type_[0] == "s":
            value = np.where(value >> np.uint64(width - 1) & _ONE, fit(~value, width), value)
        found = _highest(value, width)
        left = np.where(found == _NONE, found, np.uint64(width - 1) - found)
        return left if shift_amount else found

    return apply


def _reversed(type_: str, bits: Array) -> Array:
    width = width_of(type_)
    found = np.zeros(bits.shape, dtype=np.uint64)
    for at in range(width):
        found = found | (bits >> np.uint64(at) & _ONE) << np.uint64(width - 1 - at)
    return found


def _field(type_: str, bits: Array, start: Array, length: Array) -> Array:
    """bfe: signed ones are filled with their highest bit, or with that of the operand if they go beyond."""
    width = width_of(type_)
    at, count = (fit(one, 8) for one in (start, length))
    last = np.uint64(width - 1)
    shifted = np.where(at > last, np.uint64(0), fit(bits, width) >> np.minimum(at, last))
    found = shifted & _below(count)
    if type_[0] == "s":
        top = np.minimum(at + np.maximum(count, _ONE) - _ONE, last)
        sign = (fit(bits, width) >> top & _ONE).astype(np.bool_) & (count > 0)
        inside = np.minimum(count, np.where(at > last, np.uint64(0), np.uint64(width) - at))
        found = np.where(sign, found & _below(inside) | ~_below(inside), found)
    return fit(found, width)


def _inserted(type_: str, bits: Array, into: Array, start: Array, length: Array) -> Array:
    width = width_of(type_)
    at, count = (fit(one, 8) for one in (start, length))
    shift = np.minimum(at, np.uint64(63))
    mask = np.where(at >= width, np.uint64(0), _below(count) << shift)
    return fit(into & ~mask | (bits << shift) & mask, width)


def _funnel(left: bool, wraps: bool) -> Callable[..., Array]:
    """32 bits of two registers, the lower one first."""

    def apply(type_: str, low: Array, high: Array, by: Array) -> Array:
        if type_ != "b32":
            raise NotModelled(f"the type {type_}")
        by = fit(by, 32)
        count = by & np.uint64(31) if wraps else np.minimum(by, np.uint64(32))
        both = fit(low, 32) | fit(high, 32) << np.uint64(32)
        return fit(both >> (np.uint64(32) - count if left else count), 32)

    return apply


def _permuted(type_: str, low: Array, high: Array, chosen: Array) -> Array:
    """prmt: four of eight bytes, or the sign of one in all its bits."""
    both = fit(low, 32) | fit(high, 32) << np.uint64(32)
    found = np.zeros(np.broadcast_shapes(both.shape, chosen.shape), dtype=np.uint64)
    for at in range(4):
        selector = chosen >> np.uint64(4 * at) & np.uint64(15)
        byte = both >> (selector & np.uint64(7)) * np.uint64(8) & np.uint64(0xFF)
        sign = np.where(byte >> np.uint64(7), np.uint64(0xFF), np.uint64(0))
        found = found | np.where(selector >> np.uint64(3), sign, byte) << np.uint64(8 * at)
    return found


# By the instruction without its type; the type comes first.
OPERATIONS: dict[str, Callable[..., Array]] = {
    "popc": _population, "clz": _leading_zeros, "bfe": _field, "bfi": _inserted, "brev": _reversed,
    "bfind": _find(False), "bfind.shiftamt": _find(True), "prmt": _permuted,
    "shf.l.wrap": _funnel(True, True), "shf.l.clamp": _funnel(True, False),
    "shf.r.wrap": _funnel(False, True), "shf.r.clamp": _funnel(False, False),
}  # fmt: skip


def looked_up(chosen: int, x: Array, y: Array, z: Array) -> Array:
    """lop3: any function of three bits."""
    found = np.zeros(np.broadcast_shapes(x.shape, y.shape, z.shape), dtype=np.uint64)
    for case in range(8):
        if chosen >> case & 1:
            found = found | ((x if case & 4 else ~x) & (y if case & 2 else ~y) & (z if case & 1 else ~z))
    return fit(found, 32)


def reduced(word: str, type_: str, bits: Array, axis: int, kept: Array) -> Array:
    """Of those that are kept, their sum and the like (redux)."""
    compute = {
        "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }.get(word)  # fmt: skip
    if compute is None or type_ not in ("u32", "s32", "b32"):
        raise NotModelled("not modelled")
    numbers = typed(bits, type_)
    ends = np.iinfo(np.int32 if type_ == "s32" else np.uint32)
    neutral = {"min": int(ends.max), "max": int(ends.min), "and": -1 if type_ == "s32" else int(ends.max)}
    found = compute.reduce(np.where(kept, numbers, numbers.dtype.type(neutral.get(word, 0))), axis=axis)
    return fit(np.asarray(found).astype(numbers.dtype).view(np.uint64), 32)
