"""Shared memory of several blocks: floats where they were stored, with their type, and the bytes of integers.

What is read as another type than it was stored as, and what nobody stored, is not modelled.
"""

from __future__ import annotations

import numpy as np

from kerncap.sanitizer.equality.degrees import Degree, widest
from kerncap.sanitizer.equality.numbers import Ints, NotModelled, Numbers
from kerncap.sanitizer.equality.ptx.values import FLOATS, INTEGER, Value, packed

_UNSET, _INSIDE, _BYTE, _COPIED_TO = 0, 1, 2, 255
# Types of floats by their tag, with the bytes of each.
_TYPES = {3 + at: (kind, one.width // 8) for at, (kind, one) in enumerate(FLOATS.items())}
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
        self._bytes = np.zeros(blocks * size, dtype=np.uint8)
        self._degree_of = np.zeros(blocks * size, dtype=np.int32)
        self._degrees = [Degree()]
        self._loaded = np.zeros(blocks * size, dtype=np.int32)  # see `Value`; numbers plus one

    def load(self, at: Ints, width: int) -> Value:
        """Elements of ``width`` bytes; ``at``: their first bytes, of all blocks one after another."""
        tags = self._tags[at]
        if (tags == _COPIED_TO).any():
            raise NotModelled("shared memory to which a copy goes on")
        if (tags == _UNSET).any():
            raise NotModelled("shared memory that no thread stored to")
        kind, size = _TYPES.get(int(tags[0]), ("", 0))
        if tags[0] == _BYTE:
            kind, size = INTEGER, width
        if not size or size > width or (tags != tags[0]).any():
            raise NotModelled("shared memory that holds numbers of other types")
        if size < width:
            return packed(tuple(self.load(at + part, size) for part in range(0, width, size)))
        for inner in range(1, width):
            if (self._tags[at + inner] != (_BYTE if kind == INTEGER else _INSIDE)).any():
                raise NotModelled("shared memory that holds numbers of other types")
        if kind != INTEGER:
            return Value(kind, self._numbers[at], self._widest(at))
        bits = np.zeros(len(at), dtype=np.uint64)
        for inner in range(width):
            bits |= self._bytes[at + inner].astype(np.uint64) << np.uint64(8 * inner)
        every = (at[:, None] + np.arange(width)).reshape(-1)
        first = int(self._loaded[every[0]])
        known = first and (self._loaded[every] == first).all()
        return Value(INTEGER, bits, self._widest(every), loaded=first - 1 if known else None)

    def _widest(self, at: Ints) -> Degree:
        met = np.zeros(len(self._degrees), dtype=np.bool_)
        met[self._degree_of[at]] = True
        return widest(self._degrees[one] for one in np.flatnonzero(met))

    def begin(self, at: Ints, width: int) -> None:
        """A copy to these."""
        self._no_copies(at, width)
        for inner in range(width):
            self._tags[at + inner] = _COPIED_TO

    def end(self, at: Ints, value: Value, width: int) -> None:
        for inner in range(width):
            self._tags[at + inner] = _UNSET
        self.store(at, value, width)

    def _no_copies(self, at: Ints, width: int) -> None:
        if any((self._tags[at + inner] == _COPIED_TO).any() for inner in range(width)):
            raise NotModelled("shared memory to which a copy goes on")

    def store(self, at: Ints, value: Value, width: int) -> None:
        """``value``: one entry for each place, or one for all."""
        self._no_copies(at, width)
        if value.parts:
            part = width // len(value.parts)
            for number, one in enumerate(value.parts):
                self.store(at + number * part, one, part)
            return
        if self._degrees[-1] != value.degree:
            self._degrees.append(value.degree)
        if value.kind == INTEGER:
            for inner in range(width):
                self._tags[at + inner] = _BYTE
                self._bytes[at + inner] = (value.data >> np.uint64(8 * inner)).astype(np.uint8)
                self._loaded[at + inner] = 0 if value.loaded is None else value.loaded + 1
                self._degree_of[at + inner] = len(self._degrees) - 1
            return
        tag = _TAGS.get((value.kind, width))
        if tag is None:
            raise NotModelled(f"{value.kind} in {width} bytes of shared memory")
        self._tags[at] = tag
        for inner in range(1, width):
            self._tags[at + inner] = _INSIDE
        self._numbers[at] = value.data
        self._degree_of[at] = len(self._degrees) - 1
