"""Flags in memory that ranks share: each value of one counts, also if its argument's type is a float.

A pointer to floats leads to a window that has flags, too. As floats, small numbers are all within a tolerance
of each other.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kerncap.log import counted
from kerncap.replay.engine import Engine
from kerncap.replay.memory_names import place_name
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.common.bitmap import Bits

_WORD = 4
_MOST_RUNS = 1 << 16
_LEAST_FLOAT = 1 << 23  # as a number: smaller ones are floats that hardly any computation gives


def differing(engine: Engine, different: Mapping[int, Bits]) -> list[str]:
    """What to say of the words that differ, and may be flags, of all memory that others have, too."""
    found = []
    for region in sorted(engine.never_poisoned & different.keys()):
        words = bitmap.widened(different[region], _WORD)
        runs = bitmap.runs(words, _MOST_RUNS)
        if words.any() and not runs:
            found.append(
                f"region {region} differs in more than {_MOST_RUNS:,} places, some of which may be flags"
            )
        at: list[int] = []
        for start, stop in runs:
            data = engine.reproducer.read("post", region, start, (stop - start) // _WORD * _WORD)
            at += (np.flatnonzero(np.frombuffer(data, dtype="<u4") < _LEAST_FLOAT) * _WORD + start).tolist()
        if at:
            where = place_name(engine.manifest, region, at[0])
            found.append(
                f"{counted(len(at), 'word')} of shared memory, small as flags are, differ (first at {where})"
            )
    return found
