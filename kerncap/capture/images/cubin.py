"""A cubin: an ELF file with a kernel's code, its module's variables and its parameters' places."""

from __future__ import annotations

import struct

from kerncap.capture.images.problem import ImageProblem
from kerncap.format.elf import FUNCTION, Elf, ElfProblem, Section, Symbol

MACHINE = 190  # EM_CUDA
MAX_VARIABLES = 4096
_OBJECT = 1
_ABI_AT = 8  # in the file's header
_ARCH_IN_SECOND_BYTE = 8  # from this ABI version on
_PARAMETER = 0x17  # EIATTR_KPARAM_INFO of a kernel's .nv.info section
_WITH_SIZE = 4  # EIFMT_SVAL


class Cubin:
    """Read-only facts of a cubin in memory. Raises ImageProblem for what is no whole one."""

    def __init__(self, data: bytes | memoryview) -> None:
        try:
            self._elf = Elf(data)
        except ElfProblem as error:
            raise ImageProblem(f"a damaged cubin: {error}") from error
        if self._elf.machine != MACHINE:
            raise ImageProblem(f"not a cubin: an ELF file for machine {self._elf.machine}")
        self._abi: int = data[_ABI_AT]

    @property
    def arch(self) -> int:
        """90 for sm_90."""
        return self._elf.flags >> 8 & 0xFF if self._abi >= _ARCH_IN_SECOND_BYTE else self._elf.flags & 0xFF

    def kernels(self) -> list[str]:
        """Names of the functions that have code here, mangled."""
        return [symbol.name for symbol in self._symbols(FUNCTION)]

    def variables(self) -> list[str]:
        """Names of the module's ``__device__``, ``__constant__`` and ``__managed__`` variables, mangled."""
        found = []
        for symbol in self._symbols(_OBJECT):
            place = self._elf.sections[symbol.section].name
            # $str and the like are the compiler's own; .nv.constant0 holds parameters, not variables.
            if (
                symbol.size
                and place.startswith((".nv.global", ".nv.constant3"))
                and symbol.name[:1] not in "$."
            ):
                found.append(symbol.name)
        return found[:MAX_VARIABLES]

    def layout(self, kernel: str) -> tuple[tuple[int, int], ...] | None:
        """(offset, size) of each parameter of ``kernel`` in order; None if the cubin doesn't say."""
        section = self._elf.section(f".nv.info.{kernel}")
        if section is None:
            return None
        found: dict[int, tuple[int, int]] = {}
        data, at = self._content(section), 0
        while at + 4 <= len(data):
            form, attribute, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if form != _WITH_SIZE:
                continue
            if attribute == _PARAMETER and size >= 12 and at + 12 <= len(data):
                _, ordinal, offset, packed = struct.unpack_from("<IHHI", data, at)
                found[ordinal] = (offset, packed >> 18)
            at += size
        return tuple(found[ordinal] for ordinal in sorted(found))

    def _symbols(self, kind: int) -> list[Symbol]:
        """Those that are defined here."""
        try:
            return [s for s in self._elf.symbols(only=kind) if 0 < s.section < len(self._elf.sections)]
        except ElfProblem as error:
            raise ImageProblem(f"a damaged cubin: {error}") from error

    def _content(self, section: Section) -> memoryview:
        try:
            return self._elf.content(section)
        except ElfProblem as error:
            raise ImageProblem(f"a damaged cubin: {error}") from error
