"""How a view of any rank becomes a picture of bounded size, and which of its elements are read for it.

A view can have more elements than memory could hold (a stride of 0 costs nothing), so every count here is
bounded before anything is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kerncap.format.schema import View

MAX_CELLS_HIGH = 128
MAX_CELLS_WIDE = 128
_FLAT_RATIO = 24  # wider than this many times its height: wrapped, if it is contiguous
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Arrangement:
    """``rows`` by ``columns`` elements, shown as ``high`` by ``wide`` cells.

    ``wrapped``: the elements in their order in memory, a row after the other; else the last dimension goes
    across and all others down. The picture's last row may be short when it is wrapped.
    """

    rows: int
    columns: int
    high: int
    wide: int
    wrapped: bool
    elements: int

    @property
    def row_edges(self) -> Numbers:
        """Cell i shows the rows from edge i up to edge i + 1."""
        return _edges(self.rows, self.high)

    @property
    def column_edges(self) -> Numbers:
        return _edges(self.columns, self.wide)

    def chosen(self, most_rows: int, most_columns: int) -> tuple[Numbers, Numbers]:
        """Rows and columns whose crossings are read: all, or an even part of each cell."""
        columns = _choose(self.column_edges, self.columns, most_columns)
        rows = _choose(self.row_edges, self.rows, max(self.high, most_rows))
        return rows, columns


def arrange(view: View) -> Arrangement | None:
    """None for a view that has no elements."""
    elements = math.prod(view.shape)
    if not elements:
        return None
    columns = view.shape[-1] if view.shape else 1
    rows = elements // columns
    wrapped = is_contiguous(view) and (columns > _FLAT_RATIO * rows)
    if wrapped and elements > MAX_CELLS_WIDE:
        columns = _width(elements)
        rows = -(-elements // columns)
    else:
        wrapped = False
    return Arrangement(
        rows, columns, _cells(rows, MAX_CELLS_HIGH), _cells(columns, MAX_CELLS_WIDE), wrapped, elements
    )


def is_contiguous(view: View) -> bool:
    """Whether the elements are contiguous, in the order of their indices."""
    expected = 1
    for extent, stride in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if extent != 1 and stride != expected:
            return False
        expected *= extent
    return True


def row_offset(view: View, row: int) -> int:
    """Elements from the view's first one to the first of a row (not wrapped)."""
    offset = 0
    for extent, stride in zip(reversed(view.shape[:-1]), reversed(view.strides[:-1]), strict=True):
        row, index = divmod(row, extent)
        offset += index * stride
    return offset


def index_of(shape: Sequence[int], number: int) -> tuple[int, ...]:
    """The index of the element that is ``number`` in the order of indices."""
    found = []
    for extent in reversed(shape):
        number, index = divmod(number, extent)
        found.append(index)
    return tuple(reversed(found))


def _width(elements: int) -> int:
    """A power of two, somewhat wider than high."""
    return int(2 ** math.ceil(math.log2(max(2.0, math.sqrt(elements) * 1.3))))


def _cells(count: int, most: int) -> int:
    """So many that all but the last show equally many elements."""
    return -(-count // -(-count // most))


def _edges(count: int, cells: int) -> Numbers:
    each = -(-count // cells)
    return np.array([min(count, cell * each) for cell in range(cells + 1)], dtype=np.int64)


def _choose(edges: Numbers, count: int, most: int) -> Numbers:
    if count <= most:
        return np.arange(count, dtype=np.int64)
    each = max(1, most // (len(edges) - 1))
    starts, sizes = edges[:-1, None], np.diff(edges)[:, None]
    steps = np.arange(each, dtype=np.float64)[None, :] / each
    ascending = (starts + np.floor(steps * sizes).astype(np.int64)).ravel()
    chosen: Numbers = ascending[np.append(True, np.diff(ascending) > 0)]  # a short cell names some twice
    return chosen
