"""The address of a load, a store or an atomic, from the instruction and its thread's registers.

A fault is reported some instructions after the one that made it, so what ran since then, and the load itself,
may have written the registers of the address: then it isn't known.

Instructions of sm_80 to sm_120, as nvdisasm shows what ptxas made: the operation in bits 0 to 8, the first
register that is written in 16 to 23, that of the address in 24 to 31, an offset with a sign in 40 to 63.
Bit 72: the address has two registers. Bit 91: a uniform register is part of it, which for global memory only
describes it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Literal

Space = Literal["global", "shared", "local"]
_STORES = (0x185, 0x186, 0x187, 0x188, 0x18E)  # ST, STG, STL, STS, RED: they write no register
_GLOBAL = (0x180, 0x181, 0x185, 0x186, 0x18A, 0x18B, 0x18E, 0x1A3, 0x1A8, 0x1A9)  # LD, LDG, ST, STG, ATOM, …
_SHARED = (0x184, 0x188, 0x18C, 0x18D)  # LDS, STS, ATOMS, its CAS
_LOCAL = (0x183, 0x187)  # LDL, STL
_MANY = 0x1F0  # from here on warp groups' matrix operations, which write any number of registers
_AT_MOST = 4  # registers that another instruction writes
_NO_REGISTER = 0xFF
_FIRST, _LAST = 80, 129
_SCALED_UP_TO = 89  # of shared memory: later targets have no scale of the register
_BYTES, _MOST = 16, 32


def address(executed: bytes, arch: int, registers: Sequence[int]) -> tuple[Space, int] | None:
    """The memory and the address of the first instruction of ``executed``.

    It ends with the instruction that the thread is at, with ``registers``. None for another instruction, one
    that isn't known here, or if its registers may have been written. ``arch``: 90 for sm_90.
    """
    if not _FIRST <= arch <= _LAST or len(executed) % _BYTES or not 0 < len(executed) <= _MOST * _BYTES:
        return None
    words = list(struct.iter_unpack("<QQ", executed))
    low, high = words[0]
    operation, register = low & 0x1FF, low >> 24 & 0xFF
    is_wide, is_uniform = bool(high >> 8 & 1), bool(high >> 27 & 1)
    is_global = operation in _GLOBAL
    if register == _NO_REGISTER or (not is_wide if is_global else is_uniform):
        return None
    used = range(register, register + 1 + is_global)
    if used.stop > len(registers) or any(_may_write(each, used) for each, _ in words[:-1]):
        return None
    offset = (low >> 40) - (1 << 24 if low >> 63 else 0)
    if is_global:
        return "global", registers[register] + (registers[register + 1] << 32) + offset & (1 << 64) - 1
    if operation in _LOCAL:
        return "local", registers[register] + offset & 0xFFFFFFFF
    if operation in _SHARED and arch > _SCALED_UP_TO:
        return "shared", registers[register] + offset & 0xFFFFFFFF
    return None


def _may_write(low: int, registers: range) -> bool:
    operation, first = low & 0x1FF, low >> 16 & 0xFF
    if operation in _STORES or first == _NO_REGISTER:
        return False
    return operation >= _MANY or (first < registers.stop and first + _AT_MOST > registers.start)
