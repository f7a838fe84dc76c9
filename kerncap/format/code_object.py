"""AMDGPU code objects (hsaco): the metadata note, kernels with their arguments, variables.

A code object is the target's, or out of a stranger's reproducer: nothing of it is executed, and no number
in it is believed. Here and not with the images, because a replay asks it for the hidden arguments too.

Source: LLVM, "User Guide for AMDGPU Backend", code object V3 metadata and above (a note of owner
``AMDGPU``, type 32, in MessagePack).
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from kerncap.format.elf import DYNSYM, FUNCTION, NOBITS, OBJECT, SYMTAB, Elf, ElfProblem, Symbol

MACHINE = 224  # EM_AMDGPU
MAX_METADATA_BYTES = 64 << 20
MAX_KERNELS = 1 << 16
MAX_ARGUMENTS = 4096
MAX_VARIABLES = 4096
MAX_KERNARG_BYTES = 1 << 16  # what a launch's parameters may hold
DESCRIPTOR_SUFFIX = ".kd"
_OWNER, _METADATA, _OLD_METADATA = "AMDGPU", 32, 10
_HIDDEN = "hidden_"
_TARGET = re.compile(r"(gfx[0-9a-z-]{1,32})((?::[a-z]{1,16}[+-]){0,8})\Z")
# Constants of the device libraries and of the headers: the compiler's own, not the program's.
_NOT_THE_PROGRAMS = ("__oclc_", "__hip_cuid_", "__ocml_", "__ockl_", "_ZN17__HIP_Coordinates")

_Bytes = Annotated[int, Meta(ge=0, le=2**32 - 1)]
_Count = Annotated[int, Meta(ge=0, le=2**32 - 1)]
_Text = Annotated[str, Meta(max_length=256 * 1024)]


class CodeObjectProblem(ValueError):
    """What is wrong with the code object, in a few words."""


def _dotted(name: str) -> str:
    return f".{name}"


class KernelArgument(Struct, frozen=True, rename=_dotted):
    """One value of the kernarg segment, as the metadata has it."""

    offset: Annotated[int, Meta(ge=0, le=MAX_KERNARG_BYTES)]
    size: Annotated[int, Meta(ge=0, le=MAX_KERNARG_BYTES)]
    value_kind: Annotated[str, Meta(max_length=256)]
    name: _Text = ""
    type_name: _Text = ""
    address_space: Annotated[str, Meta(max_length=256)] = ""

    @property
    def hidden(self) -> bool:
        """Whether the runtime fills it, not the program."""
        return self.value_kind.startswith(_HIDDEN)


class KernelMetadata(Struct, frozen=True, rename=_dotted):
    """One kernel. Sizes are bytes."""

    name: _Text
    symbol: _Text
    kernarg_segment_size: Annotated[int, Meta(ge=0, le=MAX_KERNARG_BYTES)]
    args: Annotated[tuple[KernelArgument, ...], Meta(max_length=MAX_ARGUMENTS)] = ()
    group_segment_fixed_size: _Bytes = 0
    private_segment_fixed_size: _Bytes = 0
    wavefront_size: _Count = 64
    vgpr_count: _Count = 0
    sgpr_count: _Count = 0
    agpr_count: _Count = 0
    vgpr_spill_count: _Count = 0
    sgpr_spill_count: _Count = 0
    max_flat_workgroup_size: _Count = 0

    @property
    def explicit(self) -> tuple[KernelArgument, ...]:
        """What the program passed, in the order of the kernel's parameters."""
        return tuple(argument for argument in self.args if not argument.hidden)

    @property
    def hidden(self) -> tuple[KernelArgument, ...]:
        return tuple(argument for argument in self.args if argument.hidden)


class _Metadata(Struct, frozen=True):
    kernels: Annotated[tuple[KernelMetadata, ...], Meta(max_length=MAX_KERNELS)] = msgspec.field(
        name="amdhsa.kernels", default=()
    )
    target: Annotated[str, Meta(max_length=4096)] = msgspec.field(name="amdhsa.target", default="")


class CodeObject:
    """Read-only facts of a code object in memory. Raises CodeObjectProblem for what is no whole one."""

    def __init__(self, data: bytes | memoryview) -> None:
        try:
            self._elf = Elf(data)
            if self._elf.machine != MACHINE:
                raise CodeObjectProblem(
                    f"not an AMDGPU code object: an ELF file for machine {self._elf.machine}"
                )
            metadata = _read_metadata(self._elf)
        except ElfProblem as error:
            raise CodeObjectProblem(f"a damaged code object: {error}") from error
        for kernel in metadata.kernels:
            _check_arguments(kernel)
        self.kernels = metadata.kernels
        found = _TARGET.search(metadata.target)
        self.target = metadata.target
        self.arch = found[1] if found is not None else None  # "gfx942"
        self.features = found[2] if found is not None else ""  # ":xnack-"

    def kernel(self, name: str) -> KernelMetadata | None:
        """The kernel of that (mangled) name, with or without its descriptor's suffix."""
        plain = name.removesuffix(DESCRIPTOR_SUFFIX)
        symbol = plain + DESCRIPTOR_SUFFIX
        return next((each for each in self.kernels if each.symbol == symbol or each.name == plain), None)

    def variables(self) -> list[Symbol]:
        """The variables that the runtime can find by name."""
        return self._objects(DYNSYM)[:MAX_VARIABLES]

    def static_variables(self) -> list[Symbol]:
        """Those with no name outside (``static __device__``); none if the symbol table was stripped.

        Their ``value`` is the address in the file, to which the loader adds the same number for all.
        """
        known = {(each.name, each.value) for each in self._objects(DYNSYM)}
        rest = [each for each in self._objects(SYMTAB) if (each.name, each.value) not in known]
        return rest[:MAX_VARIABLES]

    def code(self, kernel: str) -> memoryview | None:
        """The machine code of the kernel of that (mangled) name; None if no symbol says where it is."""
        try:
            for symbol in self._elf.symbols(DYNSYM, only=FUNCTION):
                if symbol.name == kernel and 0 < symbol.section < len(self._elf.sections):
                    section = self._elf.sections[symbol.section]
                    start = symbol.value - section.address
                    return self._elf.content(section)[start : start + symbol.size] if start >= 0 else None
        except ElfProblem:
            return None
        return None

    def all_code(self) -> memoryview:
        """That of every function."""
        section = self._elf.section(".text")
        return self._elf.content(section) if section is not None else memoryview(b"")

    def initial_value(self, symbol: Symbol, size: int) -> bytes | None:
        """The first bytes of a variable as the file has them; None if it does not."""
        section = self._elf.sections[symbol.section]
        start = symbol.value - section.address
        if section.type == NOBITS:
            return bytes(size)
        try:
            return bytes(self._elf.content(section)[start : start + size]) if start >= 0 else None
        except ElfProblem:
            return None

    def _objects(self, table: int) -> list[Symbol]:
        try:
            return [
                symbol
                for symbol in self._elf.symbols(table)
                if symbol.type == OBJECT
                and symbol.size
                and 0 < symbol.section < len(self._elf.sections)
                and not symbol.name.endswith(DESCRIPTOR_SUFFIX)
                and not symbol.name.startswith(_NOT_THE_PROGRAMS)
            ]
        except ElfProblem as error:
            raise CodeObjectProblem(f"a damaged code object: {error}") from error


def is_code_object(data: bytes | memoryview) -> bool:
    """Whether ``data`` begins as an ELF file for AMD GPUs."""
    return bytes(data[:4]) == b"\x7fELF" and int.from_bytes(data[18:20], "little") == MACHINE


def _read_metadata(elf: Elf) -> _Metadata:
    old = False
    for note in elf.notes():
        if note.owner == _OWNER and note.type == _METADATA:
            if len(note.content) > MAX_METADATA_BYTES:
                raise CodeObjectProblem(f"metadata of {len(note.content)} bytes")
            try:
                return msgspec.msgpack.decode(note.content, type=_Metadata)
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
                raise CodeObjectProblem(f"metadata that can't be read: {error}") from error
        old = old or note.type == _OLD_METADATA
    version = "of code object version 2, which is older than what is read here" if old else "missing"
    raise CodeObjectProblem(f"its metadata is {version}")


def _check_arguments(kernel: KernelMetadata) -> None:
    """Each lies in the kernarg segment, after the one before it."""
    end = 0
    for argument in kernel.args:
        if argument.offset < end or argument.offset + argument.size > kernel.kernarg_segment_size:
            raise CodeObjectProblem(
                f"an argument of {argument.size} bytes at {argument.offset} of {kernel.name[:80]}; "
                f"{end} to {kernel.kernarg_segment_size} are left"
            )
        end = argument.offset + argument.size
