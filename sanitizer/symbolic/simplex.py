"""Linear inequalities over the rationals, exactly: the general simplex method with bounds on variables.

Columns are variables with bounds; a row is a variable too, equal to a linear form of columns. Pivoting
(Bland's rule, so that it ends) looks for values within all bounds, or shows that there are none.

Source: B. Dutertre, L. de Moura, "A Fast Linear-Arithmetic Solver for DPLL(T)", CAV 2006.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from kerncap.sanitizer.symbolic.node import Interval

ZERO = Fraction(0)


class PivotLimit(Exception):
    """More pivots than the caller allows."""


class Simplex:
    """Variables are numbered from 0 in order of `column` and `row`."""

    def __init__(self, pivot_limit: int = 400) -> None:
        self.low: list[int | None] = []
        self.high: list[int | None] = []
        self.value: list[Fraction] = []
        self.rows: dict[int, dict[int, Fraction]] = {}  # basic variable: its form of non-basic ones
        self.pivots_left = pivot_limit

    def column(self, bounds: Interval) -> int:
        index = len(self.value)
        self.low.append(bounds[0])
        self.high.append(bounds[1])
        start = bounds[0] if bounds[0] is not None else bounds[1] if bounds[1] is not None else 0
        if bounds[0] is not None and bounds[0] <= 0 and (bounds[1] is None or bounds[1] >= 0):
            start = 0
        self.value.append(Fraction(start))
        return index

    def row(self, form: Mapping[int, int], bounds: Interval) -> int:
        """A variable equal to ``Σ form[c] · c`` over columns; to be called before `feasible`."""
        index = len(self.value)
        self.low.append(bounds[0])
        self.high.append(bounds[1])
        self.rows[index] = {c: Fraction(k) for c, k in form.items()}
        self.value.append(sum((self.value[c] * k for c, k in form.items()), ZERO))
        return index

    def copy(self) -> Simplex:
        other = Simplex()
        other.low = list(self.low)
        other.high = list(self.high)
        other.value = list(self.value)
        other.rows = {b: dict(r) for b, r in self.rows.items()}
        other.pivots_left = self.pivots_left
        return other

    def narrow(self, index: int, bounds: Interval) -> bool:
        """Narrows a variable's bounds; False where they become empty."""
        low, high = bounds
        old_low, old_high = self.low[index], self.high[index]
        if low is not None and (old_low is None or low > old_low):
            self.low[index] = low
        if high is not None and (old_high is None or high < old_high):
            self.high[index] = high
        low, high = self.low[index], self.high[index]
        if low is not None and high is not None and low > high:
            return False
        if index not in self.rows:
            if low is not None and self.value[index] < low:
                self._move(index, Fraction(low))
            elif high is not None and self.value[index] > high:
                self._move(index, Fraction(high))
        return True

    def _move(self, index: int, value: Fraction) -> None:
        change = value - self.value[index]
        self.value[index] = value
        for basic, row in self.rows.items():
            k = row.get(index)
            if k:
                self.value[basic] += k * change

    def feasible(self) -> bool:
        """Whether values within all bounds exist; then `value` has some. Raises PivotLimit."""
        while True:
            broken = -1
            target = 0
            for basic in sorted(self.rows):
                value = self.value[basic]
                low, high = self.low[basic], self.high[basic]
                if low is not None and value < low:
                    broken, target = basic, low
                    break
                if high is not None and value > high:
                    broken, target = basic, high
                    break
            if broken < 0:
                return True
            entering = self._entering(broken, target > self.value[broken])
            if entering < 0:
                return False
            if not self.pivots_left:
                raise PivotLimit
            self.pivots_left -= 1
            self._pivot(broken, entering, Fraction(target))

    def _entering(self, basic: int, up: bool) -> int:
        """The first non-basic variable that can move the basic one towards its bound."""
        row = self.rows[basic]
        for index in sorted(row):
            rises = (row[index] > 0) == up
            limit = self.high[index] if rises else self.low[index]
            if limit is None or (self.value[index] < limit if rises else self.value[index] > limit):
                return index
        return -1

    def _pivot(self, leaving: int, entering: int, target: Fraction) -> None:
        row = self.rows.pop(leaving)
        k = row.pop(entering)
        change = (target - self.value[leaving]) / k
        solved = {i: -c / k for i, c in row.items()}
        solved[leaving] = 1 / k
        self.value[leaving] = target
        self.value[entering] += change
        for basic, other in self.rows.items():
            c = other.pop(entering, None)
            if c is None:
                continue
            self.value[basic] += c * change
            for i, s in solved.items():
                total = other.get(i, ZERO) + c * s
                if total:
                    other[i] = total
                else:
                    other.pop(i, None)
        self.rows[entering] = solved
