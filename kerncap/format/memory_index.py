"""The memory of a reproducer: the index that says where each chunk is (FORMAT.md, "Memory").

The index is untrusted until `MemoryIndex.decode` has checked it against the manifest's regions.
It is held as numpy columns, so that a large one costs its own size and no Python objects.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from kerncap.format.stored_files import format_error

State = Literal["pre", "post"]
STATES: tuple[State, ...] = ("pre", "post")
INDEX_VERSION = 1
RANGE_INDEX_VERSION = 2
ZERO_ROW = 0  # rows count from 1; 0 says that the chunk is all zero

#   digest[32] of the raw bytes · offset u64 in all files of chunks · stored u32 · raw u32 · encoding u32
ROW = np.dtype([("digest", "V32"), ("offset", "<u8"), ("stored", "<u4"), ("raw", "<u4"), ("encoding", "<u4")])
#   region u32 · chunk number u32 · row u32
ENTRY = np.dtype([("region", "<u4"), ("chunk", "<u4"), ("row", "<u4")])
Table = npt.NDArray[np.void]
Numbers = npt.NDArray[np.int64]


class Encoding(enum.IntEnum):
    RAW = 0
    ZSTD = 1  # one frame, with its content size and no dictionary


class _IndexFile(msgspec.Struct, frozen=True):
    """`memory/index` as MessagePack: a map with these keys, in this order."""

    version: int
    chunk_bytes: int
    table: memoryview
    pre: memoryview
    post: memoryview


class _RangeIndexFile(msgspec.Struct, frozen=True):
    """The same of a range: one table, and the entries (pre, post) of each launch."""

    version: int
    chunk_bytes: int
    table: memoryview
    launches: tuple[tuple[memoryview, memoryview], ...]


F = TypeVar("F", _IndexFile, _RangeIndexFile)


class MemoryIndex:
    """Chunk table and, per region, which chunks are stored: ``pre`` whole, ``post`` if it changed."""

    def __init__(self, chunk_bytes: int, table: Table, pre: Table, post: Table) -> None:
        self.chunk_bytes = chunk_bytes
        self.table = table
        self._entries = {"pre": pre, "post": post}
        self._regions = {state: np.ascontiguousarray(e["region"]) for state, e in self._entries.items()}

    def encode(self) -> bytes:
        """Exact bytes of `memory/index`; the same for the same content."""
        file = _IndexFile(
            version=INDEX_VERSION,
            chunk_bytes=self.chunk_bytes,
            table=_bytes(self.table),
            pre=_bytes(self._entries["pre"]),
            post=_bytes(self._entries["post"]),
        )
        return msgspec.msgpack.encode(file)

    @classmethod
    def decode(
        cls,
        data: bytes,
        where: Path,
        region_sizes: Sequence[int],
        chunk_bytes: int,
        chunk_files: Sequence[int],
    ) -> MemoryIndex:
        """Read and check an index. Raises FormatError naming the byte of what is wrong.

        ``chunk_files`` are the sizes of the files of chunks.
        """
        file = _decoded(data, where, _IndexFile, INDEX_VERSION, chunk_bytes)
        check = _Check(data, where)
        table = check.column("table", file.table, ROW)
        check.table(table, chunk_bytes, chunk_files)
        pre, post = check.states("", file.pre, file.post, table, region_sizes, chunk_bytes)
        return cls(chunk_bytes, table, pre, post)

    def entries(self, state: State) -> Table:
        """All that is listed under ``state``, ascending by (region, chunk)."""
        return self._entries[state]

    def stored(self, state: State, region: int) -> tuple[Numbers, Numbers]:
        """(chunk numbers, rows) that are listed for ``region`` under ``state``, ascending."""
        wanted = np.array([region, region + 1], dtype=np.uint32)  # the column's own type: no copy of it
        first, last = np.searchsorted(self._regions[state], wanted)
        found = self._entries[state][int(first) : int(last)]
        return found["chunk"].astype(np.int64), found["row"].astype(np.int64)

    def rows(self, state: State, region: int, first: int, last: int) -> Numbers:
        """The row of each chunk from ``first`` up to ``last`` (exclusive); 0 if it is zero."""
        rows = np.zeros(last - first, dtype=np.int64)
        for layer in ("pre", "post") if state == "post" else ("pre",):
            chunks, listed = self.stored(layer, region)
            begin, end = np.searchsorted(chunks, [first, last])
            rows[chunks[begin:end] - first] = listed[begin:end]
        return rows

    def nonzero(self, state: State, region: int) -> tuple[Numbers, Numbers]:
        """(chunk numbers, rows) of every chunk of ``region`` that is not all zero in ``state``."""
        chunks, rows = self.stored("pre", region)
        if state == "post":
            changed, changed_rows = self.stored("post", region)
            kept = ~np.isin(chunks, changed, assume_unique=True)
            chunks = np.concatenate([chunks[kept], changed])
            rows = np.concatenate([rows[kept], changed_rows])
            order = np.argsort(chunks, kind="stable")
            chunks, rows = chunks[order], rows[order]
        return chunks[rows != ZERO_ROW], rows[rows != ZERO_ROW]

    def raw_bytes(self, state: State) -> int:
        """Bytes of the listed chunks that are not zero, each time they are listed."""
        rows = self._entries[state]["row"]
        return int(self.table["raw"][rows[rows != ZERO_ROW] - 1].sum(dtype=np.uint64))

    def region_bytes(self, region: int) -> tuple[int, int]:
        """Raw bytes listed for one region: (pre, post)."""
        sizes = []
        for state in STATES:
            _, rows = self.stored(state, region)
            sizes.append(int(self.table["raw"][rows[rows != ZERO_ROW] - 1].sum(dtype=np.uint64)))
        return sizes[0], sizes[1]


def encode_range(chunk_bytes: int, table: Table, entries: Sequence[tuple[Table, Table]]) -> bytes:
    """`memory/index` of a range: the entries (pre, post) of each launch, by the rows of one table."""
    launches = tuple((_bytes(pre), _bytes(post)) for pre, post in entries)
    return msgspec.msgpack.encode(_RangeIndexFile(RANGE_INDEX_VERSION, chunk_bytes, _bytes(table), launches))


def decode_range(
    data: bytes, where: Path, region_sizes: Sequence[Sequence[int]], chunk_bytes: int, chunks_size: int
) -> list[MemoryIndex]:
    """The index of each launch of a range, by the sizes of its regions. Raises FormatError."""
    file = _decoded(data, where, _RangeIndexFile, RANGE_INDEX_VERSION, chunk_bytes)
    if len(file.launches) != len(region_sizes):
        message = f"entries of {len(file.launches)} launches; the manifest has {len(region_sizes)}"
        raise format_error(where, 0, message)
    check = _Check(data, where)
    table = check.column("table", file.table, ROW)
    check.table(table, chunk_bytes, [chunks_size])
    found = []
    for number, ((pre, post), sizes) in enumerate(zip(file.launches, region_sizes, strict=True)):
        states = check.states(f"launch {number}, ", pre, post, table, sizes, chunk_bytes)
        found.append(MemoryIndex(chunk_bytes, table, *states))
    return found


def _decoded(data: bytes, where: Path, kind: type[F], version: int, chunk_bytes: int) -> F:
    try:
        file = msgspec.msgpack.decode(data, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        found = re.search(r"\(byte (\d+)\)", str(error))
        offset = int(found[1]) if found else (len(data) if "truncated" in str(error) else 0)
        raise format_error(where, offset, f"not a memory index: {error}") from error
    if file.version != version:
        message = f"memory index version {file.version} is not known; expected {version}"
        raise format_error(where, 0, message)
    if file.chunk_bytes != chunk_bytes:
        message = f"chunk size {file.chunk_bytes}; the manifest says {chunk_bytes}"
        raise format_error(where, 0, message)
    return file


def _bytes(array: Table) -> memoryview:
    return memoryview(np.ascontiguousarray(array).tobytes())


class _Check:
    """The rules of an index; each failure names the byte of the record that breaks it."""

    def __init__(self, data: bytes, where: Path) -> None:
        self.where = where
        self.start = np.frombuffer(data, np.uint8).ctypes.data
        self.offsets: dict[str, int] = {}

    def states(
        self, prefix: str, pre: memoryview, post: memoryview, table: Table, region_sizes: Sequence[int],
        chunk_bytes: int,
    ) -> tuple[Table, Table]:  # fmt: skip
        """The checked entries before and after one launch; ``prefix`` is for messages."""
        columns = [
            self.column(f"{prefix}{name}", raw, ENTRY) for name, raw in zip(STATES, (pre, post), strict=True)
        ]
        for name, entries in zip(STATES, columns, strict=True):
            self.entries(name, prefix, entries, table, region_sizes, chunk_bytes)
        self.changes(prefix, *columns)
        return columns[0], columns[1]

    def column(self, name: str, raw: memoryview, dtype: np.dtype[Any]) -> Table:
        flat = np.frombuffer(raw, np.uint8)
        self.offsets[name] = flat.ctypes.data - self.start if len(flat) else 0
        if len(flat) % dtype.itemsize:
            message = f"{name}: {len(flat)} bytes are not a whole number of {dtype.itemsize}-byte records"
            raise format_error(self.where, self.offsets[name], message)
        return flat.view(dtype)

    def first(self, name: str, bad: npt.NDArray[np.bool_], size: int, field: int, message: str) -> None:
        if bad.any():
            number = int(bad.argmax())
            offset = self.offsets[name] + number * size + field
            raise format_error(self.where, offset, f"{name} record {number}: {message}")

    def table(self, table: Table, chunk_bytes: int, chunk_files: Sequence[int]) -> None:
        stored, raw, encoding = table["stored"], table["raw"], table["encoding"]
        size = ROW.itemsize
        self.first("table", (raw == 0) | (raw > chunk_bytes), size, 44, f"raw size is not 1 to {chunk_bytes}")
        self.first("table", encoding > max(Encoding), size, 48, "unknown encoding")
        raw_kept = encoding == Encoding.RAW
        wrong = (raw_kept & (stored != raw)) | (~raw_kept & ((stored == 0) | (stored >= raw)))
        self.first("table", wrong, size, 40, "stored size does not fit the encoding")
        # Without gaps or overlaps nothing can hide in the file and no byte is counted twice.
        expected = np.zeros(len(table), dtype=np.uint64)
        np.cumsum(stored[:-1], dtype=np.uint64, out=expected[1:])
        self.first("table", table["offset"] != expected, size, 32, "chunks are not contiguous")
        total = int(stored.sum(dtype=np.uint64))
        if total != sum(chunk_files):
            message = f"the chunks take {total} bytes, memory/chunks has {sum(chunk_files)}"
            raise format_error(self.where, self.offsets["table"], message)
        ends = np.cumsum(np.array(chunk_files, dtype=np.uint64))
        of_file = np.searchsorted(ends, table["offset"], side="right")
        crossing = table["offset"] + stored > ends[np.minimum(of_file, len(ends) - 1)]
        self.first("table", crossing, size, 40, "the chunk is in two files")

    def entries(
        self, state: State, prefix: str, entries: Table, table: Table, region_sizes: Sequence[int],
        chunk_bytes: int,
    ) -> None:  # fmt: skip
        size, name = ENTRY.itemsize, f"{prefix}{state}"
        region = entries["region"].astype(np.int64)
        chunk = entries["chunk"].astype(np.int64)
        row = entries["row"].astype(np.int64)
        self.first(name, region >= len(region_sizes), size, 0, f"region is not below {len(region_sizes)}")
        key = (region << 32) | chunk
        unsorted = np.zeros(len(key), dtype=np.bool_)
        unsorted[1:] = key[1:] <= key[:-1]
        self.first(name, unsorted, size, 0, "records are not in strictly ascending order")
        sizes = np.asarray(region_sizes, dtype=np.int64)
        left = (sizes[region] if len(region) else chunk) - chunk * chunk_bytes
        self.first(name, left <= 0, size, 4, "chunk is beyond its region")
        self.first(name, row > len(table), size, 8, f"row is not among the table's {len(table)}")
        if state == "pre":
            self.first(name, row == ZERO_ROW, size, 8, "a zero chunk; those are implied")
        used = row != ZERO_ROW
        wrong = np.zeros(len(row), dtype=np.bool_)
        wrong[used] = table["raw"][row[used] - 1] != np.minimum(left[used], chunk_bytes)
        self.first(name, wrong, size, 8, "the chunk's raw size does not fit its place")

    def changes(self, prefix: str, pre: Table, post: Table) -> None:
        before = (pre["region"].astype(np.int64) << 32) | pre["chunk"]
        after = (post["region"].astype(np.int64) << 32) | post["chunk"]
        place = np.searchsorted(before, after)
        rows = np.zeros(len(after), dtype=np.int64)
        inside = place < len(before)
        inside[inside] = before[place[inside]] == after[inside]
        rows[inside] = pre["row"][place[inside]]
        self.first(f"{prefix}post", rows == post["row"], ENTRY.itemsize, 8, "the chunk did not change")
