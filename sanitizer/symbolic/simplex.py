"""Linear inequalities over the rationals, exactly: the general simplex method with bounds on variables.

Columns are variables with bounds; a row is a variable too, equal to a linear form of columns. Pivoting
(Bland's rule, so that it ends) looks for values within all bounds, or shows that there are none.

Rows are kept in integers, each with its scale. A non-basic variable always has an integer value: it starts at
one, and moves to a bound.

Source: B. Dutertre, L. de Moura, "A Fast Linear-Arithmetic Solver for DPLL(T)", CAV 2006.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from kerncap.sanitizer.symbolic.node import Interval

_PIVOTS = 400


class PivotLimit(Exception):
    """More pivots than are allowed."""


class Simplex:
    """Variables are numbered from 0 in order of `column` and `row`."""

    def __init__(self) -> None:
        self.low: list[int | None] = []
        self.high: list[int | None] = []
        self.rows: dict[int, dict[int, int]] = {}  # basic variable times its scale: a form of non-basic ones
        self.pivots_left = _PIVOTS
        self._scale: list[int] = []  # > 0; 1 of a non-basic variable
        self._scaled: list[int] = []  # each variable's value times its scale

    def column(self, bounds: Interval) -> int:
        low, high = bounds
        start = low if low is not None else high if high is not None else 0
        if low is not None and low <= 0 and (high is None or high >= 0):
            start = 0
        return self._variable(bounds, start)

    def row(self, form: Mapping[int, int], bounds: Interval) -> int:
        """A variable equal to ``Σ form[c] · c`` over columns; to be called before `feasible`."""
        index = self._variable(bounds, sum(self._scaled[c] * k for c, k in form.items()))
        self.rows[index] = dict(form)
        return index

    def _variable(self, bounds: Interval, value: int) -> int:
        self.low.append(bounds[0])
        self.high.append(bounds[1])
        self._scale.append(1)
        self._scaled.append(value)
        return len(self._scaled) - 1

    def copy(self) -> Simplex:
        other = Simplex()
        other.low = list(self.low)
        other.high = list(self.high)
        other.rows = {b: dict(r) for b, r in self.rows.items()}
        other.pivots_left = self.pivots_left
        other._scale = list(self._scale)
        other._scaled = list(self._scaled)
        return other

    def around(self, index: int) -> tuple[int, int]:
        """The value rounded down and up: twice the same if it is whole."""
        scaled, scale = self._scaled[index], self._scale[index]
        return scaled // scale, -(-scaled // scale)

    def narrow(self, index: int, bounds: Interval) -> bool:
        """Narrows a variable's bounds; False if they become empty."""
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
            value = self._scaled[index]
            if low is not None and value < low:
                self._move(index, low - value)
            elif high is not None and value > high:
                self._move(index, high - value)
        return True

    def _move(self, index: int, change: int) -> None:
        self._scaled[index] += change
        for basic, row in self.rows.items():
            self._scaled[basic] += row.get(index, 0) * change

    def feasible(self) -> bool:
        """Whether values within all bounds exist; then these are such. Raises PivotLimit."""
        while True:
            broken = -1
            target = 0
            for basic in sorted(self.rows):
                scaled, scale = self._scaled[basic], self._scale[basic]
                low, high = self.low[basic], self.high[basic]
                if low is not None and scaled < low * scale:
                    broken, target = basic, low
                    break
                if high is not None and scaled > high * scale:
                    broken, target = basic, high
                    break
            if broken < 0:
                return True
            entering = self._entering(broken, target * self._scale[broken] > self._scaled[broken])
            if entering < 0:
                return False
            if not self.pivots_left:
                raise PivotLimit
            self.pivots_left -= 1
            self._pivot(broken, entering, target)

    def _entering(self, basic: int, up: bool) -> int:
        """The first non-basic variable that can move the basic one towards its bound."""
        row = self.rows[basic]
        for index in sorted(row):
            rises = (row[index] > 0) == up
            limit = self.high[index] if rises else self.low[index]
            if limit is None or (self._scaled[index] < limit if rises else self._scaled[index] > limit):
                return index
        return -1

    def _pivot(self, leaving: int, entering: int, target: int) -> None:
        """The two change places; the leaving one comes to ``target``."""
        row, scale = self.rows.pop(leaving), self._scale[leaving]
        k = row.pop(entering)
        # k · entering = scale · leaving − row
        gap = target * scale - self._scaled[leaving]
        sign = -1 if k < 0 else 1
        k, gap = sign * k, sign * gap
        solved = {i: -sign * c for i, c in row.items()}
        solved[leaving] = sign * scale
        self._scale[leaving], self._scaled[leaving] = 1, target
        for basic, other in self.rows.items():
            c = other.pop(entering, 0)
            if not c:
                continue
            common = gcd(c, k)
            c, times = c // common, k // common
            if times != 1:
                for i in other:
                    other[i] *= times
                self._scale[basic] *= times
                self._scaled[basic] *= times
            self._scaled[basic] += c * gap
            for i, s in solved.items():
                total = other.get(i, 0) + c * s
                if total:
                    other[i] = total
                else:
                    other.pop(i, None)
            if times != 1:
                self._reduce(basic, other)
        self._scale[entering], self._scaled[entering] = k, self._scaled[entering] * k + gap
        self.rows[entering] = solved
        self._reduce(entering, solved)

    def _reduce(self, basic: int, row: dict[int, int]) -> None:
        common = gcd(self._scale[basic], *row.values())
        if common != 1:
            for i in row:
                row[i] //= common
            self._scale[basic] //= common
            self._scaled[basic] //= common
