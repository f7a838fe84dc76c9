"""Powers of a root of unity, and discrete logarithms to it: models of exponentials and logarithms."""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.equality.modular import powers
from kerncap.sanitizer.equality.numbers import Ints

_MANY = 1 << 12  # numbers, for which the larger table is worth its making
_BABY_STEPS, _BABY_STEPS_OF_MANY = 1 << 18, 1 << 20
_LOW_BITS, _HIGH_BITS = 15, 14


class RootPowers:
    """``root``: of prime order ``q`` modulo ``p`` = 2 q + 1, below 2^30."""

    def __init__(self, root: int, p: np.int64, q: np.int64) -> None:
        self._root, self._p, self._q = root, p, q
        self._low = powers(root, 1 << _LOW_BITS, p)
        self._high = powers(pow(root, 1 << _LOW_BITS, int(p)), 1 << _HIGH_BITS, p)
        self._baby: dict[int, tuple[Ints, Ints]] = {}  # by their number
        self._known: tuple[Ints, Ints] = np.zeros(0, np.int64), np.zeros(0, np.int64)  # numbers, logarithms

    def raised(self, exponents: Ints) -> Ints:
        low = self._low[exponents & ((1 << _LOW_BITS) - 1)]
        found: Ints = low * self._high[exponents >> _LOW_BITS] % self._p
        return found

    def logarithms(self, numbers: Ints) -> Ints:
        """Of numbers that are not zero, up to their sign: half of the logarithms of their squares."""
        distinct, at = np.unique(numbers, return_inverse=True)
        known, logs = self._known
        new = np.setdiff1d(distinct, known, assume_unique=True)
        if new.size:
            half = (int(self._q) + 1) // 2
            known = np.concatenate([known, new])
            logs = np.concatenate([logs, self._of_powers(new * new % self._p) * half % self._q])
            order = np.argsort(known)
            known, logs = self._known = known[order], logs[order]
        found: Ints = logs[np.searchsorted(known, distinct)][at.reshape(-1)]
        return found

    def _of_powers(self, numbers: Ints) -> Ints:
        """By baby steps and giant steps, all at once."""
        count = _BABY_STEPS if len(numbers) < _MANY else _BABY_STEPS_OF_MANY
        if count not in self._baby:
            steps = powers(self._root, count, self._p)
            order = np.argsort(steps)
            self._baby[count] = steps[order], order
        steps, order = self._baby[count]
        giant = np.int64(pow(self._root, -count, int(self._p)))
        found = np.zeros(numbers.shape, dtype=np.int64)
        left, at = numbers.copy(), np.arange(len(numbers))
        for turn in range(int(self._q) // count + 1):
            place = np.minimum(np.searchsorted(steps, left), len(steps) - 1)
            hit = steps[place] == left
            if hit.any():
                found[at[hit]] = (turn * count + order[place[hit]]) % self._q
                left, at = left[~hit], at[~hit]
                if not len(at):
                    break
            left = left * giant % self._p
        return found
