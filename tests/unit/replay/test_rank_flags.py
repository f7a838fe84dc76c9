"""Words that may be flags among bytes that differ in memory that ranks share."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from kerncap.replay import rank_flags
from kerncap.replay.engine import Engine
from kerncap.replay.worker.common import bitmap


def said(expected: Any, differing: list[tuple[int, int]], shared: tuple[int, ...] = (0,)) -> list[str]:
    data = expected.tobytes()
    region = SimpleNamespace(size=len(data), base=1 << 40, kind="device", name=None, reason=None)
    reproducer = SimpleNamespace(read=lambda _state, _region, start, size: data[start : start + size])
    manifest = SimpleNamespace(regions=[region], views=[])
    engine = SimpleNamespace(never_poisoned=frozenset(shared), reproducer=reproducer, manifest=manifest)
    return rank_flags.differing(cast("Engine", engine), {0: bitmap.of_ranges(len(data), differing)})


def test_small_words_that_differ_are_named() -> None:
    words = np.zeros(3 * 4096, dtype="<u4")
    words[1:] = 0x3F800000  # floats
    words[5000] = 2
    assert said(words, [(4, 400)]) == []
    [one] = said(words, [(4, 8), (4 * 5000, 4 * 5000 + 1)])
    assert one.startswith("1 word of shared memory") and "20000" in one.replace(",", "")
    [both] = said(words, [(0, 4 * len(words))])
    assert both.startswith("2 words of shared memory")
    assert said(words, [(0, 4)], shared=()) == []


def test_what_is_no_whole_word_at_the_end() -> None:
    assert said(np.zeros(7, dtype=np.uint8), [(5, 7)]) == []
    assert said(np.zeros(7, dtype=np.uint8), [(3, 7)])
