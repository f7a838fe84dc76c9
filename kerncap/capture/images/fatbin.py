"""Fatbins: one program as PTX and as code for several architectures, in one container.

Source: compared byte by byte with what nvcc 13 writes in each of its compression modes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Literal

import zstandard

from kerncap.capture.images import lz4
from kerncap.capture.images.problem import ImageProblem

MAGIC = 0xBA55ED50
MAX_ENTRIES = 4096
MAX_PAYLOAD = 512 << 20

_CONTAINER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes after it
# kind, version, bytes of this header, padded payload, compressed payload, options, minor, major, arch,
# name offset, name length, flags, reserved, payload when unpacked
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_KINDS: dict[int, Literal["ptx", "elf"]] = {1: "ptx", 2: "elf"}
_LZ4, _ZSTD = 0x2000, 0x8000
_THIS_ARCH_ONLY, _THIS_FAMILY_ONLY = 0x100000, 0x1000000  # sm_90a, sm_100f


@dataclass(frozen=True)
class Entry:
    """One program of a fatbin. ``arch`` is 90 for sm_90 and compute_90."""

    kind: Literal["ptx", "elf", "other"]
    arch: int
    suffix: str  # "a", "f" or ""
    offset: int  # of the payload in the fatbin
    stored: int
    size: int  # unpacked
    packing: Literal["none", "lz4", "zstd"]


def is_fatbin(data: bytes | memoryview) -> bool:
    """Whether ``data`` begins as a container does."""
    return len(data) >= _CONTAINER.size and int.from_bytes(data[:4], "little") == MAGIC


def container_size(data: bytes | memoryview, at: int = 0) -> int | None:
    """Bytes of the container at ``at``, header included; None if no whole one is there."""
    if at + _CONTAINER.size > len(data):
        return None
    magic, _version, head, size = _CONTAINER.unpack_from(data, at)
    whole = int(head + size)
    return whole if magic == MAGIC and head >= _CONTAINER.size and at + whole <= len(data) else None


def entries(data: bytes | memoryview) -> list[Entry]:
    """Every program of the containers that ``data`` begins with; ImageProblem for anything else."""
    found: list[Entry] = []
    at = 0
    while at + _CONTAINER.size <= len(data):
        magic, _version, head, size = _CONTAINER.unpack_from(data, at)
        if magic != MAGIC:
            break
        end = at + head + size
        if head < _CONTAINER.size or end > len(data):
            raise ImageProblem(f"a fatbin of {end - at} bytes at byte {at} of {len(data)}")
        found += _entries_of(data, at + head, end, MAX_ENTRIES - len(found))
        at = end + (-end % 8)
    if not at:
        raise ImageProblem("not a fatbin: its magic number is missing")
    return found


def payload(data: bytes | memoryview, entry: Entry) -> bytes:
    """The entry's program, unpacked; PTX without the zero bytes at its end."""
    if entry.size > MAX_PAYLOAD:
        raise ImageProblem(f"a program of {entry.size} bytes; at most {MAX_PAYLOAD} are read")
    stored = bytes(data[entry.offset : entry.offset + entry.stored])
    if entry.packing == "lz4":
        program = lz4.decompress(stored, entry.size)
    elif entry.packing == "zstd":
        program = unpack_zstd(stored, entry.size)
    else:
        program = stored
    return program.rstrip(b"\0") if entry.kind == "ptx" else program


def _entries_of(data: bytes | memoryview, at: int, end: int, limit: int) -> list[Entry]:
    found: list[Entry] = []
    while at + _ENTRY.size <= end:
        fields = _ENTRY.unpack_from(data, at)
        kind, _, head, size, packed, _, _, _, arch, _, _, flags, _, unpacked = fields
        start = at + head
        if head < _ENTRY.size or start + size > end:
            raise ImageProblem(f"an entry at byte {at} of a fatbin that ends at {end}")
        packing: Literal["none", "lz4", "zstd"] = "none"
        if flags & (_LZ4 | _ZSTD):
            packing = "zstd" if flags & _ZSTD else "lz4"
            if packed > size:
                raise ImageProblem(f"an entry at byte {at}: {packed} packed bytes in {size}")
        suffix = "a" if flags & _THIS_ARCH_ONLY else "f" if flags & _THIS_FAMILY_ONLY else ""
        found.append(
            Entry(
                kind=_KINDS.get(kind, "other"),
                arch=arch,
                suffix=suffix,
                offset=start,
                stored=packed if packing != "none" else size,
                size=unpacked if packing != "none" else size,
                packing=packing,
            )
        )
        if len(found) > limit:
            raise ImageProblem(f"a fatbin of more than {MAX_ENTRIES} entries")
        at = start + size
    return found


def unpack_zstd(stored: bytes, size: int) -> bytes:
    """One frame that holds ``size`` bytes. Raises ImageProblem."""
    try:
        if zstandard.frame_content_size(stored) not in (size, -1):
            raise ImageProblem(f"a zstd frame that is not of {size} bytes")
        program = zstandard.ZstdDecompressor().decompress(stored, max_output_size=size)
    except zstandard.ZstdError as error:
        raise ImageProblem(f"a zstd frame that can't be unpacked: {error}") from error
    if len(program) != size:
        raise ImageProblem(f"a zstd frame of {len(program)} bytes, expected {size}")
    return program
