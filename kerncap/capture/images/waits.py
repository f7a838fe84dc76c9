"""Whether a kernel may wait: for another device or for the host, or for another launch.

For the first, it loads in a loop what these may change. That is a load or an atomic with the scope of the
whole system (`volatile`, `ld.acquire.sys`, `atom.sys`) between a branch backwards and its target. A loop that
only reads its data that way looks the same. For the second it needs an atomic, or a load that is ordered with
other blocks, anywhere.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from kerncap.capture.images.choose import Chosen
from kerncap.capture.images.problem import ImageProblem
from kerncap.capture.images.ptx import without_comments
from kerncap.format.elf import Elf, ElfProblem

# 128-bit instructions of sm_70 to sm_100, as nvdisasm shows what ptxas made: the operation in bits 0 to 8,
# the scope of a load or an atomic in 77 to 80.
_LOADS = (0x180, 0x181, 0x18A, 0x18B, 0x1A8, 0x1A9)  # LD, LDG, ATOM, its CAS, ATOMG, its CAS
_WEAK_LOADS, _WEAK = (0x180, 0x181), (0, 4)  # LD, LDG: no scope, or memory that is constant
_LEAVES = (0x143, 0x14A, 0x14C)  # CALL.ABS, JMP, JMX: to what is not in the section
_CALL = 0x144  # CALL.REL
_BRANCHES = (0x147,)
_SYSTEM = 0xA
_ARCHS = range(70, 110)  # whose instructions these are
_SHORT_OFFSETS = 90  # from sm_90 on a branch's offset is in words of four bytes, and in two parts
_BYTES = 16

_PTX_LABEL = re.compile(rb"([A-Za-z_$%][\w$]*)\s*:")
_PTX_BRANCH = re.compile(rb"\bbra(?:\.uni)?\s+([A-Za-z_$%][\w$]*)")
_PTX_LOAD = re.compile(rb"\bld\.(?:volatile\b|(?:acquire|relaxed)\.sys\b)|\batom\.[\w.:]*\bsys\b")


def waits(chosen: Chosen, kernel: str) -> bool:
    """Of the kernel with this mangled name; False if its code isn't there. Raises ImageProblem."""
    if chosen.cubin is not None:
        return _in_cubin(chosen.cubin, kernel, int(re.sub(r"\D", "", chosen.cubin_arch or "") or 0))
    return chosen.ptx is not None and _in_ptx(chosen.ptx, kernel)


def may_wait_for_launches(chosen: Chosen, kernel: str) -> bool:
    """Whether the kernel with this mangled name may wait for what another launch writes; True if unknown."""
    arch = int(re.sub(r"\D", "", chosen.cubin_arch or "") or 0)
    if chosen.cubin is None or arch not in _ARCHS:
        return True
    try:
        elf = Elf(chosen.cubin)
        own = elf.section(f".text.{kernel}")
        if own is None:
            return True
        found = set(_operations(elf.content(own)))
        if _CALL in {operation for operation, _ in found}:  # of a function that may be in another section
            texts = [each for each in elf.sections if each.name.startswith(".text.")]
            found |= {each for section in texts for each in _operations(elf.content(section))}
    except ElfProblem:
        return True
    return any(
        operation in _LEAVES or operation in _LOADS and not (operation in _WEAK_LOADS and scope in _WEAK)
        for operation, scope in found
    )


def _operations(code: bytes | memoryview) -> Iterator[tuple[int, int]]:
    """(operation, scope) of each instruction."""
    for low, high in struct.iter_unpack("<QQ", code[: len(code) // _BYTES * _BYTES]):
        yield low & 0x1FF, high >> 13 & 0xF


def _in_cubin(cubin: bytes, kernel: str, arch: int) -> bool:
    try:
        elf = Elf(cubin)
        section = elf.section(f".text.{kernel}")
        code = elf.content(section) if section is not None else b""
    except ElfProblem as error:
        raise ImageProblem(f"a damaged cubin: {error}") from error
    loads: list[int] = []
    for at, (low, high) in enumerate(struct.iter_unpack("<QQ", code[: len(code) // _BYTES * _BYTES])):
        operation = low & 0x1FF
        if operation in _LOADS and high >> 13 & 0xF == _SYSTEM:
            loads.append(at)
        elif operation in _BRANCHES and loads:
            target = at + 1 + _offset(low, arch) // _BYTES
            if target <= loads[-1]:
                return True
    return False


def _offset(low: int, arch: int) -> int:
    """Of a branch, in bytes from the instruction after it; only whether and how far it goes back matters."""
    if arch >= _SHORT_OFFSETS:
        words = low >> 34 << 8 | low >> 16 & 0xFF
        return _signed(words, 38) * 4
    return _signed(low >> 32, 32)


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def _in_ptx(text: bytes, kernel: str) -> bool:
    text = without_comments(text)
    start = re.search(rb"\.entry\s+" + re.escape(kernel.encode()) + rb"\b", text)
    if start is None:
        return False
    after = re.search(rb"\.(?:entry|func)\b", text[start.end() :])
    body = text[start.end() :][: after.start() if after is not None else None]
    labels = {label[1]: label.end() for label in _PTX_LABEL.finditer(body)}
    return any(
        _PTX_LOAD.search(body, labels[branch[1]], branch.start()) is not None
        for branch in _PTX_BRANCH.finditer(body)
        if labels.get(branch[1], len(body)) < branch.start()
    )
