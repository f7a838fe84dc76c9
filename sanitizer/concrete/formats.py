"""Floating-point formats that numpy lacks: bfloat16 and the 8-bit ones.

Their values live in float32 arrays, which hold each of them exactly; this module rounds to them and
goes to and from their bits. Source: OCP OFP8 (E4M3, E5M2), the "FNUZ" variants of LLVM's APFloat.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Rounding = Literal["rtne", "rtz"]


@dataclass(frozen=True)
class SmallFloat:
    """One sign bit, then exponent, then mantissa, 8 bits in all."""

    mantissa_bits: int
    bias: int
    # "ieee": infinities and NaNs in the last binade; "fn": one NaN pattern, no infinity;
    # "fnuz": the NaN is the pattern of minus zero, no infinity.
    specials: Literal["ieee", "fn", "fnuz"]


SMALL_FLOATS = {
    "f8E4M3FN": SmallFloat(3, 7, "fn"),
    "f8E5M2": SmallFloat(2, 15, "ieee"),
    "f8E4M3FNUZ": SmallFloat(3, 8, "fnuz"),
    "f8E5M2FNUZ": SmallFloat(2, 16, "fnuz"),
    "f8E4M3B11FNUZ": SmallFloat(3, 11, "fnuz"),
    "f8E4M3": SmallFloat(3, 7, "ieee"),
}


@cache
def _decoded(name: str) -> npt.NDArray[np.float32]:
    """The value of each of the 256 patterns."""
    form = SMALL_FLOATS[name]
    top = (1 << (7 - form.mantissa_bits)) - 1
    table = np.zeros(256, dtype=np.float64)
    for pattern in range(256):
        exponent = (pattern & 0x7F) >> form.mantissa_bits
        mantissa = pattern & ((1 << form.mantissa_bits) - 1)
        fraction = mantissa / (1 << form.mantissa_bits)
        if exponent == 0:
            value = fraction * 2.0 ** (1 - form.bias)
        else:
            value = (1.0 + fraction) * 2.0 ** (exponent - form.bias)
        if form.specials == "ieee" and exponent == top:
            value = np.inf if mantissa == 0 else np.nan
        elif form.specials == "fn" and pattern & 0x7F == 0x7F:
            value = np.nan
        table[pattern] = -value if pattern & 0x80 else value
    if form.specials == "fnuz":
        table[0x80] = np.nan
    return table.astype(np.float32)


@cache
def _finite(name: str) -> npt.NDArray[np.float64]:
    """The finite values that are not negative, by pattern: ascending."""
    positive = _decoded(name)[:128].astype(np.float64)
    return positive[np.isfinite(positive)]


def _encode_small(values: Array, name: str, rounding: Rounding) -> npt.NDArray[np.uint8]:
    """Out of range saturates (as the GPUs' conversions do), infinities too; NaN stays NaN."""
    form = SMALL_FLOATS[name]
    finite = _finite(name)
    wide = values.astype(np.float64)
    size = np.minimum(np.abs(wide), finite[-1])
    below = np.searchsorted(finite, size, side="right") - 1
    below = np.clip(below, 0, len(finite) - 1)
    if rounding == "rtne":
        above = np.minimum(below + 1, len(finite) - 1)
        middle = (finite[below] + finite[above]) / 2
        up = (size > middle) | ((size == middle) & (below % 2 == 1))
        below = np.where(up, above, below)
    negative = np.signbit(wide)
    if form.specials == "fnuz":
        negative = negative & (below != 0)  # no minus zero: that pattern is the NaN
    codes = below.astype(np.uint8) | (negative.astype(np.uint8) << np.uint8(7))
    nan = np.isnan(wide)
    if nan.any():
        codes = np.where(nan, np.uint8(0x80 if form.specials == "fnuz" else 0x7F), codes)
    found: npt.NDArray[np.uint8] = codes
    return found


def _encode_bfloat16(values: Array, rounding: Rounding) -> npt.NDArray[np.uint16]:
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    if rounding == "rtz":
        upper = bits >> np.uint32(16)
    else:
        upper = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    special = (bits & np.uint32(0x7F800000)) == np.uint32(0x7F800000)
    if special.any():  # an infinity stays one, and a NaN must not lose all of its mantissa
        nan = special & ((bits & np.uint32(0x7FFFFF)) != 0)
        kept = (bits >> np.uint32(16)) | np.where(nan, np.uint32(0x40), np.uint32(0))
        upper = np.where(special, kept, upper)
    found: npt.NDArray[np.uint16] = upper.astype(np.uint16)
    return found


def _truncated_half(values: Array) -> npt.NDArray[np.float16]:
    """To float16 towards zero."""
    wide = values.astype(np.float64)
    near = wide.astype(np.float16)
    too_far = np.abs(near.astype(np.float64)) > np.abs(wide)
    return np.where(too_far, np.nextafter(near, np.float16(0)), near)


def _truncated_single(values: Array) -> npt.NDArray[np.float32]:
    near = values.astype(np.float32)
    too_far = np.abs(near.astype(np.float64)) > np.abs(values.astype(np.float64))
    return np.where(too_far, np.nextafter(near, np.float32(0)), near)


NATIVE = {"f16": np.float16, "f32": np.float32, "tf32": np.float32, "f64": np.float64}
KNOWN = frozenset(NATIVE) | frozenset(SMALL_FLOATS) | {"bf16"}


def decode(bits: Array, name: str) -> Array:
    """The values of bit patterns (unsigned integers of the format's width)."""
    if name == "bf16":
        found: Array = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
        return found
    if name in SMALL_FLOATS:
        return _decoded(name)[bits]
    return np.ascontiguousarray(bits).view(NATIVE[name])


def encode(values: Array, name: str, rounding: Rounding = "rtne") -> Array:
    """Bit patterns of values, rounded if they have to be."""
    if name == "bf16":
        return _encode_bfloat16(values, rounding)
    if name in SMALL_FLOATS:
        return _encode_small(values, name, rounding)
    native: Array = np.ascontiguousarray(rounded(values, name, rounding))
    return native.view(np.dtype(f"u{native.itemsize}"))


def rounded(values: Array, name: str, rounding: Rounding = "rtne") -> Array:
    """Values of any floating type as the nearest ones of a format, in the array type that holds it."""
    native = NATIVE.get(name)
    if native is None:
        return decode(encode(values, name, rounding), name)
    if values.dtype == native:
        return values
    if rounding == "rtz":
        if native is np.float16:
            return _truncated_half(values)
        if native is np.float32:
            return _truncated_single(values)
    return values.astype(native)
