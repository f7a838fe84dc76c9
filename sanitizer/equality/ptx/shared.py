"""Shared memory of several blocks: each number where it was stored, with its type.

What is read as another type than it was stored as, and what nobody stored, is not modelled.
"""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.equality.degrees import Degree, widest
from kerncap.sanitizer.equality.numbers import Array, Ints, NotModelled, Numbers
from kerncap.sanitizer.equality.ptx.values import FLOATS, INTEGER, Value, packed

_UNSET, _INSIDE = 0, 1
# Types by their tag, with the bytes of each.
_TYPES = {
    2: (INTEGER, 1), 3: (INTEGER, 2), 4: (INTEGER, 4), 5: (INTEGER, 8),
    **{6 + at: (kind, one.width // 8) for at, (kind, one) in enumerate(FLOATS.items())},
}  # fmt: skip
_TAGS = {kind: tag for tag, kind in _TYPES.items()}
MOST_BYTES = 256 << 10  # of a block


class SharedMemory:
    """``size``: bytes of one block's."""

    def __init__(self, blocks: int, size: int, numbers: Numbers) -> None:
        if size > MOST_BYTES:
            raise NotModelled(f"{size:,} bytes of shared memory")
        self.size = size
        self._tags = np.zeros(blocks * size, dtype=np.uint8)
        self._numbers = np.zeros(blocks * size, dtype=numbers.dtype)
        self._bits = np.zeros(blocks * size, dtype=np.uint64)
        self._degree_of = np.zeros(blocks * size, dtype=np.int32)
        self._degrees = [Degree()]

    def load(self, at: Ints, width: int) -> Value:
        """Elements of ``width`` bytes; ``at``: their first bytes, of all blocks one after another."""
        tags = self._tags[at]
        if (tags == _UNSET).any():
            raise NotModelled("shared memory that no thread stored to")
        kind, size = _TYPES.get(int(tags[0]), ("", 0))
        if not size or size > width or (tags != tags[0]).any():
            raise NotModelled("shared memory that holds numbers of other types")
        if size < width:
            return packed(tuple(self.load(at + part, size) for part in range(0, width, size)))
        for inner in range(1, width):
            if (self._tags[at + inner] != _INSIDE).any():
                raise NotModelled("shared memory that holds numbers of other types")
        met = np.zeros(len(self._degrees), dtype=np.bool_)
        met[self._degree_of[at]] = True
        degree = widest(self._degrees[one] for one in np.flatnonzero(met))
        return Value(kind, (self._bits if kind == INTEGER else self._numbers)[at], degree)

    def store(self, at: Ints, value: Value, width: int) -> None:
        """``value``: one entry for each place, or one for all."""
        if value.parts:
            part = width // len(value.parts)
            for number, one in enumerate(value.parts):
                self.store(at + number * part, one, part)
            return
        tag = _TAGS.get((value.kind, width))
        if tag is None:
            raise NotModelled(f"{value.kind} in {width} bytes of shared memory")
        self._tags[at] = tag
        for inner in range(1, width):
            self._tags[at + inner] = _INSIDE
        where: Array = self._bits if value.kind == INTEGER else self._numbers
        where[at] = value.data
        if self._degrees[-1] != value.degree:
            self._degrees.append(value.degree)
        self._degree_of[at] = len(self._degrees) - 1
