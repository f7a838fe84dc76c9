"""The little of ELF64 that a cubin or a code object needs to be asked: sections, symbols, notes.

Images are the target's, so every number in them is checked. Here, not by pyelftools, since a launch waits
for the answer: for a library's cubin pyelftools takes 30 times as long (`benchmarks/elf_reader.py`).
Line programs and the segments of programs are read by pyelftools, within `library_reads`.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator

from msgspec import Struct

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_NOTE = struct.Struct("<III")
_RELOCATION = struct.Struct("<QIIq")
MAX_SECTIONS = 1 << 20
MAX_NOTES = 4096
MAX_TEXT = 65_536
_NAMES_PER_BYTE, _NAMES_AT_LEAST = 8, 1 << 20  # names may share their bytes: a few do in a real file
NOBITS = 8
SYMTAB, DYNSYM = 2, 11
NOTE_SEGMENT = 4
RELA, REL = 4, 9
OBJECT, FUNCTION = 1, 2
LOCAL = 0
_EXTENDED = 0xFFFF  # the true number is in section 0


class ElfProblem(ValueError):
    """What is wrong with the image, in a few words."""


class Section(Struct, frozen=True, gc=False):
    """A section's header; ``name`` is resolved."""

    index: int
    name: str
    type: int
    offset: int
    size: int
    link: int
    info: int
    entry_size: int
    address: int = 0
    flags: int = 0


class Symbol(Struct, frozen=True, gc=False):
    """An entry of the symbol table."""

    index: int
    name: str
    type: int
    section: int
    value: int
    size: int
    binding: int = LOCAL


class Relocation(Struct, frozen=True, gc=False):
    """An entry of a RELA section: ``offset`` bytes into the section that it is for, ``symbol`` by index."""

    offset: int
    type: int
    symbol: int
    addend: int


class Note(Struct, frozen=True, gc=False):
    """A note of a PT_NOTE segment."""

    owner: str
    type: int
    content: memoryview


class Elf:
    """A little-endian ELF64 file in memory. Raises ElfProblem for anything else, or offsets outside it."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data).cast("B")
        self._names_left = _NAMES_PER_BYTE * len(self._data) + _NAMES_AT_LEAST
        if len(self._data) < _HEADER.size or bytes(self._data[:6]) != b"\x7fELF\x02\x01":
            raise ElfProblem("not a little-endian ELF64 file")
        header = _HEADER.unpack_from(self._data)
        self.machine: int = header[2]
        self.flags: int = header[7]
        self._segments = header[5], header[9], header[10]
        self.sections: tuple[Section, ...] = tuple(self._sections(header[6], *header[11:14]))
        self._by_name = {section.name: section for section in reversed(self.sections)}

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return self._by_name.get(name)

    def content(self, section: Section) -> memoryview:
        """The section's bytes; none for one that has no bytes in the file."""
        if section.type == NOBITS:
            return self._data[:0]
        return self._slice(section.offset, section.size)

    def notes(self) -> Iterator[Note]:
        """The notes of every PT_NOTE segment."""
        offset, entry_size, count = self._segments
        if not count:
            return
        if entry_size != _SEGMENT.size:
            raise ElfProblem(f"program headers of {entry_size} bytes")
        left = MAX_NOTES
        for kind, _, start, _, _, size, _, _ in _SEGMENT.iter_unpack(self._slice(offset, count * entry_size)):
            if kind == NOTE_SEGMENT:
                for note in notes_in(self._slice(start, size)):
                    left -= 1
                    if left < 0:
                        raise ElfProblem(f"more than {MAX_NOTES} notes")
                    yield note

    def symbols(self, kind: int = SYMTAB, only: int | None = None) -> Iterator[Symbol]:
        """Every symbol of the symbol table (or ``DYNSYM``), or those of a type, the null one left out."""
        table = next((section for section in self.sections if section.type == kind), None)
        if table is None:
            return
        if table.link >= len(self.sections):
            raise ElfProblem("the symbol table names a section that does not exist")
        strings = bytes(self.content(self.sections[table.link]))
        entries = self.content(table)
        whole = entries[: len(entries) // _SYMBOL.size * _SYMBOL.size]
        left = self._names_left
        for index, (name, info, _, section, value, size) in enumerate(_SYMBOL.iter_unpack(whole)):
            if index and (only is None or info & 15 == only):
                text = text_at(strings, name)
                left = _less(left, text)
                yield Symbol(index, text, info & 15, section, value, size, info >> 4)

    def relocations(self, section: Section) -> Iterator[Relocation]:
        """The entries of a section of type RELA."""
        entries = self.content(section)
        whole = entries[: len(entries) // _RELOCATION.size * _RELOCATION.size]
        for offset, kind, symbol, addend in _RELOCATION.iter_unpack(whole):
            yield Relocation(offset, kind, symbol, addend)

    def _slice(self, offset: int, size: int) -> memoryview:
        if offset + size > len(self._data):
            raise ElfProblem(f"{size} bytes at {offset} of a file of {len(self._data)}")
        return self._data[offset : offset + size]

    def _sections(self, offset: int, entry_size: int, count: int, names: int) -> Iterator[Section]:
        if not offset:
            return
        if entry_size != _SECTION.size:
            raise ElfProblem(f"section headers of {entry_size} bytes")
        first = _SECTION.unpack(self._slice(offset, _SECTION.size))
        count = count or first[5]
        names = first[6] if names == _EXTENDED else names
        if count > MAX_SECTIONS or names >= count:
            raise ElfProblem(f"{count} sections, their names in section {names}")
        headers = list(_SECTION.iter_unpack(self._slice(offset, count * _SECTION.size)))
        strings = bytes(self._slice(headers[names][4], headers[names][5]))
        for index, (name, kind, flags, address, start, size, link, info, _, each) in enumerate(headers):
            text = text_at(strings, name)
            self._names_left = _less(self._names_left, text)
            yield Section(index, text, kind, start, size, link, info, each, address, flags)


@contextlib.contextmanager
def library_reads(what: str) -> Iterator[None]:
    """Around calls of pyelftools: whatever it raises on a damaged file, as ElfProblem."""
    try:
        yield
    except ElfProblem:
        raise
    # Its own errors, construct's, and those of Python that its arithmetic runs into.
    except Exception as error:
        reason = str(error).partition("\n")[0][:80] or type(error).__name__
        raise ElfProblem(f"{what} that can't be read: {reason}") from error


def notes_in(data: memoryview) -> Iterator[Note]:
    """The notes of a segment or section. Raises ElfProblem for one that leads out of it."""
    at = 0
    while at + _NOTE.size <= len(data):
        owner_size, size, kind = _NOTE.unpack_from(data, at)
        owner = at + _NOTE.size
        start = owner + owner_size + (-owner_size % 4)
        if start + size > len(data):
            raise ElfProblem(f"a note of {size} bytes at {start} of a segment of {len(data)}")
        text = bytes(data[owner : owner + min(owner_size, MAX_TEXT)])
        yield Note(text_at(text, 0), kind, data[start : start + size])
        at = start + size + (-size % 4)


def _less(left: int, name: str) -> int:
    """What is left of the bytes that names may take. Raises ElfProblem when that is nothing."""
    if len(name) > left:
        raise ElfProblem("names that take many times the file's size")
    return left - len(name)


def text_at(strings: bytes, offset: int, limit: int = MAX_TEXT) -> str:
    """The NUL-terminated text at ``offset`` of a string table; empty if that is outside."""
    end = strings.find(b"\0", offset, offset + limit)
    return strings[offset : end if end >= 0 else offset + limit].decode("utf-8", "replace")
