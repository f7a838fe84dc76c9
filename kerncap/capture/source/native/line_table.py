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
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field

from kerncap.capture.source.native import line_program
from kerncap.capture.source.native.line_program import Header, Row, Strings
from kerncap.format.elf import DYNSYM, FUNCTION, REL, RELA, SYMTAB, Elf, ElfProblem

MAX_ROWS = 200_000
MAX_PTX = 64 << 20
_SET_ADDRESS = b"\x00\x09\x02"


@dataclass(frozen=True)
class LineTable:
    """The lines of one kernel. ``rows`` are (file, line) in the order of the code, each pair once.

    ``files`` are all files of its compilation unit, normalised; relative ones have no folder in the table.
    ``stamps`` are their (modification time in s, size in bytes) when they were compiled, where it says so.
    """

    rows: tuple[tuple[str, int], ...]
    files: tuple[str, ...]
    stamps: dict[str, tuple[int, int]] = field(default_factory=dict)


def of_image(cubin: bytes | None, hsaco: bytes | None, ptx: str | None, mangled: str) -> LineTable | None:
    """The kernel's lines in whichever of its codes there are. Raises ElfProblem for a damaged image."""
    table = from_cubin(cubin, mangled) if cubin is not None else None
    if hsaco is not None:
        table = from_code_object(hsaco, mangled)
    return from_ptx(ptx, mangled) if table is None and ptx is not None else table


def from_cubin(data: bytes | memoryview, mangled: str) -> LineTable | None:
    """The kernel's lines in a cubin, None where it has none of it. Raises ElfProblem for a damaged image."""
    elf = Elf(data)
    section = elf.section(".debug_line")
    if section is None:
        return None
    program = elf.content(section)
    own, starts = _sequences(elf, program, mangled)
    for start in own:
        after = bisect(starts, start)
        end = starts[after] if after < len(starts) else len(program)
        unit = next((unit for unit in line_program.units(program) if start < unit.end), None)
        if unit is None:
            raise ElfProblem("no line program holds the kernel's address")
        header = line_program.header(program, unit)
        table = _table(header, _until_end(line_program.rows(program, header, start, end)))
        if table.rows:
            return table
    return None


def from_code_object(data: bytes | memoryview, mangled: str) -> LineTable | None:
    """The kernel's lines in an AMDGPU code object, None without -g. Raises ElfProblem for a damaged one."""
    elf = Elf(data)
    section, place = elf.section(".debug_line"), _code_range(elf, mangled)
    if section is None or place is None:
        return None
    program = elf.content(section)
    strings = Strings(*(_content(elf, name) for name in (".debug_line_str", ".debug_str")))
    for unit in line_program.units(program):
        header = line_program.header(program, unit, strings)
        rows = (
            row for row in line_program.rows(program, header, header.start, header.end) if row is not None
        )
        table = _table(header, (row for row in rows if row.address in place))
        if table.rows:
            return table
    return None


def _code_range(elf: Elf, mangled: str) -> range | None:
    for kind in (DYNSYM, SYMTAB):
        for symbol in elf.symbols(kind):
            if symbol.name == mangled and symbol.type == FUNCTION:
                return range(symbol.value, symbol.value + symbol.size)
    return None


def _content(elf: Elf, name: str) -> memoryview:
    section = elf.section(name)
    return memoryview(b"") if section is None else elf.content(section)


def _until_end(rows: Iterator[Row | None]) -> Iterator[Row]:
    """The rows of the first sequence."""
    return (row for row in itertools.takewhile(lambda row: row is not None, rows) if row is not None)


def _table(header: Header, rows: Iterator[Row]) -> LineTable:
    found: dict[tuple[str, int], None] = {}
    for row in rows:
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
