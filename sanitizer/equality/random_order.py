"""A random total order of a field's numbers that negation turns round, with constants in their own order."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from kerncap.sanitizer.equality.numbers import Array, Bools, Ints, Words, mixed

FAR = np.int64(1 << 62)  # of infinity


class RandomOrder:
    """Of the residues modulo ``modulus``; ``ascending``: those of positive constants, of these ``sizes``."""

    def __init__(self, modulus: np.int64, key: Words, ascending: Array, sizes: Ints) -> None:
        self._modulus, self._key = modulus, key
        folded = np.minimum(ascending, modulus - ascending)
        self._order = np.argsort(folded)
        self._folded, self._positive = folded[self._order], ascending[self._order]
        self._sizes = sizes[self._order]

    def _found(self, values: Ints) -> tuple[Ints, Ints, Bools]:
        folded = np.minimum(values, self._modulus - values)
        at = np.minimum(np.searchsorted(self._folded, folded), len(self._folded) - 1)
        return folded, at, self._folded[at] == folded

    def keys(self, values: Ints) -> Ints:
        """Integers that compare as the numbers do."""
        folded, at, listed = self._found(values)
        word = mixed(folded.view(np.uint64) ^ self._key)
        size = (word >> np.uint64(2)).view(np.int64) | np.int64(1)
        positive = ((word & np.uint64(1)) == 1) == (values == folded)
        if listed.any():
            size = np.where(listed, self._sizes[at], size)
            positive = np.where(listed, self._positive[at] == values, positive)
        return np.asarray(np.where(values == 0, np.int64(0), np.where(positive, size, -size)))

    def lists(self, values: Ints) -> Bools:
        """Whether a number is a constant, or the negative of one."""
        return np.asarray((values == 0) | self._found(values)[2])

    def ranks(self, values: Ints) -> Ints:
        """Of constants, and their negatives, in their order; 0 of zero."""
        folded, at, _ = self._found(values)
        rank = self._order[at] + 1
        return np.asarray(np.where(values == 0, 0, np.where(self._positive[at] == values, rank, -rank)))

    def places(self, values: Ints) -> set[int]:
        """Which of the constants are among these numbers, or their negatives."""
        _, at, listed = self._found(values)
        return set(self._order[at[listed & (values != 0)]].tolist())


def sizes_of(generator: np.random.Generator, count: int, pivots: Collection[int]) -> Ints:
    """Of constants in their order. Between two ``pivots``, and beyond, is an equal share of all numbers."""
    found = np.empty(count, dtype=np.int64)
    ends = [*sorted(pivots), count]
    before, low = -1, 1
    for number, end in enumerate(ends, 1):
        high = int(FAR) // len(ends) * number
        found[before + 1 : end] = np.sort(generator.integers(low, high, end - before - 1))
        if end < count:
            found[end] = high
        before, low = end, high
    return found


def ascending(constants: Sequence[float]) -> list[float]:
    """The sizes of constants that are finite and not zero, each once."""
    return sorted({abs(one) for one in constants if one and np.isfinite(one)})
