"""Inputs that a person can read, and their results in float64: where two kernels differ, these show it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.concrete import formats
from kerncap.sanitizer.concrete.ops_arith import FLOAT_COMPARISONS
from kerncap.sanitizer.concrete.ops_math import LIBRARY
from kerncap.sanitizer.equality.numbers import Array, Bools, Ints, NotModelled, Words, irrational, mixed

Floats = npt.NDArray[np.float64]
Draw = Callable[[Floats, Floats, Floats], Floats]


@dataclass(frozen=True)
class Inputs:
    """One way to fill all float tensors: by two uniform numbers in (0, 1) and the place of each element.

    ``if_compared``: only for kernels that compare floats; what they store to holds other values before.
    """

    words: str  # "whole numbers from -2 to 2"
    draw: Draw
    if_compared: bool = False


def _normal(u: Floats, v: Floats, at: Floats) -> Floats:
    found: Floats = np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)
    return found


INPUTS = (
    Inputs("all ones", lambda u, v, at: np.ones_like(u)),
    Inputs("whole numbers from -2 to 2", lambda u, v, at: np.floor(5.0 * u) - 2.0),
    Inputs("values that rise with the index", lambda u, v, at: at / 64.0),
    Inputs("values that fall with the index", lambda u, v, at: -at / 64.0),
    Inputs("normal values", _normal),
    Inputs("positive values below 1", lambda u, v, at: u),
    Inputs("normal values times 100", lambda u, v, at: 100.0 * _normal(u, v, at)),
    Inputs("normal values times 10000", lambda u, v, at: 10000.0 * _normal(u, v, at)),
    # The shift of a softmax may be any number over the reals: one that is no maximum shows here.
    Inputs("values from 1 to 2 times -1000", lambda u, v, at: -1000.0 * (1.0 + u)),
    Inputs("normal values times 0.001", lambda u, v, at: 0.001 * _normal(u, v, at)),
)


def beside(constants: Iterable[float]) -> Inputs:
    """The numbers that kernels may compare with, what is between two and beyond, and their negatives."""
    sizes = sorted({abs(one) for one in constants if np.isfinite(one)} | {0.0})[:_MOST_CONSTANTS]
    between = [(low + high) / 2 for low, high in pairwise(sizes)]
    every = np.array([*sizes, *between, 2 * sizes[-1] + 1])

    def draw(u: Floats, v: Floats, at: Floats) -> Floats:
        return every[(u * len(every)).astype(np.int64)] * np.where(v < 0.5, -1.0, 1.0)

    return Inputs("constants of the kernels and numbers between them", draw)


def each_of(constants: Iterable[float]) -> Iterator[Inputs]:
    """Zero and the first of the numbers that kernels may compare with, in all places."""
    values = sorted({0.0, *(one for one in constants if np.isfinite(one))}, key=abs)
    for value in values[:_MOST_FILLED]:
        yield Inputs(f"{value:g} in all tensors but the results", partial(_filled, value), if_compared=True)


def _filled(value: float, u: Floats, v: Floats, at: Floats) -> Floats:
    return np.full_like(u, value)


_MOST_FILLED = 6
_MOST_CONSTANTS = 256
_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.true_divide, "rem": np.fmod,
    "neg": np.negative, "maxnum": np.fmax, "minnum": np.fmin, "maximum": np.maximum, "minimum": np.minimum,
    "reciprocal": np.reciprocal, "abs": np.abs, "fma": lambda x, y, z: x * y + z,
}  # fmt: skip


class Reals:
    """One filling of the inputs. Nothing is rounded to narrower types on the way."""

    dtype = np.dtype(np.float64)
    free = False

    def __init__(self, inputs: Inputs, seed: int, stored: Collection[int] = ()) -> None:
        """``stored``: keys of what holds normal values."""
        self._inputs, self._seed, self._stored = inputs, np.uint64(seed), stored

    def constant(self, value: float) -> Array:
        known = irrational(value)
        return np.array([value if known is None else known[0] * known[1]])

    def scalar(self, name: str, value: float) -> Array:
        return np.array([value], dtype=np.float64)

    def drawn(self, key: Words, places: Ints, element: str) -> Array:
        word = mixed(mixed(places.astype(np.uint64) ^ key) ^ self._seed)
        u, v = (((w >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53 for w in (word, mixed(word)))
        draw = _normal if int(key[0]) in self._stored else self._inputs.draw
        return formats.rounded(draw(u, v, places.astype(np.float64)), element).astype(np.float64)

    def integers(self, values: Array) -> Array:
        return values.astype(np.float64)

    def apply(self, name: str, *arrays: Array) -> Array:
        found = _FUNCTIONS.get(name) or LIBRARY.get(name)
        if name.startswith("fpto"):  # an integer of some bits, and a float again
            found = np.trunc
        if found is None:
            raise NotModelled(f"the function {name}")
        return np.asarray(found(*arrays))

    def compare(self, predicate: str, left: Array, right: Array) -> Bools:
        found: Bools = FLOAT_COMPARISONS[predicate](left, right)
        return found

    def may_equal(self, left: Array, right: Array) -> Bools:
        return np.zeros((), dtype=np.bool_)

    def is_endless(self, array: Array) -> bool:
        return not np.isfinite(array).any()

    def in_order(self, array: Array) -> bool:
        return True

    def sum(self, array: Array, axis: int) -> Array:
        return np.asarray(array.sum(axis=axis))

    def running_sum(self, array: Array, axis: int) -> Array:
        return np.cumsum(array, axis=axis)

    def product(self, left: Array, right: Array) -> Array:
        return np.asarray(np.matmul(left, right))
