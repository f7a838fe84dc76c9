"""Where an AMD GPU's code object was in the application: what words of memory that lead into it become here.

ROCr loads a code object wherever there is room. So pointers to functions, to virtual tables and to constants
are other ones in each process, in memory and among the arguments. The worker changes those words for the time
of a launch (`worker/native/variables.py`). In the captured image all of it has moved by one distance; a
candidate has a function, or a virtual table, by its symbol.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from kerncap.format import Reproducer
from kerncap.format.code_object import DESCRIPTOR_SUFFIX
from kerncap.format.elf import DYNSYM, FUNCTION, OBJECT, SYMTAB, Elf, ElfProblem, Symbol
from kerncap.format.kernel_names import parse
from kerncap.format.schema import Manifest
from kerncap.replay.worker.common.placed_regions import is_virtual_table
from kerncap.replay.worker.common.private_map import private_map

Moved = tuple[int, int, int]  # captured address, bytes from there on, address in a file
_MOST_ADDRESS = 1 << 40  # of a file
_MOST_CAPTURED = 1 << 62
_WORD, _STEP = 8, 32 << 20
_FAR = 1 << 62  # a kernel's code, if its symbol has no size

# SOP1's opcodes of s_getpc_b64 and s_swappc_b64, of gfx9, of gfx10 and of gfx11 on. A kernel without one
# takes no address of code, and calls nothing.
# Source: AMD's instruction set manuals of CDNA, RDNA 1 and RDNA 3 (SOP1).
_SOP1, _SOP1_MASK = 0xBE800000, 0xFF800000
_TAKES, _CALLS = (0x1C, 0x1F, 0x47), (0x1E, 0x21, 0x49)


@dataclass(frozen=True)
class Captured:
    """A code object, and what is added to its addresses in the file for those that it had in the
    application."""

    elf: Elf
    added: int

    @cached_property
    def inside(self) -> range:
        """Of the application's addresses those of the code object."""
        held = [(s.address, s.address + s.size) for s in self.elf.sections if s.address and s.size]
        held = [(start, stop) for start, stop in held if stop <= _MOST_ADDRESS]
        if not held:
            return range(0)
        return range(self.added + min(held)[0], self.added + max(stop for _, stop in held))

    @cached_property
    def _symbols(self) -> list[Symbol]:
        return sorted(_named(self.elf).values(), key=lambda each: each.value)

    def symbol_at(self, address: int) -> Symbol | None:
        """What has an address of the application's: a function that begins there, or an object."""
        place = address - self.added
        found = bisect.bisect_right(self._symbols, place, key=lambda each: each.value) - 1
        if found < 0:
            return None
        symbol = self._symbols[found]
        return symbol if place == symbol.value or _is_within(symbol, place) else None

    def moved_to(self, other: Elf) -> list[Moved]:
        """Where another image has the functions and objects of this one, by their names."""
        there = _named(other)
        return [
            (self.added + mine.value, _bytes_of(mine, its), its.value)
            for mine in self._symbols
            if (its := there.get(mine.name)) is not None and its.type == mine.type
        ]

    def moved_whole(self) -> list[Moved]:
        """Where this image itself has all that it had."""
        return [(self.inside.start, len(self.inside), self.inside.start - self.added)] if self.inside else []


def of_reproducer(reproducer: Reproducer) -> Captured | None:
    """The captured code object, if it is known where the application had it."""
    data = reproducer.code("hsaco")
    if data is None:
        return None
    manifest = reproducer.manifest
    regions = [manifest.regions[number] for number in reproducer.variables]
    variables = {region.name: region.base for region in regions if region.name}
    dispatch = manifest.launch.dispatch
    kernel_object = dispatch.kernel_object if dispatch is not None else None
    return captured(data, kernel_of(reproducer), kernel_object, variables)


def captured(
    data: bytes, kernel: str, kernel_object: int | None, variables: Mapping[str, int]
) -> Captured | None:
    """The captured code object, if it is known where it was: by the address of the descriptor of ``kernel``,
    which reproducers before format 1.16 do not have, or by those of its variables."""
    known = dict(variables)
    if kernel_object is not None:
        known = {_descriptor(kernel): kernel_object}
    if not known:
        return None
    try:
        elf = Elf(data)
        distances = {known[name] - each.value for name, each in _named(elf, known).items()}
    except ElfProblem:
        return None
    if len(distances) != 1:
        return None
    [added] = distances
    return Captured(elf, added) if 0 <= added < _MOST_CAPTURED else None


def _descriptor(kernel: str) -> str:
    return kernel.removesuffix(DESCRIPTOR_SUFFIX) + DESCRIPTOR_SUFFIX


def takes_addresses(elf: Elf, kernel: str) -> bool:
    """Whether a kernel takes addresses of its code object, or calls functions: else it can do nothing with
    pointers to them but copy them. True if its code is not found."""
    plain = kernel.removesuffix(DESCRIPTOR_SUFFIX)
    symbol = _named(elf, {plain}).get(plain)
    if symbol is None or symbol.type != FUNCTION or symbol.section >= len(elf.sections):
        return True
    section = elf.sections[symbol.section]
    start = symbol.value - section.address
    code = bytes(elf.content(section))[max(0, start) :][: symbol.size or _FAR]
    return _has(np.frombuffer(code[: len(code) // 4 * 4], dtype="<u4"), (*_TAKES, *_CALLS))


def is_unplaced(reproducer: Reproducer) -> bool:
    """Whether the captured kernel takes addresses of a code object of which nothing says where it was."""
    data = reproducer.code("hsaco")
    if data is None or of_reproducer(reproducer) is not None:
        return False
    try:
        return takes_addresses(Elf(data), kernel_of(reproducer))
    except ElfProblem:
        return False


def calls(code: npt.NDArray[np.uint32]) -> bool:
    """Whether code calls functions."""
    return _has(code, _CALLS)


def _has(code: npt.NDArray[np.uint32], operations: tuple[int, ...]) -> bool:
    sop1 = code[(code & np.uint32(_SOP1_MASK)) == _SOP1]
    return bool(np.isin(sop1 >> np.uint32(8) & np.uint32(0xFF), np.array(operations, np.uint32)).any())


def doubt(reproducer: Reproducer, candidate: Path, files: list[list[Path]]) -> str:
    """Why a candidate may call others than the captured kernel does by the same pointers, or none; empty if
    it has all that they lead to. ``files``: those of the regions before the launch."""
    code = of_reproducer(reproducer)
    if code is None or not code.inside:
        return ""
    try:
        other = Elf(candidate.read_bytes())
        kernel = kernel_of(reproducer)
        if not takes_addresses(other, kernel) and not takes_addresses(code.elf, kernel):
            return ""
        has = _named(other)
        for word in _words_into(code.inside, reproducer.manifest, files):
            symbol = code.symbol_at(word)
            if symbol is None:
                return f"{word:#x} in memory leads into the captured code, to nothing with a name"
            its = has.get(symbol.name)
            if its is None or its.type != symbol.type:
                what = parse(symbol.name).qualified if symbol.type == FUNCTION else symbol.name
                return f"memory has pointers to {what} of the captured code, and the candidate has none"
    except (ElfProblem, OSError):
        return ""  # what a runtime says of it says more
    return ""


def _words_into(inside: range, manifest: Manifest, files: list[list[Path]]) -> Iterator[int]:
    """The words of the parameters and of memory that are addresses in ``inside``, each once; those of virtual
    tables left out, which each image has of its own."""
    seen = set[int]()
    parameters = manifest.launch.parameters
    held = [np.frombuffer(bytes.fromhex(parameters.bytes), dtype=np.uint8)] if parameters is not None else []
    skews = [0] * len(held)
    for region, parts in zip(manifest.regions, files, strict=True):
        if region.size >= _WORD and not is_virtual_table(region.name):
            held.append(np.frombuffer(private_map(parts, region.size), dtype=np.uint8))
            skews.append(-region.base % _WORD)
    for data, skew in zip(held, skews, strict=True):
        for start in range(skew, len(data) - _WORD + 1, _STEP):
            part = data[start : start + _STEP]
            words = part[: len(part) // _WORD * _WORD].view(np.uint64)
            into = words[(words >= np.uint64(inside.start)) & (words < np.uint64(inside.stop))]
            for word in np.unique(into):
                if int(word) not in seen:
                    seen.add(int(word))
                    yield int(word)


def kernel_of(reproducer: Reproducer) -> str:
    """The kernel's name in its code object."""
    return reproducer.manifest.kernel.mangled or reproducer.manifest.kernel.name


def _named(elf: Elf, names: Iterable[str] | None = None) -> dict[str, Symbol]:
    """Functions and objects by their names; one that several have is in none of them."""
    wanted = None if names is None else set(names)
    found: dict[str, Symbol] = {}
    again = set[str]()
    for symbol in _symbols(elf):
        if wanted is None or symbol.name in wanted:
            known = found.setdefault(symbol.name, symbol)
            if (known.value, known.type) != (symbol.value, symbol.type):
                again.add(symbol.name)
    return {name: symbol for name, symbol in found.items() if name not in again}


def _symbols(elf: Elf) -> Iterator[Symbol]:
    for table in (SYMTAB, DYNSYM):
        for symbol in elf.symbols(table):
            is_code = symbol.type in (FUNCTION, OBJECT) and symbol.section and symbol.name
            if is_code and symbol.value + symbol.size <= _MOST_ADDRESS:
                yield symbol


def _is_within(symbol: Symbol, place: int) -> bool:
    return symbol.type == OBJECT and symbol.value <= place < symbol.value + symbol.size


def _bytes_of(mine: Symbol, its: Symbol) -> int:
    """Of a function its beginning: another image has other code behind it."""
    return 1 if mine.type == FUNCTION else max(1, min(mine.size, its.size))
