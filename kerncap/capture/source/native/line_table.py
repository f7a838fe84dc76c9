"""Which file and lines a kernel comes from: the line program of its cubin, the `.loc`s of its PTX.

A cubin keeps its relocations, so a kernel's sequence is found without decoding the others: the place
of the address in it is relocated against the kernel's symbol.
Source: DWARF 2 to 4, section 6.2; extended opcode 0x90 (inlined call) as NVIDIA's ptxas writes it.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass, field

from kerncap.format.elf import REL, RELA, Elf, ElfProblem, text_at

MAX_ROWS = 200_000
MAX_FILES = 65_536
MAX_PTX = 64 << 20
_SET_ADDRESS = b"\x00\x09\x02"
_ADDRESS_AT = len(_SET_ADDRESS)


@dataclass(frozen=True)
class LineTable:
    """The lines of one kernel. ``rows`` are (file, line) in the order of the code, each pair once.

    ``files`` are all files of its compilation unit, normalised; relative ones have no folder in the table.
    ``stamps`` are their (modification time in s, size in bytes) when they were compiled, where it says so.
    """

    rows: tuple[tuple[str, int], ...]
    files: tuple[str, ...]
    stamps: dict[str, tuple[int, int]] = field(default_factory=dict)


def from_cubin(data: bytes | memoryview, mangled: str) -> LineTable | None:
    """The kernel's lines in a cubin, None where it has none of it. Raises ElfProblem for a damaged image."""
    elf = Elf(data)
    section = elf.section(".debug_line")
    if section is None:
        return None
    program = elf.content(section)
    for place in _addresses(elf, mangled):
        if place >= _ADDRESS_AT and bytes(program[place - _ADDRESS_AT : place]) == _SET_ADDRESS:
            table = _sequence(program, place - _ADDRESS_AT)
            if table.rows:
                return table
    return None


def _addresses(elf: Elf, mangled: str) -> list[int]:
    """Offsets in .debug_line where the kernel's address stands."""
    wanted = {symbol.index for symbol in elf.symbols() if symbol.name in (mangled, f".text.{mangled}")}
    found: list[int] = []
    for name, kind, entry in (
        (".rela.debug_line", RELA, struct.Struct("<QQq")),
        (".rel.debug_line", REL, struct.Struct("<QQ")),
    ):
        section = elf.section(name)
        if section is None or section.type != kind:
            continue
        content = elf.content(section)
        for offset, info, *_ in entry.iter_unpack(content[: len(content) // entry.size * entry.size]):
            if info >> 32 in wanted:
                found.append(offset)
    return found


class _Reader:
    def __init__(self, data: memoryview, offset: int, end: int) -> None:
        self.data = data
        self.offset = offset
        self.end = min(end, len(data))

    def take(self, size: int) -> int:
        if self.offset + size > self.end:
            raise ElfProblem("a line program that ends early")
        value = int.from_bytes(self.data[self.offset : self.offset + size], "little")
        self.offset += size
        return value

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > 63:
                raise ElfProblem("a number of more than 64 bits in a line program")

    def signed(self) -> int:
        start = self.offset
        value = self.unsigned()
        bits = 7 * (self.offset - start)
        return value - (1 << bits) if value >> (bits - 1) else value

    def text(self) -> str:
        found = text_at(self.data[self.offset : self.end], 0, limit=65_536)
        if "\ufffd" not in found:  # else its bytes may be fewer than those of the text
            self.offset += len(found.encode())
        while self.take(1):  # the rest of one that was cut, or not UTF-8
            pass
        return found


@dataclass(frozen=True)
class _Header:
    line_base: int
    line_range: int
    operands: tuple[int, ...]
    files: tuple[str, ...]
    stamps: dict[str, tuple[int, int]]
    end: int


def _sequence(program: memoryview, start: int) -> LineTable:
    """The rows of the sequence at ``start``, up to its end."""
    header = _header_of(program, start)
    reader = _Reader(program, start, header.end)
    file, line = 1, 1
    rows: dict[tuple[str, int], None] = {}
    steps = 0
    while reader.offset < reader.end and len(rows) < MAX_ROWS and steps < 16 * MAX_ROWS:
        steps += 1
        opcode = reader.take(1)
        emit = True
        if opcode > len(header.operands):
            adjusted = opcode - len(header.operands) - 1
            line += header.line_base + adjusted % header.line_range
        elif opcode == 0:
            size = reader.unsigned()
            end = reader.offset + size
            if size == 0 or end > reader.end:
                raise ElfProblem("an extended opcode that leads out of the line program")
            kind = reader.take(1)
            reader.offset = end
            if kind == 1:  # end of the sequence
                break
            emit = False
        elif opcode == 1:
            pass  # copy
        elif opcode == 3:
            line, emit = line + reader.signed(), False
        elif opcode == 4:
            file, emit = reader.unsigned(), False
        elif opcode == 9:
            reader.take(2)
            emit = False
        else:
            for _ in range(header.operands[opcode - 1]):
                reader.unsigned()
            emit = False
        if emit and 0 < file <= len(header.files) and line > 0:
            rows[header.files[file - 1], line] = None
    return LineTable(tuple(rows), header.files, header.stamps)


def _header_of(program: memoryview, place: int) -> _Header:
    """The header of the line program that holds ``place``."""
    offset = 0
    while offset + 4 <= len(program):
        reader = _Reader(program, offset, len(program))
        length = reader.take(4)
        wide = length == 0xFFFFFFFF
        if wide:
            length = reader.take(8)
        end = reader.offset + length
        if end > len(program) or length < 8:
            raise ElfProblem("a line program that is longer than its section")
        if place < end:
            return _read_header(reader, end, 8 if wide else 4)
        offset = end
    raise ElfProblem("no line program holds the kernel's address")


def _read_header(reader: _Reader, end: int, width: int) -> _Header:
    version = reader.take(2)
    if not 2 <= version <= 4:
        raise ElfProblem(f"a line program of DWARF version {version}")
    reader.take(width)
    reader.take(3 if version >= 4 else 2)  # instruction length, (operations,) is_stmt
    base = reader.take(1)
    span, opcodes = reader.take(1), reader.take(1)
    if not span or not opcodes:
        raise ElfProblem("a line program with no range of lines or opcodes")
    operands = tuple(reader.take(1) for _ in range(opcodes - 1))
    folders: list[str] = []
    while folder := reader.text():
        folders.append(folder)
        if len(folders) > MAX_FILES:
            raise ElfProblem("a line program of too many folders")
    files: list[str] = []
    stamps: dict[str, tuple[int, int]] = {}
    while name := reader.text():
        number = reader.unsigned()
        stamp = (reader.unsigned(), reader.unsigned())
        folder = folders[number - 1] if 0 < number <= len(folders) else ""
        files.append(os.path.normpath(os.path.join(folder, name)))
        if all(stamp):
            stamps[files[-1]] = stamp
        if len(files) > MAX_FILES:
            raise ElfProblem("a line program of too many files")
    return _Header(base - 256 if base > 127 else base, span, operands, tuple(files), stamps, end)


_PTX_FILE = re.compile(
    r'^\s*\.file\s+(\d+)\s+"((?:[^"\\\n]|\\.)*)"(?:\s*,\s*(\d+)\s*,\s*(\d+))?', re.MULTILINE
)
_PTX_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+", re.MULTILINE)


def from_ptx(text: str, mangled: str) -> LineTable | None:
    """The kernel's lines in PTX that has `.loc`s; None where it has none."""
    body = ptx_body(text, mangled)
    if body is None:
        return None
    files: dict[int, str] = {}
    stamps: dict[str, tuple[int, int]] = {}
    for number, name, changed, size in _PTX_FILE.findall(text):
        files[int(number)] = path = os.path.normpath(_unescaped(name))
        if changed and int(changed) and int(size):
            stamps[path] = (int(changed), int(size))
    rows: dict[tuple[str, int], None] = {}
    for number, line in _PTX_LOC.findall(body):
        if int(number) in files and int(line) > 0:
            rows[files[int(number)], int(line)] = None
            if len(rows) >= MAX_ROWS:
                break
    return LineTable(tuple(rows), tuple(files.values()), stamps) if rows else None


def ptx_body(text: str, mangled: str) -> str | None:
    """The text of a kernel's `.entry`, parameters and body; None if it has none with a body."""
    found = re.search(rf"\.entry\s+{re.escape(mangled)}(?![\w$])", text)
    if found is None or len(text) > MAX_PTX:
        return None
    following = re.search(r"^\s*(?:\.\w+\s+)*\.(?:entry|func)\b", text[found.end() :], re.MULTILINE)
    return text[found.start() : found.end() + following.start() if following else len(text)]


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)
