"""Moves regions' bytes between memory and files, in pieces and with several writers.

Sources hand out *pieces*: (region, offset in it, host address, length). A host region is its own
piece; a device region goes through pinned buffers (torch_device.py). What is done with a piece (store it,
compare it) is the same for both and runs without the GIL: memcmp through ctypes, pwrite, preadv.

A file is never mapped: a file system that is full can't back a page of it, not even of a hole that is only
read, and then the kernel ends the process with SIGBUS. A call gives an error instead.
"""

from __future__ import annotations

import ctypes
import errno
import os
import threading
from typing import Callable, Iterable, Iterator, List, Optional, Tuple

from .memory_room import Room
from .quiet_signals import QuietSignals
from .reachable_memory import Region

PIECE = 8 << 20
INLINE_BELOW = 32 << 20  # less than this is not worth a thread
MAX_WRITERS = 16
READ = 1 << 20  # read back in one go: stays in a core's cache until it is compared

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


def read_bytes(address: int, length: int) -> memoryview:
    """A view of memory by address; valid as long as the memory is."""
    return memoryview((ctypes.c_char * length).from_address(address)).cast("B")


def host_pieces(number: int, region: Region, piece: int = PIECE) -> Iterator[Piece]:
    for offset in range(0, region.size, piece):
        yield number, offset, region.base + offset, min(piece, region.size - offset)


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
    join(threads, errors)


def join(threads: List[threading.Thread], errors: List[BaseException]) -> None:
    """Wait for writers, which end at the first of ``errors``, and raise that.

    A signal handler of the target's may raise here. The writers end first even then: what they write to
    is closed next, and its number may then be a file of the target's.
    """
    while threads:
        try:
            threads[-1].join()
            threads.pop()
        except BaseException as error:
            errors.insert(0, error)
    if errors:
        raise errors[0]


def write_all(fd: int, address: int, length: int, position: int) -> None:
    """Raises OSError, whatever the file system or a limit says; no signal comes of it."""
    data = read_bytes(address, length)
    with QuietSignals():
        while data:
            written = os.pwrite(fd, data, position)
            if not written:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[written:]
            position += written


def read_all(fd: int, address: int, length: int, position: int) -> None:
    """Read from a file to memory. A hole takes no room in the file system."""
    data = read_bytes(address, length)
    while data:
        count = os.preadv(fd, [data], position)
        if not count:
            raise OSError(errno.EIO, "the image of the memory is shorter than it was")
        data = data[count:]
        position += count


class Reader(threading.local):
    """Reads an image into a buffer of each thread's own."""

    def __init__(self, fd: int, chunk: int) -> None:
        self._fd = fd
        self.step = max(READ // chunk, 1) * chunk
        self._buffer = ctypes.create_string_buffer(self.step)
        self._address = ctypes.addressof(self._buffer)

    def __call__(self, position: int, length: int) -> int:
        """The address where these bytes (at most ``step``) lie until this thread's next call."""
        read_all(self._fd, self._address, length, position)
        return self._address


class Store:
    """Writes pieces to a pre-state file; chunks of zeros stay holes."""

    def __init__(self, fd: int, offsets: List[int], chunk: int) -> None:
        self._fd, self._offsets, self._chunk = fd, offsets, chunk
        self._room = Room(fd)

    def __call__(self, region: int, offset: int, address: int, length: int) -> None:
        base = self._offsets[region] + offset
        start: Optional[int] = None  # of a run of chunks that are not zero
        for at in range(0, length, self._chunk):
            size = min(self._chunk, length - at)
            if _memcmp(address + at, _ZEROS, size) == 0:
                if start is not None:
                    self._write(address, start, at, base)
                    start = None
            elif start is None:
                start = at
        if start is not None:
            self._write(address, start, length, base)

    def _write(self, address: int, start: int, end: int, base: int) -> None:
        self._room.take(end - start)
        write_all(self._fd, address + start, end - start, base + start)


class Compare:
    """Finds chunks that differ from an image of the regions; writes them to ``out`` if there is one.

    Chunk i of ``chunks`` lies at i * chunk bytes of the file.
    """

    def __init__(self, image: int, offsets: List[int], chunk: int, out: Optional[int] = None) -> None:
        self._reader, self._offsets, self._chunk, self._out = Reader(image, chunk), offsets, chunk, out
        self._lock = threading.Lock()
        self._room = None if out is None else Room(out)
        self.chunks: List[Tuple[int, int]] = []

    def __call__(self, region: int, offset: int, address: int, length: int) -> None:
        base = self._offsets[region] + offset
        run: List[int] = []
        for at, size, then in chunks_read(self._reader, base, length, self._chunk):
            if _memcmp(address + at, then, size) != 0:
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
        if self._out is not None and self._room is not None:
            end = min(run[-1] + self._chunk, length)
            self._room.take(end - run[0])
            write_all(self._out, address + run[0], end - run[0], position * self._chunk)


def chunks_read(reader: Reader, base: int, length: int, chunk: int) -> Iterator[Tuple[int, int, int]]:
    """The chunks of an image from ``base``: offset, size, and the address of what the image has there."""
    for start in range(0, length, reader.step):
        stop = min(start + reader.step, length)
        then = reader(base + start, stop - start)
        for at in range(start, stop, chunk):
            yield at, min(chunk, stop - at), then + at - start


def restore_host(region: Region, image: int, base: int, chunk: int) -> None:
    """Put back those chunks of a host region that differ from the image at this offset."""
    for at, size, then in chunks_read(Reader(image, chunk), base, region.size, chunk):
        if _memcmp(region.base + at, then, size) != 0:
            ctypes.memmove(region.base + at, then, size)
