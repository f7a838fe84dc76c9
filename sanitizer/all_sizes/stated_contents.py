"""Contents that fit what was stated of them, made up by the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kerncap.sanitizer.launch import Unwritten
from kerncap.sanitizer.paged_bytes import Bytes, PagedBytes, Run

_PAGE = 1 << 16
_MIX = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class Described:
    """Integers in a storage: each in ``span``, those at the byte offsets in ``values`` as given."""

    size_bytes: int
    itemsize: int
    dtype: str
    span: tuple[int, int]
    values: Mapping[int, int]

    def fill(self, runs: Sequence[Run], data: Bytes) -> None:
        low, high = self.span
        for start, end in runs:
            first, last = -(-start // self.itemsize), end // self.itemsize
            index = np.arange(first, last, dtype=np.uint64)
            mixed = (index * np.uint64(_MIX)) >> np.uint64(20)
            numbers = (mixed % np.uint64(max(1, high - low + 1))).astype(np.int64) + np.int64(low)
            for offset, value in self.values.items():
                if offset % self.itemsize == 0 and first <= offset // self.itemsize < last:
                    numbers[offset // self.itemsize - first] = value
            stored = numbers.astype(f"i{self.itemsize}").view(np.uint8)
            data[first * self.itemsize : last * self.itemsize] = stored


class MadeUp:
    """Of storages by their position; nothing is known of the others."""

    def __init__(self, held: Mapping[int, Described]) -> None:
        self._held = held
        self._read: dict[int, PagedBytes] = {}

    def read(self, storage: int) -> PagedBytes | None:
        described = self._held.get(storage)
        if described is None:
            return None
        if storage not in self._read:
            self._read[storage] = PagedBytes.fetched(described.size_bytes, described.fill, _PAGE)
        return self._read[storage]

    def unwritten(self, storage: int) -> Unwritten | None:
        return None
