"""The chunks of a reproducer, read, unpacked and checked on several threads.

Chunks that follow each other both in their region and in a file of chunks are one read.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from kerncap.format import digests
from kerncap.format.allowed_names import CHUNKS_PATHS
from kerncap.format.chunks import MAX_IN_FLIGHT_BYTES, ChunkDecoder, worker_count
from kerncap.format.digests import Digest
from kerncap.format.memory_index import Encoding, MemoryIndex, Numbers
from kerncap.format.packing import UNIT_BYTES
from kerncap.format.stored_files import format_error

if TYPE_CHECKING:
    from concurrent.futures import Future

Run = tuple[int, int, int]  # number of the first chunk, its row, how many
Raw = bytes | memoryview
T = TypeVar("T")


class ChunkReader:
    """Of files of these ``sizes`` in the reproducer at ``folder``, which stay the caller's. Safe to use from
    several threads."""

    def __init__(
        self, folder: Path, fds: Sequence[int], sizes: Sequence[int], index: MemoryIndex, digest: Digest
    ) -> None:
        self._paths = [folder / path for path in CHUNKS_PATHS[: len(fds)]]
        self._fds = fds
        self._starts = np.cumsum([0, *sizes], dtype=np.uint64)
        self._table = index.table
        self._of_file = np.searchsorted(self._starts, self._table["offset"], side="right") - 1
        self._step = index.chunk_bytes
        self._decoder = ChunkDecoder(digest)
        self._hash = digests.function(digest)
        self._local = threading.local()
        # A thread holds a run twice, packed and raw: larger chunks, fewer threads.
        self._unit = max(UNIT_BYTES, self._step)
        self._threads = min(worker_count(), max(1, MAX_IN_FLIGHT_BYTES // (2 * self._unit)))

    def each(self, chunks: Numbers, rows: Numbers, use: Callable[[int, list[Raw]], None]) -> None:
        """``use(number, raw bytes)`` on threads, for all chunks of these numbers and rows (none is 0): of one
        chunk and those after it, in parts. They are good until it returns. Raises FormatError, and what it
        raises.
        """

        def work(run: Run) -> None:
            number, row, count = run
            use(number, self._raw(row, count))

        collections.deque(self._on_threads(work, self._runs(chunks, rows)), maxlen=0)

    def check(self) -> None:
        """Raises FormatError if any chunk is damaged."""
        rows = np.arange(1, len(self._table) + 1)
        self.each(rows, rows, lambda *_: None)

    def digest_of_payloads(self, file: int) -> str:
        """SHA-256 of the digest of each payload of a file, in order. Raises FormatError for a file that ends
        early."""

        def work(run: Run) -> bytes:
            _, row, count = run
            return b"".join(map(self._hash, self._payloads(row, count)))

        rows, found = np.flatnonzero(self._of_file == file) + 1, hashlib.sha256()
        for of_run in self._on_threads(work, self._runs(rows, rows)):
            found.update(of_run)
        return found.hexdigest()

    def payload(self, row: int) -> bytes:
        """A chunk as it is stored. Raises FormatError for a file that ends early."""
        return bytes(next(self._payloads(row, 1)))

    def chunk(self, row: int) -> bytes:
        """A chunk's raw bytes, checked. Raises FormatError."""
        return bytes(self._raw(row, 1)[0])

    # --- inside ------------------------------------------------------------------------------------

    def _runs(self, chunks: Numbers, rows: Numbers) -> Iterator[Run]:
        apart = (np.diff(chunks) != 1) | (np.diff(rows) != 1) | (np.diff(self._of_file[rows - 1]) != 0)
        ends = np.flatnonzero(apart) + 1
        most = self._unit // self._step
        for start, stop in itertools.pairwise([0, *ends.tolist(), len(chunks)]):
            for first in range(start, stop, most):
                yield int(chunks[first]), int(rows[first]), min(most, stop - first)

    def _payloads(self, row: int, count: int) -> Iterator[memoryview]:
        records = self._table[row - 1 : row - 1 + count]
        file = int(self._of_file[row - 1])
        offset = int(records["offset"][0] - self._starts[file])
        data = self._buffer()[: int(records["stored"].sum(dtype=np.int64))]
        done = 0
        while done < len(data):
            read = os.preadv(self._fds[file], [data[done:]], offset + done)
            if not read:
                message = f"truncated: chunks {row} to {row + count - 1} end at {offset + len(data)}"
                raise format_error(self._paths[file], offset + done, message)
            done += read
        for size in records["stored"].tolist():
            yield data[:size]
            data = data[size:]

    def _raw(self, row: int, count: int) -> list[Raw]:
        found: list[Raw] = []
        for number, payload in enumerate(self._payloads(row, count), row):
            record = self._table[number - 1]
            encoding, size = int(record["encoding"]), int(record["raw"])
            try:
                found.append(self._decoder.decode(encoding, payload, size, record["digest"].tobytes()))
            except ValueError as error:
                file, message = int(self._of_file[row - 1]), f"chunk {number} is damaged: {error}"
                offset = int(record["offset"] - self._starts[file])
                raise format_error(self._paths[file], offset, message) from error
        if (self._table["encoding"][row - 1 : row - 1 + count] == Encoding.RAW).all():
            return [self._buffer()[: sum(map(len, found))]]  # one after the other as they are
        return found

    def _buffer(self) -> memoryview:
        if not hasattr(self._local, "buffer"):
            self._local.buffer = memoryview(mmap.mmap(-1, self._unit))
        buffer: memoryview = self._local.buffer
        return buffer

    def _on_threads(self, work: Callable[[Run], T], runs: Iterator[Run]) -> Iterator[T]:
        """The results in order; the first error wins."""
        first: Sequence[Run] = list(itertools.islice(runs, 2))
        if len(first) < 2:
            yield from map(work, first)
            return
        from concurrent.futures import ThreadPoolExecutor  # it loads logging, for large memory only

        pending: collections.deque[Future[T]] = collections.deque()
        with ThreadPoolExecutor(self._threads, thread_name_prefix="kerncap-chunks") as pool:
            try:
                for run in itertools.chain(first, runs):
                    if len(pending) >= 2 * self._threads:
                        yield pending.popleft().result()
                    pending.append(pool.submit(work, run))
                while pending:
                    yield pending.popleft().result()
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
