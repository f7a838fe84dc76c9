"""How far apart elements are, and where: fed block by block, in any order."""

from __future__ import annotations

import math
import sys
from collections import Counter
from typing import Any

import numpy as np

from kerncap.format.memory_index import State
from kerncap.replay.worker.common.error_statistics import Errors
from kerncap.replay.worker.native.dtypes import Number
from kerncap.report.documents.diff import Bin, First, Heat, Histogram, Measure, StateDiff

MAP_ROWS, MAP_COLUMNS = 16, 64
_MOST_POWER = 1100  # of two: the range of a float64
_MOST_MEASURED = 1 << 24  # elements that differ, of which errors are measured
_MOST_MARKED = 1 << 22  # indices of an axis that are counted one by one


class Difference:
    """Statistics over the elements that differ, of two views of ``shape``; A is what B is measured by."""

    def __init__(self, shape: tuple[int, ...], a: Number, b: Number) -> None:
        self._shape, self._a, self._b = shape, a, b
        self._different = self._pointers = 0
        self._first: tuple[int, tuple[int, ...], str, str] | None = None
        self._low: list[int] | None = None
        self._high: list[int] = []
        self._marks: list[Any] = []  # made when there is something to mark
        self._map: _Map | None = None
        self._errors = Errors(a.name, shape, 0.0, 0.0)
        self._tallies: dict[Measure, _Tally] = {
            "absolute": _Tally(10.0),
            "relative": _Tally(10.0),
            "ulps": _Tally(2.0),
        }
        self.floating = a.floating or b.floating
        self.ignored = self._measured = 0

    def add(self, start: tuple[int, ...], a: Any, b: Any, unequal: Any, pointers: int = 0) -> None:
        """A block at index ``start``: both sides' bits, and which of them differ."""
        self._pointers += pointers
        if not unequal.any():
            return
        found = np.nonzero(unequal) if unequal.ndim else ()  # a scalar has no index
        x_bits, y_bits = a[unequal].reshape(-1), b[unequal].reshape(-1)
        index = [axis.astype(np.int64) + base for axis, base in zip(found, start, strict=True)]
        flat = np.zeros(len(x_bits), dtype=np.int64)
        for axis, length in zip(index, self._shape, strict=True):
            flat = flat * length + axis
        self._different += len(x_bits)
        count = min(len(x_bits), _MOST_MEASURED - self._measured)
        self._measured += count
        picture = self._place(index)
        x, y = self._a.decode(x_bits), self._b.decode(y_bits)
        special = np.isfinite(x) != np.isfinite(y)
        special |= ~np.isfinite(x) & ~np.isfinite(y) & ~((x == y) | (np.isnan(x) & np.isnan(y)))
        picture.add(flat, special)
        first = int(np.argmin(flat))
        if self._first is None or flat[first] < self._first[0]:
            where = tuple(int(axis[first]) for axis in index)
            texts = self._a.text(int(x_bits[first])), self._b.text(int(y_bits[first]))
            self._first = (int(flat[first]), where, *texts)
        if count:
            self._measure(x_bits[:count], y_bits[:count], x[:count], y[:count])

    def result(self, state: State, elements: int, complete: bool) -> StateDiff:
        if not self._different:
            return StateDiff(state, elements, 0, complete, pointers=self._pointers, ignored=self.ignored)
        assert self._first is not None and self._low is not None and self._map is not None
        box = tuple((low, high + 1) for low, high in zip(self._low, self._high, strict=True))
        axes = tuple(-1 if marks is None else int(marks.sum()) for marks in self._marks)
        histograms = tuple(
            tally.result(name) for name, tally in self._tallies.items() if name != "ulps" or self.floating
        )
        return StateDiff(
            state, elements, self._different, complete, First(*self._first[1:]), box, axes,
            self._summary(), histograms, self._map.result(), self._pointers, self.ignored,
            self._measured,
        )  # fmt: skip

    def _place(self, index: list[Any]) -> _Map:
        if self._map is None:
            self._map = _Map(self._shape)
            self._marks = [np.zeros(n, dtype=bool) if n <= _MOST_MARKED else None for n in self._shape]
        low, high = [int(axis.min()) for axis in index], [int(axis.max()) for axis in index]
        if self._low is not None:
            low = [min(pair) for pair in zip(low, self._low, strict=True)]
            high = [max(pair) for pair in zip(high, self._high, strict=True)]
        self._low, self._high = low, high
        for marks, axis in zip(self._marks, index, strict=True):
            if marks is not None:
                marks[axis] = True
        return self._map

    def _measure(self, x_bits: Any, y_bits: Any, x: Any, y: Any) -> None:
        with np.errstate(all="ignore"):
            self._errors.add(y, x)
            absolute = np.abs(y - x)
            if not self.floating and self._a == self._b:
                absolute = _exact(x_bits, y_bits, self._a)
            relative = np.where(x != 0, absolute / np.abs(x), np.inf)
            same = (x == y) & (absolute == 0) | (np.isnan(x) & np.isnan(y))
            special = ~(np.isfinite(x) & np.isfinite(y)) & ~same
            usual = ~same & ~special
            self._tallies["absolute"].add(absolute[usual], int(same.sum()), int(special.sum()))
            # Of what was zero nothing is a share: it goes with what has no number.
            share = usual & (x != 0)
            self._tallies["relative"].add(
                relative[share], int(same.sum()), len(x) - int((same | share).sum())
            )
            if self.floating:
                ulps = absolute[usual] / self._errors.ulp(x[usual])
                self._tallies["ulps"].add(ulps, int(same.sum()), int(special.sum()))

    def _summary(self) -> dict[str, Any]:
        """Of the elements that differ; names as in the numerics stage of ``verify``."""
        found = self._errors.result()
        names = ["abs_max", "abs_mean", "rel_max", "rel_mean", "scale", "special_differs"]
        if self.floating:
            names += ["ulp_max", "ulp_mean", "ulp_median", "ulp_p99"]
        kept = {name: _plain(getattr(found, name)) for name in names}
        kept["nan_a"], kept["nan_b"] = found.nan_expected, found.nan_found
        kept["inf_a"], kept["inf_b"] = found.inf_expected, found.inf_found
        kept["larger"], kept["smaller"] = found.positive, found.negative
        return kept


class _Tally:
    """Numbers by power of ``base``."""

    def __init__(self, base: float) -> None:
        self._base = base
        self._bins: Counter[int] = Counter()
        self._none = self._special = 0

    def add(self, values: Any, none: int, special: int) -> None:
        self._none += none
        self._special += special
        if not len(values):
            return
        with np.errstate(all="ignore"):
            power = np.log(values) / math.log(self._base)
        # The logarithm of 1e-3 is a little above or below -3; of what overflows it is infinite.
        power = np.floor(np.nan_to_num(power, neginf=-_MOST_POWER, posinf=_MOST_POWER) + 1e-12)
        counts = np.bincount((power + _MOST_POWER).astype(np.int64))
        for place in np.flatnonzero(counts):
            self._bins[int(place) - _MOST_POWER] += int(counts[place])

    def result(self, measure: Measure) -> Histogram:
        bins = tuple(Bin(self._edge(p), self._edge(p + 1), count) for p, count in sorted(self._bins.items()))
        return Histogram(measure, bins, self._none, self._special)

    def _edge(self, power: int) -> float:
        return sys.float_info.max if power > 300 else float(self._base**power)


class _Map:
    """Counts by cell of a picture of at most `MAP_ROWS` by `MAP_COLUMNS`."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._wrapped = len(shape) < 2
        total = math.prod(shape)
        if self._wrapped:
            step = max(1, -(-total // (MAP_ROWS * MAP_COLUMNS)))
            self._columns = min(max(1, total), step * MAP_COLUMNS)
            self._rows = -(-total // self._columns)
            self._steps = (1, step)
        else:
            self._columns, self._rows = shape[-1], math.prod(shape[:-1])
            self._steps = (
                max(1, -(-self._rows // MAP_ROWS)), max(1, -(-self._columns // MAP_COLUMNS))
            )  # fmt: skip
        self._total = total
        size = (-(-self._rows // self._steps[0]), -(-self._columns // self._steps[1]))
        self._different = np.zeros(size, dtype=np.int64)
        self._special = np.zeros(size, dtype=np.int64)

    def add(self, flat: Any, special: Any) -> None:
        row, column = flat // self._columns // self._steps[0], flat % self._columns // self._steps[1]
        cell = row * self._different.shape[1] + column
        for counts, chosen in ((self._different, cell), (self._special, cell[special])):
            counts += np.bincount(chosen, minlength=counts.size).reshape(counts.shape)

    def result(self) -> Heat | None:
        if self._total < 2:
            return None
        rows = _pieces(self._rows, self._steps[0])
        columns = _pieces(self._columns, self._steps[1])
        elements = np.outer(rows, columns)
        if self._wrapped:  # the last row may be short
            last = self._total - (self._rows - 1) * self._columns
            for at in range(len(columns)):
                start = at * self._steps[1]
                elements[-1, at] = max(0, min(self._steps[1], last - start))
        return Heat(
            self._rows, self._columns, *self._steps, self._wrapped,
            _tuples(self._different), _tuples(elements), _tuples(self._special),
        )  # fmt: skip


def _exact(x: Any, y: Any, number: Number) -> Any:
    """|x - y| of integers by their bits: float64 rounds those beyond 2^53."""
    if number.name == "bool" or not number.name.startswith(("int", "uint")):
        return np.abs(x.astype(np.float64) - y.astype(np.float64))
    dtype = np.dtype(number.name)
    first, second = np.ascontiguousarray(x).view(dtype), np.ascontiguousarray(y).view(dtype)
    unsigned = np.dtype(f"uint{8 * number.itemsize}")
    with np.errstate(over="ignore"):
        up = second.view(unsigned) - first.view(unsigned)
        down = first.view(unsigned) - second.view(unsigned)
    return np.where(second > first, up, down).astype(np.float64)


def _pieces(length: int, step: int) -> Any:
    return np.array([min(step, length - at) for at in range(0, length, step)], dtype=np.int64)


def _tuples(array: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(value) for value in row) for row in array)


def _plain(value: Any) -> Any:
    """JSON has no infinity."""
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)
