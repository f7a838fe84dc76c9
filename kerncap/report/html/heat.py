"""The values of a view before and after the launch as small heat maps: quantised cells, statistics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.format import Reproducer
from kerncap.format.schema import View
from kerncap.printable import visible
from kerncap.report.html.heat_cells import Arrangement, arrange, index_of
from kerncap.report.html.heat_sample import Bools, Sample, is_unchanged, read_sample
from kerncap.report.html.view_elements import how_shown, values

# Codes of a cell's mean: between LOW and HIGH the colour range, in even steps.
BELOW, LOW, HIGH, ABOVE, NOT_FINITE, EMPTY = 0, 1, 65532, 65533, 65534, 65535
NAN, INFINITE, CHANGED = 1, 2, 4  # flags of a cell
BINS = 32
Floats = npt.NDArray[np.float64]


def heat_map(reproducer: Reproducer, view: View) -> dict[str, Any] | None:
    """What the page draws for a view, or None if it has no elements.

    ``pre`` and ``post`` have cells and statistics; ``post`` is None if the launch changed nothing of it.
    """
    shape = arrange(view)
    if shape is None:
        return None
    before = read_sample(reproducer, "pre", view, shape)
    after = before if is_unchanged(reproducer, view) else read_sample(reproducer, "post", view, shape)
    changed = (before.raw != after.raw).any(axis=-1) & before.valid
    count = int(changed.sum())
    dtype, note = visible(view.dtype, 80), how_shown(view.dtype, view.itemsize)
    found: dict[str, Any] = {
        "rows": shape.rows, "columns": shape.columns, "high": shape.high, "wide": shape.wide,
        "wrapped": shape.wrapped, "elements": shape.elements, "sampled": int(before.valid.sum()),
        "shape": list(view.shape), "dtype": dtype, "note": note and visible(note),
        "changed": count, "first_changed": _first(changed, before, view, shape),
        "pre": _state(before, view, shape), "post": None, "difference": None,
    }  # fmt: skip
    if count:
        found["post"] = _state(after, view, shape)
        total = _by_cell(before.valid.astype(np.float64), before, shape)
        part = _by_cell(changed.astype(np.float64), before, shape)
        share = np.divide(part, total, out=np.zeros_like(part), where=total > 0)
        # A cell of which anything changed is never shown as one of which nothing did.
        shown = np.where(part > 0, np.maximum(1, np.round(share * 255)), 0)
        found["difference"] = shown.astype(int).ravel().tolist()
    return found


def _first(changed: Bools, sample: Sample, view: View, shape: Arrangement) -> list[int] | None:
    if not changed.any():
        return None
    row, column = divmod(int(changed.argmax()), changed.shape[1])
    number = int(sample.rows[row]) * shape.columns + int(sample.columns[column])
    return list(index_of(view.shape, number))


def _state(sample: Sample, view: View, shape: Arrangement) -> dict[str, Any]:
    numbers = values(sample.raw, view.dtype, view.itemsize)
    finite = np.isfinite(numbers) & sample.valid
    nans = np.isnan(numbers) & sample.valid
    infinite = np.isinf(numbers) & sample.valid
    known = numbers[finite]
    low, high = _range(known)
    flags = NAN * (_by_cell(nans, sample, shape) > 0) + INFINITE * (_by_cell(infinite, sample, shape) > 0)
    return {
        "cells": _codes(np.where(finite, numbers, 0.0), finite, sample, shape, low, high).ravel().tolist(),
        "flags": flags.astype(int).ravel().tolist(),
        "low": low, "high": high,
        "min": float(known.min()) if known.size else None,
        "max": float(known.max()) if known.size else None,
        "mean": _mean(known),
        "zeros": int((known == 0).sum()), "nan": int(nans.sum()), "infinite": int(infinite.sum()),
        "histogram": _histogram(known, low, high),
    }  # fmt: skip


def _range(known: Floats) -> tuple[float, float]:
    """The colours' range: all but the outermost hundredth if that is far out."""
    if not known.size:
        return 0.0, 0.0
    low, high = float(known.min()), float(known.max())
    inner_low, inner_high = (float(q) for q in np.percentile(known, [0.5, 99.5]))
    if inner_high > inner_low and high - low > 1.3 * (inner_high - inner_low):
        return inner_low, inner_high
    return low, high


def _codes(
    numbers: Floats, finite: Bools, sample: Sample, shape: Arrangement, low: float, high: float
) -> npt.NDArray[np.int64]:
    scale = max(abs(low), abs(high)) or 1.0  # sums of values near the end of float64 would overflow
    there = _by_cell(sample.valid, sample, shape)
    count = _by_cell(finite, sample, shape)
    total = _by_cell(np.clip(numbers / scale, -1e6, 1e6), sample, shape)
    mean = np.divide(total, count, out=np.zeros_like(total), where=count > 0)
    span = (high / scale) - (low / scale)
    step = (mean - low / scale) / span if span > 0 else np.full_like(mean, 0.5)
    codes = np.round(LOW + np.clip(step, 0, 1) * (HIGH - LOW)).astype(np.int64)
    slack = 1e-9
    codes[step < -slack], codes[step > 1 + slack] = BELOW, ABOVE
    codes[count == 0] = NOT_FINITE
    codes[there == 0] = EMPTY
    return codes


def _mean(known: Floats) -> float | None:
    if not known.size:
        return None
    scale = float(np.abs(known).max())
    return float((known / scale).mean() * scale) if scale else 0.0


def _histogram(known: Floats, low: float, high: float) -> list[int]:
    if not known.size or not high > low or not math.isfinite(high - low):
        return []
    counts, _ = np.histogram(known, bins=BINS, range=(low, high))
    return [int(count) for count in counts]


def _by_cell(numbers: npt.NDArray[Any], sample: Sample, shape: Arrangement) -> Floats:
    """Sums over the cells. Each cell has at least one row and one column of the sample."""
    rows = np.searchsorted(sample.rows, shape.row_edges[:-1])
    columns = np.searchsorted(sample.columns, shape.column_edges[:-1])
    summed = np.add.reduceat(numbers.astype(np.float64), rows, axis=0)
    found: Floats = np.add.reduceat(summed, columns, axis=1)
    return found
