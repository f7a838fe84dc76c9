"""Words of memory in order, as trials of one rank go through them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kerncap.replay.peer_stores import _Words

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
