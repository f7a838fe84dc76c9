"""Chunk payloads: compression and hashing on several threads, in bounded memory, in a fixed order.

A thread takes a unit of several chunks at a time: Python's own cost is then small beside that of the bytes.
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
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import zstandard

from kerncap.format.contract import default
from kerncap.format.file_in_parts import FileInParts
from kerncap.format.memory_index import ROW, ZERO_ROW, Encoding, Table

CHUNK_BYTES = default.chunk_bytes
UNIT_BYTES = 16 * CHUNK_BYTES
MOST_THREADS = 12  # beyond it they wait for each other: each hash is a turn at Python's lock
MAX_IN_FLIGHT_BYTES = 128 << 20  # of raw memory, in units
ZSTD_LEVEL = 3
SAMPLE_PIECES, SAMPLE_PIECE_BYTES = 4, 4096
UNIT_PIECES = 16
WORTH_PACKING = 7 / 8
WORTH_A_LOOK = 31 / 32  # of samples of a whole unit: with one chunk of 16 that packs they take less
FILE_DIGEST_UP_TO = 64 << 20  # bytes: a digest of the whole file is one thread's work
_NICER = 5  # than the program that is captured
_ZEROS = bytes(64)

Buffer = memoryview  # of UNIT_BYTES
Loader = Callable[[Buffer], bytes | memoryview]
Placed = Callable[[list[int]], None]


def worker_count() -> int:
    return max(1, min(MOST_THREADS, len(os.sched_getaffinity(0))))


class _Payload(NamedTuple):
    encoding: Encoding
    size: int
    data: bytes | None  # packed; None for the raw bytes
    digest: bytes


@dataclass
class _Unit:
    """What a thread found out: the digest of each chunk, None for zeros; the payloads of new ones."""

    data: memoryview
    digests: list[bytes | None] = field(default_factory=list)
    payloads: dict[bytes, _Payload] = field(default_factory=dict)


class ChunkWriter:
    """Puts the chunks it is given into a file, one after the other: zero ones dropped, equal ones kept once.

    Rows are numbered in the order of `add`, whatever order the threads finish in, so the same
    calls give the same bytes. At most `MAX_IN_FLIGHT_BYTES` are in memory. ``fd`` stays the caller's.
    """

    def __init__(self, fd: int) -> None:
        self._file = FileInParts(fd)
        threads = worker_count()
        self._pool = ThreadPoolExecutor(threads, "kerncap-chunks", initializer=_be_nice)
        self._local = threading.local()
        # Half of the units wait for their place in the file while the others are worked on.
        self._most = min(2 * threads + 2, MAX_IN_FLIGHT_BYTES // UNIT_BYTES)
        self._buffers = 0
        self._free: queue.SimpleQueue[Buffer] = queue.SimpleQueue()
        self._pending: collections.deque[tuple[Future[_Unit], Placed, Buffer]] = collections.deque()
        self._writes: collections.deque[Future[None]] = collections.deque()
        self._rows: dict[bytes, int] = {}
        self._table: list[tuple[bytes, int, int, int, int]] = []
        self._offset = 0
        self._file_digest = hashlib.sha256()
        self._payload_digests = hashlib.sha256()

    def add(self, load: Loader, placed: Placed) -> None:
        """Add the chunks of a unit of at most UNIT_BYTES.

        ``load(buffer)`` gives the raw bytes on a thread, in the buffer or where they are already;
        ``placed(rows)`` is called in order, with the row of each chunk, 0 for zeros.
        """
        buffer = self._buffer()
        self._pending.append((self._pool.submit(self._prepare, load, buffer), placed, buffer))

    def finish(self) -> Table:
        """Wait for all chunks and give the table; `add` may still be called afterwards."""
        while self._pending:
            self._drain_one()
        while self._writes:
            self._writes.popleft().result()
        self._file.finish(self._offset)
        return np.array(self._table, dtype=ROW)

    def written(self) -> tuple[int, str, bool]:
        """The file's size in bytes and its SHA-256; True if that is of the payloads' digests."""
        if self._offset > FILE_DIGEST_UP_TO:
            return self._offset, self._payload_digests.hexdigest(), True
        return self._offset, self._file_digest.hexdigest(), False

    def close(self) -> None:
        """Stop the threads; what was not drained is lost. Safe to call twice."""
        self._pending.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _buffer(self) -> Buffer:
        if self._buffers < self._most and self._free.empty():
            self._buffers += 1
            return memoryview(mmap.mmap(-1, UNIT_BYTES))
        while self._free.empty() and self._pending:
            self._drain_one()
        return self._free.get()  # all that are left are being written

    def _prepare(self, load: Loader, buffer: Buffer) -> _Unit:
        """Hash the chunks of a unit, and compress those that no earlier unit had."""
        data = memoryview(load(buffer)).cast("B")
        unit = _Unit(data)
        # A thread gives way to others in each call that takes long: as few as possible, as large as possible.
        looks = len(data) <= CHUNK_BYTES or self._packs(_sample(data, UNIT_PIECES), WORTH_A_LOOK)
        for start in range(0, len(data), CHUNK_BYTES):
            raw = data[start : start + CHUNK_BYTES]
            if is_zero(raw):
                unit.digests.append(None)
                continue
            digest = hashlib.sha256(raw).digest()
            unit.digests.append(digest)
            # An equal chunk in a unit before this one that still waits is found when both are in order.
            if digest not in unit.payloads and digest not in self._rows:
                unit.payloads[digest] = self._encode(raw, digest, looks)
        return unit

    def _encode(self, data: memoryview, digest: bytes, looks: bool) -> _Payload:
        # Weights in fp32 shrink by a few percent: not worth the time, now and at every replay.
        if looks and self._packs(_sample(data, SAMPLE_PIECES), WORTH_PACKING):
            packed = self._compressor().compress(data)
            if len(packed) < len(data):
                return _Payload(Encoding.ZSTD, len(packed), packed, hashlib.sha256(packed).digest())
        return _Payload(Encoding.RAW, len(data), None, digest)

    def _packs(self, sample: bytes | memoryview, worth: float) -> bool:
        return len(self._compressor().compress(sample)) <= len(sample) * worth

    def _compressor(self) -> zstandard.ZstdCompressor:
        # Compressor objects are not thread-safe; the checksum would repeat what SHA-256 does.
        if not hasattr(self._local, "compressor"):
            self._local.compressor = zstandard.ZstdCompressor(
                level=ZSTD_LEVEL, write_checksum=False, write_content_size=True, write_dict_id=False
            )
        compressor: zstandard.ZstdCompressor = self._local.compressor
        return compressor

    def _drain_one(self) -> None:
        future, placed, buffer = self._pending.popleft()
        unit = future.result()
        rows, new, at = [], _Parts(unit.data), self._offset
        for number, digest in enumerate(unit.digests):
            row = ZERO_ROW if digest is None else self._rows.get(digest)
            if row is None:
                assert digest is not None
                start = number * CHUNK_BYTES
                payload = unit.payloads[digest]
                new.add(payload, start)
                row = self._rows[digest] = len(self._table) + 1
                raw_size = min(CHUNK_BYTES, len(unit.data) - start)
                self._table.append((digest, self._offset, payload.size, raw_size, int(payload.encoding)))
                self._offset += payload.size
                self._payload_digests.update(payload.digest)
            rows.append(row)
        parts = new.all()
        if self._offset <= FILE_DIGEST_UP_TO:
            for part in parts:
                self._file_digest.update(part)
        placed(rows)
        while self._writes and self._writes[0].done():
            self._writes.popleft().result()
        self._writes.append(self._pool.submit(self._write, at, parts, buffer))

    def _write(self, offset: int, parts: list[bytes | memoryview], buffer: Buffer) -> None:
        try:
            if parts:
                self._file.write(offset, parts)
        finally:
            self._free.put(buffer)


class _Parts:
    """Payloads of a unit, one after the other; raw ones that follow each other in ``data`` are one part."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._done: list[bytes | memoryview] = []
        self._raw = (0, 0)

    def add(self, payload: _Payload, start: int) -> None:
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

    def __init__(self) -> None:
        self._local = threading.local()

    def decode(
        self, encoding: int, payload: bytes | memoryview, raw_size: int, digest: bytes
    ) -> bytes | memoryview:
        """The raw bytes. Raises ValueError with the reason when the payload is not what it should be."""
        payload = self.unpack(encoding, payload, raw_size)
        found = hashlib.sha256(payload).digest()
        if found != digest:
            raise ValueError(f"SHA-256 is {found.hex()[:16]}…, expected {digest.hex()[:16]}…")
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


def _sample(data: memoryview, pieces: int) -> bytes | memoryview:
    """Some pieces of data, evenly spread; what is short as it is."""
    if len(data) <= 2 * pieces * SAMPLE_PIECE_BYTES:
        return data
    step = (len(data) - SAMPLE_PIECE_BYTES) // (pieces - 1)
    starts = range(0, pieces * step, step)
    return b"".join(bytes(data[start : start + SAMPLE_PIECE_BYTES]) for start in starts)


def is_zero(data: bytes | memoryview) -> bool:
    """Whether every byte is zero."""
    if data[: len(_ZEROS)] != _ZEROS[: len(data)]:
        return False
    flat = np.frombuffer(data, np.uint8)
    words = flat[: len(flat) & ~7].view(np.uint64)
    return not words.any() and not flat[len(flat) & ~7 :].any()
