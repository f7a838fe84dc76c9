"""What a code object says of its kernels: arguments, explicit and hidden, registers, memory.

It is a note of the ELF file (owner AMDGPU, type 32) in MessagePack. The worker has no package to read it
with; of MessagePack this takes what compilers write.
Source: "User Guide for AMDGPU Backend" of LLVM, "Code Object V3 Metadata" to V6; msgpack's spec.md.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, NamedTuple

_NOTE_TYPE = 32
_OWNER = b"AMDGPU\0"
_PT_NOTE = 4
_DEEPEST = 16
_SCALARS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_LENGTHS = {  # first byte -> what it begins, and the format of the length after it
    0xC4: ("bin", ">B"), 0xC5: ("bin", ">H"), 0xC6: ("bin", ">I"),
    0xD9: ("str", ">B"), 0xDA: ("str", ">H"), 0xDB: ("str", ">I"),
    0xDC: ("list", ">H"), 0xDD: ("list", ">I"), 0xDE: ("map", ">H"), 0xDF: ("map", ">I"),
}  # fmt: skip


class Malformed(Exception):
    """Not an ELF file, or not the metadata that its note should be."""


class Slot(NamedTuple):
    """An argument of a kernel: ``kind`` is ``by_value``, ``global_buffer``, ``hidden_block_count_x``, …"""

    kind: str
    offset: int
    size: int

    @property
    def hidden(self) -> bool:
        return self.kind.startswith("hidden_")


@dataclass(frozen=True)
class KernelMetadata:
    """Of one kernel; numbers that the compiler did not write are 0."""

    name: str
    symbol: str
    slots: tuple[Slot, ...]
    kernarg_bytes: int
    vgprs: int
    private_bytes: int
    max_threads: int
    wavefront: int

    @property
    def explicit(self) -> list[tuple[int, int]]:
        """(offset, size) of each argument that the source has."""
        return [(slot.offset, slot.size) for slot in self.slots if not slot.hidden]

    @property
    def hidden(self) -> list[Slot]:
        return [slot for slot in self.slots if slot.hidden and slot.kind != "hidden_none"]


def read(data: bytes) -> list[KernelMetadata]:
    """The kernels of a code object. Raises Malformed."""
    try:
        document = _Unpacker(_note(data)).value()
        return [_kernel(each) for each in document.get("amdhsa.kernels", [])]
    except (struct.error, IndexError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise Malformed(f"its metadata can't be read: {error}") from error


def _kernel(found: dict[str, Any]) -> KernelMetadata:
    return KernelMetadata(
        name=str(found[".name"]),
        symbol=str(found[".symbol"]),
        slots=tuple(
            Slot(str(a.get(".value_kind", "by_value")), int(a[".offset"]), int(a[".size"]))
            for a in found.get(".args", [])
        ),
        kernarg_bytes=int(found.get(".kernarg_segment_size", 0)),
        vgprs=int(found.get(".vgpr_count", 0)),
        private_bytes=int(found.get(".private_segment_fixed_size", 0)),
        max_threads=int(found.get(".max_flat_workgroup_size", 0)),
        wavefront=int(found.get(".wavefront_size", 64)),
    )


def _note(data: bytes) -> bytes:
    if data[:4] != b"\x7fELF" or data[4:6] != b"\x02\x01":
        raise Malformed("it is no ELF file of 64 bits")
    (headers,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for number in range(count):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, headers + number * size)
        if kind == _PT_NOTE:
            found = _in_notes(data[offset : offset + length])
            if found is not None:
                return found
    raise Malformed("it has no metadata of the AMDGPU compiler")


def _in_notes(data: bytes) -> bytes | None:
    at = 0
    while at + 12 <= len(data):
        owner_size, size, kind = struct.unpack_from("<III", data, at)
        start = at + 12 + -(-owner_size // 4) * 4
        if kind == _NOTE_TYPE and data[at + 12 : at + 12 + owner_size] == _OWNER:
            return data[start : start + size]
        at = start + -(-size // 4) * 4
    return None


class _Unpacker:
    """One MessagePack value after the other. Raises struct.error or ValueError for what is cut or unknown."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def value(self, depth: int = 0) -> Any:
        if depth > _DEEPEST:
            raise ValueError("it is nested too deep")
        first = self._take(">B")
        if first < 0x80:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first < 0x90:
            return self._map(first & 0x0F, depth)
        if first < 0xA0:
            return self._list(first & 0x0F, depth)
        if first < 0xC0:
            return self._bytes(first & 0x1F).decode()
        if first in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[first]
        if first in _SCALARS:
            return self._take(_SCALARS[first])
        if first not in _LENGTHS:
            raise ValueError(f"byte {first:#x} at {self._at - 1}")
        what, form = _LENGTHS[first]
        length = self._take(form)
        if what == "map":
            return self._map(length, depth)
        if what == "list":
            return self._list(length, depth)
        data = self._bytes(length)
        return data.decode() if what == "str" else data

    def _take(self, form: str) -> Any:
        (found,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return found

    def _bytes(self, length: int) -> bytes:
        found = self._data[self._at : self._at + length]
        if len(found) < length:
            raise ValueError("it ends too early")
        self._at += length
        return found

    def _list(self, length: int, depth: int) -> list[Any]:
        return [self.value(depth + 1) for _ in range(length)]

    def _map(self, length: int, depth: int) -> dict[Any, Any]:
        return {self.value(depth + 1): self.value(depth + 1) for _ in range(length)}
