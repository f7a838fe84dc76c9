"""Bytes by the page: what is asked for is brought once, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.sanitizer.paged_bytes import PAGE, Bytes, NotReadable, PagedBytes, Run

SIZE = 40 * PAGE + 123
TRUTH = np.random.default_rng(3).integers(0, 256, SIZE, dtype=np.uint8)


class Source:
    def __init__(self) -> None:
        self.asked: list[Run] = []

    def __call__(self, runs: Sequence[Run], data: Bytes) -> None:
        self.asked += runs
        for start, end in runs:
            data[start:end] = TRUTH[start:end]


@given(st.lists(st.tuples(st.integers(0, SIZE - 8), st.sampled_from((1, 2, 4, 8))), max_size=12))
def test_elements_are_there_and_their_pages_are_brought_once(elements: list[tuple[int, int]]) -> None:
    source = Source()
    contents = PagedBytes.fetched(SIZE, source)
    copy = contents.copied()
    for offset, width in elements:
        contents.need(np.array([offset]), width)
        copy.need(np.array([offset]), width)
        for one in (contents, copy):
            assert np.array_equal(one.data[offset : offset + width], TRUTH[offset : offset + width])
    brought = [page for start, end in source.asked for page in range(start // PAGE, -(-end // PAGE))]
    needed = {(offset + byte) // PAGE for offset, width in elements for byte in range(width)}
    assert sorted(brought) == sorted(needed)


def test_neighbouring_pages_are_one_run() -> None:
    source = Source()
    contents = PagedBytes.fetched(SIZE, source)
    contents.need(np.array([5 * PAGE, 2 * PAGE, 3 * PAGE + 7, 40 * PAGE]))
    assert source.asked == [(2 * PAGE, 4 * PAGE), (5 * PAGE, 6 * PAGE), (40 * PAGE, SIZE)]
    assert np.array_equal(contents.whole(), TRUTH)
    assert contents.complete


def test_a_watcher_is_told_what_it_needs_and_may_refuse() -> None:
    contents = PagedBytes.of(TRUTH)
    told: list[int] = []
    watched = contents.watched(lambda pages: told.extend(pages.tolist()))
    for _ in range(2):
        watched.need_range(PAGE - 1, PAGE + 1)
    assert told == [0, 1]

    def refuse(pages: np.ndarray) -> None:  # type: ignore[type-arg]
        raise NotReadable("no")

    with pytest.raises(NotReadable):
        contents.watched(refuse).need(np.array([0]))


def test_digests_are_those_of_the_pages() -> None:
    other = TRUTH.copy()
    other[7 * PAGE] ^= 1
    first, second = PagedBytes.of(TRUTH), PagedBytes.of(other)
    assert first.digest(np.array([6, 8])) == second.digest(np.array([6, 8]))
    assert first.digest(np.array([6, 7])) != second.digest(np.array([6, 7]))
