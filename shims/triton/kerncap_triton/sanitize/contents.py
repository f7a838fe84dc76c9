"""The bytes of a launch's storages, read and written in the process that has them."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, List, Optional, Tuple

from .. import cuda
from . import fresh, resident
from .arguments import Place

SPARSE_FROM = 16 << 20  # bytes: smaller storages are not worth the look


class Reader:
    """Reads storages by index. What can't be read now (a graph is captured) is None."""

    def __init__(self, places: List[Place]) -> None:
        self._places = places

    @property
    def count(self) -> int:
        return len(self._places)

    def size(self, storage: int) -> int:
        return self._places[storage].size

    def read(self, storage: int) -> Optional[Any]:
        """A private copy (bytes-like); None where it is not to be had."""
        place = self._places[storage]
        if place.size == 0 or place.address == 0:
            return bytearray()
        if place.device.type == "cpu":
            data = bytearray(place.size)  # pages that nothing is copied to are backed by nothing
            copy = (ctypes.c_char * place.size).from_buffer(data)
            for start, end in self.held(storage):
                ctypes.memmove(ctypes.addressof(copy) + start, place.address + start, end - start)
            return data
        return _from_device(place)

    def held(self, storage: int) -> List[Tuple[int, int]]:
        """[start, end) of the bytes that memory backs; all others are zeros that nobody has touched yet."""
        place = self._places[storage]
        if place.size < SPARSE_FROM or place.device.type != "cpu":
            return [(0, place.size)]
        try:
            return resident.ranges(place.address, place.size)
        except OSError:  # no /proc here
            return [(0, place.size)]

    def window(self, storage: int) -> Optional[Any]:
        """The bytes themselves on the CPU, a copy of a device's; None where they are not available."""
        place = self._places[storage]
        if place.size == 0 or place.address == 0:
            return bytearray()
        if place.device.type == "cpu":
            return (ctypes.c_char * place.size).from_address(place.address)
        return _from_device(place)

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
        """The 8 bytes that the storage was filled with when it was allocated; None: it was not."""
        place = self._places[storage]
        return fresh.pattern_of(place.holders, place.address, place.size)


def _from_device(place: Place) -> Optional[Any]:
    torch: Any = sys.modules["torch"]
    try:
        holder = place.holders[0]
        # Of storages that were merged none may reach over all of it, and `set_` would make it larger.
        whole = holder.data_ptr() == place.address and holder.nbytes() >= place.size
        if not whole or cuda.is_capturing():
            return None
        with cuda.quiet():
            window = torch.empty(0, dtype=torch.uint8, device=place.device)
            window.set_(holder, 0, (place.size,), (1,))
            host = window.cpu()
        data = bytearray(place.size)
        ctypes.memmove((ctypes.c_char * place.size).from_buffer(data), host.data_ptr(), place.size)
        return data
    except Exception:
        return None  # what depends on these bytes is then unproven
