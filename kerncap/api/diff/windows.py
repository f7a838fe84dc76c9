"""A view of one side, read in boxes of indices; and what of memory means nothing to a launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from kerncap.format import Reproducer, WriteSet
from kerncap.format.memory_index import State
from kerncap.format.schema import View
from kerncap.replay.worker.native.dtypes import BITS, Number, as_parts
from kerncap.replay.worker.native.dtypes import number as element_type

BLOCK_BYTES = 2 << 20
MOST_MASKED = 128 << 20  # bytes of a region for which masks of a bool a byte are made


@dataclass(frozen=True)
class Window:
    """A view of one side, in elements that are known here (complex numbers as their parts)."""

    reproducer: Reproducer
    region: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    number: Number

    @classmethod
    def of(cls, reproducer: Reproducer, view: View) -> Window:
        parts = as_parts({
            "region": view.region, "offset": view.offset, "dtype": view.dtype, "itemsize": view.itemsize,
            "shape": list(view.shape), "strides": list(view.strides), "name": view.name,
        })  # fmt: skip
        return cls(
            reproducer,
            view.region,
            view.offset,
            tuple(parts["shape"]),
            tuple(parts["strides"]),
            element_type(parts),
        )

    def reach(self, start: tuple[int, ...], lengths: tuple[int, ...]) -> tuple[int, int, int]:
        """First byte, byte after the last, and the byte of the first element of a box of indices."""
        first = self.offset + self.number.itemsize * sum(
            i * stride for i, stride in zip(start, self.strides, strict=True)
        )
        spans = [(n - 1) * stride for n, stride in zip(lengths, self.strides, strict=True)]
        low = first + self.number.itemsize * sum(min(0, span) for span in spans)
        high = first + self.number.itemsize * (sum(max(0, span) for span in spans) + 1)
        return low, high, first

    def bits(self, state: State, start: tuple[int, ...], lengths: tuple[int, ...]) -> Any:
        """The elements of a box as unsigned integers of their size."""
        low, high, first = self.reach(start, lengths)
        data = np.frombuffer(self.reproducer.read(state, self.region, low, high - low), dtype=np.uint8)
        size = self.number.itemsize
        if data.size % size:  # strides are whole elements, so the extent is too
            data = data[: data.size // size * size]
        typed = data.view(BITS[size])
        strides = [stride * size for stride in self.strides]
        return np.lib.stride_tricks.as_strided(typed[(first - low) // size :], lengths, strides)

    def all_of(self, mask: Any, start: tuple[int, ...], lengths: tuple[int, ...]) -> Any:
        """For each element of a box whether ``mask`` (a bool for each byte of the region) holds all of it."""
        strides = [stride * self.number.itemsize for stride in self.strides]
        first = self.reach(start, lengths)[2]
        found = np.ones(lengths, dtype=bool)
        for byte in range(self.number.itemsize):
            found &= np.lib.stride_tricks.as_strided(mask[first + byte :], lengths, strides)
        return found


class Idle:
    """The bytes whose contents mean nothing to either launch, as both write sets were measured.

    Before it those that it overwrites without reading them, and in both states those that it leaves alone.
    """

    def __init__(self, a: Reproducer, b: Reproducer) -> None:
        self._sides = tuple((one, WriteSet.load(one)) for one in (a, b))
        self.known = all(written is not None for _, written in self._sides)
        self.of = lru_cache(maxsize=2)(self._of)

    def _of(self, state: State, first: int, second: int) -> tuple[Any, Any] | None:
        """A bool for each byte of both regions; None if it is not known of both."""
        masks = []
        for (one, written), region in zip(self._sides, (first, second), strict=True):
            size = one.manifest.regions[region].size
            if written is None or region not in written.regions or size > MOST_MASKED:
                return None
            packed = written.mask(region, "untouched")
            if state == "pre":
                packed = packed | (written.mask(region) & ~written.mask(region, "also_input"))
            masks.append(np.unpackbits(packed, bitorder="little")[:size].view(bool))
        return masks[0], masks[1]


class Chunks:
    """Tells by digests which ranges of two regions are equal; nothing is read for it."""

    def __init__(self, a: Reproducer, b: Reproducer) -> None:
        self._a, self._b = a, b
        self._step = a.index.chunk_bytes if a.index.chunk_bytes == b.index.chunk_bytes else 0
        self._of = lru_cache(maxsize=16)(self._differing)

    def same(self, state: State, a: tuple[int, int, int], b: tuple[int, int, int]) -> bool:
        """Whether two ranges (region, start, stop) lie in chunks that are equal one by one."""
        step = self._step
        if not step or a[1] % step != b[1] % step:
            return False
        differing = self._of(state, a[0], b[0], a[1] // step - b[1] // step)
        first, last = np.searchsorted(differing, [a[1] // step, -(-a[2] // step)])
        return bool(first == last)

    def spans(self, state: State, first: int, second: int, size: int) -> Iterator[tuple[int, int]]:
        """Ranges of at most a block that may differ, in the same places of both regions, ascending."""
        if not self._step:
            yield from ((at, min(size, at + BLOCK_BYTES)) for at in range(0, size, BLOCK_BYTES))
            return
        stride = max(BLOCK_BYTES, self._step)  # a chunk may be larger than a block
        for number in np.unique(self._of(state, first, second, 0) * self._step // stride):
            begin, end = int(number) * stride, min(size, (int(number) + 1) * stride)
            for at in range(begin, end, BLOCK_BYTES):
                yield at, min(end, at + BLOCK_BYTES)

    def _differing(self, state: State, first: int, second: int, shift: int) -> Any:
        """Numbers of A's chunks that are not equal to B's chunk ``shift`` before, ascending."""
        (chunks_a, digests_a), (chunks_b, digests_b) = (
            _digests(one, state, region) for one, region in ((self._a, first), (self._b, second))
        )
        chunks_b = chunks_b + shift
        both, at_a, at_b = np.intersect1d(chunks_a, chunks_b, assume_unique=True, return_indices=True)
        unequal = both[(digests_a[at_a] != digests_b[at_b]).any(axis=1)]
        return np.union1d(np.setxor1d(chunks_a, chunks_b, assume_unique=True), unequal)


def _digests(one: Reproducer, state: State, region: int) -> tuple[Any, Any]:
    """Numbers of a region's chunks that are not all zero, and their digests as four words each."""
    chunks, rows = one.index.nonzero(state, region)
    digests = np.ascontiguousarray(one.index.table["digest"][rows - 1])
    return chunks, digests.view(np.uint64).reshape(-1, 4)


Reach = tuple[int, int]


def blocks(
    shape: tuple[int, ...], a: Window, b: Window, equal: Callable[[Reach, Reach], bool]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Boxes (start, lengths) of which neither side spans more than a block; not those that are ``equal``."""
    if 0 in shape:
        return
    waiting = [((0,) * len(shape), shape)]
    while waiting:
        start, lengths = waiting.pop()
        spans = [side.reach(start, lengths)[:2] for side in (a, b)]
        if equal(*spans):
            continue
        if max(high - low for low, high in spans) <= BLOCK_BYTES or math.prod(lengths) == 1:
            yield start, lengths
            continue
        weight = [
            (n - 1) * max(abs(x), abs(y)) for n, x, y in zip(lengths, a.strides, b.strides, strict=True)
        ]
        axis = weight.index(max(weight))
        half = lengths[axis] // 2
        for begin, length in ((half, lengths[axis] - half), (0, half)):  # the last one in is the first out
            waiting.append((
                (*start[:axis], start[axis] + begin, *start[axis + 1 :]),
                (*lengths[:axis], length, *lengths[axis + 1 :]),
            ))  # fmt: skip
