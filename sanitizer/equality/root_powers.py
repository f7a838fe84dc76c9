"""Powers of a root of unity, and discrete logarithms to it: models of exponentials and logarithms."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from kerncap.sanitizer.equality.modular import powers
from kerncap.sanitizer.equality.numbers import Bools, Ints

_BASE = 4  # a square, so that its order is q
_BABY_STEPS, _GIANT_STEPS = 1 << 18, 1 << 11
_MARKS = 1 << 22
_AT_ONCE = 1 << 16  # numbers times giant steps
_LOW_BITS, _HIGH_BITS = 15, 14


class RootPowers:
    """``root``: of prime order ``q`` modulo ``p`` = 2 q + 1, below 2^30."""

    def __init__(self, root: int, p: np.int64, q: np.int64) -> None:
        self._root, self._p, self._q = root, p, q
        self._low = powers(root, 1 << _LOW_BITS, p)
        self._high = powers(pow(root, 1 << _LOW_BITS, int(p)), 1 << _HIGH_BITS, p)
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
        """The logarithms to another base of these and of the root are known by the prime alone."""
        logs = _Steps.of(int(self._p)).logarithms(np.append(numbers, self._root))
        found: Ints = logs[:-1] * pow(int(logs[-1]), -1, int(self._q)) % self._q
        return found


@dataclass(frozen=True)
class _Steps:
    """What finds logarithms modulo ``p``: baby steps, sorted, with their exponents; giant steps."""

    p: np.int64
    baby: Ints
    exponents: Ints
    marks: Bools  # whether any baby step ends with these bits
    giant: Ints

    @staticmethod
    @functools.cache
    def of(p: int) -> _Steps:
        baby = powers(_BASE, _BABY_STEPS, np.int64(p))
        order = np.argsort(baby)
        marks = np.zeros(_MARKS, bool)
        marks[baby & (_MARKS - 1)] = True
        giant = powers(pow(_BASE, -_BABY_STEPS, p), _GIANT_STEPS, np.int64(p))
        return _Steps(np.int64(p), baby[order], order, marks, giant)

    def logarithms(self, numbers: Ints) -> Ints:
        """Of powers of the base: one baby step from some giant one."""
        found = np.zeros(numbers.shape, np.int64)
        at, turn = np.arange(len(numbers)), 0
        while len(at) and turn < len(self.giant):
            giant = self.giant[turn : turn + max(1, _AT_ONCE // len(at))]
            reached = numbers[at, None] * giant % self.p
            row, column = np.nonzero(self.marks[reached & (_MARKS - 1)])
            likely = reached[row, column]
            place = np.minimum(np.searchsorted(self.baby, likely), len(self.baby) - 1)
            hit = self.baby[place] == likely
            row, column, place = row[hit], column[hit], place[hit]
            found[at[row]] = (turn + column) * _BABY_STEPS + self.exponents[place]
            at, turn = np.delete(at, row), turn + len(giant)
        return found
