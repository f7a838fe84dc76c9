"""Whether a candidate understands the function pointers in captured memory as the captured code does.

In an image of one compilation a function pointer is a number: the place of the function's offset in a table
that each kernel has (``.nv.constant2.KERNEL``). The compiler counts the functions whose address is taken, so
one more or one less in a candidate gives the others new numbers. In a linked image it is an address, and the
worker finds a candidate's in the words of its variables that the captured code has, too
(`captured_function_addresses`).

Source: images of nvcc 13 for sm_75 to sm_120.

A candidate that fails with other functions behind the same pointers may be right.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from kerncap.format import Reproducer
from kerncap.format.elf import FUNCTION, Elf, ElfProblem
from kerncap.replay import captured_function_addresses

_ELF = b"\x7fELF"
_CALLS_BY_POINTER = b".callprototype"  # in PTX
_MOST_BYTES = 64 << 20
_ENTRY = 8
# CALL.ABS and CALL.REL to what a register says, in bits 0 to 11 of an instruction of 128, of sm_75 to sm_120.
_CALLS_REGISTER = (0x343, 0x344)

_BY_POINTER = "the kernel calls functions by pointers that are in memory"


def doubt(reproducer: Reproducer, candidate: Path) -> str:
    """Why the candidate may call others than the captured kernel does; empty if it calls the same."""
    captured = reproducer.code("cubin") or reproducer.code("ptx")
    kernel = reproducer.manifest.kernel.mangled or reproducer.manifest.kernel.name
    had = {} if captured is None else numbers_of(captured, kernel)
    words = set(captured_function_addresses.words_of(captured)) if captured is not None else set()
    if had == {} and not words:
        return ""
    if candidate.stat().st_size > _MOST_BYTES:
        return f"{_BY_POINTER}, and the candidate is too large to look for them"
    image = candidate.read_bytes()
    has = numbers_of(image, kernel)
    if had is None or has is None:
        return f"{_BY_POINTER}, and which these are is not known of code that the driver compiles"
    if had and not has:
        # One that calls nothing is judged; else the numbers in memory are addresses to it.
        return (
            f"{_BY_POINTER}, and the candidate has none of these" if calls_by_pointer(image, kernel) else ""
        )
    for number, function in had.items():
        if has.get(number) != function:
            other = f"{has[number]} there" if number in has else "none there"
            return f"{_BY_POINTER}: {number:#x} is {function} in the captured code, and {other}"
    for variable, offset in sorted(words.difference(captured_function_addresses.words_of(image))):
        return f"{_BY_POINTER}, and the candidate has none at byte {offset} of {variable}"
    return ""


def calls_by_pointer(image: bytes, kernel: str) -> bool:
    try:
        elf = Elf(image)
        code = elf.section(f".text.{kernel}")
        words = np.frombuffer(b"" if code is None else bytes(elf.content(code)), dtype="<u8")
    except (ElfProblem, ValueError):
        return False
    return bool(np.isin(words[::2] & np.uint64(0xFFF), np.array(_CALLS_REGISTER, dtype=np.uint64)).any())


def numbers_of(image: bytes, kernel: str) -> dict[int, str] | None:
    """The functions that the kernel can call by number, by these; None if only a driver knows."""
    if not image.startswith(_ELF):
        is_text = image.lstrip().startswith((b".version", b"//"))
        return {} if is_text and _CALLS_BY_POINTER not in image else None
    try:
        elf = Elf(image)
        table, code = elf.section(f".nv.constant2.{kernel}"), elf.section(f".text.{kernel}")
        if table is None or code is None:
            return {}
        names = {
            symbol.value: symbol.name.removeprefix(f"${kernel}$")
            for symbol in elf.symbols()
            if symbol.type == FUNCTION and symbol.section == code.index and symbol.value
        }
        content = bytes(elf.content(table))
    except ElfProblem:
        return None
    entries = enumerate(struct.unpack_from(f"<{len(content) // _ENTRY}Q", content))
    return {_ENTRY * at: names[offset] for at, offset in entries if offset in names}
