"""Line programs: which address of the code comes from which line of which file. pyelftools decodes them.

An image is a stranger's, and pyelftools trusts one: it makes as many entries as a number says, and keeps a
row of some 500 bytes for each byte. So it is given no more than is bounded here, piece by piece. By pieces
too because its whole (`ELFFile.get_dwarf_info`) wants a compilation unit, which -lineinfo leaves out, and
reads all sections of a cubin, which may be tens of thousands.

Source: DWARF 2 to 5, section 6.2.
"""

from __future__ import annotations

import functools
import io
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kerncap.format.elf import ElfProblem, library_reads, text_at

if TYPE_CHECKING:
    from elftools.dwarf.structs import DWARFStructs

MAX_FILES = 65_536
MAX_HEAD, MAX_DECODED = 1 << 19, 1 << 20  # bytes of a head, and of opcodes: 9 s and 500 MB at the worst
MAX_NAMES = 8 << 20  # characters of all paths
_MAX_PATH = 4096
_LONGEST_NUMBER = 4096  # bytes; pyelftools takes any, in time that grows with the square
# Forms that a table of DWARF 5 may have, as producers use them; each takes at least one byte.
_FORMS = ("string", "line_strp", "strp", "udata", "data1", "data2", "data4", "data8", "data16", "block")

_NUMBERS = ("DW_LNCT_directory_index", "DW_LNCT_timestamp", "DW_LNCT_size")
_Files = tuple[tuple[str, ...], dict[str, tuple[int, int]]]  # paths, and their stamps


@dataclass(frozen=True)
class Strings:
    """The sections that DWARF 5 keeps names in."""

    line: bytes = b""
    plain: bytes = b""


@dataclass(frozen=True)
class Unit:
    """Where a line program begins, and where it ends; offsets in it have ``width`` bytes."""

    start: int
    end: int
    width: int

    @property
    def version_at(self) -> int:
        return self.start + (4 if self.width == 4 else 12)


@dataclass(frozen=True)
class Header:
    """``files`` are numbered from ``first_file``; ``start`` is where the program's opcodes begin."""

    files: tuple[str, ...]
    first_file: int
    stamps: dict[str, tuple[int, int]]
    start: int
    end: int
    parsed: Any  # pyelftools' own, as its `LineProgram` takes it
    structs: DWARFStructs


@dataclass(frozen=True)
class Row:
    """``line`` of ``file`` is where the code from ``address`` on comes from; 0 of "": from none."""

    address: int
    file: str
    line: int


def units(program: memoryview) -> Iterator[Unit]:
    """Every line program of a section. Raises ElfProblem for one that leads out of it."""
    offset = 0
    while offset + 4 <= len(program):
        wide = bytes(program[offset : offset + 4]) == b"\xff" * 4
        at, size = (offset + 4, 8) if wide else (offset, 4)
        length = int.from_bytes(program[at : at + size], "little")
        end = at + size + length
        if end > len(program) or length < 8:
            raise ElfProblem("a line program that is longer than its section")
        yield Unit(offset, end, 8 if wide else 4)
        offset = end


@functools.lru_cache(maxsize=1)  # a code object has one, and launches of it are asked for one after the other
def whole(program: bytes, strings: Strings) -> tuple[Header, tuple[Row, ...]]:
    """The one line program in ``program``, all of it. Raises ElfProblem for a damaged one."""
    view = memoryview(program)
    head = header(view, next(units(view)), strings)
    return head, tuple(row for row in rows(view, head, head.start, head.end) if row is not None)


def header(program: memoryview, unit: Unit, strings: Strings | None = None) -> Header:
    """The head of a line program. Raises ElfProblem for a damaged one."""
    from elftools.common.utils import struct_parse
    from elftools.dwarf.structs import DWARFStructs

    version = int.from_bytes(program[unit.version_at : unit.version_at + 2], "little")
    if not 2 <= version <= 5:
        raise ElfProblem(f"a line program of DWARF version {version}")
    length_at = unit.version_at + (4 if version == 5 else 2)
    tables_at = length_at + unit.width
    start = tables_at + int.from_bytes(program[length_at:tables_at], "little")
    if start > unit.end:
        raise ElfProblem("a line program whose header is longer than the program")
    data = _bounded(program, unit.start, start, MAX_HEAD)
    with library_reads("a line program's head"):
        structs = DWARFStructs(True, 8 * unit.width, 8, version)
        if version == 5:
            _check_tables(structs, data, tables_at - unit.start)
        parsed = struct_parse(structs.Dwarf_lineprog_header, io.BytesIO(data))
        if not parsed.line_range or not parsed.opcode_base or not parsed.maximum_operations_per_instruction:
            raise ElfProblem("a line program with no range of lines or opcodes")
        files, stamps = _tables(parsed, strings or Strings()) if version == 5 else _old_tables(parsed)
    return Header(files, int(version < 5), stamps, start, unit.end, parsed, structs)


def rows(program: memoryview, head: Header, start: int, end: int) -> Iterator[Row | None]:
    """The rows of the opcodes from ``start`` to ``end``; None at the end of each sequence.

    Raises ElfProblem for damaged ones.
    """
    from elftools.dwarf.lineprogram import LineProgram

    data = _bounded(program, start, min(end, head.end), MAX_DECODED)
    with library_reads("a line program"):
        entries = LineProgram(head.parsed, io.BytesIO(data), head.structs, 0, len(data)).get_entries()
    first, names = head.first_file, head.files
    for entry in entries:
        state = entry.state
        if state is None:
            continue
        if state.end_sequence:
            yield None
        else:
            known = first <= state.file < first + len(names) and state.line > 0
            yield Row(state.address, names[state.file - first] if known else "", state.line if known else 0)


def _bounded(program: memoryview, start: int, end: int, most: int) -> bytes:
    if end - start > most:
        raise ElfProblem(f"a line program with {end - start:,} bytes in one piece; at most {most:,} are read")
    data = bytes(program[start:end])
    if re.search(rb"[\x80-\xff]{%d}" % _LONGEST_NUMBER, data):
        raise ElfProblem("a line program with a number of thousands of bytes")
    return data


def _check_tables(structs: DWARFStructs, data: bytes, at: int) -> None:
    """That each entry of DWARF 5's two tables takes bytes, so that there are no more than the head has."""
    from elftools.dwarf.enums import ENUM_DW_FORM

    known = {ENUM_DW_FORM[f"DW_FORM_{form}"]: f"DW_FORM_{form}" for form in _FORMS}
    stream = io.BytesIO(data)
    stream.seek(at + 5)  # what comes before the number of opcodes
    stream.seek(stream.read(1)[0] - 1, os.SEEK_CUR)
    number = structs.Dwarf_uleb128("").parse_stream
    for _ in ("folders", "files"):
        pairs = [(number(stream), number(stream)) for _ in range(stream.read(1)[0])]
        count = number(stream)
        if count > MAX_FILES or (count and not pairs):
            raise ElfProblem("a line program of too many files")
        unknown = [form for _, form in pairs if form not in known]
        if unknown:
            raise ElfProblem(f"a line program with values of form {unknown[0]}")
        parsers: list[Any] = [structs.Dwarf_dw_form[known[form]] for _, form in pairs]
        for _ in range(count):
            for parser in parsers:
                parser.parse_stream(stream)


def _old_tables(parsed: Any) -> _Files:
    folders = ["", *map(_text, parsed.include_directory)]
    entries = ((_text(each.name), each.dir_index, each.mtime, each.length) for each in parsed.file_entry)
    return _files("", folders, entries)


def _tables(parsed: Any, strings: Strings) -> _Files:
    folders, left = [], MAX_NAMES
    for each in parsed.directories:
        folders.append(_path(each, parsed.directory_entry_format, strings))
        left = _less(left, folders[-1])
    entries = (
        (_path(each, parsed.file_name_entry_format, strings), *(each.get(number, 0) for number in _NUMBERS))
        for each in parsed.file_names
    )
    return _files(folders[0] if folders else "", folders, entries)  # the first is where the compiler ran


def _files(base: str, folders: list[str], entries: Iterable[tuple[Any, ...]]) -> _Files:
    """Of (name, number of the folder, time of the last change in s, size in bytes)."""
    files: list[str] = []
    stamps: dict[str, tuple[int, int]] = {}
    left = MAX_NAMES
    for name, number, *stamp in entries:
        folder = folders[number] if number < len(folders) else ""
        files.append(os.path.normpath(os.path.join(base, folder, name)))
        left = _less(left, files[-1])
        if all(isinstance(each, int) and each for each in stamp):
            stamps[files[-1]] = stamp[0], stamp[1]
    return tuple(files), stamps


def _less(left: int, name: str) -> int:
    """What is left of the characters that names may take: many may be made of the same few bytes."""
    if len(name) > left:
        raise ElfProblem(f"a line program with names of more than {MAX_NAMES:,} characters")
    return left - len(name)


def _path(entry: Any, formats: Any, strings: Strings) -> str:
    value = entry.get("DW_LNCT_path", b"")
    form = next((each.form for each in formats if each.content_type == "DW_LNCT_path"), "")
    if isinstance(value, int):
        section = strings.line if form == "DW_FORM_line_strp" else strings.plain
        return text_at(section, value, _MAX_PATH)
    return _text(value)


def _text(name: bytes) -> str:
    return name[:_MAX_PATH].decode("utf-8", "replace")
