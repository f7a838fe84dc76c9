"""How far two results are apart: in units in the last place and relative, with maps of NaN and infinity.

For the engines with torch and for those without: all arrays here are numpy's float64, which holds every
narrower float exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..protocol import ErrorBoxes, ErrorStatistics
from . import outside_tolerance

# Precision in bits (the hidden one included) and least exponent of a normal number.
# Source: IEEE 754-2019 table 3.5; OCP 8-bit Floating Point Specification 1.0; bfloat16 has float32's range.
FORMATS = {
    "float64": (53, -1022),
    "float32": (24, -126),
    "float16": (11, -14),
    "bfloat16": (8, -126),
    "float8_e4m3fn": (4, -6),
    "float8_e4m3fnuz": (4, -7),
    "float8_e5m2": (3, -14),
    "float8_e5m2fnuz": (3, -15),
}
_STEPS = 16  # bins in a factor of two
_LOWEST, _HIGHEST = -120, 120  # powers of two that the bins span


class Percentiles:
    """Shares of many numbers without keeping them: bins of a sixteenth of an octave."""

    def __init__(self) -> None:
        self._bins = np.zeros((_HIGHEST - _LOWEST) * _STEPS + 2, dtype=np.int64)  # the first is zero

    def add(self, values: Any) -> None:
        with np.errstate(divide="ignore"):
            place = np.floor((np.log2(values) - _LOWEST) * _STEPS)
        place = np.clip(np.nan_to_num(place, nan=0.0, neginf=-1.0, posinf=1e9), -1, len(self._bins) - 2)
        self._bins += np.bincount(place.astype(np.int64) + 1, minlength=len(self._bins))

    def add_zeros(self, count: int) -> None:
        self._bins[0] += count

    def at(self, share: float, largest: float) -> float:
        """A number that ``share`` of all do not exceed, at most 4.5 % too large."""
        total = int(self._bins.sum())
        if not total:
            return 0.0
        index = int(np.searchsorted(np.cumsum(self._bins), math.ceil(share * total)))
        return 0.0 if index == 0 else min(largest, 2.0 ** (index / _STEPS + _LOWEST))


class Errors:
    """Statistics of a view of ``dtype`` and ``shape``, fed block by block in its row-major order."""

    def __init__(self, dtype: str, shape: tuple[int, ...], rtol: float, atol: float) -> None:
        self._precision, self._least = FORMATS.get(dtype, (53, -1022))
        self._shape = shape
        self._rtol, self._atol = rtol, atol
        self._ulps, self._relative = Percentiles(), Percentiles()
        self._sums: dict[str, float] = dict.fromkeys(
            ("abs", "rel", "ulp", "square", "share", "signed", "outward", "error_square", "magnitude"), 0.0
        )
        self._max = {"abs": 0.0, "rel": 0.0, "ulp": 0.0, "scale": 0.0}
        self._counts = {
            "elements": 0, "finite": 0, "different": 0, "positive": 0, "negative": 0, "outside": 0,
            "nan_found": 0, "nan_expected": 0, "inf_found": 0, "inf_expected": 0, "special_differs": 0,
        }  # fmt: skip
        self._first: dict[str, list[int] | None] = {"nan": None, "inf": None, "worst": None}
        self._at = 0

    def ulp(self, expected: Any) -> Any:
        """The distance of neighbours at ``expected``."""
        exponent = np.where(expected == 0, self._least, np.frexp(np.abs(expected))[1] - 1)
        return np.ldexp(1.0, np.maximum(exponent, self._least) - (self._precision - 1))

    def add(self, found: Any, expected: Any) -> None:
        """The next elements, flat."""
        counts, at = self._counts, self._at
        self._at += found.size
        counts["elements"] += int(found.size)
        for name, test in (("nan", np.isnan), ("inf", np.isinf)):
            hit = test(found)
            counts[f"{name}_found"] += int(hit.sum())
            counts[f"{name}_expected"] += int(test(expected).sum())
            if self._first[name] is None and hit.any():
                self._first[name] = self._index(at + int(np.argmax(hit)))
        special = outside_tolerance.special(np, found, expected)
        counts["special_differs"] += int((special & ~outside_tolerance.alike(np, found, expected)).sum())
        kept = np.flatnonzero(~special)
        if not kept.size:
            return
        x, y = found[kept], expected[kept]
        signed = x - y
        absolute, magnitude = np.abs(signed), np.abs(y)
        ulps = absolute / self.ulp(y)
        relative = np.divide(absolute, magnitude, out=np.zeros_like(absolute), where=magnitude > 0)
        worst = int(np.argmax(ulps))
        if ulps[worst] > self._max["ulp"]:
            self._first["worst"] = self._index(at + int(kept[worst]))
        for name, values in (("abs", absolute), ("rel", relative), ("ulp", ulps)):
            self._sums[name] += float(values.sum())
            self._max[name] = max(self._max[name], float(values.max()))
        self._sums["square"] += float((y * y).sum())
        self._sums["signed"] += float(signed.sum())
        self._sums["outward"] += float((signed * np.sign(y)).sum())
        self._sums["error_square"] += float((signed * signed).sum())
        self._sums["magnitude"] += float(magnitude.sum())
        self._max["scale"] = max(self._max["scale"], float(magnitude.max()))
        self._ulps.add(ulps)
        self._relative.add(relative)
        counts["finite"] += int(kept.size)
        counts["different"] += int((signed != 0).sum())
        counts["positive"] += int((signed > 0).sum())
        counts["negative"] += int((signed < 0).sum())
        limit = self._atol + self._rtol * magnitude
        counts["outside"] += int((absolute > limit).sum())
        share = np.divide(absolute, limit, out=1.0 * (absolute > 0), where=limit > 0)
        self._sums["share"] += float(share.sum())

    def skip_zeros(self, count: int) -> None:
        """The next elements are zeros, found and expected."""
        self._at += count
        self._counts["elements"] += count
        self._counts["finite"] += count
        self._ulps.add_zeros(count)
        self._relative.add_zeros(count)

    def result(self) -> ErrorStatistics:
        n = max(1, self._counts["finite"])
        sums, largest, counts = self._sums, self._max, self._counts
        return ErrorStatistics(
            elements=counts["elements"],
            finite=counts["finite"],
            different=counts["different"],
            positive=counts["positive"],
            negative=counts["negative"],
            outside=counts["outside"],
            nan_found=counts["nan_found"],
            nan_expected=counts["nan_expected"],
            inf_found=counts["inf_found"],
            inf_expected=counts["inf_expected"],
            special_differs=counts["special_differs"],
            scale=largest["scale"],
            rms=math.sqrt(sums["square"] / n),
            share_mean=sums["share"] / n,
            signed_mean=sums["signed"] / n,
            outward_mean=sums["outward"] / n,
            error_square_mean=sums["error_square"] / n,
            magnitude_mean=sums["magnitude"] / n,
            abs_max=largest["abs"],
            abs_mean=sums["abs"] / n,
            rel_max=largest["rel"],
            rel_mean=sums["rel"] / n,
            rel_p99=self._relative.at(0.99, largest["rel"]),
            ulp_max=largest["ulp"],
            ulp_mean=sums["ulp"] / n,
            ulp_median=self._ulps.at(0.5, largest["ulp"]),
            ulp_p99=self._ulps.at(0.99, largest["ulp"]),
            first_nan=self._first["nan"],
            first_inf=self._first["inf"],
            worst=self._first["worst"],
        )

    def _index(self, flat: int) -> list[int]:
        return [int(i) for i in np.unravel_index(flat, self._shape)] if self._shape else []


class Boxes:
    """The smallest boxes of the elements that lie outside of the tolerance and of those that do not."""

    def __init__(self, shape: tuple[int, ...], rtol: float, atol: float) -> None:
        self._shape, self._rtol, self._atol = shape, rtol, atol
        self._boxes: dict[bool, list[tuple[int, int]] | None] = {True: None, False: None}
        self._at = 0

    def add(self, found: Any, expected: Any) -> None:
        with np.errstate(invalid="ignore"):
            special = outside_tolerance.special(np, found, expected)
            inside = ~outside_tolerance.floats_outside(
                np, found, expected, special, np.abs(found - expected), self._rtol, self._atol
            )
        for kind in (True, False):
            flat = np.flatnonzero(inside == kind)
            if flat.size and self._shape:
                axes = np.unravel_index(flat + self._at, self._shape)
                self._widen(kind, [(int(axis.min()), int(axis.max()) + 1) for axis in axes])
        self._at += found.size

    def skip_zeros(self, count: int) -> None:
        """The next elements are zeros, found and expected."""
        if not self._shape:
            return
        first, last = (np.unravel_index(at, self._shape) for at in (self._at, self._at + count - 1))
        box, in_one_row = list[tuple[int, int]](), True
        for low, high, length in zip(first, last, self._shape, strict=True):
            box.append((int(low), int(high) + 1) if in_one_row else (0, length))
            in_one_row = in_one_row and low == high
        self._widen(True, box)
        self._at += count

    def _widen(self, kind: bool, box: list[tuple[int, int]]) -> None:
        old = self._boxes[kind]
        if old is not None:
            box = [(min(a, c), max(b, d)) for (a, b), (c, d) in zip(old, box, strict=True)]
        self._boxes[kind] = box

    def result(self) -> ErrorBoxes:
        return ErrorBoxes(self._boxes[True], self._boxes[False])
