"""Line number programs: which address of the code comes from which line of which file.

Source: DWARF 2 to 5, section 6.2; extended opcode 0x90 (inlined call) as NVIDIA's ptxas writes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from kerncap.format.elf import ElfProblem, text_at

MAX_FILES = 65_536
MAX_STEPS = 3_200_000
_PATH, _FOLDER, _TIME, _SIZE = 1, 2, 3, 4  # what an entry of a table of DWARF 5 says
_FIXED_FORMS = {0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x1E: 16}
_STRING, _BLOCK, _UDATA, _STRP, _LINE_STRP = 0x08, 0x09, 0x0F, 0x0E, 0x1F


class Reader:
    """Bytes of a section, taken one after the other. Raises ElfProblem beyond their end."""

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

    def skip(self, size: int) -> None:
        if size > self.end - self.offset:
            raise ElfProblem("a line program that ends early")
        self.offset += size

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
class Strings:
    """The sections that DWARF 5 keeps names in."""

    line: memoryview = field(default_factory=lambda: memoryview(b""))
    plain: memoryview = field(default_factory=lambda: memoryview(b""))


@dataclass(frozen=True)
class Header:
    """``files`` are numbered from ``first_file``; ``start`` is where the program's opcodes begin."""

    line_base: int
    line_range: int
    step: int  # bytes of the least instruction
    operands: tuple[int, ...]
    files: tuple[str, ...]
    first_file: int
    stamps: dict[str, tuple[int, int]]
    start: int
    end: int


@dataclass(frozen=True)
class Row:
    address: int
    file: str
    line: int


@dataclass(frozen=True)
class Unit:
    """Where a line program lies, its length left out; offsets in it have ``width`` bytes."""

    start: int
    end: int
    width: int


def units(program: memoryview) -> Iterator[Unit]:
    """Every line program of a section. Raises ElfProblem for one that leads out of it."""
    offset = 0
    while offset + 4 <= len(program):
        reader = Reader(program, offset, len(program))
        length = reader.take(4)
        wide = length == 0xFFFFFFFF
        if wide:
            length = reader.take(8)
        end = reader.offset + length
        if end > len(program) or length < 8:
            raise ElfProblem("a line program that is longer than its section")
        yield Unit(reader.offset, end, 8 if wide else 4)
        offset = end


def header(program: memoryview, unit: Unit, strings: Strings | None = None) -> Header:
    """The head of a line program. Raises ElfProblem for a damaged one."""
    return _read(Reader(program, unit.start, unit.end), unit.width, strings or Strings())


def rows(program: memoryview, head: Header, start: int) -> Iterator[Row | None]:
    """The rows from the opcode at ``start`` on; None at the end of each sequence."""
    reader = Reader(program, start, head.end)
    address, file, line = 0, 1, 1
    first, names = head.first_file, head.files
    for _ in range(MAX_STEPS):
        if reader.offset >= reader.end:
            return
        opcode = reader.take(1)
        emit = False
        if opcode > len(head.operands):
            adjusted = opcode - len(head.operands) - 1
            line += head.line_base + adjusted % head.line_range
            address += adjusted // head.line_range * head.step
            emit = True
        elif opcode == 0:
            size = reader.unsigned()
            end = reader.offset + size
            if size == 0 or end > reader.end:
                raise ElfProblem("an extended opcode that leads out of the line program")
            kind = reader.take(1)
            if kind == 1:  # end of the sequence
                address, file, line = 0, 1, 1
                yield None
            elif kind == 2:
                address = reader.take(min(8, size - 1))
            reader.offset = end
        elif opcode == 1:  # copy
            emit = True
        elif opcode == 2:
            address += reader.unsigned() * head.step
        elif opcode == 3:
            line += reader.signed()
        elif opcode == 4:
            file = reader.unsigned()
        elif opcode == 8:
            address += (255 - len(head.operands) - 1) // head.line_range * head.step
        elif opcode == 9:
            address += reader.take(2)
        else:
            for _ in range(head.operands[opcode - 1]):
                reader.unsigned()
        if emit and first <= file < first + len(names) and line > 0:
            yield Row(address, names[file - first], line)


def _read(reader: Reader, width: int, strings: Strings) -> Header:
    version = reader.take(2)
    if not 2 <= version <= 5:
        raise ElfProblem(f"a line program of DWARF version {version}")
    if version == 5:
        reader.take(2)  # sizes of an address and of a segment's selector
    length = reader.take(width)
    start = reader.offset + length
    step = reader.take(1)
    reader.take(2 if version >= 4 else 1)  # (operations,) is_stmt
    base = reader.take(1)
    span, opcodes = reader.take(1), reader.take(1)
    if not span or not opcodes or start > reader.end:
        raise ElfProblem("a line program with no range of lines or opcodes")
    operands = tuple(reader.take(1) for _ in range(opcodes - 1))
    if version == 5:
        files, stamps = _tables(reader, width, strings)
    else:
        files, stamps = _old_tables(reader)
    return Header(
        base - 256 if base > 127 else base, span, step, operands, files, 0 if version == 5 else 1, stamps,
        start, reader.end,
    )  # fmt: skip


def _old_tables(reader: Reader) -> tuple[tuple[str, ...], dict[str, tuple[int, int]]]:
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
    return tuple(files), stamps


def _tables(
    reader: Reader, width: int, strings: Strings
) -> tuple[tuple[str, ...], dict[str, tuple[int, int]]]:
    folders = [str(each.get(_PATH, "")) for each in _entries(reader, width, strings)]
    base = folders[0] if folders else ""  # where the compiler ran
    files: list[str] = []
    stamps: dict[str, tuple[int, int]] = {}
    for each in _entries(reader, width, strings):
        number = each.get(_FOLDER, 0)
        folder = folders[number] if isinstance(number, int) and number < len(folders) else ""
        path = os.path.normpath(os.path.join(base, folder, str(each.get(_PATH, ""))))
        files.append(path)
        time, size = each.get(_TIME, 0), each.get(_SIZE, 0)
        if isinstance(time, int) and isinstance(size, int) and time and size:
            stamps[path] = time, size
    return tuple(files), stamps


def _entries(reader: Reader, width: int, strings: Strings) -> list[dict[int, int | str]]:
    forms = [(reader.unsigned(), reader.unsigned()) for _ in range(reader.take(1))]
    count = reader.unsigned()
    if count > MAX_FILES or (count and not forms):
        raise ElfProblem("a line program of too many files")
    return [{kind: _value(reader, form, width, strings) for kind, form in forms} for _ in range(count)]


def _value(reader: Reader, form: int, width: int, strings: Strings) -> int | str:
    if form == _STRING:
        return reader.text()
    if form in (_LINE_STRP, _STRP):
        return text_at(strings.line if form == _LINE_STRP else strings.plain, reader.take(width))
    if form in _FIXED_FORMS:
        return reader.take(_FIXED_FORMS[form])
    if form == _UDATA:
        return reader.unsigned()
    if form == _BLOCK:
        reader.skip(reader.unsigned())
        return 0
    raise ElfProblem(f"a line program with values of form {form}")
