"""Loads and stores of Triton's interpreter by the array, in this process only.

Triton's own take some 20 ns for each lane, half of a launch. Lanes that lie one after the other are one copy
here, and others one gather or scatter; what neither fits goes to Triton's own, so that no result and no fault
changes. Seen with Triton 3.6 and 3.9.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
from triton.runtime import interpreter

_WORDS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
# User space, without a part of the first page: for address 0 NumPy would allocate memory of its own.
_BASE, _LIMIT = 64, 1 << 47
_bytes: Any = (ctypes.c_ubyte * (_LIMIT - _BASE)).from_address(_BASE)
_CELLS = {size: np.frombuffer(_bytes, dtype=word) for size, word in _WORDS.items()}

Place = slice | npt.NDArray[np.int64]


class Memory:
    """Stands for Triton's native module; everything but plain loads and stores is Triton's own."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def load(self, pointers: Any, mask: Any, other: Any, dtype: Any) -> Any:
        """What is in memory for lanes of ``mask``, and ``other`` for the rest."""
        found = _loaded(pointers, mask, other, np.dtype(dtype))
        return self._own.load(pointers, mask, other, dtype) if found is None else found

    def store(self, pointers: Any, value: Any, mask: Any) -> None:
        """Write the lanes of ``mask``, of those with one address the last."""
        if not _stored(pointers, value, mask):
            self._own.store(pointers, value, mask)


def install() -> None:
    """Put it in the place of Triton's, once."""
    if not isinstance(interpreter._interpreter, Memory):
        interpreter._interpreter = Memory(interpreter._interpreter)


def _loaded(pointers: Any, mask: Any, other: Any, dtype: np.dtype[Any]) -> Any:
    """The values; None for what only Triton's own can do."""
    if not _alike(pointers, mask, other) or other.dtype.itemsize != dtype.itemsize:
        return None
    word = _WORDS[dtype.itemsize]
    if mask.all():
        place = _place(pointers.reshape(-1), dtype.itemsize)
        if place is None:
            return None
        found = _CELLS[dtype.itemsize][place]
        if isinstance(place, slice):
            found = found.copy()
    else:
        found = other.reshape(-1).view(word).copy()
        if len(lanes := np.flatnonzero(mask)):
            place = _place(pointers.reshape(-1)[lanes], dtype.itemsize)
            if place is None:
                return None
            found[lanes] = _CELLS[dtype.itemsize][place]
    return found.view(dtype).reshape(pointers.shape)


def _stored(pointers: Any, value: Any, mask: Any) -> bool:
    """Whether it was done."""
    if not _alike(pointers, mask, value):
        return False
    flat, values = pointers.reshape(-1), value.reshape(-1).view(_WORDS[value.dtype.itemsize])
    if not mask.all():
        lanes = np.flatnonzero(mask)
        flat, values = flat[lanes], values[lanes]
    if not len(flat):
        return True
    place = _place(flat, value.dtype.itemsize)
    # NumPy does not say which of two values for one place is the last.
    if place is None or not isinstance(place, slice) and not (place[1:] > place[:-1]).all():
        return False
    _CELLS[value.dtype.itemsize][place] = values
    return True


def _alike(pointers: Any, mask: Any, values: Any) -> bool:
    """Whether these are whole arrays of one shape, of addresses, flags and words."""
    return (
        pointers.size > 0
        and pointers.shape == mask.shape == values.shape
        and pointers.dtype == np.uint64
        and mask.dtype == np.bool_
        and values.dtype.itemsize in _WORDS
    )


def _place(pointers: npt.NDArray[np.uint64], size: int) -> Place | None:
    """The cells of ``size`` bytes at these addresses; None if they are no such cells."""
    first, last, count = int(pointers[0]), int(pointers[-1]), len(pointers)
    if first % size:
        return None
    in_a_row = last - first == (count - 1) * size and (pointers[1:] - pointers[:-1] == size).all()
    if (first if in_a_row else int(pointers.min())) < _BASE:
        return None
    if (last if in_a_row else int(pointers.max())) > _LIMIT - size:
        return None
    if in_a_row:
        cell = (first - _BASE) // size
        return slice(cell, cell + count)
    if (pointers & (size - 1)).any():
        return None
    return ((pointers - _BASE) >> size.bit_length() - 1).view(np.int64)
