"""The kernel in what a compiler made: is it there, under which name, what is there instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kerncap.format.code_object import CodeObject, is_code_object
from kerncap.format.elf import FUNCTION, Elf, ElfProblem
from kerncap.format.kernel_names import nested_parts, parse, without_file_hash
from kerncap.format.schema import Manifest

_SHOWN = 8
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")


def kernels_of_cubin(data: bytes) -> tuple[str, ...]:
    """Mangled names of the kernels in a cubin. Raises ValueError if it is not one."""
    elf = Elf(data)
    sections = {section.name for section in elf.sections}
    return tuple(
        symbol.name
        for symbol in elf.symbols()
        if symbol.type == FUNCTION and symbol.section and f".nv.constant0.{symbol.name}" in sections
    )


def variables_of_cubin(data: bytes) -> tuple[str, ...]:
    """Mangled names of the data objects in a cubin."""
    return tuple(symbol.name for symbol in Elf(data).symbols() if symbol.type == 1 and symbol.section)


def kernels_of(data: bytes) -> tuple[str, ...]:
    """Mangled names of the kernels in a cubin or code object. Raises ValueError for what is neither."""
    if is_code_object(data):
        return tuple(kernel.symbol.removesuffix(".kd") for kernel in CodeObject(data).kernels)
    return kernels_of_cubin(data)


def kernels_of_ptx(text: str) -> tuple[str, ...]:
    """Mangled names of the entries in PTX."""
    return tuple(dict.fromkeys(re.findall(r"\.entry\s+([\w$]+)", text)))


def entry_in_ptx(text: str, captured: tuple[str, ...]) -> str | None:
    """The captured kernel's name there, which may have another hash of the file."""
    kernels = kernels_of_ptx(text)
    if captured[0] in kernels:
        return captured[0]
    return next(iter(renames(kernels, captured[:1])), None)


def variables_of_ptx(text: str) -> tuple[str, ...]:
    """Mangled names of the variables in global and constant memory."""
    found = re.findall(r"\.(?:global|const)\s[^;=]*?([A-Za-z_$][\w$]*)\s*(?:\[[^\]]*\]\s*)*[;=]", text)
    return tuple(dict.fromkeys(found))


def captured_names(manifest: Manifest) -> tuple[str, ...]:
    """The kernel's name and those of the variables whose contents were captured, as the image had them."""
    kernel = manifest.kernel.mangled or manifest.kernel.name
    names = [region.name for region in manifest.regions if region.kind == "global" and region.name]
    return (kernel, *dict.fromkeys(name for name in names if name))


def renames(made: Iterable[str], captured: Iterable[str]) -> dict[str, str]:
    """Names that differ from captured ones by the file's hash alone: what each has to become."""
    present = set(made)
    by_plain: dict[str, list[str]] = {}
    for name in present:
        by_plain.setdefault(without_file_hash(name), []).append(name)
    found: dict[str, str] = {}
    for name in captured:
        same = by_plain.get(without_file_hash(name), [])
        if name not in present and len(same) == 1:
            found[same[0]] = name
    return found


def rename_in_ptx(text: str, names: Mapping[str, str]) -> str:
    """PTX with identifiers replaced; strings (file names) hold none of them."""
    return _IDENTIFIER.sub(lambda found: names.get(found.group(), found.group()), text)


def named(name: str, kernels: Iterable[str]) -> tuple[str, ...]:
    """The mangled names that ``scale``, or ``ns::scale``, may mean; a mangled name means itself."""
    kernels = tuple(kernels)
    if name in kernels:
        return (name,)
    parts = tuple(name.split("::"))
    return tuple(
        each for each in kernels if (*(found := parse(each)).scopes, found.base)[-len(parts) :] == parts
    )


def readable(name: str) -> str:
    """A mangled name as its plain components, for messages."""
    parts = nested_parts(name) if name.startswith("_Z") else ()
    return "::".join(part for part in parts if not part.startswith("_GLOBAL__N_")) or name


def listing(names: Iterable[str]) -> str:
    shown = [readable(name) for name in dict.fromkeys(names)]
    return (", ".join(shown[:_SHOWN]) + (" …" if len(shown) > _SHOWN else "")) or "no kernel at all"


__all__ = ["ElfProblem", "captured_names", "entry_in_ptx", "kernels_of", "kernels_of_cubin", "kernels_of_ptx",
           "listing", "named", "readable", "rename_in_ptx", "renames", "variables_of_cubin",
           "variables_of_ptx"]  # fmt: skip
