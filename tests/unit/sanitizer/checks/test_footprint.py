from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kerncap.sanitizer.footprint import footprint
from kerncap.sanitizer.symbolic.expr import Variable, evaluate, var


def bytes_of_view(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> set[int]:
    return {
        itemsize * sum(i * s for i, s in zip(index, strides, strict=True)) + byte
        for index in itertools.product(*map(range, shape))
        for byte in range(itemsize)
    }


axes = st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), max_size=3)


@given(axes, st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 4]))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_membership_is_that_of_the_bytes(steps: list[tuple[int, int]], itemsize: int, width: int) -> None:
    shape, strides = tuple(n for n, _ in steps), tuple(s for _, s in steps)
    covered = footprint(shape, strides, itemsize)
    truth = bytes_of_view(shape, strides, itemsize)
    offsets = range(min(truth, default=0) - 6, max(truth, default=0) + 7)
    expected = [all(o + b in truth for b in range(width)) for o in offsets]
    if covered.tangled is not None:
        assert all(
            covered.first <= o and o + width <= covered.end
            for o, e in zip(offsets, expected, strict=True)
            if e
        )
        return
    found = [covered.contains(o, width) for o in offsets]
    assert all(e for f, e in zip(found, expected, strict=True) if f)
    if width == itemsize:  # what lies across two elements by chance need not count
        aligned = [o % itemsize == 0 for o in offsets]
        assert [f and a for f, a in zip(found, aligned, strict=True)] == [
            e and a for e, a in zip(expected, aligned, strict=True)
        ]
    variable = Variable("o", "free", offsets[0], offsets[-1])
    (gap,) = evaluate([covered.in_gap(var(variable), width)], {variable: np.array(offsets)})
    gap = np.broadcast_to(gap, len(offsets))
    for offset, between, inside in zip(offsets, gap, found, strict=True):
        if covered.first <= offset and offset + width <= covered.end:
            assert bool(between) != inside


@pytest.mark.parametrize(
    ("shape", "strides", "run", "axes"),
    [
        ((1000,), (1,), 4000, 0),
        ((96, 96), (96, 1), 96 * 96 * 4, 0),
        ((96, 96), (1, 96), 96 * 96 * 4, 0),  # transposed: the same bytes
        ((96, 96), (128, 1), 384, 1),
        ((8, 96), (0, 1), 384, 0),  # expanded
        ((1, 96, 1), (5, 1, 7), 384, 0),
        ((10, 5), (2, 1), (9 * 2 + 5) * 4, 0),  # overlapping windows cover one range
        ((4, 8, 16), (-128, 16, 1), 4 * 128 * 4, 0),  # flipped
        ((100, 50), (200, 3), 4, 2),
    ],
)
def test_merges_axes_that_continue_each_other(
    shape: tuple[int, ...], strides: tuple[int, ...], run: int, axes: int
) -> None:
    covered = footprint(shape, strides, 4)
    assert (covered.run, len(covered.axes), covered.tangled) == (run, axes, None)


def test_an_empty_view_has_no_bytes() -> None:
    assert footprint((3, 0), (1, 1), 4).size == 0
    assert not footprint((0,), (1,), 4).contains(0, 1)


def test_a_flipped_view_begins_before_its_first_element() -> None:
    covered = footprint((10,), (-1,), 4)
    assert (covered.first, covered.end) == (-36, 4)


def test_a_tangled_view_says_so() -> None:
    covered = footprint((10, 5), (3, 2), 4)
    assert covered.tangled is not None
    with pytest.raises(ValueError, match="overlap"):
        covered.contains(8, 4)


def test_cost_does_not_depend_on_sizes() -> None:
    covered = footprint((10**6, 10**6, 10**6), (2 * 10**12, 10**6 + 8, 1), 4)
    assert len(covered.axes) == 2
