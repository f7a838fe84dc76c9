"""The sections of a core dump: tables, and for a row of a table further tables, or bytes.

``sh_link`` of a section names its table and ``sh_info`` the row in it. A full GPU has a million of them, so
they are columns of numbers, not objects.

A dump may be a stranger's, or cut off: everything is checked before anything is read, and a chain of tables
has one order of types, so it can't lead back to itself.
"""

from __future__ import annotations

import enum
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from kerncap.capture.core_dump.rows import (
    BLOCK,
    CONTEXT,
    DEVICE,
    FRAME,
    GRID,
    LANE,
    METADATA,
    MODULE,
    SM,
    WARP,
    Row,
)
from kerncap.errors import FormatError
from kerncap.log import size as size_text

MAX_SECTIONS = 1 << 22
MAX_ROWS = 1 << 16  # of one table
MAX_READ = 1 << 30  # bytes of one section that are read
_FILE = np.dtype([
    ("magic", "S4"), ("ident", "u1", 12), ("type", "<u2"), ("machine", "<u2"), ("version", "<u4"),
    ("entry", "<u8"), ("segments_at", "<u8"), ("sections_at", "<u8"), ("flags", "<u4"), ("size", "<u2"),
    ("segment_size", "<u2"), ("segments", "<u2"), ("section_size", "<u2"), ("sections", "<u2"),
    ("names", "<u2"),
])  # fmt: skip
_SECTION = np.dtype([
    ("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("at", "<u8"), ("size", "<u8"),
    ("link", "<u4"), ("info", "<u4"), ("alignment", "<u8"), ("stride", "<u8"),
])  # fmt: skip
_CORE, _CUDA = 4, 190  # ET_CORE, EM_CUDA
_STRINGS = 3  # SHT_STRTAB
_NO_BYTES = (0, 8)  # SHT_NULL, SHT_NOBITS
_USER = 0x80000000  # SHT_LOUSER


class Kind(enum.IntEnum):
    """Types of sections. Source: CudbgSectionHeaderTypes in cudacoredump.h."""

    MANAGED = _USER + 1
    GLOBAL = _USER + 2
    LOCAL = _USER + 3
    SHARED = _USER + 4
    REGISTERS = _USER + 5
    IMAGE = _USER + 6
    RELOCATED_IMAGE = _USER + 7
    FRAMES = _USER + 8
    DEVICES = _USER + 9
    CONTEXTS = _USER + 10
    SMS = _USER + 11
    GRIDS = _USER + 12
    BLOCKS = _USER + 13
    WARPS = _USER + 14
    LANES = _USER + 15
    MODULES = _USER + 16
    PREDICATES = _USER + 17
    PARAMETERS = _USER + 18
    UNIFORM_REGISTERS = _USER + 19
    METADATA = _USER + 22


ROWS: dict[Kind, Row] = {
    Kind.METADATA: METADATA, Kind.DEVICES: DEVICE, Kind.CONTEXTS: CONTEXT, Kind.MODULES: MODULE,
    Kind.GRIDS: GRID, Kind.SMS: SM, Kind.BLOCKS: BLOCK, Kind.WARPS: WARP, Kind.LANES: LANE,
    Kind.FRAMES: FRAME,
}  # fmt: skip
_PARENTS = {
    Kind.CONTEXTS: Kind.DEVICES, Kind.GRIDS: Kind.DEVICES, Kind.SMS: Kind.DEVICES,
    Kind.MODULES: Kind.CONTEXTS, Kind.IMAGE: Kind.MODULES, Kind.RELOCATED_IMAGE: Kind.MODULES,
    Kind.PARAMETERS: Kind.GRIDS, Kind.BLOCKS: Kind.SMS, Kind.WARPS: Kind.BLOCKS, Kind.SHARED: Kind.BLOCKS,
    Kind.LANES: Kind.WARPS, Kind.UNIFORM_REGISTERS: Kind.WARPS, Kind.REGISTERS: Kind.LANES,
    Kind.PREDICATES: Kind.LANES, Kind.LOCAL: Kind.LANES, Kind.FRAMES: Kind.LANES,
}  # fmt: skip


class Sections:
    """The sections of an open core dump by number. Raises FormatError, with the byte, for a damaged one."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._table = self._headers()
        self._check_places()
        self._children = self._check_links()
        found = np.flatnonzero(self._table["type"] == _STRINGS)
        self._strings = self.content(int(found[0])) if len(found) else b""

    def of(self, kind: Kind) -> list[int]:
        """Numbers of all sections of a type."""
        return [int(number) for number in np.flatnonzero(self._table["type"] == kind)]

    def child(self, kind: Kind, table: int, row: int) -> int | None:
        """The section of that type which belongs to a row of section ``table``."""
        keys, numbers = self._children[kind]
        at = int(np.searchsorted(keys, _key(table, row)))
        return int(numbers[at]) if at < len(keys) and keys[at] == _key(table, row) else None

    def parent(self, number: int) -> tuple[int, int]:
        """The table and the row that a section belongs to."""
        return self._number(number, "link"), self._number(number, "info")

    def address(self, number: int) -> int:
        return self._number(number, "address")

    def size(self, number: int) -> int:
        return self._number(number, "size")

    def content(self, number: int) -> bytes:
        size = self.size(number)
        if size > MAX_READ:
            raise self.wrong(
                number, f"a section of {size_text(size)}; at most {size_text(MAX_READ)} are read"
            )
        return self._read(self._number(number, "at"), size)

    def words(self, number: int | None) -> tuple[int, ...]:
        """The section's bytes as numbers of 32 bits; none of no section."""
        data = b"" if number is None else self.content(number)
        return tuple(np.frombuffer(data[: len(data) // 4 * 4], "<u4").tolist())

    def rows(self, number: int) -> NDArray[np.void]:
        """The table's rows, with the fields of `ROWS`."""
        row = ROWS[Kind(self._number(number, "type"))]
        count, stride = self._count(number), self._stride(number)
        found = np.zeros((count, row.fields.itemsize), np.uint8)
        if count:
            kept = row.kept(stride)
            data = np.frombuffer(self.content(number), np.uint8)[: count * stride].reshape(count, stride)
            found[:, :kept] = data[:, :kept]
        return found.view(row.fields).reshape(count)

    def text(self, at: int) -> str:
        """The string at ``at`` of the dump's string table; empty if there is none."""
        end = self._strings.find(b"\0", at)
        piece = self._strings[at : end if end >= 0 else None] if at < len(self._strings) else b""
        return piece[:4096].decode("utf-8", "replace")

    def wrong(self, number: int, problem: str) -> FormatError:
        """What is wrong with a section, and where its header is."""
        return FormatError(self.path, self._headers_at + number * _SECTION.itemsize, problem)

    def _count(self, number: int) -> int:
        row = ROWS[Kind(self._number(number, "type"))]
        size, stride = self.size(number), self._stride(number)
        if not size:
            return 0
        if stride < row.least or size % stride or size // stride > MAX_ROWS:
            raise self.wrong(number, f"a table of {size:,} bytes for rows of {stride:,}, each a {row.what}")
        return size // stride

    def _stride(self, number: int) -> int:
        """Bytes of a row. Driver 580 leaves it 0 for the one row of the metadata."""
        one_row = self._number(number, "type") == Kind.METADATA
        return self._number(number, "stride") or (self.size(number) if one_row else 0)

    def _number(self, number: int, field: str) -> int:
        return int(self._table[field][number])

    def _read(self, at: int, size: int) -> bytes:
        self._file.seek(at)
        data = self._file.read(size)
        if len(data) != size:
            raise FormatError(self.path, at, f"{size:,} bytes expected, and the file has become shorter")
        return data

    def _headers(self) -> NDArray[np.void]:
        data = self._file.read(_FILE.itemsize)
        if data[:2] == b"\x1f\x8b":
            raise FormatError(self.path, 0, "a compressed file, not a core dump; unpack it with gunzip first")
        if data[:4] != b"\x7fELF":
            raise FormatError(
                self.path, 0,
                "not a core dump of a GPU, nor a log of its fault; CUDA_COREDUMP_FILE names CUDA's, and "
                "gpucore.PID is ROCm's",
            )  # fmt: skip
        if len(data) < _FILE.itemsize:
            raise FormatError(self.path, len(data), "the file ends within its header; the dump was cut off")
        head = np.frombuffer(data, _FILE)[0]
        if bytes(head["ident"][:2]) != b"\2\1" or head["machine"] != _CUDA or head["type"] != _CORE:
            kind = "the core dump of a process" if head["type"] == _CORE else "an ELF file"
            raise FormatError(
                self.path, 18, f"{kind}, not a core dump of a GPU; CUDA_COREDUMP_FILE names that"
            )
        self._headers_at = at = int(head["sections_at"])
        count = int(head["sections"])
        if not at or int(head["section_size"]) != _SECTION.itemsize:
            raise FormatError(
                self.path,
                40,
                f"section headers of {head['section_size']} bytes at {at:,}; the dump was cut off",
            )
        if not count and at + _SECTION.itemsize <= self._size:  # the number is in the first header
            count = int(np.frombuffer(self._read(at, _SECTION.itemsize), _SECTION)[0]["size"])
        if not 0 < count <= MAX_SECTIONS or at + count * _SECTION.itemsize > self._size:
            raise FormatError(
                self.path, at,
                f"{count:,} section headers in a file of {self._size:,} bytes; the dump was cut off",
            )  # fmt: skip
        return np.frombuffer(self._read(at, count * _SECTION.itemsize), _SECTION)

    def _check_places(self) -> None:
        table, size = self._table, np.uint64(self._size)
        room = size - np.minimum(table["at"], size)
        bad = (table["size"] > room) & ~np.isin(table["type"], _NO_BYTES)
        if bad.any():
            number = int(np.flatnonzero(bad)[0])
            raise self.wrong(
                number,
                f"section {number} has {self.size(number):,} bytes at {self._number(number, 'at'):,} of "
                f"{self._size:,}; the dump was cut off",
            )

    def _check_links(self) -> dict[Kind, tuple[NDArray[np.uint64], NDArray[np.int64]]]:
        """That each section belongs to a row that is there; the sections of each type by that row."""
        table = self._table
        counts = np.zeros(len(table), np.uint64)
        for kind in {Kind.DEVICES, *_PARENTS.values()}:
            for number in self.of(kind):
                counts[number] = self._count(number)
        children = {}
        for kind, parent in _PARENTS.items():
            numbers = np.flatnonzero(table["type"] == kind)
            links = table["link"][numbers].astype(np.int64)
            there = np.minimum(links, len(table) - 1)
            bad = (links != there) | (table["type"][there] != parent)
            bad |= table["info"][numbers] >= counts[there]
            keys = _key(links.astype(np.uint64), table["info"][numbers].astype(np.uint64))
            order = np.argsort(keys, kind="stable")
            keys, numbers, bad = keys[order], numbers[order], bad[order]
            bad[1:] |= keys[1:] == keys[:-1]
            if bad.any():
                number = int(numbers[np.flatnonzero(bad)[0]])
                raise self.wrong(
                    number,
                    f"section {number} ({kind.name.lower().replace('_', ' ')}) is of row "
                    f"{self._number(number, 'info')} of section {self._number(number, 'link')}, which has no "
                    "such row free; the dump is damaged",
                )
            children[kind] = keys, numbers
        return children


def _key(table: int | NDArray[np.uint64], row: int | NDArray[np.uint64]) -> NDArray[np.uint64]:
    return np.asarray(np.uint64(table) << np.uint64(32) | np.uint64(row))
