"""What nvcc and hipcc leave in a program or a library: to find the image that has a kernel."""

from __future__ import annotations

import mmap
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from kerncap.capture.images import fatbin, offload_bundle
from kerncap.capture.images.choose import choose
from kerncap.capture.images.problem import ImageProblem
from kerncap.format.elf import Elf, ElfProblem

SECTIONS = (".nv_fatbin", "__nv_relfatbin")
HIP_SECTION = ".hip_fatbin"
MAX_SEARCHED = 64 << 20  # of a file: a question waits for it, so a library of hundreds of MB is not searched
MAX_FATBINS = 4096


def image_of(path: Path, kernel: str, arch: str | None) -> bytes | None:
    """The cubin or code object with ``kernel`` (mangled) in an ELF file; None if it was not found."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return None
        # Not closed here: the mapping goes with the last view of it.
        return _search(memoryview(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ)), kernel, arch)
    except (OSError, ImageProblem, ElfProblem):
        return None
    finally:
        os.close(descriptor)


def _search(view: memoryview, kernel: str, arch: str | None) -> bytes | None:
    name = kernel.encode()
    elf = Elf(view)
    hip = elf.section(HIP_SECTION)
    if hip is not None and (arch is None or arch.startswith("gfx")):
        found = _in_bundles(elf.content(hip), name, arch)
        if found is not None:
            return found
    for section in elf.sections:
        if section.name in SECTIONS and section.size <= MAX_SEARCHED:
            for piece in _fatbins(elf.content(section)):
                chosen = choose(piece, arch, kernel).cubin
                if chosen is not None and name in chosen:
                    return chosen
    return None


def _in_bundles(content: memoryview, name: bytes, arch: str | None) -> bytes | None:
    """Each unit of the program left a bundle, one after the other."""
    if len(content) > MAX_SEARCHED:
        return None
    data = bytes(content)
    magics = (offload_bundle.MAGIC, offload_bundle.PACKED_MAGIC)
    starts = sorted(match.start() for magic in magics for match in re.finditer(re.escape(magic), data))
    for start in starts[:MAX_FATBINS]:
        try:
            found = offload_bundle.code_object(content[start:], arch)
        except ImageProblem:
            continue  # the same bytes in the middle of something else
        if found is not None and name in found[0]:
            return found[0]
    return None


def _fatbins(content: memoryview) -> Iterator[memoryview]:
    """Each container on its own: one is one module of the driver."""
    at = 0
    for _ in range(MAX_FATBINS):
        size = fatbin.container_size(content, at)
        if size is None:
            return
        yield content[at : at + size]
        at += size + (-size % 8)
