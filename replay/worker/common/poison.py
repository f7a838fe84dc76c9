"""Poison: pseudo-random bytes from (seed, region, offset), the same on every device.

Seeds come in pairs: an odd seed gives the complement of the even one before it, so a byte that a kernel
writes differs from at least one of the two.
"""

from __future__ import annotations

from typing import Any

GAP_SEED = 6  # what lies between regions


def _signed(value: int) -> int:
    value &= 2**64 - 1
    return value - 2**64 if value >= 2**63 else value


_STEP = _signed(0x9E3779B97F4A7C15)
_MIX = _signed(0xBF58476D1CE4E5B9)


def pattern(torch: Any, seed: int, region: int, offset: int, size: int, device: Any) -> Any:
    """``size`` bytes of poison for a region from ``offset`` on, as uint8 on ``device``.

    Source: the mixing steps follow splitmix64 (Steele, Lea, Flood 2014).
    """
    first, last = offset // 8, (offset + size + 7) // 8
    words = torch.arange(first, last, dtype=torch.int64, device=device)
    words.add_(_signed(((seed // 2 + 1) << 40) + (region + 1) * 0x1000003))
    words.mul_(_STEP)
    words.bitwise_xor_((words >> 30) & (2**34 - 1))
    words.mul_(_MIX)
    words.bitwise_xor_((words >> 27) & (2**37 - 1))
    if seed % 2:
        words.bitwise_not_()
    start = offset - first * 8
    return words.view(torch.uint8)[start : start + size]


def constants(seed: int, region: int) -> tuple[int, int]:
    """What is added to the number of a word, and what its bits are inverted by (unsigned)."""
    added = ((seed // 2 + 1) << 40) + (region + 1) * 0x1000003
    return added & (2**64 - 1), (2**64 - 1) * (seed % 2)


def words(numpy: Any, seed: int, region: int, offset: int, size: int) -> Any:
    """The same poison as an array of numpy's."""
    first, last = offset // 8, (offset + size + 7) // 8
    added, inverted = constants(seed, region)
    found = numpy.arange(first, last, dtype=numpy.uint64)
    found += numpy.uint64(added)
    found *= numpy.uint64(_STEP & (2**64 - 1))
    found ^= found >> numpy.uint64(30)
    found *= numpy.uint64(_MIX & (2**64 - 1))
    found ^= found >> numpy.uint64(27)
    found ^= numpy.uint64(inverted)
    start = offset - first * 8
    return found.view(numpy.uint8)[start : start + size]
