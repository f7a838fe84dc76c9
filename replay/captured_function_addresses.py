"""Where a launch's memory holds addresses of its module's functions: function pointers, virtual tables.

A driver puts code where it likes, so these words are others in a replay. Which words of the module's
variables they are, the image's relocations say; what each was in the application is in the captured variable.
The worker reads what it is here from the variable as it is loaded (`worker/native/variables.py`). An image of
one compilation has numbers in place of such addresses, and needs none of this.
"""

from __future__ import annotations

from collections.abc import Iterator

from kerncap.format import Reproducer
from kerncap.format.elf import FUNCTION, OBJECT, RELA, Elf, ElfProblem, Symbol
from kerncap.replay.worker.job import JobFunction

_VARIABLES = (".nv.global.init", ".nv.constant3")
_WORD = 8


def of_reproducer(reproducer: Reproducer) -> list[JobFunction]:
    """The words of the module's captured variables that the loader fills with addresses of functions."""
    data = reproducer.code("cubin") if reproducer.variables else None
    if data is None:
        return []
    regions = {reproducer.manifest.regions[number].name: number for number in reproducer.variables}
    found: list[JobFunction] = []
    for variable, offset in words_of(data):
        region = regions.get(variable)
        if region is None or offset + _WORD > reproducer.manifest.regions[region].size:
            continue
        word = int.from_bytes(reproducer.read("pre", region, offset, _WORD), "little")
        if word:
            found.append({"region": region, "offset": offset, "captured": word})
    return found


def words_of(image: bytes) -> list[tuple[str, int]]:
    """(variable, offset) of each word that is to hold a function's address; [] of what is no linked image."""
    if not any(f".rela{name}".encode() in image for name in _VARIABLES):
        return []
    try:
        return list(_words(Elf(image)))
    except ElfProblem:
        return []


def _words(elf: Elf) -> Iterator[tuple[str, int]]:
    symbols = {symbol.index: symbol for symbol in elf.symbols()}
    for section in elf.sections:
        held = section.name.removeprefix(".rela")
        if section.type != RELA or held == section.name or held not in _VARIABLES:
            continue
        target = elf.section(held)
        variables = [s for s in symbols.values() if target and s.section == target.index and s.type == OBJECT]
        for relocation in elf.relocations(section):
            of = symbols.get(relocation.symbol)
            if of is not None and of.type == FUNCTION:
                yield from _places(variables, relocation.offset)


def _places(variables: list[Symbol], at: int) -> Iterator[tuple[str, int]]:
    for variable in variables:
        if variable.value <= at <= variable.value + variable.size - _WORD:
            yield variable.name, at - variable.value
