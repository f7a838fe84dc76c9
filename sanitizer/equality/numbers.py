"""What stands in for a kernel's floats: arrays of one numpy type, and the functions that TTIR has of them."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]


class NotModelled(Exception):
    """Something that can't be said of these numbers; the message says what."""


class Numbers(Protocol):
    """An array of all zero bits is zeros. Arrays broadcast against each other as numpy's do."""

    dtype: np.dtype[Any]
    free: bool  # whether maxima and minima are functions of which nothing else is known

    def constant(self, value: float) -> Array:
        """Of one element."""
        ...

    def drawn(self, key: Words, places: Ints, element: str) -> Array:
        """An input's elements at these places, alike for a key; ``element``: their type in memory in TTIR."""
        ...

    def scalar(self, name: str, value: float) -> Array:
        """A float that was passed, of one element."""
        ...

    def integers(self, values: Array) -> Array:
        """Integers as floats."""
        ...

    def apply(self, name: str, *arrays: Array) -> Array:
        """A function by its name in MLIR's math and arith dialects, without the dialect and "f"."""
        ...

    def compare(self, predicate: str, left: Array, right: Array) -> Bools:
        """One of arith.cmpf's predicates."""
        ...

    def may_equal(self, left: Array, right: Array) -> Bools:
        """Where two numbers that are not the same are taken for equal, which a draw hardly ever shows."""
        ...

    def is_endless(self, array: Array) -> bool:
        """Whether all are infinities or NaN, which compare with any number as they do."""
        ...

    def in_order(self, array: Array) -> bool:
        """Whether all are constants that compare as they are."""
        ...

    def sum(self, array: Array, axis: int) -> Array: ...

    def running_sum(self, array: Array, axis: int) -> Array: ...

    def product(self, left: Array, right: Array) -> Array:
        """Of matrices, in the last two axes."""
        ...


# --- numbers that a float constant stands for ---------------------------------------------------------------

# Nobody can write these as they are: a constant within an ulp of one stands for it.
LN2, LN10, PI, SQRT2 = math.log(2.0), math.log(10.0), math.pi, math.sqrt(2.0)
# By value: powers of ln 2, ln 10, pi and sqrt 2, times a rational.
IRRATIONAL: dict[float, tuple[int, int, int, int]] = {
    LN2: (1, 0, 0, 0),
    1 / LN2: (-1, 0, 0, 0),
    LN10: (0, 1, 0, 0),
    1 / LN10: (0, -1, 0, 0),
    LN2 / LN10: (1, -1, 0, 0),
    LN10 / LN2: (-1, 1, 0, 0),
    PI: (0, 0, 2, 0),
    1 / PI: (0, 0, -2, 0),
    math.sqrt(PI): (0, 0, 1, 0),
    SQRT2: (0, 0, 0, 1),
    1 / SQRT2: (0, 0, 0, -1),
    SQRT2 / math.sqrt(PI): (0, 0, -1, 1),
    1 / (SQRT2 * math.sqrt(PI)): (0, 0, -1, -1),
}
_NEAR = 2.0**-23


@lru_cache(maxsize=1 << 14)  # each draw asks for the same
def irrational(value: float) -> tuple[float, float] | None:
    """The irrational number that a constant stands for, and the power of two that is left; None: none."""
    if value == 0 or not math.isfinite(value):
        return None
    size = abs(value)
    for number in IRRATIONAL:
        power = math.frexp(size)[1] - math.frexp(number)[1]
        for shift in (power, power - 1, power + 1):
            scale = math.ldexp(1.0, shift)
            if abs(shift) <= 8 and abs(size - number * scale) <= _NEAR * size:
                return number, math.copysign(scale, value)
    return None


_LARGEST_DIVISOR = 4096


@lru_cache(maxsize=1 << 14)
def rational(value: float) -> Fraction:
    """What another constant stands for: 1/n if it is the float next to that, else itself."""
    divisor = round(1 / value) if abs(value) * _LARGEST_DIVISOR >= 1 else 0
    near = divisor and value in (1 / divisor, float(np.float32(1 / divisor)))
    return Fraction(1, divisor) if near else Fraction(value)


def mixed(words: Words) -> Words:
    """A bijection of 64-bit words that leaves no pattern (the finalizer of SplitMix64)."""
    found: Words = words + np.uint64(0x9E3779B97F4A7C15)
    found = (found ^ (found >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    found = (found ^ (found >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found = found ^ (found >> np.uint64(31))
    return found


def named(text: str, seed: int = 0) -> Words:
    """A word for a text, in an array of its own."""
    found: Words = np.array([seed], dtype=np.uint64)
    for byte in text.encode():
        found = mixed(found ^ np.uint64(byte))
    return found
