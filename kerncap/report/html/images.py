"""What an image (cubin, fatbin, code object) holds, as text: its sections and functions. Nothing is run."""

from __future__ import annotations

from collections.abc import Iterator

from kerncap.format.code_object import CodeObject, CodeObjectProblem, is_code_object
from kerncap.format.elf import FUNCTION, OBJECT, Elf, ElfProblem
from kerncap.log import size
from kerncap.printable import visible

MAX_ROWS = 200
MAX_LINES = 5000
_SYMBOLS = {FUNCTION: "function", OBJECT: "object"}
_MACHINES = {190: "NVIDIA CUDA", 224: "AMD GPU", 62: "x86-64"}


def summary(data: bytes) -> list[str]:
    """Lines about the image; one that says why if it can't be read."""
    try:
        elf = Elf(data)
        return list(_elf(elf, data))
    except ElfProblem as problem:
        magic = data[:4].hex(" ") or "nothing"
        return [f"{size(len(data))}, no ELF image that can be shown ({problem}; begins with {magic})"]


def code_lines(data: bytes, kernel: str) -> Iterator[tuple[str, str | None, int | None]]:
    """(text, file, line) for each stretch of the kernel's code that comes from one line of the source."""
    from kerncap.capture.source.native import line_table

    try:
        places = line_table.places(data, kernel)
    except ElfProblem as problem:
        yield f"its lines of the source can't be shown: {problem}", None, None
        return
    if places:
        yield "", None, None
        yield f"lines of {visible(kernel)}, by the address in its code", None, None
    for place in places[:MAX_LINES]:
        yield (
            f"+{place.offset:#08x} {place.size:>8,} bytes  {visible(place.file)}:{place.line}",
            place.file,
            place.line,
        )
    if len(places) > MAX_LINES:
        yield f"and {len(places) - MAX_LINES:,} more", None, None


def _elf(elf: Elf, data: bytes) -> Iterator[str]:
    machine = _MACHINES.get(elf.machine, f"machine {elf.machine}")
    yield f"ELF64, {machine}, {size(len(data))}, {len(elf.sections)} sections"
    sections = [(visible(section.name) or "-", section.size) for section in elf.sections if section.size]
    yield ""
    yield from _limited([f"{name:<44} {length:>12,} bytes" for name, length in sections])
    symbols = sorted(
        (symbol for symbol in elf.symbols() if symbol.type in _SYMBOLS and symbol.name),
        key=lambda symbol: (symbol.type != FUNCTION, -symbol.size),
    )
    if symbols:
        yield ""
        told = [(_SYMBOLS[symbol.type], symbol.size, visible(symbol.name)) for symbol in symbols]
        yield from _limited([f"{kind:<9} {length:>12,} bytes  {name}" for kind, length, name in told])
    if is_code_object(data):
        yield from _kernels(data)


def _kernels(data: bytes) -> Iterator[str]:
    try:
        kernels = CodeObject(data).kernels
    except (CodeObjectProblem, ElfProblem) as problem:
        yield f"its metadata can't be read: {problem}"
        return
    for kernel in kernels[:MAX_ROWS]:
        yield ""
        yield f"kernel {visible(kernel.name)}"
        for argument in kernel.args[:MAX_ROWS]:
            kind, name = visible(argument.value_kind), visible(argument.name)
            yield f"  +{argument.offset:<6} {argument.size:>4} bytes  {kind:<28} {name}".rstrip()


def _limited(lines: list[str]) -> Iterator[str]:
    yield from lines[:MAX_ROWS]
    if len(lines) > MAX_ROWS:
        yield f"and {len(lines) - MAX_ROWS:,} more"
