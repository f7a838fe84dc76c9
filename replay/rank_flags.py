"""Flags in memory that ranks share: each value of one counts, also if its argument's type is a float.

A pointer to floats leads to a window that has flags, too. As floats, small numbers are all within a tolerance
of each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from kerncap.log import counted
from kerncap.replay.engine import Engine
from kerncap.replay.memory_names import place_name
from kerncap.replay.worker.common.bitmap import Bits

_WORD = 4
_STEP = 16 << 20  # bytes that are looked at at once; whole pages
_LEAST_FLOAT = 1 << 23  # as a number: smaller ones are floats that hardly any computation gives


def differing(engine: Engine, different: Mapping[int, Bits]) -> list[str]:
    """What to say of the words that differ, and may be flags, of all memory that others have, too."""
    found = []
    for region in sorted(engine.never_poisoned & different.keys()):
        count, first = 0, 0
        for start, stop in _steps(different[region]):
            data = engine.reproducer.read("post", region, start, (stop - start) // _WORD * _WORD)
            expected = np.frombuffer(data, dtype="<u4")
            differs = different[region].flags(start, start + len(data)).reshape(-1, _WORD).any(axis=1)
            at = np.flatnonzero(differs & (expected < _LEAST_FLOAT))
            first = start + int(at[0]) * _WORD if len(at) and not count else first
            count += len(at)
        if count:
            where = place_name(engine.manifest, region, first)
            found.append(
                f"{counted(count, 'word')} of shared memory, small as flags are, differ (first at {where})"
            )
    return found


def _steps(bits: Bits) -> Iterator[tuple[int, int]]:
    for start, stop in bits.pages():
        for at in range(start, stop, _STEP):
            yield at, min(at + _STEP, stop)
