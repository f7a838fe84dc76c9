"""Where a region's bytes come from: memory, a stream, a file, a file in stripes. Holes are not read."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import BinaryIO, Protocol, runtime_checkable

from kerncap.errors import KerncapError
from kerncap.format.chunks import Buffer, Loader

Piece = tuple[int, Loader]  # start in the region, and what reads the chunk


@runtime_checkable
class ChunkSource(Protocol):
    """Anything that gives its bytes chunk by chunk."""

    def pieces(self, offset: int, size: int, step: int) -> Iterator[Piece]:
        """Each chunk of ``size`` bytes from ``offset`` on that may hold something but zeros, in order.

        Chunks start at multiples of ``step``, the last may be short. Raises KerncapError when the
        source ends early.
        """
        ...


Source = BinaryIO | memoryview | bytes | ChunkSource | None


def pieces_of(source: Source, offset: int, size: int, step: int) -> Iterator[Piece]:
    """As `ChunkSource.pieces`, for every kind of source; None is zeros."""
    if source is None:
        return iter(())
    if isinstance(source, bytes | memoryview):
        return _of_memory(source, offset, size, step)
    if isinstance(source, ChunkSource):
        return source.pieces(offset, size, step)
    descriptor = _descriptor(source)
    if descriptor is None:
        return _of_stream(source, offset, size, step)
    return StripedFiles([descriptor]).pieces(offset, size, step)


class StripedFiles:
    """Bytes that lie in several files in turn: byte o is in file ``o // unit % n``. One file is all of them.

    The descriptors stay the caller's. ``stripe_bytes`` is needed if there are several.
    """

    def __init__(self, descriptors: Sequence[int], stripe_bytes: int | None = None) -> None:
        if not descriptors or (len(descriptors) > 1 and not stripe_bytes):
            raise ValueError("stripes need their files and their size")
        self._descriptors = tuple(descriptors)
        self._unit = stripe_bytes if stripe_bytes and len(descriptors) > 1 else None

    def read(self, offset: int, size: int) -> bytes:
        """Exactly these bytes; KerncapError if a file ends before them."""
        data = bytearray(size)
        self.read_into(offset, memoryview(data))
        return bytes(data)

    def read_into(self, offset: int, target: memoryview) -> None:
        """As `read`, into ``target``."""
        for at, descriptor, start, length in self._runs(offset, len(target)):
            _read_exactly(descriptor, start, target[at - offset : at - offset + length], at)

    def loader(self, offset: int, size: int) -> Loader:
        """What reads these bytes."""

        def load(buffer: Buffer) -> memoryview:
            self.read_into(offset, buffer[:size])
            return buffer[:size]

        return load

    def pieces(self, offset: int, size: int, step: int) -> Iterator[Piece]:
        """See `ChunkSource`."""
        self._check_sizes(offset, size)
        next_start = 0
        holes = {descriptor: _Holes(descriptor) for descriptor in self._descriptors}
        for at, descriptor, start, length in self._runs(offset, size):
            for first, last in holes[descriptor].data(start, length):
                chunk = max(next_start, (at - offset + first) // step * step)
                while chunk < at - offset + last:
                    yield chunk, self.loader(offset + chunk, min(step, size - chunk))
                    chunk += step
                next_start = max(next_start, chunk)

    def _runs(self, offset: int, size: int) -> Iterator[tuple[int, int, int, int]]:
        """(offset, descriptor, offset in that file, length) of each part that lies in one piece."""
        if self._unit is None:
            if size:
                yield offset, self._descriptors[0], offset, size
            return
        at, end = offset, offset + size
        while at < end:
            row, inside = divmod(at, self._unit)
            turn, stripe = divmod(row, len(self._descriptors))
            length = min(self._unit - inside, end - at)
            yield at, self._descriptors[stripe], turn * self._unit + inside, length
            at += length

    def _check_sizes(self, offset: int, size: int) -> None:
        """Before any of it is read: what a file lacks must not pass for a hole."""
        count = len(self._descriptors)
        tail = min(size, (self._unit or 0) * count) if self._unit else size
        for at, descriptor, start, length in self._runs(offset + size - tail, tail):
            there = os.fstat(descriptor).st_size
            if there < start + length:
                raise KerncapError(
                    f"memory source ends at byte {at + max(0, there - start)} of {offset + size}"
                )


def _of_memory(source: bytes | memoryview, offset: int, size: int, step: int) -> Iterator[Piece]:
    flat = memoryview(source).cast("B")
    if len(flat) < offset + size:
        raise KerncapError(f"memory source has {len(flat)} bytes, expected {offset + size}")
    for start in range(0, size, step):
        piece = flat[offset + start : offset + min(start + step, size)]
        yield start, lambda _, piece=piece: piece  # type: ignore[misc]


def _of_stream(source: BinaryIO, offset: int, size: int, step: int) -> Iterator[Piece]:
    for start in range(0, size, step):
        source.seek(offset + start)
        data = source.read(min(step, size - start))
        if len(data) != min(step, size - start):
            raise KerncapError(f"memory source ends at byte {offset + start + len(data)}")
        yield start, lambda _, data=data: data  # type: ignore[misc]


def _descriptor(source: BinaryIO) -> int | None:
    with contextlib.suppress(AttributeError, io.UnsupportedOperation):
        descriptor = source.fileno()
        with contextlib.suppress(OSError):
            os.pread(descriptor, 0, 0)  # a pipe or socket refuses
            return descriptor
    return None


def _read_exactly(descriptor: int, start: int, target: memoryview, at: int) -> None:
    done = 0
    while done < len(target):
        read = os.preadv(descriptor, [target[done:]], start + done)
        if not read:
            raise KerncapError(f"memory source ends at byte {at + done}")
        done += read


class _Holes:
    """The parts of a file that are no hole, for one who asks for ascending ranges.

    A memory-backed file looks at each page up to the next hole: asked once, not for every range.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._known: tuple[int, int] = (0, 0)

    def data(self, start: int, length: int) -> Iterator[tuple[int, int]]:
        """The parts of [start, start + length) that are no hole, counted from ``start``."""
        at, end = start, start + length
        while at < end:
            if not self._known[0] <= at < self._known[1]:
                self._known = self._next(at)
            first, last = max(self._known[0], at), min(self._known[1], end)
            if first >= end:
                return
            yield first - start, last - start
            at = last

    def _next(self, at: int) -> tuple[int, int]:
        try:
            data = os.lseek(self._descriptor, at, os.SEEK_DATA)
            return data, os.lseek(self._descriptor, data, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                return sys.maxsize, sys.maxsize
            return at, sys.maxsize  # a file system without holes
