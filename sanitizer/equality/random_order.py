"""A random total order of a field's numbers that negation turns round, with constants in their own order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kerncap.sanitizer.equality.numbers import Array, Bools, Ints, Words, mixed

FAR = np.int64(1 << 62)  # of infinity


class RandomOrder:
    """Of the residues modulo ``modulus``; ``ascending``: those of positive constants, by their size."""

    def __init__(self, modulus: np.int64, key: Words, ascending: Array, sizes: Ints) -> None:
        self._modulus, self._key = modulus, key
        folded = np.minimum(ascending, modulus - ascending)
        order = np.argsort(folded)
        chosen = sizes[np.linspace(0, len(sizes) - 1, len(ascending)).astype(np.int64)]
        self._folded, self._positive, self._sizes = folded[order], ascending[order], chosen[order]

    def keys(self, values: Ints) -> Ints:
        """Integers that compare as the numbers do."""
        folded = np.minimum(values, self._modulus - values)
        word = mixed(folded.view(np.uint64) ^ self._key)
        size = (word >> np.uint64(2)).view(np.int64) | np.int64(1)
        positive = ((word & np.uint64(1)) == 1) == (values == folded)
        at = np.minimum(np.searchsorted(self._folded, folded), len(self._folded) - 1)
        listed = self._folded[at] == folded
        if listed.any():
            size = np.where(listed, self._sizes[at], size)
            positive = np.where(listed, self._positive[at] == values, positive)
        return np.asarray(np.where(values == 0, np.int64(0), np.where(positive, size, -size)))

    def lists(self, values: Ints) -> Bools:
        """Whether a number is a constant, or the negative of one."""
        return np.asarray((values == 0) | np.isin(np.minimum(values, self._modulus - values), self._folded))


def sizes_of(generator: np.random.Generator, count: int) -> Ints:
    return np.asarray(np.sort(generator.integers(1, int(FAR), count)))


def ascending(constants: Sequence[float]) -> list[float]:
    """The sizes of constants that are finite and not zero, each once."""
    return sorted({abs(one) for one in constants if one and np.isfinite(one)})
