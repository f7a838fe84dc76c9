"""The addresses of the memory accesses that a wave made just before it stopped, by its code and registers.

A memory violation is reported some instructions after the access that made it. What ran since then may have
written the registers of the address, and a load may have written its own: then it isn't known. Only straight
code is followed backwards, to where the wave may have come from elsewhere or had other lanes active.

Instructions of gfx90a, gfx942 and gfx950. Source: AMD's "MI200", "MI300" and "CDNA4" instruction set
architectures, "Microcode formats".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kerncap.capture.core_dump.amd.core_file import Memory
from kerncap.capture.core_dump.amd.waves import Wave

MAX_CODE_BYTES = 1 << 20  # of a function
MOST = 32  # instructions before the wave's
_LITERAL, _SDWA, _DPP = 255, 249, 250
_EXEC = range(126, 128)
_BRANCHES = frozenset((2, *range(4, 10), *range(23, 27)))  # SOPP
_OTHER_ENDS = frozenset((1, 18, 28, 29))  # s_endpgm, s_trap, s_set_gpr_idx_off, s_set_gpr_idx_mode
# SOP1: jumps, what changes EXEC, and registers that are computed
_SOP1_ENDS = frozenset((*range(0x1C, 0x28), *range(0x2A, 0x2F), *range(0x32, 0x37)))
_LOADS = frozenset((*range(0x10, 0x18), *range(0x20, 0x26)))
_STORES = frozenset(range(0x18, 0x20))
_ATOMICS = frozenset((*range(0x40, 0x53), *range(0x60, 0x6D)))
_CARRIES = frozenset((*range(0x119, 0x11F), 0x1E0, 0x1E1, 0x1E8, 0x1E9))  # VOP3 with a second result
_READ_LANE = 0x289
_SCRATCH, _NO_SCALAR = 1, 0x7F


@dataclass(frozen=True)
class Access:
    """A load, a store or an atomic. ``vector``: first register of the address, ``scalar`` that of its base.

    ``is_flat``: the address may also be of LDS or scratch.
    """

    pc: int
    vector: int
    scalar: int | None
    offset: int
    is_flat: bool

    def addresses(self, memory: Memory, wave: Wave) -> dict[int, int]:
        """Of the wave's active lanes, by lane; none if its registers are not all there."""
        low = wave.row(memory, self.vector)
        if self.scalar is None:
            base, high = 0, wave.row(memory, self.vector + 1)
        else:
            scalars, _ = wave.scalars(memory)
            if self.scalar + 2 > len(scalars):
                return {}
            base, high = scalars[self.scalar] | scalars[self.scalar + 1] << 32, (0,) * len(low)
        return {
            lane: (low[lane] | high[lane] << 32) + base + self.offset & (1 << 64) - 1
            for lane in wave.lanes()
            if low and high
        }


@dataclass(frozen=True)
class _Instruction:
    pc: int
    low: int
    high: int


def before(code: bytes, start: int, pc: int) -> tuple[Access, ...]:
    """The accesses before ``pc`` whose address is still in the wave's registers, the last one first.

    ``code``: of the whole function, which begins at ``start``.
    """
    every = _decoded(code, start) if len(code) <= MAX_CODE_BYTES else None
    if every is None or pc not in {each.pc for each in every}:
        return ()
    entered = {target for each in every for target in _targets(each)}
    found: list[Access] = []
    vectors: set[int] = set()
    scalars: set[int] = set()
    behind = pc
    for each in [one for one in reversed(every) if one.pc < pc][:MOST]:
        if behind in entered or _ends(each):
            break
        behind = each.pc
        written = _vectors_written(each)
        if written is None:
            break
        vectors.update(written)
        scalars.update(_scalars_written(each))
        access = _access(each)
        if access is None:
            continue
        used = range(access.vector, access.vector + (1 if access.scalar is not None else 2))
        base = () if access.scalar is None else (access.scalar, access.scalar + 1)
        if vectors.isdisjoint(used) and scalars.isdisjoint(base):
            found.append(access)
    return tuple(found)


def size(low: int) -> int | None:
    """Bytes of the instruction that begins with a word; None if it isn't known."""
    for matches, bytes_of in _SIZES:
        if matches(low):
            return bytes_of(low)
    return None


def _decoded(code: bytes, start: int) -> list[_Instruction] | None:
    words = struct.unpack(f"<{len(code) // 4}I", code[: len(code) // 4 * 4])
    found, at = [], 0
    while at < len(words):
        length = size(words[at])
        if length is None or at + length // 4 > len(words):
            return None
        found.append(_Instruction(start + 4 * at, words[at], words[at + 1] if length == 8 else 0))
        at += length // 4
    return found


def _vop_size(low: int) -> int:
    operation, source = low >> 25, low & 0x1FF
    return 8 if source in (_LITERAL, _SDWA, _DPP) or operation in (23, 24, 36, 37) else 4


def _with_literal(*places: int) -> Callable[[int], int]:
    return lambda low: 8 if any(low >> place & 0xFF == _LITERAL for place in places) else 4


# In this order: a later pattern may match what an earlier one has taken.
_SIZES: tuple[tuple[Callable[[int], bool], Callable[[int], int]], ...] = (
    (lambda low: low >> 31 == 0, _vop_size),
    (lambda low: low >> 23 == 0x17F, lambda _: 4),  # SOPP
    (lambda low: low >> 23 == 0x17E, _with_literal(0, 8)),  # SOPC
    (lambda low: low >> 23 == 0x17D, _with_literal(0)),  # SOP1
    (lambda low: low >> 28 == 0xB, lambda low: 8 if low >> 23 & 31 == 20 else 4),  # SOPK: s_setreg_imm32_b32
    (lambda low: low >> 30 == 2, _with_literal(0, 8)),  # SOP2
    # SMEM, VOP3 and VOP3P, DS, FLAT, MUBUF, MTBUF
    (lambda low: low >> 26 in (0x30, 0x34, 0x36, 0x37, 0x38, 0x3A), lambda _: 8),
)


def _targets(each: _Instruction) -> Iterator[int]:
    """Where a branch leads, and what is behind it."""
    if each.low >> 23 == 0x17F and each.low >> 16 & 0x7F in _BRANCHES:
        offset = (each.low & 0xFFFF) - (0x10000 if each.low & 0x8000 else 0)
        yield each.pc + 4 + 4 * offset


def _ends(each: _Instruction) -> bool:
    """Whether a wave may not have come straight through it, or with other lanes active."""
    low = each.low
    if low >> 31 == 0:
        return low >> 25 == 0x3E and bool(low >> 17 & 0x10)  # v_cmpx: it writes EXEC
    if low >> 23 == 0x17F:
        return low >> 16 & 0x7F in _BRANCHES | _OTHER_ENDS
    if low >> 23 == 0x17E:
        return low >> 16 & 0x7F == 0x11  # s_set_gpr_idx_on
    if low >> 23 == 0x17D:
        return low >> 8 & 0xFF in _SOP1_ENDS or low >> 16 & 0x7F in _EXEC
    if low >> 28 == 0xB:
        return low >> 23 & 31 in (16, 21) or low >> 16 & 0x7F in _EXEC  # a fork, a call
    if low >> 30 == 2:
        return low >> 16 & 0x7F in _EXEC
    return low >> 26 == 0x34 and low >> 16 & 0x3FF < 0x100 and bool(low >> 16 & 0x10)  # v_cmpx


def _vectors_written(each: _Instruction) -> range | set[int] | None:
    """The vector registers that it may write; None if it isn't known."""
    low, high = each.low, each.high
    if low >> 31 == 0:
        if low >> 25 == 0x3E:
            return range(0)
        first = low >> 17 & 0xFF
        written = set(range(first, first + 2))
        if low >> 25 == 0x3F and low & 0x100:
            written.add(low & 0xFF)  # v_swap_b32
        return written
    match low >> 26:
        case 0x34:
            is_packed = low >> 23 == 0x1A7
            return range(low & 0xFF, (low & 0xFF) + (32 if is_packed else 2))
        case 0x36:
            return range(high >> 24, (high >> 24) + 4)
        case 0x37:
            operation = low >> 18 & 0x7F
            if operation in _STORES or (operation in _ATOMICS and not low >> 16 & 1):
                return range(0)
            return range(high >> 24, (high >> 24) + 4) if operation in _LOADS | _ATOMICS else None
        case 0x38 | 0x3A:
            return range(high >> 8 & 0xFF, (high >> 8 & 0xFF) + 4)
    return range(0)


def _scalars_written(each: _Instruction) -> range | set[int]:
    """The scalar registers that it may write."""
    low = each.low
    if low >> 31 == 0:
        return range(low >> 17 & 0xFF, (low >> 17 & 0xFF) + 1) if low >> 25 == 0x3F else range(0)
    if low >> 26 == 0x30:
        return range(low >> 6 & 0x7F, (low >> 6 & 0x7F) + 16)
    if low >> 26 == 0x34:
        operation, written = low >> 16 & 0x3FF, set[int]()
        if operation < 0x100 or operation == _READ_LANE:
            written |= {low & 0xFF, (low & 0xFF) + 1}
        if operation in _CARRIES:
            written |= {low >> 8 & 0x7F, (low >> 8 & 0x7F) + 1}
        return written
    if low >> 30 == 2 and low >> 23 not in (0x17E, 0x17F):
        return range(low >> 16 & 0x7F, (low >> 16 & 0x7F) + 2)
    return range(0)


def _access(each: _Instruction) -> Access | None:
    low, high = each.low, each.high
    segment, operation = low >> 14 & 3, low >> 18 & 0x7F
    if low >> 26 != 0x37 or segment in (_SCRATCH, 3) or operation not in _LOADS | _STORES | _ATOMICS:
        return None
    offset = low & 0x1FFF
    if segment:  # global: the offset has a sign
        offset -= 0x2000 if offset & 0x1000 else 0
    scalar = high >> 16 & 0x7F
    has_scalar = bool(segment) and scalar != _NO_SCALAR
    return Access(each.pc, high & 0xFF, scalar if has_scalar else None, offset, not segment)
