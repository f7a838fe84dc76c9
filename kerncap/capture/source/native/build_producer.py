"""What an image says of the tool that made it: a cubin's `.note.nv.tkinfo`, a code object's `.comment`.

Source: measured on cubins of CUDA 13.0 (nvcc and NVRTC): a note of type 2000, six 32-bit words, the last four
offsets into the text after them (tool, version, build, options).
"""

from __future__ import annotations

import re
import shlex
import struct
from dataclasses import dataclass

from kerncap.format.elf import Elf, ElfProblem, notes_in, text_at

_TOOL_INFO = 2000  # the type of the note
_WORDS = struct.Struct("<6I")


@dataclass(frozen=True)
class ToolInfo:
    """``version`` as in "13.0.88"; ``options`` are the assembler's."""

    tool: str
    version: str
    options: tuple[str, ...]

    @property
    def arch(self) -> str | None:
        found = re.search(r"sm_\d+[a-z]?", " ".join(self.options))
        return found.group() if found else None

    def compiler_words(self) -> list[str]:
        """Those of the options that a compiler was given too, as nvcc spells them."""
        words = list(self.options)
        text = " ".join(words)
        found = ["-G"] if {"-g", "--device-debug"} & set(words) else []
        if {"-lineinfo", "--generate-line-info"} & set(words):
            found.append("-lineinfo")
        limit = re.search(r"-maxrregcount[ =](\d+)", text)
        return found + ([f"-maxrregcount={limit[1]}"] if limit else [])


def of_cubin(data: bytes | memoryview) -> ToolInfo | None:
    """The note of a cubin, None if it has none that can be read."""
    try:
        elf = Elf(data)
        section = elf.section(".note.nv.tkinfo")
        if section is None:
            return None
        return _read(elf.content(section))
    except ValueError:
        return None


def of_code_object(data: bytes | memoryview) -> ToolInfo | None:
    """The compiler of an AMDGPU code object: "clang 15.0.6"; None if its `.comment` doesn't say."""
    try:
        elf = Elf(data)
        section = elf.section(".comment")
        text = bytes(elf.content(section)[:4096]).decode("utf-8", "replace") if section is not None else ""
    except ElfProblem:
        return None
    found = re.search(r"clang version (\d+(?:\.\d+){1,3})", text)
    return ToolInfo("clang", found[1], ()) if found is not None else None


def _read(section: memoryview) -> ToolInfo | None:
    description = next((each.content for each in notes_in(section) if each.type == _TOOL_INFO), section[:0])
    if len(description) < _WORDS.size:
        return None
    words = _WORDS.unpack_from(description)
    strings = bytes(description[_WORDS.size :])
    tool, version, _, options = (text_at(strings, at, 4096) for at in words[2:])
    found = re.search(r"V(\d+(?:\.\d+)*)", version) or re.search(r"(\d+(?:\.\d+)*)", version)
    return ToolInfo(tool[:64], found[1][:32] if found else "", tuple(shlex.split(options)))
