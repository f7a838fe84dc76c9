"""Moves regions' bytes between memory and files, in pieces and with several writers.

Sources hand out *pieces*: (region, offset in it, host address, length). A host region is its own
piece; a device region goes through pinned buffers (cuda.py). What is done with a piece (store it,
compare it) is the same for both and runs without the GIL: memcmp through ctypes, pwrite.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import threading
from typing import Any, Callable, Iterable, Iterator, List, Optional, Tuple

from .memory import Region

PIECE = 8 << 20
INLINE_BELOW = 32 << 20  # less than this is not worth a thread
MAX_WRITERS = 16

Piece = Tuple[int, int, int, int]
Work = Callable[[int, int, int, int], None]

_libc = ctypes.CDLL(None, use_errno=True)
_memcmp = _libc.memcmp
_memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_memcmp.restype = ctypes.c_int
_zeros = ctypes.create_string_buffer(PIECE)
_ZEROS = ctypes.addressof(_zeros)


def writer_count() -> int:
    try:
        return max(1, min(MAX_WRITERS, len(os.sched_getaffinity(0))))
    except (AttributeError, OSError):
        return max(1, min(MAX_WRITERS, os.cpu_count() or 1))


class Mapping:
    """A file mapped whole, with its address; empty files have none."""

    def __init__(self, fd: int, size: int) -> None:
        self._map = mmap.mmap(fd, size) if size else None
        self.address = 0
        if self._map is not None:
            self._export: Any = ctypes.c_char.from_buffer(self._map)
            self.address = ctypes.addressof(self._export)

    def close(self) -> None:
        if self._map is not None:
            del self._export  # a mapping with an exported buffer can't be closed
            self._map.close()
            self._map = None


def read_bytes(address: int, length: int) -> memoryview:
    """A view of memory by address; valid as long as the memory is."""
    return memoryview((ctypes.c_char * length).from_address(address)).cast("B")


def tensor_over(address: int, length: int) -> Any:
    """The same as a tensor of bytes, through the target's torch."""
    memory = (ctypes.c_char * length).from_address(address)
    torch = sys.modules["torch"]
    return torch.frombuffer(memory, dtype=torch.uint8)


def host_pieces(number: int, region: Region) -> Iterator[Piece]:
    for offset in range(0, region.size, PIECE):
        yield number, offset, region.base + offset, min(PIECE, region.size - offset)


def run(pieces: Iterable[Piece], work: Work, total: int) -> None:
    """Apply ``work`` to every piece, with several threads where it is much. Raises the first error."""
    writers = writer_count()
    if total < INLINE_BELOW or writers == 1:
        for piece in pieces:
            work(*piece)
        return
    source = iter(pieces)
    lock = threading.Lock()
    errors: List[BaseException] = []

    def loop() -> None:
        while not errors:
            with lock:
                piece = next(source, None)
            if piece is None:
                return
            try:
                work(*piece)
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=loop, daemon=True) for _ in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def write_all(fd: int, address: int, length: int, position: int) -> None:
    data = read_bytes(address, length)
    while data:
        written = os.pwrite(fd, data, position)
        data = data[written:]
        position += written


class Store:
    """Writes pieces to a pre-state file; chunks of zeros stay holes."""

    def __init__(self, fd: int, offsets: List[int], chunk: int) -> None:
        self._fd, self._offsets, self._chunk = fd, offsets, chunk

    def __call__(self, region: int, offset: int, address: int, length: int) -> None:
        base = self._offsets[region] + offset
        start: Optional[int] = None  # of a run of chunks that are not zero
        for at in range(0, length, self._chunk):
            size = min(self._chunk, length - at)
            if _memcmp(address + at, _ZEROS, size) == 0:
                if start is not None:
                    write_all(self._fd, address + start, at - start, base + start)
                    start = None
            elif start is None:
                start = at
        if start is not None:
            write_all(self._fd, address + start, length - start, base + start)


class Compare:
    """Finds chunks that differ from an image of the regions; writes them to ``out`` if there is one.

    Chunk i of ``chunks`` lies at i * chunk bytes of the file.
    """

    def __init__(self, image: int, offsets: List[int], chunk: int, out: Optional[int] = None) -> None:
        self._image, self._offsets, self._chunk, self._out = image, offsets, chunk, out
        self._lock = threading.Lock()
        self.chunks: List[Tuple[int, int]] = []

    def __call__(self, region: int, offset: int, address: int, length: int) -> None:
        base = self._image + self._offsets[region] + offset
        run: List[int] = []
        for at in range(0, length, self._chunk):
            size = min(self._chunk, length - at)
            if _memcmp(address + at, base + at, size) != 0:
                run.append(at)
            elif run:
                self._take(region, offset, address, run, length)
                run = []
        if run:
            self._take(region, offset, address, run, length)

    def _take(self, region: int, offset: int, address: int, run: List[int], length: int) -> None:
        with self._lock:
            position = len(self.chunks)
            self.chunks.extend((region, (offset + at) // self._chunk) for at in run)
        if self._out is not None:
            end = min(run[-1] + self._chunk, length)
            write_all(self._out, address + run[0], end - run[0], position * self._chunk)


def restore_host(region: Region, image: int, chunk: int) -> None:
    """Put back those chunks of a host region that differ from the image at this address."""
    for at in range(0, region.size, chunk):
        size = min(chunk, region.size - at)
        if _memcmp(region.base + at, image + at, size) != 0:
            ctypes.memmove(region.base + at, image + at, size)
