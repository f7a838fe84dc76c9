"""Which elements of a view are read for its picture, and how: never more than a bounded number of bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncap.format import Reproducer
from kerncap.format.memory_index import State
from kerncap.format.schema import View
from kerncap.format.validate import view_bounds
from kerncap.report.html.heat_cells import Arrangement, Numbers, row_offset

MAX_ELEMENTS = 1 << 21  # of one picture
_WHOLE_BYTES = 16 << 20  # a view that spans no more is read in one piece
_ROW_BYTES = 8 << 20  # of a longer row, one element a cell
_BUDGET_BYTES = 192 << 20  # of rows that are read for a picture
_MOST_COLUMNS = 4096
Bytes = npt.NDArray[np.uint8]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Sample:
    """Elements of a view in one state: their bytes as (row, column, byte); ``valid`` those that exist."""

    raw: Bytes
    rows: Numbers
    columns: Numbers
    valid: Bools


def is_unchanged(reproducer: Reproducer, view: View) -> bool:
    """Whether the launch changed no chunk of the view."""
    bounds = view_bounds(view)
    if bounds is None:
        return True
    step = reproducer.index.chunk_bytes
    first, last = bounds[0] // step, -(-bounds[1] // step)
    return not any(first <= chunk < last for chunk in reproducer.chunks_changed(view.region))


def read_sample(reproducer: Reproducer, state: State, view: View, shape: Arrangement) -> Sample:
    """The elements of the picture; all of them if they are few enough. Raises FormatError."""
    bounds = view_bounds(view)
    if bounds is None:
        raise ValueError("a view of no elements")
    first, last = bounds
    row_bytes = (shape.columns - 1) * abs(_column_stride(view, shape)) * view.itemsize + view.itemsize
    if last - first <= _WHOLE_BYTES:
        columns = min(shape.columns, max(_MOST_COLUMNS, MAX_ELEMENTS // shape.rows))
        rows, columns_chosen = shape.chosen(MAX_ELEMENTS // columns, columns)
        whole = np.frombuffer(reproducer.read(state, view.region, first, last - first), dtype=np.uint8)
        return _from_whole(whole, first, view, shape, rows, columns_chosen)
    if row_bytes <= _ROW_BYTES:
        rows, columns_chosen = shape.chosen(min(8 * shape.high, _BUDGET_BYTES // row_bytes), _MOST_COLUMNS)
    else:
        rows, columns_chosen = shape.chosen(shape.high, shape.wide)
    return _from_rows(reproducer, state, view, shape, rows, columns_chosen)


def _offsets(view: View, shape: Arrangement, rows: Numbers) -> Numbers:
    """Byte of the first element of each row, in the region."""
    if shape.wrapped:
        return view.offset + rows * shape.columns * view.itemsize
    found = [view.offset + row_offset(view, int(row)) * view.itemsize for row in rows]
    return np.array(found, dtype=np.int64)


def _column_stride(view: View, shape: Arrangement) -> int:
    return 1 if shape.wrapped or not view.strides else view.strides[-1]


def _valid(shape: Arrangement, rows: Numbers, columns: Numbers) -> Bools:
    return rows[:, None] * shape.columns + columns[None, :] < shape.elements


def _from_whole(
    whole: Bytes, first: int, view: View, shape: Arrangement, rows: Numbers, columns: Numbers
) -> Sample:
    valid = _valid(shape, rows, columns)
    starts = _offsets(view, shape, rows) - first
    places = starts[:, None] + columns[None, :] * (_column_stride(view, shape) * view.itemsize)
    places[~valid] = 0
    raw = np.empty((*places.shape, view.itemsize), dtype=np.uint8)
    for byte in range(view.itemsize):
        raw[..., byte] = whole[places + byte]
    return Sample(raw, rows, columns, valid)


def _from_rows(
    reproducer: Reproducer, state: State, view: View, shape: Arrangement, rows: Numbers, columns: Numbers
) -> Sample:
    """Row by row, and the part of a row in one chunk at once; zero chunks are not read."""
    valid = _valid(shape, rows, columns)
    raw = np.zeros((len(rows), len(columns), view.itemsize), dtype=np.uint8)
    places = columns * (_column_stride(view, shape) * view.itemsize)
    step, within = reproducer.index.chunk_bytes, np.arange(view.itemsize)
    stored, _ = reproducer.index.nonzero(state, view.region)
    for number, start in enumerate(_offsets(view, shape, rows)):
        there = np.flatnonzero(valid[number])
        wanted = places[there] + int(start)
        holds = np.isin(wanted // step, stored) | np.isin((wanted + view.itemsize - 1) // step, stored)
        there, wanted = there[holds], wanted[holds]
        for group in np.split(np.arange(len(wanted)), np.flatnonzero(np.diff(wanted // step)) + 1):
            if len(group):
                near = wanted[group]
                low, high = int(near.min()), int(near.max()) + view.itemsize
                piece = np.frombuffer(reproducer.read(state, view.region, low, high - low), dtype=np.uint8)
                raw[number, there[group]] = piece[(near - low)[:, None] + within]
    return Sample(raw, rows, columns, valid)
