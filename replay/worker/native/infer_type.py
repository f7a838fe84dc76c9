"""Which floating type explains how two runs of one kernel differ, if no view says the type.

Runs that only add up in another order differ by few units in the last place of the type that they add in.
Read as any other type the same bytes differ by much, or are no numbers at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..common.bitmap import Bits
from ..common.host_bytes import Bytes
from ..protocol import InferredType
from .compare_arrays import LEAST_NORMAL
from .dtypes import BITS, Number

_CANDIDATES = (Number("float32", 4), Number("float64", 8), Number("float16", 2), Number("bfloat16", 2))
_MOST_ELEMENTS = 1 << 20
_MOST_BITMAP_BYTES = 1 << 20
_NEIGHBOURS = 1 << 12  # elements beside those that differ, which must look like numbers too
_LARGEST_RELATIVE = 0.05  # of the typical magnitude: more is no rounding
_MOST_UNITS = 1 << 16  # in the last place, for the median element
_MOST_DECADES = 15.0  # between small and large values: bits that are no numbers spread over all exponents
_NARROW_DECADES = 0.6  # bfloat16 read as float16 seems to span less
_WIDE_DECADES = 8.0  # float16 read as bfloat16 seems to span more
_FEW = 3  # words: of less it is not seen that they are always the lower half of something


def infer(now: Bytes, other: Bytes, chosen: Any, base: int, hint: str) -> InferredType | None:
    """The type for the bytes at ``chosen``, if one explains them.

    ``base`` is the address of the first byte (elements are aligned), ``hint`` the kernel's name.
    """
    found: dict[str, float] = {}
    for kind in _CANDIDATES:
        skew = -base % kind.itemsize
        bits, others = _bits(now, skew, kind), _bits(other, skew, kind)
        elements = np.unique((chosen - skew) // kind.itemsize)[:_MOST_ELEMENTS]
        elements = elements[(elements >= 0) & (elements < len(bits))]
        if not len(elements):
            continue
        if not _looks_like_numbers(kind, bits, elements, hint):
            continue
        units = _units_apart(kind, bits[elements], others[elements])
        if units is not None:
            found[kind.name] = units
    name = _best(found, (chosen + base) // 4, hint)
    if name is None:
        return None
    kind = next(kind for kind in _CANDIDATES if kind.name == name)
    skew = -base % kind.itemsize
    return InferredType(name, kind.itemsize, skew, (len(now) - skew) // kind.itemsize)


def _best(found: dict[str, float], words: Any, hint: str) -> str | None:
    """The type with the fewest units; ``words`` are the numbers of the words of four bytes that differ."""
    if {"float32", "float64"} <= found.keys():
        words = np.unique(words)
        lower_halves = not (words % 2).any()
        says_double = "double" in hint and "float" not in hint
        if lower_halves and (len(words) >= _FEW or says_double):
            del found["float32"]
    return min(found, key=lambda name: found[name]) if found else None


def set_bits(mask: Bits, start: int, stop: int) -> Any:
    """The places of set bits in [start, stop), counted from ``start``; the first ones, if they are many."""
    packed = mask.packed(start // 8 * 8, stop)
    occupied = np.flatnonzero(packed)[:_MOST_BITMAP_BYTES]
    rows, columns = np.nonzero(np.unpackbits(packed[occupied], bitorder="little").reshape(-1, 8))
    places = (start // 8 + occupied[rows]) * 8 + columns
    return places[places >= start] - start


def _bits(data: Bytes, skew: int, kind: Number) -> Any:
    usable = (len(data) - skew) // kind.itemsize * kind.itemsize
    return np.ascontiguousarray(data[skew : skew + usable]).view(BITS[kind.itemsize])


def _looks_like_numbers(kind: Number, bits: Any, elements: Any, hint: str) -> bool:
    """Whether the elements and those beside them have magnitudes that belong together."""
    beside = np.unique(np.concatenate([elements[:_NEIGHBOURS] ^ 1, elements[:_NEIGHBOURS]]))
    with np.errstate(all="ignore"):
        magnitude = np.abs(kind.decode(bits[beside[beside < len(bits)]]))
    if not np.isfinite(magnitude).all():
        return False
    present = magnitude[magnitude > 0]
    if not len(present):
        return True
    low, high = np.quantile(present, (0.05, 0.95))
    decades = float(np.log10(high / low))
    if kind.itemsize > 2:
        return decades < _MOST_DECADES
    names = {"bfloat16": "bfloat16" in hint.lower(), "float16": "half" in hint.lower()}
    if any(names.values()):
        return names[kind.name]
    return decades >= _NARROW_DECADES if kind.name == "float16" else decades < _WIDE_DECADES


def _units_apart(kind: Number, a: Any, b: Any) -> float | None:
    """The median distance in units of the last place; None if this type explains nothing."""
    with np.errstate(all="ignore"):
        x, y = kind.decode(a), kind.decode(b)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    magnitude = np.maximum(np.abs(x), np.abs(y))
    if ((magnitude > 0) & (magnitude < _least_normal(kind))).any():
        return None  # small integers look like this
    typical = float(np.median(magnitude))
    if typical == 0 or (np.abs(x - y) > _LARGEST_RELATIVE * np.maximum(magnitude, typical)).any():
        return None
    units = float(np.median(np.abs(_ordered(a, kind) - _ordered(b, kind))))
    return units if units <= _MOST_UNITS else None


def _ordered(bits: Any, kind: Number) -> Any:
    """The bits as numbers in the order of the values, exact enough for distances."""
    sign = 1 << (8 * kind.itemsize - 1)
    magnitude = (bits & bits.dtype.type(sign - 1)).astype(np.int64)
    return np.where(bits & bits.dtype.type(sign), -magnitude, magnitude).astype(np.float64)


def _least_normal(kind: Number) -> float:
    return LEAST_NORMAL.get(kind.name, 2.0**-126)
