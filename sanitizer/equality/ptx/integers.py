"""Instructions on integers, by table. Registers are uint64; the instruction says how many bits count.

Source: PTX ISA 9.0, "Integer Arithmetic Instructions", "Logic and Shift Instructions".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kerncap.sanitizer.equality.numbers import Array, Ints, NotModelled

Compute = Callable[..., Array]


def width_of(type_: str) -> int:
    """Bits of ``s32``, ``u64``, ``b16``."""
    if type_[:1] in "sub" and type_[1:] in ("8", "16", "32", "64"):
        return int(type_[1:])
    raise NotModelled(f"the type {type_}")


def fit(bits: Array, width: int) -> Array:
    found: Array = bits if width == 64 else bits & np.uint64((1 << width) - 1)
    return found


def signed(bits: Array, width: int) -> Ints:
    """As int64."""
    shift = np.uint64(64 - width)
    found: Ints = (bits << shift).view(np.int64) >> np.int64(64 - width)
    return found


def typed(bits: Array, type_: str) -> Array:
    """int64 or uint64 with the number that the bits are."""
    width = width_of(type_)
    return signed(fit(bits, width), width) if type_[0] == "s" else fit(bits, width)


def untyped(numbers: Array, width: int) -> Array:
    return fit(numbers.view(np.uint64) if numbers.dtype == np.int64 else numbers.astype(np.uint64), width)


def _wide(compute: Compute) -> Compute:
    """On numbers; the result has as many bits as the operands."""

    def apply(type_: str, *bits: Array) -> Array:
        return untyped(np.asarray(compute(*(typed(one, type_) for one in bits))), width_of(type_))

    return apply


def _quotient(x: Array, y: Array) -> Array:
    y = np.where(y == 0, np.ones_like(y), y)  # of these the result is not used
    if x.dtype == np.uint64:
        return x // y
    sizes = [np.abs(one).view(np.uint64) for one in (x, y)]  # also of the least number
    found = (sizes[0] // sizes[1]).view(np.int64)
    return np.where((x < 0) != (y < 0), -found, found)


def _remainder(x: Array, y: Array) -> Array:
    return np.asarray(x - _quotient(x, y) * y)


def _shift(left: bool) -> Compute:
    def apply(type_: str, bits: Array, by: Array) -> Array:
        width = width_of(type_)
        amount = np.minimum(fit(by, 32), np.uint64(width))
        value = typed(bits, type_)
        whole = amount >= np.uint64(64)
        step = np.where(whole, np.uint64(63), amount)
        if left:
            found = np.where(whole, np.uint64(0), fit(bits, width) << step)
        elif value.dtype == np.int64:
            found = value >> step.view(np.int64)
        else:
            found = np.where(whole, np.uint64(0), value >> step)
        return untyped(found, width)

    return apply


def _high(type_: str, x: Array, y: Array) -> Array:
    width = width_of(type_)
    if width == 32:
        return untyped(typed(x, type_) * typed(y, type_) >> typed(x, type_).dtype.type(32), 32)
    if type_ != "u64":
        raise NotModelled(f"mul.hi.{type_}")
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a, b, c, d = x >> half, x & low, y >> half, y & low
    middle = (b * d >> half) + (a * d & low) + (b * c & low)
    found: Array = a * c + (a * d >> half) + (b * c >> half) + (middle >> half)
    return found


def _wider(type_: str, x: Array, y: Array) -> Array:
    return untyped(typed(x, type_) * typed(y, type_), 2 * width_of(type_))


def _bits(compute: Compute) -> Compute:
    return lambda type_, *bits: fit(np.asarray(compute(*bits)), width_of(type_))


# By the instruction without its type; the type comes first.
OPERATIONS: dict[str, Compute] = {
    "add": _wide(np.add), "sub": _wide(np.subtract), "mul.lo": _wide(np.multiply), "mul.hi": _high,
    "mul.wide": _wider, "div": _wide(_quotient), "rem": _wide(_remainder), "abs": _wide(np.abs),
    "neg": _wide(np.negative), "min": _wide(np.minimum), "max": _wide(np.maximum),
    "mad.lo": _wide(lambda x, y, z: x * y + z),
    "mad.wide": lambda type_, x, y, z: fit(_wider(type_, x, y) + z, 2 * width_of(type_)),
    "and": _bits(np.bitwise_and), "or": _bits(np.bitwise_or), "xor": _bits(np.bitwise_xor),
    "not": _bits(np.invert), "cnot": lambda type_, x: (fit(x, width_of(type_)) == 0).astype(np.uint64),
    "shl": _shift(True), "shr": _shift(False),
}  # fmt: skip

COMPARISONS: dict[str, Compute] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
}  # fmt: skip
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}  # of b and u types

# Functions of the math library on integers, by their names there: the instruction and its type.
LIBRARY: dict[str, tuple[str, str]] = {
    "__nv_abs": ("abs", "s32"), "__nv_llabs": ("abs", "s64"), "__nv_min": ("min", "s32"),
    "__nv_max": ("max", "s32"), "__nv_umin": ("min", "u32"), "__nv_umax": ("max", "u32"),
    "__nv_llmin": ("min", "s64"), "__nv_llmax": ("max", "s64"), "__nv_ullmin": ("min", "u64"),
    "__nv_ullmax": ("max", "u64"), "__nv_popc": ("popc", "b32"), "__nv_clz": ("clz", "b32"),
    "__nv_umulhi": ("mul.hi", "u32"), "__nv_mulhi": ("mul.hi", "s32"),
}  # fmt: skip
