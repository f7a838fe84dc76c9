"""Sets of bytes by page, against sets of numbers; pages are small here, so that a set has several."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.replay.worker.common import bitmap

PAGE = 64
SIZES = st.integers(0, 5 * PAGE)


@pytest.fixture(autouse=True, scope="module")
def small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bitmap, "PAGE", PAGE)
        yield


@st.composite
def sets(draw: st.DrawFn, number: int) -> tuple[int, list[set[int]]]:
    """The size of a region, and sets of its bytes: stretches, with single bytes in them and left out."""
    size = draw(SIZES)
    places = st.integers(0, size)
    found = []
    for _ in range(number):
        members = set[int]()
        for start, stop in draw(st.lists(st.tuples(places, places), max_size=4)):
            members |= set(range(start, stop))
        found.append(members ^ {at for at in draw(st.sets(places, max_size=4)) if at < size})
    return size, found


def made(size: int, members: set[int]) -> bitmap.Bits:
    flags = np.zeros(size, np.bool_)
    flags[sorted(members)] = True
    return bitmap.of_flags(flags)


def members(bits: bitmap.Bits) -> set[int]:
    """Of a set, after a look at whether it is written as every other of these bytes is."""
    found = set(np.flatnonzero(bits.flags()).tolist())
    assert bits == made(bits.size, found) and bits.any() == bool(found)
    return found


@given(sets(2))
def test_operations_are_those_of_sets(drawn: tuple[int, list[set[int]]]) -> None:
    size, (a, b) = drawn
    one, other = made(size, a), made(size, b)
    assert members(one & other) == a & b and members(one | other) == a | b
    assert members(~one) == set(range(size)) - a
    assert (one == other) == (a == b)
    assert bitmap.count(one) == len(a) and bitmap.first(one) == min(a, default=-1)
    assert bitmap.decoded(one.encoded()) == one


@given(sets(1), st.data())
def test_parts_and_pages(drawn: tuple[int, list[set[int]]], data: st.DataObject) -> None:
    size, (a,) = drawn
    bits = made(size, a)
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    assert bits.flags(start, stop).tolist() == [at in a for at in range(start, stop)]
    cut = start // 8 * 8
    assert bitmap.of_parts(size, [(0, bits.packed(0, cut)), (cut, bits.packed(cut))]) == bits
    assert members(bitmap.span(size, start, stop)) == set(range(start, stop))
    pages = {at // PAGE for at in a}
    assert members(bitmap.of_ranges(size, bits.pages())) == {n for n in range(size) if n // PAGE in pages}
    expected = len(pages & (inside := set(range(start // PAGE, -(-stop // PAGE)))))
    found = bits.all_of(start, stop)
    assert found is False if not expected else found in (True, None)
    if found:
        assert {n for n in range(size) if n // PAGE in inside} <= a
    whole = {page for page in pages if all(n in a for n in range(page * PAGE, min((page + 1) * PAGE, size)))}
    assert members(bitmap.whole_pages(bits)) == {n for n in range(size) if n // PAGE in whole}


@given(sets(1), st.sampled_from([1, 2, 4, 8]))
def test_runs_halves_and_groups(drawn: tuple[int, list[set[int]]], group: int) -> None:
    size, (a,) = drawn
    bits = made(size, a)
    runs = bitmap.runs(bits, size)
    assert {n for start, stop in runs for n in range(start, stop)} == a
    assert all(stop < start for (_, stop), (start, _) in zip(runs, runs[1:], strict=False))
    assert bitmap.of_ranges(size, runs) == bits
    assert bitmap.runs(bits, len(runs) - 1) == []
    lower, upper = map(members, bitmap.halves(bits))
    assert lower | upper == a and max(lower, default=-1) < min(upper, default=size)
    groups = {n // group for n in a}
    assert members(bitmap.widened(bits, group)) == {n for n in range(size) if n // group in groups}


@given(sets(2))
def test_a_stretch_is_taken_whole_if_any_byte_of_it_is_touched(drawn: tuple[int, list[set[int]]]) -> None:
    size, (a, touched) = drawn
    expected, run = set[int](), set[int]()
    for at in range(size + 1):
        if at in a:
            run.add(at)
            continue
        expected |= run if run & touched else set()
        run = set()
    assert members(bitmap.stretches(made(size, a), made(size, touched))) == expected


def test_what_is_no_set_is_refused() -> None:
    good = made(3 * PAGE, {1, 70}).encoded()
    for bad in (good[:7], good[:-1], np.append(good, 0).astype(np.uint8), good[8:]):
        with pytest.raises(ValueError, match="not a set of bytes"):
            bitmap.decoded(bad)


def test_a_large_region_costs_what_is_in_pages_of_its_own() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bitmap, "PAGE", 64 * 1024)
        size = 1 << 33
        some = bitmap.span(size, size - 5, size) | bitmap.span(size, 10, 1 << 32)
        for bits in (some, ~some, some & ~bitmap.span(size, 0, 11), bitmap.widened(some, 4)):
            assert len(bits.encoded()) < 1 << 18
        assert bitmap.count(~some) == (1 << 32) + 5
        assert bitmap.runs(some, 2) == [(10, 1 << 32), (size - 5, size)]
