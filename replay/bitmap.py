"""Packed bitmaps, one bit a byte of memory, the lowest bit of a byte first."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint8]

_ONES = np.array([bin(value).count("1") for value in range(256)], dtype=np.uint8)


def empty(size: int) -> Bits:
    """A bitmap of ``size`` bits, none set."""
    return np.zeros((size + 7) // 8, dtype=np.uint8)


def span(size: int, start: int, stop: int) -> Bits:
    """A bitmap of ``size`` bits with [start, stop) set."""
    bits = empty(size)
    if start >= stop:
        return bits
    first, last = start // 8, (stop - 1) // 8
    bits[first : last + 1] = 0xFF
    bits[first] &= (0xFF << (start % 8)) & 0xFF
    bits[last] &= 0xFF >> (7 - (stop - 1) % 8)
    return bits


def count(bits: Bits) -> int:
    """How many bits are set."""
    return int(_ONES[bits].sum(dtype=np.int64))


def first(bits: Bits) -> int:
    """The lowest set bit, -1 if there is none."""
    found = np.flatnonzero(bits)
    if not found.size:
        return -1
    byte = int(found[0])
    return byte * 8 + (int(bits[byte]) & -int(bits[byte])).bit_length() - 1


def widened(bits: Bits, size: int) -> Bits:
    """Every aligned group of ``size`` (1, 2, 4 or 8) bits in which one is set, set as a whole."""
    group = (1 << size) - 1
    table = np.zeros(256, dtype=np.uint8)
    for value in range(256):
        for at in range(0, 8, size):
            if value >> at & group:
                table[value] |= group << at
    return table[bits]


def whole_grains(bits: Bits, size: int) -> Bits:
    """Every aligned group of ``size`` bits (a multiple of 64) of which all are set."""
    return ~in_grains(~bits, size)


def in_grains(bits: Bits, size: int) -> Bits:
    """Every aligned group of ``size`` bits (a multiple of 64) in which one is set, set as a whole."""
    step = size // 8
    whole = len(bits) // step * step
    found = np.zeros_like(bits)
    some = bits[:whole].view(np.uint64).reshape(-1, step // 8).any(axis=1)
    found[:whole].reshape(-1, step)[some] = 0xFF
    if bits[whole:].any():
        found[whole:] = 0xFF
    return found


def stretches(bits: Bits, touched: Bits) -> Bits:
    """The runs of set bits of ``bits`` in which any bit of ``touched`` is set, whole."""
    starts, stops = _edges(bits)
    at = np.flatnonzero(np.unpackbits(touched, bitorder="little"))
    hit = np.searchsorted(at, stops) > np.searchsorted(at, starts)
    marks = np.zeros(8 * len(bits) + 1, dtype=np.int8)
    marks[starts[hit]] = 1
    marks[stops[hit]] = -1
    return np.packbits(np.cumsum(marks[:-1], dtype=np.int8).view(np.uint8), bitorder="little")


def halves(bits: Bits) -> tuple[Bits, Bits]:
    """The set bits as two bitmaps: the lower half of their range, and the upper."""
    set_bytes = np.flatnonzero(bits)
    if not set_bytes.size:
        return bits, np.zeros_like(bits)
    middle = (int(set_bytes[0]) + int(set_bytes[-1]) + 1) // 2
    lower, upper = bits.copy(), bits.copy()
    lower[middle:] = 0
    upper[:middle] = 0
    return lower, upper


def runs(bits: Bits, most: int) -> list[tuple[int, int]]:
    """[start, stop) of each run of set bits, ascending; none if they are more than ``most``."""
    starts, stops = _edges(bits)
    return [] if len(starts) > most else list(zip(starts.tolist(), stops.tolist(), strict=True))


def _edges(bits: Bits) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Where runs of set bits start and stop."""
    flags = np.unpackbits(bits, bitorder="little").astype(np.int8)
    edges = np.diff(flags, prepend=np.int8(0), append=np.int8(0))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
