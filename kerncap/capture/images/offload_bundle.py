"""Clang's offload bundles: one file with a program for each target, packed or not.

Source: LLVM, "Clang Offload Bundler"; compressed bundles ("CCOB", versions 1 to 3) as clang 17 to 21
write them.
"""

from __future__ import annotations

import re
import struct
import zlib
from dataclasses import dataclass

from kerncap.capture.images.fatbin import unpack_zstd
from kerncap.capture.images.problem import ImageProblem

MAGIC = b"__CLANG_OFFLOAD_BUNDLE__"
PACKED_MAGIC = b"CCOB"
MAX_ENTRIES = 4096
MAX_UNPACKED = 2 << 30
_ENTRY = struct.Struct("<QQQ")  # offset, size, bytes of the target's name after it
_MAX_NAME = 1024
# After the magic: version, method; then by version the sizes of the file and of what is unpacked, and a hash.
_PACKED_HEADS = {1: "<4sHHIQ", 2: "<4sHHIIQ", 3: "<4sHHQQQ"}
_ZLIB, _ZSTD = 0, 1
_TARGET = re.compile(r"(?:hip|hipv4|openmp)-amdgcn-amd-amdhsa(?:-unknown)?-{1,2}(gfx[0-9a-z-]{1,32})(:|\Z)")


@dataclass(frozen=True)
class BundleEntry:
    """One program. ``arch`` is "gfx942", None for the host's; ``target`` the whole name with its features."""

    target: str
    arch: str | None
    offset: int
    size: int


def is_bundle(data: bytes | memoryview) -> bool:
    return bytes(data[: len(MAGIC)]) == MAGIC or bytes(data[:4]) == PACKED_MAGIC


def unpacked(data: bytes | memoryview) -> bytes | memoryview:
    """The bundle itself. Raises ImageProblem for a packed one that can't be unpacked."""
    if bytes(data[:4]) != PACKED_MAGIC:
        return data
    try:
        version, method = struct.unpack_from("<4xHH", data)
        head = _PACKED_HEADS[version]
        fields = struct.unpack_from(head, data)
    except (struct.error, KeyError) as error:
        raise ImageProblem("a compressed offload bundle of an unknown version") from error
    size, start = fields[-2], struct.calcsize(head)
    if not 0 < size <= MAX_UNPACKED:
        raise ImageProblem(f"an offload bundle of {size} bytes; 1 to {MAX_UNPACKED} are read")
    content = bytes(data[start:] if version == 1 else data[start : fields[3]])
    try:
        if method == _ZSTD:
            made = unpack_zstd(content, size)
        elif method == _ZLIB:
            unpacker = zlib.decompressobj()
            made = unpacker.decompress(content, size)
            if not unpacker.eof:
                raise ImageProblem(f"an offload bundle that unpacks to other than {size} bytes")
        else:
            raise ImageProblem(f"an offload bundle packed by method {method}")
    except zlib.error as error:
        raise ImageProblem(f"an offload bundle that can't be unpacked: {error}") from error
    if len(made) != size:
        raise ImageProblem(f"an offload bundle of {len(made)} bytes, expected {size}")
    return made


def entries(bundle: bytes | memoryview) -> list[BundleEntry]:
    """The programs of an unpacked bundle. Raises ImageProblem for a damaged one."""
    at = len(MAGIC)
    if bytes(bundle[:at]) != MAGIC or at + 8 > len(bundle):
        raise ImageProblem("not an offload bundle: its magic is missing")
    (count,) = struct.unpack_from("<Q", bundle, at)
    at += 8
    if count > MAX_ENTRIES:
        raise ImageProblem(f"an offload bundle of {count} entries")
    found = []
    for _ in range(count):
        if at + _ENTRY.size > len(bundle):
            raise ImageProblem("an offload bundle that ends within its entries")
        offset, size, name_size = _ENTRY.unpack_from(bundle, at)
        at += _ENTRY.size
        if name_size > _MAX_NAME or at + name_size > len(bundle) or offset + size > len(bundle):
            raise ImageProblem(f"an entry of an offload bundle that leads out of its {len(bundle)} bytes")
        target = bytes(bundle[at : at + name_size]).decode("utf-8", "replace")
        at += name_size
        arch = _TARGET.match(target)
        found.append(BundleEntry(target, arch[1] if arch is not None else None, offset, size))
    return found


def code_object(data: bytes | memoryview, arch: str | None) -> tuple[bytes, str] | None:
    """The code object for ``arch`` (any, if None) and its target; None if there is none for it."""
    bundle = unpacked(data)
    for entry in entries(bundle):
        if entry.arch is not None and entry.size and arch in (None, entry.arch):
            return bytes(bundle[entry.offset : entry.offset + entry.size]), entry.target
    return None
