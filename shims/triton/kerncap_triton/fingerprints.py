"""Digests of memory, of fingerprints of its chunks, as shims/common/hash.h has them: needs numpy."""

from __future__ import annotations

import array
import functools
from typing import Any, Iterable, Tuple

_WORD = 8
_STEP = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)

Sums = Tuple[int, int]


def sums(chunk: Any) -> Sums:
    """Two sums over the words of a buffer, mixed with their positions; the last word is filled up with zeros.

    Raises ImportError.
    """
    import numpy

    data = memoryview(chunk).cast("B")
    if len(data) % _WORD:
        data = memoryview(bytes(data) + bytes(-len(data) % _WORD))
    words = numpy.frombuffer(data, dtype="<u8")
    half, some = numpy.uint64(32), numpy.uint64(29)
    mixed = words + _positions(len(words))
    mixed ^= mixed >> half
    mixed *= numpy.uint64(_MULTIPLIERS[0])
    mixed ^= mixed >> some
    first = int(mixed.sum())
    mixed *= numpy.uint64(_MULTIPLIERS[1])
    mixed ^= mixed >> half
    return first, int(mixed.sum())


def digest(chunks: Iterable[Sums]) -> str:
    """Of a region, by the sums of its chunks, in hex."""
    words = array.array("Q", [each for both in chunks for each in both])
    first, second = sums(words)
    return f"{first:016x}{second:016x}"


@functools.lru_cache(maxsize=4)
def _positions(count: int) -> Any:
    import numpy

    return numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(_STEP)
