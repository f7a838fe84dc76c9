"""Memory as the solver reads it: integers at byte offsets of a launch's storages, before the launch."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.launch import DescriptorArgument, Launch, TensorArgument
from kerncap.sanitizer.paged_bytes import Bytes, NotReadable, PagedBytes
from kerncap.sanitizer.symbolic.expr import Buffer
from kerncap.sanitizer.symbolic.node import Interval

Values = npt.NDArray[Any]

_LITTLE = np.dtype("<i8")
MOST_LOOKED_THROUGH = 64 << 20  # bytes, for the least and the greatest value


class ContentsSource:
    """The `symbolic.solve.ReadSource` of one launch, over ``launch.contents``.

    Nothing here sees what the
    launch itself stores: a `read` is a value from before it.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._bounds: dict[tuple[Buffer, int, int], tuple[int, int] | None] = {}

    def values(self, buffer: Buffer, offsets: npt.NDArray[np.int64]) -> Values | None:
        """Values at byte ``offsets`` from the storage's start, of the same shape.

        Offsets need no alignment; one that leaves the storage is moved to its nearest end (the caller
        knows that it is out of bounds, and the value does not matter). 1-bit buffers give booleans, the
        others int64; an unsigned 64-bit buffer gives Python integers (object) where one needs it.
        None where the contents are not available.
        """
        contents = self._launch.contents.read(buffer.storage)
        if contents is None:
            return None
        data = contents.data[: contents.size]
        wanted = np.asarray(offsets, dtype=np.int64)
        if data.size < buffer.itemsize:
            return np.zeros(wanted.shape, np.bool_ if buffer.bits == 1 else np.int64)
        starts = np.clip(wanted, 0, data.size - buffer.itemsize)
        try:
            contents.need(starts, buffer.itemsize)
        except NotReadable:
            return None
        # One gather per byte of the item: any offset will do, and nothing is copied but what is asked for.
        items = np.zeros((*wanted.shape, 8), np.uint8)
        for byte in range(buffer.itemsize):
            items[..., byte] = data[starts + byte]
        return _integers(items.view(_LITTLE)[..., 0], buffer)

    def bounds(self, buffer: Buffer, offsets: Interval = (None, None)) -> tuple[int, int] | None:
        """Least and greatest value in the storage, read at the alignments that its tensors have.

        A read at another alignment is a finding of the alignment check already. Of a large storage only what
        begins at ``offsets``. None where the contents are not available, and where that is much.
        """
        contents = self._launch.contents.read(buffer.storage)
        if contents is None:
            return None
        start, end = 0, contents.size
        if end > MOST_LOOKED_THROUGH:
            last = end - buffer.itemsize
            low, high = (at if at is None else min(max(at, 0), last) for at in offsets)
            if low is None or high is None or high - low > MOST_LOOKED_THROUGH:
                return None
            start, end = low // buffer.itemsize * buffer.itemsize, min(high + 2 * buffer.itemsize, end)
        key = (buffer, start, end)
        if key not in self._bounds:
            self._bounds[key] = self._find_bounds(buffer, contents, start, end)
        return self._bounds[key]

    def _find_bounds(
        self, buffer: Buffer, contents: PagedBytes, start: int, end: int
    ) -> tuple[int, int] | None:
        try:
            contents.need_range(start, end)
        except NotReadable:
            return None
        data = contents.data[start:end]
        lows: list[int] = []
        highs: list[int] = []
        starts = {0, max(0, data.size - buffer.itemsize)}  # the second: where `values` moves what is beyond
        for phase in self._phases(buffer):
            items = (data.size - phase) // buffer.itemsize
            if items <= 0:
                continue
            values = _plain(data[phase : phase + items * buffer.itemsize], buffer)
            lows.append(int(values.min()))
            highs.append(int(values.max()))
        ends = self.values(buffer, np.array(sorted(starts), np.int64) + start)
        assert ends is not None  # they are there
        lows += [int(value) for value in ends]
        highs += [int(value) for value in ends]
        return min(lows), max(highs)

    def _phases(self, buffer: Buffer) -> set[int]:
        """Where in an item's width the tensors of the storage begin; nearly always only 0."""
        start = self._launch.storages[buffer.storage].address
        tensors = (
            argument.tensor if isinstance(argument, DescriptorArgument) else argument
            for argument in self._launch.arguments
            if isinstance(argument, (TensorArgument, DescriptorArgument))
        )
        own = (one.address for one in tensors if one.storage == buffer.storage)
        return {0} | {(address - start) % buffer.itemsize for address in own}


def _plain(data: Bytes, buffer: Buffer) -> Values:
    """Adjacent items as an array of the buffer's type; ``data`` holds a whole number of them."""
    if buffer.itemsize in (1, 2, 4, 8) and buffer.bits in (1, 8 * buffer.itemsize):
        sign = "i" if buffer.signed else "u"
        values = data.view(np.dtype(f"<{sign}{buffer.itemsize}"))
        return values != 0 if buffer.bits == 1 else values
    items = np.zeros((data.size // buffer.itemsize, 8), np.uint8)
    items[:, : buffer.itemsize] = data.reshape(-1, buffer.itemsize)
    return _integers(items.view(_LITTLE)[..., 0], buffer)


def _integers(raw: npt.NDArray[np.int64], buffer: Buffer) -> Values:
    """Zero-extended items as the buffer's integers."""
    native: Values = raw if sys.byteorder == "little" else raw.astype(np.int64)
    result: Values = native
    if buffer.bits == 1:
        result = native != 0
    elif buffer.bits < 64:
        result = native & np.int64((1 << buffer.bits) - 1)
        if buffer.signed:
            top = np.int64(1 << (buffer.bits - 1))
            result = (result ^ top) - top
    elif not buffer.signed and (native < 0).any():
        result = native.astype(np.uint64).astype(object)
    return result
