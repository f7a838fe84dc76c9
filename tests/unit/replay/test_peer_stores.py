"""What one rank alone finds out of its peers: words of memory in order, and whose they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kerncap.replay.outcome import Outcome
from kerncap.replay.peer_stores import _Trials, _Words
from kerncap.replay.worker.common import bitmap, poison
from kerncap.replay.worker.common.bitmap import Bits
from kerncap.replay.worker.protocol import Stores

RUNS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=6)


@given(RUNS, st.data())
def test_ranges_of_words(runs: list[tuple[int, int]], data: st.DataObject) -> None:
    """Each word once, in order; parts put together are the whole, and the last word of a run may be short."""
    ranges = [(number, 4 * gap, 4 * gap + size) for number, (gap, size) in enumerate(runs)]
    each = [(region, at, min(at + 4, stop)) for region, start, stop in ranges for at in range(start, stop, 4)]
    words = _Words({}, ranges)
    assert words.count == len(each)
    first = data.draw(st.integers(0, words.count))
    last = data.draw(st.integers(first, words.count))
    found = [
        (region, at, min(at + 4, stop))
        for region, start, stop in words.between(first, last)
        for at in range(start, stop, 4)
    ]
    assert found == each[first:last]


class Sums:
    """An engine whose launch adds the floats of region 1, a peer's, to those of region 0, in place."""

    def __init__(self, size: int) -> None:
        self.manifest = SimpleNamespace(regions=[SimpleNamespace(size=size)] * 2)
        self.timeout_s = 60.0
        self.memory = [np.zeros(size, np.uint8) for _ in range(2)]

    def restore(self) -> None:
        for number, bytes_ in enumerate(self.memory):
            bytes_.view(np.float32)[:] = np.arange(bytes_.size // 4) + 100 * number

    def fill(self, region: int, start: int, stop: int, seed: int, mask: Bits) -> None:
        assert bitmap.count(mask) == stop - start
        self.memory[region][start:stop] = poison.words(np, seed, region, start, stop - start)

    def launch_among(self, which: str, limit_s: float, stores: list[Stores]) -> tuple[Outcome, int]:
        own, other = (bytes_.view(np.float32) for bytes_ in self.memory)
        with np.errstate(all="ignore"):
            own += other
        return Outcome("ok"), 0

    def diff(self, region: int, against: str, seed: int, mask: Bits) -> Bits:
        there = self.memory[region]
        return bitmap.of_flags(there != poison.words(np, seed, region, 0, there.size)) & mask


def test_a_sum_in_place_is_the_ranks_own() -> None:
    """Of two summands that are poison, one is often too small to change the other."""
    size = 4000
    engine: Any = Sums(size)
    whole = bitmap.span(size, 0, size)
    words = _Words({0: whole, 1: whole}, [(0, 0, size), (1, 0, size)])
    own = _Trials(engine, words, 0.01, []).own([])
    assert own is not None and own[0] == whole and not own[1].any()
