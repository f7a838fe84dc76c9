"""Chunk payloads: compression and hashing on several threads, in bounded memory, in a fixed order.

A thread takes a unit of several chunks at a time: Python's own cost is then small beside that of the bytes.
Of large memory the units go to several files in turn: a file takes the bytes of one writer at a time.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import mmap
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import zstandard

from kerncap.format import digests
from kerncap.format.allowed_names import CHUNKS_PATHS
from kerncap.format.memory_index import ROW, ZERO_ROW, Encoding, Numbers, Table
from kerncap.format.packing import CHUNK_BYTES, UNIT_BYTES, Packer, Payload, Unit
from kerncap.format.positioned_write import write_parts
from kerncap.format.schema import StoredFile

if TYPE_CHECKING:
    from concurrent.futures import Future

MOST_THREADS = 12  # beyond it they wait for each other: each hash is a turn at Python's lock
MAX_IN_FLIGHT_BYTES = 128 << 20  # of raw memory, in units
MANY_BYTES = 1 << 30  # of memory for which processes are worth their start
LEAST_PROCESSES = 4
LARGE_BYTES = 64 << 20  # of memory; and of the first file, before others are there
_NICER = 5  # than the program that is captured

Buffer = memoryview  # of UNIT_BYTES
Loader = Callable[[Buffer], bytes | memoryview]
Placed = Callable[[list[int]], None]


def worker_count() -> int:
    return max(1, min(MOST_THREADS, len(os.sched_getaffinity(0))))


class _File:
    """A file of chunks that grows; its digest is of its bytes or, of large memory, of its payloads'."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.fd = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self.size = 0
        self.digest = hashlib.sha256()

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):  # what matters of it is durable, or the disk is too full
                os.close(fd)


class ChunkWriter:
    """Puts the chunks it is given into files, one after the other: zero ones dropped, equal ones kept once.

    Rows are numbered in the order of `add`, whatever order the threads finish in, so the same
    calls give the same bytes. At most `MAX_IN_FLIGHT_BYTES` are in memory.
    """

    def __init__(self, folder: Path, memory_bytes: int) -> None:
        """In a reproducer's ``folder``; of large memory in several files, and by BLAKE3."""
        from concurrent.futures import ThreadPoolExecutor  # it loads logging, which readers do without

        self.is_large = memory_bytes >= LARGE_BYTES
        self._digest: digests.Digest = "blake3" if self.is_large else "sha256"
        self._folder = folder
        self._files = [_File(folder, CHUNKS_PATHS[0])]
        self._turn = 0
        threads = worker_count()
        self._processes = None
        if memory_bytes >= MANY_BYTES and threads >= LEAST_PROCESSES:
            from kerncap.format.packing_processes import Processes

            with contextlib.suppress(OSError):  # the threads do it then
                self._processes = Processes(threads, MAX_IN_FLIGHT_BYTES // UNIT_BYTES, self._digest)
        self._pool = ThreadPoolExecutor(threads, "kerncap-chunks", initializer=_be_nice)
        self._local = threading.local()
        # Half of the units wait for their place in the file while the others are worked on.
        self._most = min(2 * threads + 2, MAX_IN_FLIGHT_BYTES // UNIT_BYTES)
        self._buffers = 0
        self._free: queue.SimpleQueue[Buffer] = queue.SimpleQueue()
        self._pending: collections.deque[tuple[Future[Unit], Placed, Buffer]] = collections.deque()
        self._writes: collections.deque[Future[None]] = collections.deque()
        self._rows: dict[bytes, int] = {}
        self._table: list[tuple[bytes, int, int, int, int]] = []
        self._file_of_row: list[int] = []

    def add(self, load: Loader, placed: Placed) -> None:
        """Add the chunks of a unit of at most UNIT_BYTES.

        ``load(buffer)`` gives the raw bytes on a thread, in the buffer or where they are already;
        ``placed(rows)`` is called in order, with the row of each chunk, 0 for zeros.
        """
        buffer = self._buffer()
        self._pending.append((self._pool.submit(self._prepare, load, buffer), placed, buffer))

    def finish(self) -> tuple[Table, Numbers]:
        """Wait for all chunks and make them durable; the table, and the place in it of each row that `add`
        has given."""
        while self._pending:
            self._drain_one()
        while self._writes:
            self._writes.popleft().result()
        collections.deque(self._pool.map(lambda file: os.fsync(file.fd), self._files), maxlen=0)
        table, of_file = np.array(self._table, dtype=ROW), np.array(self._file_of_row, dtype=np.int64)
        starts = np.cumsum([0, *(file.size for file in self._files)], dtype=np.uint64)
        table["offset"] += starts[of_file]
        order = np.argsort(of_file, kind="stable")
        places = np.zeros(len(table) + 1, dtype=np.int64)
        places[order + 1] = np.arange(1, len(table) + 1)
        return table[order], places

    def files(self) -> list[StoredFile]:
        """What `finish` has made."""
        return [
            StoredFile(path=one.name, size=one.size, sha256=one.digest.hexdigest()) for one in self._files
        ]

    def close(self) -> None:
        """Stop the threads; what was not drained is lost. Safe to call twice."""
        self._pending.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._processes is not None:
            self._processes.close()
            self._processes = None
        for file in self._files:
            file.close()

    def _buffer(self) -> Buffer:
        if self._buffers < self._most and self._free.empty():
            self._buffers += 1
            if self._processes is not None:
                return self._processes.buffer(self._buffers - 1)
            return memoryview(mmap.mmap(-1, UNIT_BYTES))
        while self._free.empty() and self._pending:
            self._drain_one()
        return self._free.get()  # all that are left are being written

    def _prepare(self, load: Loader, buffer: Buffer) -> Unit:
        """Hash the chunks of a unit, and compress those that no earlier unit had."""
        data = memoryview(load(buffer)).cast("B")
        if self._processes is not None and (unit := self._processes.pack(data, buffer)) is not None:
            return unit
        if not hasattr(self._local, "packer"):  # compressors are not thread-safe
            self._local.packer = Packer(self._digest)
        packer: Packer = self._local.packer
        # An equal chunk in a unit before this one that still waits is found when both are in order.
        return packer.pack(data, self._rows)

    def _drain_one(self) -> None:
        future, placed, buffer = self._pending.popleft()
        unit = future.result()
        there = {digest for digest in unit.digests if digest is not None}
        file = self._file_of_next(has_new=not there <= self._rows.keys())
        rows, new, at, stored = [], _Parts(unit.data), file.size, []
        for number, digest in enumerate(unit.digests):
            row = ZERO_ROW if digest is None else self._rows.get(digest)
            if row is None:
                assert digest is not None
                start = number * CHUNK_BYTES
                payload = unit.payloads[digest]
                new.add(payload, start)
                row = self._rows[digest] = len(self._table) + 1
                raw_size = min(CHUNK_BYTES, len(unit.data) - start)
                encoding = Encoding.RAW if payload.data is None else Encoding.ZSTD
                self._table.append((digest, file.size, payload.size, raw_size, int(encoding)))
                self._file_of_row.append(self._turn)
                file.size += payload.size
                stored.append(payload.digest)
            rows.append(row)
        parts = new.all()
        for piece in [b"".join(stored)] if self.is_large else parts:
            file.digest.update(piece)
        placed(rows)
        while self._writes and self._writes[0].done():
            self._writes.popleft().result()
        self._writes.append(self._pool.submit(self._write, file.fd, at, parts, buffer))

    def _file_of_next(self, has_new: bool) -> _File:
        """Of the next unit, if it ``has_new`` payloads: each in turn, once there are many."""
        if has_new and self.is_large and self._files[0].size >= max(1, LARGE_BYTES):
            self._turn = (self._turn + 1) % len(CHUNKS_PATHS)
            if self._turn == len(self._files):
                self._files.append(_File(self._folder, CHUNKS_PATHS[self._turn]))
        return self._files[self._turn]

    def _write(self, fd: int, offset: int, parts: list[bytes | memoryview], buffer: Buffer) -> None:
        try:
            write_parts(fd, offset, parts)
        finally:
            self._free.put(buffer)


class _Parts:
    """Payloads of a unit, one after the other; raw ones that follow each other in ``data`` are one part."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._done: list[bytes | memoryview] = []
        self._raw = (0, 0)

    def add(self, payload: Payload, start: int) -> None:
        if payload.data is None and self._raw[1] == start:
            self._raw = (self._raw[0], start + payload.size)
            return
        self._done = self.all()
        self._raw = (start, start) if payload.data is not None else (start, start + payload.size)
        if payload.data is not None:
            self._done.append(payload.data)

    def all(self) -> list[bytes | memoryview]:
        first, last = self._raw
        return [*self._done, self._data[first:last]] if first < last else self._done


def _be_nice() -> None:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICER)


class ChunkDecoder:
    """Turns a stored payload into its raw bytes, never into more than it may be. Thread-safe."""

    def __init__(self, digest: digests.Digest = "sha256") -> None:
        self._name, self._hash = digests.NAMES[digest], digests.function(digest)
        self._local = threading.local()

    def decode(
        self, encoding: int, payload: bytes | memoryview, raw_size: int, digest: bytes
    ) -> bytes | memoryview:
        """The raw bytes. Raises ValueError with the reason when the payload is not what it should be."""
        payload = self.unpack(encoding, payload, raw_size)
        found = self._hash(payload)
        if found != digest:
            raise ValueError(f"{self._name} is {found.hex()[:16]}…, expected {digest.hex()[:16]}…")
        return payload

    def unpack(self, encoding: int, payload: bytes | memoryview, raw_size: int) -> bytes | memoryview:
        """`decode` without the digest, for what is checked by another one."""
        if encoding == Encoding.ZSTD:
            payload = self._decompress(payload, raw_size)
        if len(payload) != raw_size:
            raise ValueError(f"{len(payload)} bytes, expected {raw_size}")
        return payload

    def _decompress(self, payload: bytes | memoryview, raw_size: int) -> bytes:
        # The frame names its own size and the library allocates that much: look before.
        try:
            frame = zstandard.get_frame_parameters(payload)
            if frame.content_size != raw_size:
                raise ValueError(f"the zstd frame holds {frame.content_size} bytes, expected {raw_size}")
            if not hasattr(self._local, "decompressor"):
                self._local.decompressor = zstandard.ZstdDecompressor()
            raw: bytes = self._local.decompressor.decompress(
                payload, max_output_size=raw_size, allow_extra_data=False
            )
        except zstandard.ZstdError as error:
            raise ValueError(f"not a zstd frame: {error}") from error
        return raw
