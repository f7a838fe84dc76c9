"""What a launch depends on besides its parameters and its memory, from its compiled code.

A clock, the multiprocessor that a block landed on, which block came first, the device's own heap: no replay
gives them back. A difference that they may explain says nothing against the kernel.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np

from kerncap.format import Reproducer, device_calls
from kerncap.format.code_object import MACHINE as AMDGPU
from kerncap.format.code_object import CodeObject, CodeObjectProblem
from kerncap.format.elf import FUNCTION, RELA, Elf, ElfProblem
from kerncap.replay import hip_code_places
from kerncap.replay.worker.protocol import RUNTIMES_OWN

_CUDA = 190  # EM_CUDA
_MOST_BYTES = 64 << 20  # of an image that is looked through

# Source: the PTX ISA manual, "Special Registers" and "Atom".
_PTX_CLOCKS = re.compile(r"%(clock(?:64|_hi)?|globaltimer(?:_lo|_hi)?|smid|warpid)\b")
_PTX_ATOMIC = re.compile(r"\batom\.[\w.]+\s+(%?\w+)\s*,")

# 128-bit instructions of sm_70 and later: the operation in bits 0 to 8, the destination in 16 to 23, the
# special register in 72 to 79. As nvdisasm shows what ptxas made for sm_80 and sm_90.
_MOVES_SPECIAL = (0x919, 0x9C3, 0x805)  # S2R, S2UR, CS2R, with bits 9 to 11
_SPECIAL = {0x50: "clock", 0x51: "clock", 0x52: "globaltimer", 0x53: "globaltimer", 0x43: "smid"}
_VIRTID = 0x03  # both %smid and %warpid of some targets, and nothing else
_ATOMICS = (0x1A8, 0x1A3, 0x1A9, 0x18A, 0x18B, 0x18C, 0x18D)  # ATOMG, its float form and CAS; ATOM; ATOMS
_RZ = 0xFF
_HOLD_ADDRESSES = (".rela.text.", ".rela.nv.global.init", ".rela.nv.constant3")
_HALVES = (56, 57)  # relocations of an instruction's 32 bits to the low and the high half of an address

# Source: AMD's instruction set manuals of CDNA (SMEM, SOPK, hardware registers).
_AMD_TEXT = re.compile(r"\b(s_memtime|s_memrealtime|s_getreg_b32[^\n]*HW_REG_(?:HW_ID|XCC_ID|SHADER_CYCLES))")
_AMD_WORD = {"s_memtime": 0xC0900000, "s_memrealtime": 0xC0940000}
_AMD_WORD_MASK = 0xFFFC0000
_GETREG, _GETREG_MASK = 0xB8800000, 0xFF800000
_HARDWARE_IDS = (4, 20)  # HW_ID, XCC_ID
_GRID_BARRIER, _GRID_BARRIER_MASK = 0xD93B0000, 0xFFFF0000  # ds_gws_barrier
_RELATIVE = 13  # R_AMDGPU_RELATIVE64


@dataclass(frozen=True)
class SideInputs:
    """``clocks``: clocks and places of execution that are read, by name; ``order``: results of atomics are
    used; ``heap``: the module calls the device's malloc or free; ``prints``: it calls printf; ``addresses``:
    its code or its variables have addresses of functions, or it calls some (AMD GPUs); ``unplaced``: it takes
    addresses of its code, and nothing says where that was (AMD GPUs, formats before 1.16); ``runtime``: what
    the kernel may use that only the application's HIP runtime has.
    """

    clocks: tuple[str, ...] = ()
    order: bool = False
    heap: bool = False
    prints: bool = False
    addresses: bool = False
    unplaced: bool = False
    runtime: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """What makes two right runs differ, for people; empty if there is nothing known of the sort."""
        found = [f"reads {' and '.join(self.clocks)}"] if self.clocks else []
        found += ["uses what its atomics give back, which depends on who comes first"] if self.order else []
        found += ["calls the device's malloc"] if self.heap else []
        found += ["has functions whose addresses are others in each process"] if self.addresses else []
        if self.unplaced and not self.addresses:
            found += ["takes addresses of its code, and this reproducer does not say where that was"]
        return ", ".join(found)


def of_reproducer(reproducer: Reproducer) -> SideInputs:
    """What the captured code says; nothing if it holds no stage that can be read."""
    name = reproducer.manifest.kernel.mangled or reproducer.manifest.kernel.name
    for stage, look in (("cubin", _of_image), ("hsaco", _of_image), ("ptx", _of_ptx), ("amdgcn", _of_amdgcn)):
        data = reproducer.code(stage)
        if data is not None and len(data) <= _MOST_BYTES:
            found = look(data, name)
            if found is not None:
                return dataclasses.replace(found, unplaced=hip_code_places.is_unplaced(reproducer))
    return SideInputs()


def _of_ptx(data: bytes, name: str) -> SideInputs | None:
    text = device_calls.without_comments(data.decode(errors="replace"))
    calls = device_calls.of_ptx(text)
    here = _entry(text, name)
    results = {each for each in _PTX_ATOMIC.findall(here) if each != "_"}
    said = Counter(re.findall(r"%?\w+", here)) if results else Counter[str]()
    return SideInputs(
        clocks=tuple(sorted({_register(each) for each in _PTX_CLOCKS.findall(here)})),
        order=any(said[each] > 1 for each in results),
        heap=calls.heap,
        prints=calls.prints,
    )


def _entry(text: str, name: str) -> str:
    """The text without the bodies of other kernels: what may be called stays."""
    parts = re.split(r"(?=\.(?:visible\s+|weak\s+)?\.?entry\b|\.func\b)", text)
    kept = [
        part for part in parts
        if not (head := re.match(r"\.(?:visible\s+|weak\s+)?\.?entry\s+([\w$]+)", part)) or head[1] == name
    ]  # fmt: skip
    return "".join(kept)


def _register(name: str) -> str:
    return re.sub(r"(64|_hi|_lo)$", "", name)


def _of_image(data: bytes, name: str) -> SideInputs | None:
    try:
        elf = Elf(data)
        if elf.machine == AMDGPU:
            return _of_code_object(elf, name, _hidden_kinds(data, name))
        if elf.machine != _CUDA:
            return None
        calls = device_calls.of_elf(elf)
        clocks, order = set[str](), False
        for section in elf.sections:
            # Functions that are called have sections of their own; other kernels have constants, too.
            own = section.name.removeprefix(".text.")
            if section.name == own or (own != name and elf.section(f".nv.constant0.{own}") is not None):
                continue
            found, ordered = _of_sass(bytes(elf.content(section)))
            clocks |= found
            order = order or ordered
        addresses = _takes_addresses(elf)
    except ElfProblem:
        return None
    return SideInputs(tuple(sorted(clocks)), order, calls.heap, calls.prints, addresses)


def _takes_addresses(elf: Elf) -> bool:
    """Whether an instruction takes a function's address, or a variable begins with one. In an image of one
    compilation, functions have numbers in place of addresses."""
    functions = {s.index: s.section for s in elf.symbols() if s.type == FUNCTION}
    for section in elf.sections:
        held = elf.section(section.name.removeprefix(".rela"))
        if section.type != RELA or not section.name.startswith(_HOLD_ADDRESSES) or held is None:
            continue
        is_code = held.name.startswith(".text")
        for relocation in elf.relocations(section):
            # Of code to itself: where a call returns to.
            if functions.get(relocation.symbol, held.index) != held.index and (
                not is_code or relocation.type in _HALVES
            ):
                return True
    return False


def _of_sass(code: bytes) -> tuple[set[str], bool]:
    """Clocks that are read, and whether the result of an atomic operation is kept."""
    words = np.frombuffer(code, dtype="<u8", count=len(code) // 16 * 2).reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    moved = np.isin(low & np.uint64(0xFFF), np.array(_MOVES_SPECIAL, dtype=np.uint64))
    registers = {int(each) for each in np.unique(high[moved] >> np.uint64(8) & np.uint64(0xFF))}
    clocks = {_SPECIAL[each] for each in registers & _SPECIAL.keys()}
    if _VIRTID in registers:
        clocks.add("warpid")
    atomic = np.isin(low & np.uint64(0x1FF), np.array(_ATOMICS, dtype=np.uint64))
    kept = (low[atomic] >> np.uint64(16) & np.uint64(0xFF)) != _RZ
    return clocks, bool(kept.any())


def _hidden_kinds(data: bytes, name: str) -> list[str]:
    """Of the kernel's hidden arguments, which the compiler leaves out if it sees that nothing uses them."""
    try:
        kernel = CodeObject(data).kernel(name)
    except CodeObjectProblem:
        return []
    return [each.value_kind for each in kernel.hidden] if kernel is not None else []


def _of_code_object(elf: Elf, name: str, hidden: list[str]) -> SideInputs:
    plain = name.removesuffix(".kd")
    clocks, calls = set[str](), False
    runtime = dict.fromkeys(RUNTIMES_OWN[kind] for kind in hidden if kind in RUNTIMES_OWN)
    for symbol in elf.symbols():
        if symbol.type != FUNCTION or symbol.name != plain or symbol.section >= len(elf.sections):
            continue
        section = elf.sections[symbol.section]
        code = bytes(elf.content(section))
        words = np.frombuffer(code, dtype="<u4", count=len(code) // 4)
        calls = calls or hip_code_places.calls(words)
        clocks |= {
            each for each, word in _AMD_WORD.items() if ((words & np.uint32(_AMD_WORD_MASK)) == word).any()
        }
        ids = words[(words & np.uint32(_GETREG_MASK)) == _GETREG] & np.uint32(0x3F)
        if np.isin(ids, np.array(_HARDWARE_IDS, dtype=np.uint32)).any():
            clocks.add("hw_id")
        if ((words & np.uint32(_GRID_BARRIER_MASK)) == _GRID_BARRIER).any():
            runtime["the GPU's counters for barriers of a grid (GWS)"] = None
    return SideInputs(
        tuple(sorted(clocks)),
        heap="hidden_heap_v1" in hidden,
        prints="hidden_hostcall_buffer" in hidden,
        addresses=_holds_code_addresses(elf) or calls,
        runtime=tuple(runtime),
    )


def _holds_code_addresses(elf: Elf) -> bool:
    """Whether a variable (a table of functions, a class's virtual ones) begins with an address of code."""
    code = [range(s.address, s.address + s.size) for s in elf.sections if s.name == ".text"]
    return any(
        relocation.type == _RELATIVE and any(relocation.addend in each for each in code)
        for section in elf.sections
        if section.type == RELA
        for relocation in elf.relocations(section)
    )


def _of_amdgcn(data: bytes, name: str) -> SideInputs:
    found = {each.split("(")[0].split()[0] for each in _AMD_TEXT.findall(data.decode(errors="replace"))}
    return SideInputs(clocks=tuple(sorted(found)))
