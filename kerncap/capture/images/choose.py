"""Which of an image's programs a device runs, and what variables its module has."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kerncap.capture.images import amdgpu, fatbin, offload_bundle, ptx
from kerncap.capture.images.cubin import Cubin
from kerncap.capture.images.fatbin import Entry
from kerncap.capture.images.problem import ImageProblem
from kerncap.format.code_object import is_code_object


@dataclass(frozen=True)
class Chosen:
    """What of an image serves one device: each may be missing."""

    cubin: bytes | None = None
    cubin_arch: str | None = None  # "sm_90"
    ptx: bytes | None = None
    hsaco: bytes | None = None  # an AMDGPU code object


def choose(data: bytes | memoryview, arch: str | None, kernel: str | None = None) -> Chosen:
    """What a device of ``arch`` runs: for ``gfx942`` its code object, for ``sm_90`` a cubin and the newest
    PTX that it can compile.

    As the driver chooses: code for this architecture, else for the highest lower one of the same
    major version, else PTX of the same or an older architecture. ``kernel`` (mangled) prefers the
    programs that have it. Raises ImageProblem for an image that can't be read.
    """
    if is_code_object(data):
        return Chosen(hsaco=bytes(data))
    if offload_bundle.is_bundle(data):
        found = offload_bundle.code_object(data, arch)
        if found is None:
            raise ImageProblem(f"an offload bundle with nothing for {arch}")
        return Chosen(hsaco=found[0])
    if fatbin.is_fatbin(data):
        return _of_fatbin(data, _number(arch), kernel)
    if bytes(data[:4]) == b"\x7fELF":
        return Chosen(cubin=bytes(data), cubin_arch=f"sm_{Cubin(data).arch}")
    if ptx.is_ptx(data):
        return Chosen(ptx=bytes(data).rstrip(b"\0"))
    raise ImageProblem("neither a fatbin nor a cubin nor PTX nor a code object")


def variables(data: bytes | memoryview, arch: str | None, kernel: str | None = None) -> list[str]:
    """Names of the variables of the module that ``data`` becomes on a device of ``arch``."""
    if bytes(data[:4]) == b"\x7fELF" and not is_code_object(data):
        return Cubin(data).variables()
    chosen = choose(data, arch, kernel)
    if chosen.hsaco is not None:
        return [symbol.name for symbol in amdgpu.read(chosen.hsaco).variables()]
    if chosen.cubin is not None:
        return Cubin(chosen.cubin).variables()
    return ptx.variables(chosen.ptx) if chosen.ptx is not None else []


def _number(arch: str | None) -> int | None:
    found = re.fullmatch(r"(?:sm|compute)_(\d{1,4})[af]?", arch or "")
    return int(found[1]) if found else None


def _of_fatbin(data: bytes | memoryview, wanted: int | None, kernel: str | None) -> Chosen:
    found = fatbin.entries(data)
    cubins = [e for e in found if e.kind == "elf" and _runs_on(e, wanted)]
    texts = [e for e in found if e.kind == "ptx" and (wanted is None or e.arch <= wanted)]
    cubin, entry = _first_with(data, sorted(cubins, key=lambda e: -e.arch), kernel)
    text, _ = _first_with(data, sorted(texts, key=lambda e: -e.arch), kernel)
    return Chosen(cubin, f"sm_{entry.arch}{entry.suffix}" if entry else None, text)


def _runs_on(entry: Entry, wanted: int | None) -> bool:
    if wanted is None or entry.arch == wanted:
        return True
    return entry.suffix != "a" and entry.arch // 10 == wanted // 10 and entry.arch < wanted


def _first_with(
    data: bytes | memoryview, ordered: list[Entry], kernel: str | None
) -> tuple[bytes | None, Entry | None]:
    """The first program that names ``kernel``, else the first; each is unpacked only when it is looked at."""
    first: tuple[bytes | None, Entry | None] = (None, None)
    for entry in ordered:
        program = fatbin.payload(data, entry)
        if kernel is None or kernel.encode() in program:
            return program, entry
        if first[0] is None:
            first = (program, entry)
    return first
