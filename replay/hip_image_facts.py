"""What a replay worker has to know of an AMDGPU code object: read here, since the worker reads no ELF."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from pathlib import Path

from kerncap.format.code_object import DESCRIPTOR_SUFFIX, CodeObject, CodeObjectProblem
from kerncap.format.code_object import KernelMetadata as Metadata
from kerncap.format.elf import DYNSYM, OBJECT, SYMTAB, Elf, ElfProblem
from kerncap.replay import hip_code_places
from kerncap.replay.hip_code_places import Captured
from kerncap.replay.worker.protocol import HipImage, HipKernel, Slot


def of_file(
    path: Path, symbol: str, variables: Collection[str], captured: Captured | None = None,
    is_own: bool = False,
) -> HipImage:  # fmt: skip
    """The facts of a code object: of its kernel ``symbol``, else of its only one, and these variables.
    ``captured``: the one that the application had, which this one is if ``is_own``.

    What it does not say is left out, and all of it if the file is no code object: the runtime says that best.
    """
    try:
        data = path.read_bytes()
    except OSError:
        return HipImage()
    try:
        code = CodeObject(data)
    except CodeObjectProblem:
        kernels: tuple[Metadata, ...] = ()
    else:
        found = code.kernel(symbol)
        kernels = code.kernels if found is None else (found,)
    kernel = _kernel(kernels[0]) if len(kernels) == 1 else None
    descriptor = (
        symbol.removesuffix(DESCRIPTOR_SUFFIX) if kernel is None else kernel.name
    ) + DESCRIPTOR_SUFFIX
    try:
        elf = Elf(data)
        facts = HipImage(kernel, _objects(elf, {*variables, descriptor}))
        if captured is None or not hip_code_places.takes_addresses(elf, descriptor):
            return facts
        moved = captured.moved_whole() if is_own else captured.moved_to(elf)
        inside = captured.inside
    except ElfProblem:
        return HipImage(kernel)
    return dataclasses.replace(facts, inside=(inside.start, len(inside)), moved=moved)


def _kernel(found: Metadata) -> HipKernel:
    return HipKernel(
        name=found.symbol.removesuffix(DESCRIPTOR_SUFFIX),
        slots=[Slot(each.value_kind, each.offset, each.size) for each in found.args],
        kernarg_bytes=found.kernarg_segment_size,
        vgprs=found.vgpr_count,
        max_threads=found.max_flat_workgroup_size,
        wavefront=found.wavefront_size,
    )


def _objects(elf: Elf, names: Collection[str]) -> dict[str, tuple[int, int]]:
    """(address in the file, size) by name; a name that several have is in none of them."""
    found: dict[str, set[tuple[int, int]]] = {}
    for table in (SYMTAB, DYNSYM):
        for symbol in elf.symbols(table):
            if symbol.name in names and symbol.type == OBJECT and symbol.section:
                found.setdefault(symbol.name, set()).add((symbol.value, symbol.size))
    return {name: places.pop() for name, places in found.items() if len(places) == 1}
