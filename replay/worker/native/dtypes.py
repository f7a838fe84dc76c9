"""Element types by the manifest's names, read from and written to their bits with only numpy.

numpy has neither bfloat16 nor the 8-bit floats: those are decoded by shifting and by a table.
Source: OCP 8-bit Floating Point Specification 1.0 (e4m3fn has no infinity and one NaN per sign, e5m2 both);
the fnuz variants have one NaN (0x80), no negative zero, and a bias that is greater by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..job import JobView

BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}

_PLAIN = {
    "float16", "float32", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
}  # fmt: skip
_FP8 = {  # exponent bits, bias, whether the top exponent means infinity and NaN, fnuz
    "float8_e4m3fn": (4, 7, False, False),
    "float8_e4m3fnuz": (4, 8, False, True),
    "float8_e5m2": (5, 15, True, False),
    "float8_e5m2fnuz": (5, 16, False, True),
}
_COMPLEX = {"complex64": "float32", "complex128": "float64", "complex32": "float16"}


@dataclass(frozen=True)
class Number:
    """One element type. Arrays of it are arrays of its bits."""

    name: str
    itemsize: int

    @property
    def floating(self) -> bool:
        return self.name.startswith(("float", "bfloat"))

    def decode(self, bits: Any) -> Any:
        """The values as float64 (exact for every narrower float; integers beyond 2^53 are rounded)."""
        if self.name == "bfloat16":
            return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if self.name in _FP8:
            return _table(self.name)[bits]
        if self.name == "bool":
            return bits.astype(np.float64)
        with np.errstate(invalid="ignore"):  # of a signalling NaN
            return np.ascontiguousarray(bits).view(np.dtype(self.name)).astype(np.float64)

    def native(self, bits: Any) -> Any:
        """An array of numpy's nearest type, for people: float32 for those that numpy lacks."""
        if self.name == "bfloat16" or self.name in _FP8:
            return self.decode(bits).astype(np.float32)
        name = "bool" if self.name == "bool" else self.name
        return np.ascontiguousarray(bits).view(np.dtype(name)).copy()

    def encode(self, values: Any) -> Any:
        """The bits of values, rounded to nearest."""
        if self.name == "bfloat16":
            single = np.ascontiguousarray(values, dtype=np.float32)
            wide = single.view(np.uint32).astype(np.uint64)
            rounded = ((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16).astype(np.uint16)
            return np.where(np.isnan(single), np.uint16(0x7FC0), rounded)
        if self.name in _FP8:
            return _nearest(self.name, np.asarray(values, dtype=np.float64))
        if self.name == "bool":
            return np.asarray(values).astype(bool).astype(np.uint8)
        with np.errstate(all="ignore"):
            return np.ascontiguousarray(np.asarray(values).astype(np.dtype(self.name))).view(
                BITS[self.itemsize]
            )

    def text(self, bits: int) -> str:
        """One element for people."""
        value = self.native(np.array([bits], dtype=BITS[self.itemsize]))[0]
        return repr(float(value)) if self.floating else repr(value.item())


def number(view: JobView) -> Number:
    """The element type of a view that `as_parts` gave."""
    return Number(str(view["dtype"]), int(view["itemsize"]))


def as_parts(view: JobView) -> JobView:
    """A view in elements that are known here: complex numbers as their parts, unknown types as words."""
    name, itemsize = str(view["dtype"]), int(view["itemsize"])
    if _itemsize(name) == itemsize:
        return view
    part = _COMPLEX.get(name)
    if part is None or 2 * _itemsize(part) != itemsize:
        part = next(f"uint{8 * n}" for n in (8, 4, 2, 1) if itemsize % n == 0)
    count = itemsize // _itemsize(part)
    return {
        **view, "dtype": part, "itemsize": itemsize // count,
        "shape": [*view["shape"], count], "strides": [*(count * s for s in view["strides"]), 1],
    }  # fmt: skip


def is_known(name: str, itemsize: int) -> bool:
    """Whether elements of that name and size are numbers here."""
    return itemsize > 0 and _itemsize(name) == itemsize


def _itemsize(name: str) -> int:
    """Bytes of an element; 0 for a type that is not known."""
    if name in _PLAIN:
        return np.dtype(name).itemsize
    return 1 if name in _FP8 or name == "bool" else 2 if name == "bfloat16" else 0


@lru_cache
def _table(name: str) -> Any:
    exponent_bits, bias, special, fnuz = _FP8[name]
    mantissa_bits = 7 - exponent_bits
    values = []
    for byte in range(256):
        sign = -1.0 if byte & 0x80 else 1.0
        exponent = (byte & 0x7F) >> mantissa_bits
        mantissa = byte & ((1 << mantissa_bits) - 1)
        top = (1 << exponent_bits) - 1
        if fnuz and byte == 0x80:
            value = np.nan
        elif special and exponent == top:
            value = np.nan if mantissa else sign * np.inf
        elif not special and not fnuz and byte & 0x7F == 0x7F:
            value = np.nan
        elif exponent == 0:
            value = sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
        else:
            value = sign * (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)
        values.append(value)
    return np.array(values, dtype=np.float64)


def _nearest(name: str, values: Any) -> Any:
    table = _table(name)
    finite = np.flatnonzero(np.isfinite(table))
    order = finite[np.argsort(table[finite], kind="stable")]
    sorted_values = table[order]
    at = np.clip(np.searchsorted(sorted_values, values), 1, len(order) - 1)
    lower = values - sorted_values[at - 1] <= sorted_values[at] - values
    bits = order[np.where(lower, at - 1, at)].astype(np.uint8)
    nan = np.flatnonzero(np.isnan(table))[0]
    return np.where(np.isnan(values), np.uint8(nan), bits)
