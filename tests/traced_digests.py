"""The digests of `kerncap trace`, from their definition (shims/common/hash.h), a word at a time."""

from __future__ import annotations

import struct
from collections.abc import Iterable

_MASK = (1 << 64) - 1


def _sums(words: Iterable[int]) -> tuple[int, int]:
    first = second = 0
    for position, word in enumerate(words, 1):
        x = (word + position * 0x9E3779B97F4A7C15) & _MASK
        x ^= x >> 32
        x = x * 0xFF51AFD7ED558CCD & _MASK
        x ^= x >> 29
        first += x
        x = x * 0xC4CEB9FE1A85EC53 & _MASK
        second += x ^ x >> 32
    return first & _MASK, second & _MASK


def digest(data: bytes, chunk_bytes: int = 256 << 10) -> str:
    """Of a region with these contents, in hex."""
    sums: list[int] = []
    for start in range(0, len(data), chunk_bytes):
        chunk = data[start : start + chunk_bytes]
        chunk += bytes(-len(chunk) % 8)
        sums.extend(_sums(struct.unpack(f"<{len(chunk) // 8}Q", chunk)))
    return "{:016x}{:016x}".format(*_sums(sums))
