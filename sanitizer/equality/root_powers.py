"""Powers of a root of unity, and discrete logarithms to it: what stands for exponentials and logarithms."""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.equality.modular import powers
from kerncap.sanitizer.equality.numbers import Ints

_BABY_STEPS = 1 << 20
_LOW_BITS, _HIGH_BITS = 15, 14


class RootPowers:
    """``root``: of prime order ``q`` modulo ``p`` = 2 q + 1, below 2^30."""

    def __init__(self, root: int, p: np.int64, q: np.int64) -> None:
        self._root, self._p, self._q = root, p, q
        self._low = powers(root, 1 << _LOW_BITS, p)
        self._high = powers(pow(root, 1 << _LOW_BITS, int(p)), 1 << _HIGH_BITS, p)
        self._baby: tuple[Ints, Ints] | None = None

    def raised(self, exponents: Ints) -> Ints:
        low = self._low[exponents & ((1 << _LOW_BITS) - 1)]
        found: Ints = low * self._high[exponents >> _LOW_BITS] % self._p
        return found

    def logarithms(self, numbers: Ints) -> Ints:
        """Of numbers that are not zero, up to their sign: half of the logarithms of their squares."""
        distinct, at = np.unique(numbers, return_inverse=True)
        half = (int(self._q) + 1) // 2
        found: Ints = (self._of_powers(distinct * distinct % self._p) * half % self._q)[at.reshape(-1)]
        return found

    def _of_powers(self, numbers: Ints) -> Ints:
        """By baby steps and giant steps, all at once."""
        if self._baby is None:
            steps = powers(self._root, _BABY_STEPS, self._p)
            order = np.argsort(steps)
            self._baby = steps[order], order
        steps, order = self._baby
        giant = np.int64(pow(self._root, -_BABY_STEPS, int(self._p)))
        found = np.zeros(numbers.shape, dtype=np.int64)
        left, at = numbers.copy(), np.arange(len(numbers))
        for turn in range(int(self._q) // _BABY_STEPS + 1):
            place = np.minimum(np.searchsorted(steps, left), len(steps) - 1)
            hit = steps[place] == left
            if hit.any():
                found[at[hit]] = (turn * _BABY_STEPS + order[place[hit]]) % self._q
                left, at = left[~hit], at[~hit]
                if not len(at):
                    break
            left = left * giant % self._p
        return found
