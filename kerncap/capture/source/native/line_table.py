"""Which file and lines a kernel comes from: line programs of its cubin or code object, the `.loc`s of PTX.

A cubin keeps its relocations, so a kernel's sequence is found without decoding the others: the place
of the address in it is relocated against the kernel's symbol. A code object is linked: its rows have
addresses.
"""

from __future__ import annotations

import itertools
import os
import re
import struct
import zlib
from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass, field

from kerncap.capture.source.native import line_program
from kerncap.capture.source.native.line_program import Header, Row, Strings
from kerncap.format.code_object import MACHINE as AMDGPU
from kerncap.format.elf import DYNSYM, FUNCTION, REL, RELA, SYMTAB, Elf, ElfProblem

MAX_ROWS = 200_000
MAX_PTX = 64 << 20
MAX_UNPACKED = 64 << 20  # bytes of a compressed section
_COMPRESSED, _ZLIB = 0x800, 1  # SHF_COMPRESSED; ELFCOMPRESS_ZLIB
_PACKED = struct.Struct("<I4xQ8x")  # method, size
_SET_ADDRESS = b"\x00\x09\x02"


@dataclass(frozen=True)
class LineTable:
    """The lines of one kernel. ``rows`` are (file, line) in the order of the code, each pair once.

    ``files`` are all files of its compilation unit, normalised; relative ones have no folder in the table.
    ``stamps`` are their (modification time in s, size in bytes) when they were compiled, if it says so.
    """

    rows: tuple[tuple[str, int], ...]
    files: tuple[str, ...]
    stamps: dict[str, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """``size`` bytes of code at ``offset`` from the kernel's beginning come from ``line`` of ``file``."""

    offset: int
    size: int
    file: str
    line: int


def of_image(cubin: bytes | None, hsaco: bytes | None, ptx: str | None, mangled: str) -> LineTable | None:
    """The kernel's lines in whichever of its codes there are. Raises ElfProblem for a damaged image."""
    code = cubin if hsaco is None else hsaco
    table = from_code(code, mangled) if code is not None else None
    return from_ptx(ptx, mangled) if table is None and ptx is not None else table


def from_code(data: bytes | memoryview, mangled: str) -> LineTable | None:
    """The kernel's lines in a cubin or AMDGPU code object; None if it has none (no -lineinfo, no -g).

    Raises ElfProblem for a damaged image.
    """
    decoded = _decoded(Elf(data), mangled)
    return None if decoded is None else _table(*decoded)


def places(data: bytes | memoryview, mangled: str) -> tuple[Place, ...]:
    """Where the source of each stretch of the kernel's code is, in the order of the code; () if unknown.

    Raises ElfProblem for a damaged image.
    """
    elf = Elf(data)
    decoded, code = _decoded(elf, mangled), _code_range(elf, mangled)
    if decoded is None or code is None:
        return ()
    by_address = {row.address: row for row in decoded[1] if row.address in code}
    found: list[Place] = []
    starts = [*sorted(by_address), code.stop]
    for start, end in itertools.pairwise(starts):
        row = by_address[start]
        offset = start - code.start
        last = found[-1] if found else None
        if last is not None and (last.file, last.line) == (row.file, row.line):
            offset = found.pop().offset
        found.append(Place(offset, end - code.start - offset, row.file, row.line))
    return tuple(place for place in found if place.line)


def _decoded(elf: Elf, mangled: str) -> tuple[Header, list[Row]] | None:
    """The kernel's rows, and the head of the line program that they are in."""
    program = _content(elf, ".debug_line")
    of_kernel = _rows_in_code_object if elf.machine == AMDGPU else _rows_in_cubin
    return of_kernel(elf, program, mangled) if len(program) else None


def _rows_in_cubin(elf: Elf, program: memoryview, mangled: str) -> tuple[Header, list[Row]] | None:
    own, starts = _sequences(elf, program, mangled)
    for start in own:
        after = bisect(starts, start)
        end = starts[after] if after < len(starts) else len(program)
        unit = next((unit for unit in line_program.units(program) if start < unit.end), None)
        if unit is None:
            raise ElfProblem("no line program holds the kernel's address")
        header = line_program.header(program, unit)
        sequence = itertools.takewhile(
            lambda row: row is not None, line_program.rows(program, header, start, end)
        )
        rows = [row for row in sequence if row is not None]
        if any(row.line for row in rows):
            return header, rows
    return None


def _rows_in_code_object(elf: Elf, program: memoryview, mangled: str) -> tuple[Header, list[Row]] | None:
    code = _code_range(elf, mangled)
    if code is None:
        return None
    strings = Strings(*(bytes(_content(elf, name)) for name in (".debug_line_str", ".debug_str")))
    for unit in line_program.units(program):
        header, every = line_program.whole(bytes(program[unit.start : unit.end]), strings)
        rows = [row for row in every if row.address in code]
        if any(row.line for row in rows):
            return header, rows
    return None


def _code_range(elf: Elf, mangled: str) -> range | None:
    for kind in (DYNSYM, SYMTAB):
        for symbol in elf.symbols(kind):
            if symbol.name == mangled and symbol.type == FUNCTION:
                return range(symbol.value, symbol.value + symbol.size)
    return None


def _content(elf: Elf, name: str) -> memoryview:
    """A debug section, unpacked (``-gz``); empty if it is not there."""
    section = elf.section(name)
    if section is None:
        return memoryview(b"")
    content = elf.content(section)
    if not section.flags & _COMPRESSED:
        return content
    kind, size = _PACKED.unpack_from(content) if len(content) >= _PACKED.size else (0, 0)
    if kind != _ZLIB or not 0 < size <= MAX_UNPACKED:
        raise ElfProblem(f"{name} of {size:,} bytes, packed by method {kind}")
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(content[_PACKED.size :], size)
    except zlib.error as error:
        raise ElfProblem(f"{name} that can't be unpacked: {error}") from error
    if len(unpacked) != size:
        raise ElfProblem(f"{name} of {len(unpacked):,} bytes, expected {size:,}")
    return memoryview(unpacked)


def _table(header: Header, rows: Iterable[Row]) -> LineTable:
    found: dict[tuple[str, int], None] = {}
    for row in rows:
        if row.line:
            found[row.file, row.line] = None
        if len(found) >= MAX_ROWS:
            break
    return LineTable(tuple(found), header.files, header.stamps)


def _sequences(elf: Elf, program: memoryview, mangled: str) -> tuple[list[int], list[int]]:
    """Where in .debug_line the kernel's sequences begin, and where any begins: at a relocated address."""
    wanted = {symbol.index for symbol in elf.symbols() if symbol.name in (mangled, f".text.{mangled}")}
    own: list[int] = []
    starts: list[int] = []
    for name, kind, entry in (
        (".rela.debug_line", RELA, struct.Struct("<QQq")),
        (".rel.debug_line", REL, struct.Struct("<QQ")),
    ):
        section = elf.section(name)
        if section is None or section.type != kind:
            continue
        content = elf.content(section)
        for offset, info, *_ in entry.iter_unpack(content[: len(content) // entry.size * entry.size]):
            start = offset - len(_SET_ADDRESS)
            if start >= 0 and bytes(program[start:offset]) == _SET_ADDRESS:
                starts.append(start)
                if info >> 32 in wanted:
                    own.append(start)
    return own, sorted(starts)


_PTX_FILE = re.compile(
    r'^\s*\.file\s+(\d+)\s+"((?:[^"\\\n]|\\.)*)"(?:\s*,\s*(\d+)\s*,\s*(\d+))?', re.MULTILINE
)
_PTX_LOC = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+\d+", re.MULTILINE)


def from_ptx(text: str, mangled: str) -> LineTable | None:
    """The kernel's lines in PTX that has `.loc`s; None if it has none."""
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
