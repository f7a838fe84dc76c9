"""The bytes of a launch's storages, read and written in the process that has them.

What nothing backs was never touched and reads as zeros. It is not looked at: that would back it.
"""

from __future__ import annotations

import bisect
import ctypes
import itertools
import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple

from .. import torch_device
from . import backed_pages, fresh_memory
from .arguments import Place

SPARSE_FROM = 16 << 20  # bytes: smaller storages are not worth the look


class Reader:
    """Reads storages by index. What can't be read now (a graph is captured) is None."""

    def __init__(self, places: List[Place]) -> None:
        self._places = places
        self._backed: Dict[int, List[Tuple[int, int]]] = {}

    @property
    def count(self) -> int:
        return len(self._places)

    def size(self, storage: int) -> int:
        return self._places[storage].size

    def windows(self, storage: int, start: int, end: int) -> Iterator[Tuple[int, int, Optional[Any]]]:
        """[low, high) of [start, end) that memory backs, each with its bytes (a copy of a device's).

        None in place of the bytes if they are not available. Nothing to read gives one empty window.
        """
        place = self._places[storage]
        if place.size == 0 or place.address == 0 or start >= end:
            if place.device.type == "cpu" or not place.size or _on_device(place) is not None:
                yield start, start, bytearray()
            else:
                yield start, start, None
        elif place.device.type != "cpu":
            yield start, end, _from_device(place, start, end)
        else:
            for low, high in self._backed_within(storage, start, end):
                yield low, high, (ctypes.c_char * (high - low)).from_address(place.address + low)

    def backed(self, storage: int) -> List[Tuple[int, int]]:
        """[start, end) of the bytes that memory backs, in order, as it was when this was first asked."""
        found = self._backed.get(storage)
        if found is None:
            found = self._backed[storage] = self._ranges(self._places[storage])
        return found

    def _ranges(self, place: Place) -> List[Tuple[int, int]]:
        if place.size < SPARSE_FROM or place.device.type != "cpu":
            return [(0, place.size)]
        try:
            return backed_pages.ranges(place.address, place.size)
        except OSError:  # no /proc here
            return [(0, place.size)]

    def _backed_within(self, storage: int, start: int, end: int) -> Iterator[Tuple[int, int]]:
        backed = self.backed(storage)
        at = max(bisect.bisect_right(backed, (start, sys.maxsize)) - 1, 0)
        for low, high in itertools.islice(backed, at, None):
            if low >= end:
                return
            if high > start:
                yield max(low, start), min(high, end)

    def target(self, storage: int, offset: int, size: int) -> Any:
        """Bytes of a CPU tensor's memory to be written. ValueError beyond the storage's end."""
        place = self._places[storage]
        if offset < 0 or size < 0 or offset + size > place.size or place.device.type != "cpu":
            raise ValueError(f"{size} bytes at {offset} of a storage of {place.size} on {place.device}")
        return (ctypes.c_char * size).from_address(place.address + offset)

    def write(self, storage: int, offset: int, data: Any) -> None:
        """Carries a change out. ValueError beyond the storage's end."""
        source = memoryview(data).cast("B")
        memoryview(self.target(storage, offset, len(source))).cast("B")[:] = source

    def pattern(self, storage: int) -> Optional[bytes]:
        """The 8 bytes that the storage was filled with when it was allocated, as far as it was backed.

        None: it was not; empty: too much of it is backed to be looked through.
        """
        place = self._places[storage]
        pattern = fresh_memory.pattern_of(place.holders, place.address, place.size)
        if pattern and place.device.type == "cpu":
            held = sum(end - start for start, end in self.backed(storage))
            return pattern if held <= fresh_memory.MAX_FILL["cpu"] else fresh_memory.NOT_FILLED
        return pattern


def _on_device(place: Place) -> Optional[Any]:
    """The storage's bytes as a tensor; None if they can't be read now."""
    torch: Any = sys.modules["torch"]
    try:
        holder = place.holders[0]
        # Of storages that were merged none may reach over all of it, and `set_` would make it larger.
        whole = holder.data_ptr() == place.address and holder.nbytes() >= place.size
        if not whole or torch_device.is_capturing():
            return None
        with torch_device.quiet():
            window = torch.empty(0, dtype=torch.uint8, device=place.device)
            window.set_(holder, 0, (place.size,), (1,))
        return window
    except Exception:
        return None  # what depends on these bytes is then unproven


def _from_device(place: Place, start: int, end: int) -> Optional[Any]:
    try:
        window = _on_device(place)
        if window is None:
            return None
        with torch_device.quiet():
            host = window[start:end].cpu()
        data = bytearray(end - start)
        ctypes.memmove((ctypes.c_char * len(data)).from_buffer(data), host.data_ptr(), len(data))
        return data
    except Exception:
        return None
