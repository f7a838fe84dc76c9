"""Memory as the solver reads it: integers at byte offsets of a launch's storages, before the launch."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.launch import Bytes, DescriptorArgument, Launch, TensorArgument
from kerncap.sanitizer.symbolic.expr import Buffer

Values = npt.NDArray[Any]

_LITTLE = np.dtype("<i8")


class ContentsSource:
    """The `symbolic.solve.ReadSource` of one launch, over ``launch.contents``.

    A storage is fetched at most once, and only when something asks for it. Nothing here sees what the
    launch itself stores: a `read` is a value from before it.
    """

    def __init__(self, launch: Launch) -> None:
        self._launch = launch
        self._bytes: dict[int, Bytes | None] = {}
        self._bounds: dict[Buffer, tuple[int, int] | None] = {}

    def values(self, buffer: Buffer, offsets: npt.NDArray[np.int64]) -> Values | None:
        """Values at byte ``offsets`` from the storage's start, of the same shape.

        Offsets need no alignment; one that leaves the storage is moved to its nearest end (the caller
        knows that it is out of bounds, and the value does not matter). 1-bit buffers give booleans, the
        others int64; an unsigned 64-bit buffer gives Python integers (object) where one needs it.
        None where the contents are not available.
        """
        data = self._contents(buffer.storage)
        if data is None:
            return None
        wanted = np.asarray(offsets, dtype=np.int64)
        if data.size < buffer.itemsize:
            return np.zeros(wanted.shape, np.bool_ if buffer.bits == 1 else np.int64)
        starts = np.clip(wanted, 0, data.size - buffer.itemsize)
        # One gather per byte of the item: any offset will do, and nothing is copied but what is asked for.
        items = np.zeros((*wanted.shape, 8), np.uint8)
        for byte in range(buffer.itemsize):
            items[..., byte] = data[starts + byte]
        return _integers(items.view(_LITTLE)[..., 0], buffer)

    def bounds(self, buffer: Buffer) -> tuple[int, int] | None:
        """Least and greatest value in the storage, read at the alignments that its tensors have.

        A read at another alignment is a finding of the alignment check already. None where the contents
        are not available.
        """
        if buffer not in self._bounds:
            self._bounds[buffer] = self._find_bounds(buffer)
        return self._bounds[buffer]

    def _contents(self, storage: int) -> Bytes | None:
        if storage not in self._bytes:
            data = self._launch.contents.read(storage)
            flat = None if data is None else np.ascontiguousarray(data).view(np.uint8).reshape(-1)
            self._bytes[storage] = flat
        return self._bytes[storage]

    def _find_bounds(self, buffer: Buffer) -> tuple[int, int] | None:
        data = self._contents(buffer.storage)
        if data is None:
            return None
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
        ends = self.values(buffer, np.array(sorted(starts), np.int64))
        assert ends is not None  # there are contents
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
