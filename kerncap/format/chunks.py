"""Chunk payloads: compression and hashing on several threads, in bounded memory, in a fixed order."""

from __future__ import annotations

import collections
import hashlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

import numpy as np
import zstandard

from kerncap.format.memory_index import ROW, ZERO_ROW, Encoding, Table

MAX_IN_FLIGHT = 64
ZSTD_LEVEL = 3
SAMPLE_PIECES, SAMPLE_PIECE_BYTES = 4, 8192
WORTH_PACKING = 7 / 8
Loader = Callable[[], bytes | memoryview]
Placed = Callable[[int, int], None]  # (row, raw size)


def worker_count() -> int:
    return max(1, min(8, os.cpu_count() or 1))


class ChunkWriter:
    """Appends the chunks it is given to ``sink``: zero ones dropped, equal ones kept once.

    Rows are numbered in the order of `add`, whatever order the threads finish in, so the same
    calls give the same bytes. At most `MAX_IN_FLIGHT` chunks are in memory.
    """

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._pool = ThreadPoolExecutor(worker_count(), thread_name_prefix="kerncap-chunks")
        self._local = threading.local()
        self._lock = threading.Lock()
        self._rows: dict[bytes, int] = {}
        self._claims: dict[bytes, Future[tuple[Encoding, bytes]]] = {}
        self._pending: collections.deque[tuple[Future[tuple[bytes, int] | None], Placed]] = (
            collections.deque()
        )
        self._table: list[tuple[bytes, int, int, int, int]] = []
        self._offset = 0
        self._file_digest = hashlib.sha256()

    def add(self, load: Loader, placed: Placed) -> None:
        """``load`` gives the raw bytes, on a thread; ``placed(row, raw size)`` is called in order."""
        while len(self._pending) >= MAX_IN_FLIGHT:
            self._drain_one()
        self._pending.append((self._pool.submit(self._prepare, load), placed))

    def finish(self) -> Table:
        """Wait for all chunks and give the table; `add` may still be called afterwards."""
        while self._pending:
            self._drain_one()
        return np.array(self._table, dtype=ROW)

    def written(self) -> tuple[int, str]:
        """Size in bytes and SHA-256 of all that went to the sink."""
        return self._offset, self._file_digest.hexdigest()

    def close(self) -> None:
        """Stop the threads; what was not drained is lost. Safe to call twice."""
        self._pending.clear()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _prepare(self, load: Loader) -> tuple[bytes, int] | None:
        """Hash, and compress if no equal chunk was seen; (digest, raw size), None for zeros."""
        data = load()
        if is_zero(data):
            return None
        digest = hashlib.sha256(data).digest()
        claim: Future[tuple[Encoding, bytes]] = Future()
        with self._lock:
            if digest in self._rows or digest in self._claims:
                return digest, len(data)
            self._claims[digest] = claim
        try:
            claim.set_result(self._encode(data))
        except BaseException as error:
            claim.set_exception(error)
        return digest, len(data)

    def _encode(self, data: bytes | memoryview) -> tuple[Encoding, bytes]:
        # Compressor objects are not thread-safe; the checksum would repeat what SHA-256 does.
        if not hasattr(self._local, "compressor"):
            self._local.compressor = zstandard.ZstdCompressor(
                level=ZSTD_LEVEL, write_checksum=False, write_content_size=True, write_dict_id=False
            )
        compress = self._local.compressor.compress
        sample = _sample(data)
        # Weights in fp32 shrink by a few percent: not worth the time, now and at every replay.
        if len(compress(sample)) <= len(sample) * WORTH_PACKING:
            packed: bytes = compress(data)
            if len(packed) < len(data):
                return Encoding.ZSTD, packed
        return Encoding.RAW, bytes(data)

    def _drain_one(self) -> None:
        future, placed = self._pending.popleft()
        prepared = future.result()
        if prepared is None:
            placed(ZERO_ROW, 0)
            return
        digest, raw_size = prepared
        row = self._rows.get(digest)
        if row is None:
            # An equal chunk further back may be the one that does the work: it has begun already.
            encoding, payload = self._claims[digest].result()
            self._sink.write(payload)
            self._file_digest.update(payload)
            row = len(self._table) + 1
            self._table.append((digest, self._offset, len(payload), raw_size, int(encoding)))
            self._offset += len(payload)
            with self._lock:
                self._rows[digest] = row
                del self._claims[digest]
        placed(row, raw_size)


class ChunkDecoder:
    """Turns a stored payload into its raw bytes, never into more than it may be. Thread-safe."""

    def __init__(self) -> None:
        self._local = threading.local()

    def decode(self, encoding: int, payload: bytes, raw_size: int, digest: bytes) -> bytes:
        """The raw bytes. Raises ValueError with the reason when the payload is not what it should be."""
        payload = self.unpack(encoding, payload, raw_size)
        found = hashlib.sha256(payload).digest()
        if found != digest:
            raise ValueError(f"SHA-256 is {found.hex()[:16]}…, expected {digest.hex()[:16]}…")
        return payload

    def unpack(self, encoding: int, payload: bytes, raw_size: int) -> bytes:
        """`decode` without the digest, for what is checked by another one."""
        if encoding == Encoding.ZSTD:
            payload = self._decompress(payload, raw_size)
        if len(payload) != raw_size:
            raise ValueError(f"{len(payload)} bytes, expected {raw_size}")
        return payload

    def _decompress(self, payload: bytes, raw_size: int) -> bytes:
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


def _sample(data: bytes | memoryview) -> bytes | memoryview:
    """Some pieces of a chunk, evenly spread; a small chunk as it is."""
    if len(data) <= 2 * SAMPLE_PIECES * SAMPLE_PIECE_BYTES:
        return data
    step = (len(data) - SAMPLE_PIECE_BYTES) // (SAMPLE_PIECES - 1)
    starts = range(0, SAMPLE_PIECES * step, step)
    return b"".join(bytes(data[start : start + SAMPLE_PIECE_BYTES]) for start in starts)


def is_zero(data: bytes | memoryview) -> bool:
    """Whether every byte is zero."""
    flat = np.frombuffer(data, np.uint8)
    words = flat[: len(flat) & ~7].view(np.uint64)
    return not words.any() and not flat[len(flat) & ~7 :].any()
