"""The code objects in a dump's memory: kernels, functions, parameters and lines by address.

A code object is in the GPU's memory as it was loaded, from its ELF header on, but without sections: its
symbols are those that the loader needs. The file that it came from, with lines and all symbols, may be in the
process's memory, or in a program that is given.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from kerncap.capture.core_dump.amd.core_file import Memory
from kerncap.capture.images import amdgpu, host_file
from kerncap.capture.images.problem import ImageProblem
from kerncap.capture.source.native import line_table
from kerncap.format.code_object import DESCRIPTOR_SUFFIX, MACHINE, CodeObject
from kerncap.format.elf import DYNSYM, FUNCTION, OBJECT, SYMTAB, Elf, ElfProblem, text_at

PAGE = 4096
MAX_BYTES = 256 << 20  # of one code object
MAX_LISTED = 1 << 14
MAX_SCANNED = 1 << 20  # pages in which the beginning of a code object is looked for
_NAMES_PER_BYTE, _NAMES_AT_LEAST = 8, 1 << 20  # names may share their bytes: a few do in a real file
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_DYNAMIC = struct.Struct("<QQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_LOAD, _DYNAMICS = 1, 2
_HASH, _STRINGS, _SYMBOLS, _STRING_BYTES, _GNU_HASH = 4, 5, 6, 10, 0x6FFFFEF5
_ENTRY_AT = 16  # of a kernel's descriptor: how far its code is from it
_FRAGMENT = re.compile(
    r"([a-z]+)://([^#?]*)[#?]offset=(0x[0-9a-f]{1,16}|\d{1,20})&size=(\d{1,12}|0x[0-9a-f]{1,12})\Z"
)


@dataclass(frozen=True)
class Function:
    """Code from ``start`` to ``end``, in addresses of the dump."""

    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Place:
    """An address of code. ``function`` is None if its name was not loaded."""

    pc: int
    function: Function | None
    base: int
    file: str | None
    line: int | None


@dataclass(frozen=True)
class Listed:
    """A code object as ROCr lists it for debuggers. ``base``: what is added to an address in it."""

    base: int
    uri: str


def listed(memory: Memory, debug: int) -> tuple[Listed, ...]:
    """The code objects as the runtime lists them, by falling address; () if that is not in memory."""
    found: dict[int, Listed] = {}
    at = memory.number(debug + 8) if debug else None
    while at and len(found) < MAX_LISTED:
        entry = memory.read(at, 40)
        if entry is None:
            break
        base, name, _, at, _ = struct.unpack("<5Q", entry)
        if base in found:
            break
        found[base] = Listed(base, memory.text(name) or "")
    return tuple(sorted(found.values(), key=lambda each: -each.base))


def is_at(memory: Memory, base: int) -> bool:
    """Whether an ELF file begins there."""
    return memory.read(base, 4) == b"\x7fELF"


class Loaded:
    """A code object in memory, from ``base`` on. Raises ElfProblem if it makes no sense."""

    def __init__(self, memory: Memory, base: int) -> None:
        self.base = base
        header = memory.read(base, _HEADER.size)
        if header is None:
            raise ElfProblem("no header in memory")
        found = _HEADER.unpack(header)
        if (
            found[0][:6] != b"\x7fELF\2\1"
            or found[2] != MACHINE
            or found[9] != _SEGMENT.size
            or found[10] > 64
        ):
            raise ElfProblem("not a code object")
        table = memory.read(base + found[5], found[10] * _SEGMENT.size) if found[5] < PAGE else None
        if table is None:
            raise ElfProblem("no program headers in memory")
        self._segments = list(_SEGMENT.iter_unpack(table))
        ends = [address + size for kind, _, _, address, _, _, size, _ in self._segments if kind == _LOAD]
        self.size = max(ends, default=0)
        if not 0 < self.size <= MAX_BYTES:
            raise ElfProblem(f"a code object of {self.size:,} bytes")
        self._memory = memory
        self.arch_flags: int = found[7]

    @cached_property
    def functions(self) -> tuple[Function, ...]:
        return tuple(
            Function(name, self.base + value, self.base + value + size)
            for name, kind, value, size in self._symbols
            if kind == FUNCTION
        )

    @cached_property
    def descriptors(self) -> dict[int, str]:
        """Kernels by the address of their descriptor."""
        return {
            self.base + value: name.removesuffix(DESCRIPTOR_SUFFIX)
            for name, kind, value, _ in self._symbols
            if kind == OBJECT and name.endswith(DESCRIPTOR_SUFFIX)
        }

    @cached_property
    def metadata(self) -> CodeObject | None:
        """None if it can't be read."""
        # What it names in the file is there in memory up to the end of the first segment; sections are not.
        first = next((each for each in self._segments if each[0] == _LOAD and not each[2] | each[3]), None)
        data = None if first is None else self._memory.read(self.base, min(first[5], MAX_BYTES))
        if data is None:
            return None
        try:
            return amdgpu.read(data[:40] + bytes(8) + data[48:60] + bytes(4) + data[64:])
        except ImageProblem:
            return None

    def code(self, start: int, size: int) -> bytes | None:
        """The bytes at an address that is counted from the beginning."""
        return self._memory.read(self.base + start, size) if 0 <= start <= start + size <= self.size else None

    @cached_property
    def _symbols(self) -> tuple[tuple[str, int, int, int], ...]:
        dynamic = next((each for each in self._segments if each[0] == _DYNAMICS), None)
        table = None if dynamic is None else self.code(dynamic[3], min(dynamic[6], 1 << 16))
        entries = dict(_DYNAMIC.iter_unpack(table[: len(table) // 16 * 16])) if table else {}
        at, strings_at = entries.get(_SYMBOLS, 0), entries.get(_STRINGS, 0)
        # The table's end is not told: what the linker put next to it is.
        ends = [entries[key] for key in (_HASH, _GNU_HASH, _STRINGS) if entries.get(key, 0) > at]
        size = (min(ends, default=at) - at) // _SYMBOL.size * _SYMBOL.size
        data, strings = self.code(at, size), self.code(strings_at, entries.get(_STRING_BYTES, 0))
        if not at or data is None or strings is None:
            return ()
        found, left = [], _NAMES_PER_BYTE * len(strings) + _NAMES_AT_LEAST
        for name, info, _, section, value, length in _SYMBOL.iter_unpack(data):
            if section and value + length <= self.size and left > 0:
                text = text_at(strings, name)
                left -= len(text)
                found.append((text, info & 15, value, length))
        return tuple(found)


class CodeObjects:
    """The code in a dump. ``program`` may have images with the lines and names that were not loaded.

    ``problems`` collects one line for each image that can't be read.
    """

    def __init__(self, memory: Memory, debug: int, program: Path | None) -> None:
        self._memory = memory
        self._debug = debug
        self._program = program
        self.problems: list[str] = []
        self.at: Callable[[int], Loaded | None] = lru_cache(maxsize=1024)(self._find)
        self._image = lru_cache(maxsize=8)(self._find_image)
        self._pages_left = MAX_SCANNED

    def kernel_of(self, descriptor: int) -> str | None:
        """The kernel whose descriptor is there; None if no code object in memory has it."""
        loaded = self.at(descriptor)
        return None if loaded is None else loaded.descriptors.get(descriptor)

    def entry_of(self, descriptor: int) -> int | None:
        """Where the code of the kernel begins."""
        offset = self._memory.number(descriptor + _ENTRY_AT)
        return None if offset is None else descriptor + offset & (1 << 64) - 1

    def layout(self, descriptor: int, kernel: str) -> tuple[tuple[int, int], ...] | None:
        """(offset, size) of each parameter; None if it isn't known."""
        loaded = self.at(descriptor)
        metadata = None if loaded is None or loaded.metadata is None else loaded.metadata.kernel(kernel)
        return None if metadata is None else amdgpu.layout(metadata)

    def place(self, pc: int) -> Place | None:
        """Where an address is; None if no code object in memory has it."""
        loaded = self.at(pc)
        if loaded is None:
            return None
        image = self._image(loaded)
        functions = loaded.functions if image is None else image.functions
        found = next((each for each in functions if each.start <= pc < each.end), None)
        if found is None:
            found = next((each for each in loaded.functions if each.start <= pc < each.end), None)
        file, line = (None, None) if image is None or found is None else image.line(found, pc)
        return Place(pc, found, loaded.base, file, line)

    def is_kernel(self, function: Function) -> bool:
        loaded = self.at(function.start)
        return loaded is not None and function.name in loaded.descriptors.values()

    def _find(self, address: int) -> Loaded | None:
        for each in self._listed:
            if each.base <= address < each.base + MAX_BYTES and (found := self._loaded(each.base, address)):
                return found
        start = self._memory.start_of(address)
        if start is None:
            return None
        page = address // PAGE * PAGE
        for base in range(page, max(start, page - MAX_BYTES) - 1, -PAGE):
            self._pages_left -= 1
            if self._pages_left < 0:
                return None
            if is_at(self._memory, base) and (found := self._loaded(base, address)):
                return found
        return None

    def _loaded(self, base: int, address: int) -> Loaded | None:
        try:
            loaded = Loaded(self._memory, base)
        except ElfProblem:
            return None
        return loaded if address < base + loaded.size else None

    @cached_property
    def _listed(self) -> tuple[Listed, ...]:
        return listed(self._memory, self._debug)

    def _find_image(self, loaded: Loaded) -> _Image | None:
        """The file that a code object came from, if its code is the same."""
        uri = next((each.uri for each in self._listed if each.base == loaded.base), "")
        parts = _FRAGMENT.match(uri)
        data = None
        if parts is not None and parts[1] == "memory":
            offset, size = int(parts[3], 0), int(parts[4], 0)
            data = self._memory.read(offset, size) if size <= MAX_BYTES else None
        elif self._program is not None:
            names = iter(loaded.descriptors.values())
            arch = loaded.metadata.arch if loaded.metadata is not None else None
            data = host_file.image_of(self._program, next(names, ""), arch)
            if data is None:
                self.problems.append(f"{self._program}: no code object with the dump's kernels")
        elif parts is not None:
            self.problems.append(
                f"lines and the names of inner functions are in {parts[2]}; give it with --exe"
            )
        if data is None:
            return None
        try:
            image = _Image(data, loaded)
        except ElfProblem as error:
            self.problems.append(f"the image of a code object can't be read: {error}")
            return None
        if not image.is_same:
            self.problems.append(
                f"{self._program or uri}: other code than the dump's; its lines are left out"
            )
            return None
        return image


class _Image:
    """The file of a code object that is loaded. Raises ElfProblem."""

    def __init__(self, data: bytes, loaded: Loaded) -> None:
        self._data = data
        self._base = loaded.base
        elf = Elf(data)
        text = elf.section(".text")
        code = None if text is None else bytes(elf.content(text))
        self.is_same = bool(code) and text is not None and loaded.code(text.address, text.size) == code
        self.functions = tuple(
            {
                each.value: Function(
                    each.name, loaded.base + each.value, loaded.base + each.value + each.size
                )
                for kind in (SYMTAB, DYNSYM)
                for each in elf.symbols(kind, FUNCTION)
                if each.section
            }.values()
        )
        self._lines = lru_cache(maxsize=64)(self._find_lines)

    def line(self, function: Function, pc: int) -> tuple[str | None, int | None]:
        at = pc - function.start
        for each in self._lines(function.name):
            if each.offset <= at < each.offset + each.size:
                return each.file, each.line
        return None, None

    def _find_lines(self, function: str) -> tuple[line_table.Place, ...]:
        try:
            return line_table.places(self._data, function)
        except ElfProblem:
            return ()
