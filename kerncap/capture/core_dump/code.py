"""Which function, offset and line of the source an address of the GPU's code is, by the images in the dump.

An image is there as it was loaded, with the address of each kernel's code, and, unless flags left that out,
as it was before.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from kerncap.capture.core_dump.dump import Dump
from kerncap.capture.images import host_file
from kerncap.capture.images.cubin import Cubin
from kerncap.capture.images.problem import ImageProblem
from kerncap.capture.source.native import line_table
from kerncap.format.elf import FUNCTION, Elf, ElfProblem

MAX_IMAGES = 1 << 14
_TEXT, _BYTES, _CODE = ".text.", 1, 4  # a kernel's section: SHT_PROGBITS, SHF_EXECINSTR
_CALLED = "$"  # "$kernel$function": a function that has its own code in a kernel's section


@dataclass(frozen=True)
class _Stretch:
    """The code of a kernel, with the functions that it calls, from ``start`` to ``end``."""

    start: int
    end: int
    kernel: str
    loaded: int
    before: int | None


@dataclass(frozen=True)
class Place:
    """An address of code. Offsets are bytes from the beginning of the function, and of its kernel's code."""

    pc: int
    kernel: str
    function: str
    offset: int
    kernel_offset: int
    file: str | None
    line: int | None


class Code:
    """The code in a dump. ``program`` may have images with lines that those in the dump lack.

    ``problems`` collects one line for each image that can't be read.
    """

    def __init__(self, dump: Dump, program: Path | None = None) -> None:
        self._dump = dump
        self._program = program
        self.problems: list[str] = []
        self._lines = lru_cache(maxsize=64)(self._find_lines)
        self._kernel = lru_cache(maxsize=64)(self._read_kernel)
        self._image = lru_cache(maxsize=2)(dump.content)

    def place(self, pc: int) -> Place | None:
        """Where an address is; None if no image in the dump has it."""
        stretch = self._stretch(pc)
        if stretch is None:
            return None
        at = pc - stretch.start
        _, functions = self._kernel(stretch)
        name, start = max(
            ((name, start) for name, start, size in functions if start <= at < start + size),
            key=lambda each: each[1],
            default=(stretch.kernel, 0),
        )
        file, line = next(
            (
                (each.file, each.line)
                for each in self._lines(stretch)
                if each.offset <= at < each.offset + each.size
            ),
            (None, None),
        )
        return Place(pc, stretch.kernel, name.rpartition(_CALLED)[2], at - start, at, file, line)

    def executed(self, first: int, last: int) -> bytes:
        """The instructions from one address to another, both included; none if they aren't of one kernel."""
        stretch = self._stretch(first)
        if stretch is None or not first <= last < stretch.end:
            return b""
        code, _ = self._kernel(stretch)
        return code[first - stretch.start : last - stretch.start + 16]

    def cubin(self, kernel: str) -> bytes | None:
        """The image with a kernel, as it was before it was loaded if there is one."""
        for stretch in self._stretches:
            if stretch.kernel == kernel:
                return self._image(stretch.loaded if stretch.before is None else stretch.before)
        return None

    def layout(self, kernel: str) -> tuple[tuple[int, int], ...] | None:
        """(offset, size) of each parameter; None if no image says it."""
        data = self.cubin(kernel)
        try:
            return Cubin(data).layout(kernel) if data is not None else None
        except ImageProblem:
            return None

    def arch(self, kernel: str) -> int:
        """90 for sm_90; 0 if it isn't known."""
        data = self.cubin(kernel)
        try:
            return Cubin(data).arch if data is not None else 0
        except ImageProblem:
            return 0

    def _stretch(self, pc: int) -> _Stretch | None:
        at = bisect_right(self._starts, pc) - 1
        found = self._stretches[at] if at >= 0 else None
        return found if found is not None and pc < found.end else None

    @cached_property
    def _starts(self) -> list[int]:
        return [stretch.start for stretch in self._stretches]

    @cached_property
    def _stretches(self) -> list[_Stretch]:
        found = []
        for count, (loaded, before) in enumerate(self._dump.images()):
            if count == MAX_IMAGES:
                self.problems.append(f"only the first {MAX_IMAGES:,} images were looked at")
                break
            try:
                for section in Elf(self._dump.content(loaded)).sections:
                    if section.address and section.type == _BYTES and section.flags & _CODE:
                        kernel = section.name.removeprefix(_TEXT)
                        end = section.address + section.size
                        found.append(_Stretch(section.address, end, kernel, loaded, before))
            except ElfProblem as error:
                self.problems.append(f"an image of the dump can't be read: {error}")
        return sorted(found, key=lambda each: each.start)

    def _read_kernel(self, stretch: _Stretch) -> tuple[bytes, list[tuple[str, int, int]]]:
        """The kernel's code, and the name, beginning and size of each function in it."""
        elf = Elf(self._image(stretch.loaded))
        section = next(each for each in elf.sections if each.address == stretch.start and each.flags & _CODE)
        try:
            code = bytes(elf.content(section))
            functions = [
                # An image that is loaded has addresses as the values of its symbols.
                (each.name, each.value - (stretch.start if each.value >= stretch.start else 0), each.size)
                for each in elf.symbols()
                if each.type == FUNCTION and each.section == section.index
            ]
        except ElfProblem as error:
            self.problems.append(f"the code of {stretch.kernel} can't be read: {error}")
            return b"", []
        return code, functions

    def _find_lines(self, stretch: _Stretch) -> tuple[line_table.Place, ...]:
        for number in (stretch.before, stretch.loaded):
            if number is not None and (found := self._lines_in(self._image(number), stretch.kernel)):
                return found
        if self._program is None:
            return ()
        arch = f"sm_{self.arch(stretch.kernel)}"
        built = host_file.image_of(self._program, stretch.kernel, arch)
        if built is None or len(_code(built, stretch.kernel)) != stretch.end - stretch.start:
            self.problems.append(f"{self._program}: no code for {arch} of the same size has {stretch.kernel}")
            return ()
        return self._lines_in(built, stretch.kernel)

    def _lines_in(self, image: bytes, kernel: str) -> tuple[line_table.Place, ...]:
        try:
            return line_table.places(image, kernel)
        except ElfProblem as error:
            self.problems.append(f"the lines of {kernel} can't be read: {error}")
            return ()


def _code(image: bytes, kernel: str) -> memoryview | bytes:
    try:
        elf = Elf(image)
        section = elf.section(_TEXT + kernel)
        return b"" if section is None else elf.content(section)
    except ElfProblem:
        return b""
