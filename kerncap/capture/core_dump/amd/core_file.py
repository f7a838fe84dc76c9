"""The memory in core files, by address: of ROCr's, of the process's, or of one that is both (`roccoremerge`).

A file may be a stranger's, or cut off: everything is checked before anything is read.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kerncap.errors import FormatError
from kerncap.format.code_object import MACHINE
from kerncap.format.elf import ElfProblem, Note, notes_in
from kerncap.log import size as size_text

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_CORE = 4  # ET_CORE
_HOSTS = (62, 183)  # EM_X86_64, EM_AARCH64
_LOAD, _NOTE = 1, 4
_MANY, _COUNT_AT = 0xFFFF, 44  # PN_XNUM: the true number is sh_info of the first section's header
MAX_SEGMENTS = 1 << 20
MAX_NOTES_BYTES = 64 << 20
MAX_READ = 1 << 30
_PROCESS, _PROCESS_OWNER, _PID = 3, "CORE", 24  # NT_PRPSINFO, and where it has the process's number
_STATE, _STATE_OWNER = 33, "AMDGPU"


@dataclass(frozen=True)
class Segment:
    """Memory from ``address`` on; only the first ``stored`` bytes are in the file, from ``at`` on."""

    address: int
    stored: int
    at: int

    @property
    def end(self) -> int:
        return self.address + self.stored


class CoreFile:
    """An open core file. Raises FormatError, with the byte, for a damaged one, or one that is cut off."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        header = _HEADER.unpack(self.read_at(0, _HEADER.size))
        self.is_gpu = header[2] == MACHINE
        self.segments: list[Segment] = []
        self.mapped: list[tuple[int, int]] = []  # address and end of all memory, also what isn't in the file
        self._notes: list[tuple[int, int]] = []  # place, size
        # ROCr 7.2 rounds the places of segments up in their headers, but writes each behind the one before.
        self.gap = 0  # bytes between the place that the header says and that
        self.moved = 0  # `gap`, once it is known that the file was written so
        self.is_limited = False  # ROCr stopped before the last segment: headers are missing
        self._read_segments(*_counted(self, header))
        self.segments.sort(key=lambda each: each.address)
        self.mapped.sort()

    def state(self) -> tuple[memoryview, int] | None:
        """ROCr's note on agents and queues, and where it is; None if the file has none."""
        for at, note in self._every_note():
            if note.owner == _STATE_OWNER and note.type == _STATE:
                return note.content, at
        return None

    def process(self) -> int | None:
        """The number of the process; None if the file doesn't say."""
        for _, note in self._every_note():
            if note.owner == _PROCESS_OWNER and note.type == _PROCESS and len(note.content) >= _PID + 4:
                return int.from_bytes(note.content[_PID : _PID + 4], "little")
        return None

    def stored(self, segment: Segment, address: int, size: int) -> bytes:
        """Bytes of a segment, from an address of it on."""
        return self.read_at(segment.at - self.moved + address - segment.address, size)

    def read_at(self, at: int, size: int) -> bytes:
        """Bytes of the file."""
        if size > MAX_READ:
            raise FormatError(
                self.path, at, f"{size_text(size)} at once; at most {size_text(MAX_READ)} are read"
            )
        data = b""
        if at + size <= self._size:
            self._file.seek(at)
            data = self._file.read(size)
        if len(data) != size:
            raise FormatError(
                self.path, at, f"{size:,} bytes expected in a file of {self._size:,}; the dump was cut off"
            )
        return data

    def _read_segments(self, at: int, count: int) -> None:
        table = self.read_at(at, count * _SEGMENT.size)
        behind = at + len(table)
        gaps = set()
        for number, found in enumerate(_SEGMENT.iter_unpack(table)):
            kind, _, offset, address, _, size, whole, _ = found
            if kind == _LOAD:
                self.mapped.append((address, address + max(size, whole)))
            self.is_limited |= self.is_gpu and not kind
            if kind not in (_LOAD, _NOTE) or not size:
                continue
            if offset + size > self._size or address + size > 1 << 64:
                raise FormatError(
                    self.path, at + number * _SEGMENT.size,
                    f"segment {number} has {size:,} bytes at {offset:,} of {self._size:,}; the dump was cut "
                    "off",
                )  # fmt: skip
            if kind == _LOAD:
                self.segments.append(Segment(address, size, offset))
                gaps.add(offset - behind)
            else:
                self._notes.append((offset, size))
            behind += size
        if self.is_gpu and len(gaps) == 1:
            self.gap = max(0, min(gaps))

    def _every_note(self) -> Iterator[tuple[int, Note]]:
        for at, size in self._notes:
            if size > MAX_NOTES_BYTES:
                raise FormatError(
                    self.path,
                    at,
                    f"notes of {size_text(size)}; at most {size_text(MAX_NOTES_BYTES)} are read",
                )
            try:
                yield from ((at, note) for note in notes_in(memoryview(self.read_at(at, size))))
            except ElfProblem as error:
                raise FormatError(self.path, at, f"{error}; the dump is damaged") from error


class Memory:
    """The memory that core files hold. Of two that hold an address, the first one's counts."""

    def __init__(self, files: Iterable[CoreFile]) -> None:
        self.files = tuple(files)
        self._starts = [[each.address for each in file.segments] for file in self.files]

    def read(self, address: int, size: int) -> bytes | None:
        """``size`` bytes from ``address`` on; None if not all are there."""
        parts: list[bytes] = []
        while size > 0:
            found = self._segment(address)
            if found is None:
                return None
            file, segment = found
            part = min(size, segment.end - address)
            parts.append(file.stored(segment, address, part))
            address, size = address + part, size - part
        return b"".join(parts)

    def number(self, address: int, size: int = 8) -> int | None:
        """The unsigned number there; None if it is not there."""
        data = self.read(address, size)
        return None if data is None else int.from_bytes(data, "little")

    def text(self, address: int, limit: int = 4096) -> str | None:
        """The text that ends in a NUL; None if it is not there."""
        found = bytearray()
        while len(found) < limit:
            step = min(256 - (address + len(found)) % 256, limit - len(found))
            piece = self.read(address + len(found), step)
            if piece is None:
                return None
            found += piece
            if 0 in piece:
                break
        return bytes(found).partition(b"\0")[0].decode("utf-8", "replace")

    def start_of(self, address: int) -> int | None:
        """Where the stretch of memory that has ``address`` begins."""
        found = self._segment(address)
        return None if found is None else found[1].address

    def is_mapped(self, address: int) -> bool:
        """Whether there was memory, also if it isn't in the files."""
        for file in self.files:
            at = bisect_right(file.mapped, (address, 1 << 65)) - 1
            if at >= 0 and address < file.mapped[at][1]:
                return True
        return False

    def wrong(self, address: int, problem: str) -> FormatError:
        """What is wrong with what is at an address, and where in which file that is."""
        found = self._segment(address)
        if found is None:
            return FormatError(self.files[0].path, 0, problem)
        file, segment = found
        return FormatError(file.path, segment.at + address - segment.address, problem)

    def _segment(self, address: int) -> tuple[CoreFile, Segment] | None:
        for file, starts in zip(self.files, self._starts, strict=True):
            at = bisect_right(starts, address) - 1
            if at >= 0 and address < file.segments[at].end:
                return file, file.segments[at]
        return None


def is_core(header: bytes) -> bool:
    """Whether that is the beginning of a core file that may be of an AMD GPU: ROCr's, or a process's."""
    if len(header) < _HEADER.size or header[:6] != b"\x7fELF\2\1":
        return False
    _, kind, machine, *_ = _HEADER.unpack(header[: _HEADER.size])
    return kind == _CORE and machine in (MACHINE, *_HOSTS)


def _counted(file: CoreFile, header: tuple[int, ...]) -> tuple[int, int]:
    """Where the segments' headers are, and how many."""
    at, sections_at, entry_bytes, count = header[5], header[6], header[9], header[10]
    if count == _MANY and sections_at:
        count = int.from_bytes(file.read_at(sections_at + _COUNT_AT, 4), "little")
    if entry_bytes != _SEGMENT.size or not 0 < count <= MAX_SEGMENTS:
        raise FormatError(
            file.path,
            54,
            f"{count:,} segment headers of {entry_bytes} bytes; the dump is damaged, or cut off",
        )
    return at, count
