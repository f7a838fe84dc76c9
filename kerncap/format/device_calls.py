"""The functions of the device's runtime that a CUDA module calls: its heap and its printing.

Source: "System calls" in the PTX ISA manual's calling convention. In a cubin they are symbols without a
section.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kerncap.format.elf import Elf

_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)  # an open one goes to the end: once
_CALLED = re.compile(r"\b(malloc|free|vprintf)\b")
_HEAP = {"malloc", "free"}


@dataclass(frozen=True)
class DeviceCalls:
    """``heap``: the module calls malloc or free; ``prints``: it calls printf."""

    heap: bool = False
    prints: bool = False


def of_elf(elf: Elf) -> DeviceCalls:
    """Raises ElfProblem."""
    return _of({symbol.name for symbol in elf.symbols() if not symbol.section})


def without_comments(ptx: str) -> str:
    """The text with a space for each comment."""
    return _COMMENT.sub(" ", ptx)


def of_ptx(text: str) -> DeviceCalls:
    """``text`` is without comments."""
    statements = (each for each in text.split(";") if "call" in each)
    return _of({name for each in statements for name in _CALLED.findall(each)})


def _of(names: set[str]) -> DeviceCalls:
    return DeviceCalls(bool(names & _HEAP), "vprintf" in names)
