"""Which launch of one run is which of the other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given

from kerncap.api.diverge import align as aligning
from kerncap.api.diverge.align import align
from kerncap.capture.payloads import TracedRecord
from tests.unit.diverge.launches import launch


def steps(a: Sequence[TracedRecord], b: Sequence[TracedRecord]) -> list[tuple[int | None, int | None]]:
    return [tuple(step) for step in align(a, b)]


def test_what_is_missing_is_found_among_launches_that_are_alike() -> None:
    a = [launch("f", scale=str(k)) for k in range(6)]
    assert steps(a, a[:2] + a[3:]) == [(0, 0), (1, 1), (2, None), (3, 2), (4, 3), (5, 4)]
    assert steps(a[:2] + a[3:], a) == [(0, 0), (1, 1), (None, 2), (2, 3), (3, 4), (4, 5)]


def test_other_memory_and_other_arguments_are_still_the_same_launch() -> None:
    a = [launch("f"), launch("g", 1, 2), launch("f", 2, 3)]
    other_memory = [launch("f"), launch("g", 1, 9), launch("f", 9, 8)]
    other_shape = [launch("f"), launch("g", n=32), launch("f", n=32, scale="5")]
    for b in (other_memory, other_shape):
        assert steps(a, b) == [(0, 0), (1, 1), (2, 2)]


def test_the_nearest_arguments_are_paired_first() -> None:
    """An extra launch of other shapes does not shift those that are alike."""
    a = [launch("f", 0, 1, n=64), launch("f", 1, 2, n=64)]
    b = [launch("f", 7, 8, n=8), launch("f", 5, 6, n=64), launch("f", 6, 7, n=64)]
    assert steps(a, b) == [(None, 0), (0, 1), (1, 2)]


def test_a_launch_that_differs_is_no_other_one_that_agrees() -> None:
    """Only the first of four launches that are alike differs: nothing is missing, and nothing extra."""
    a = [launch("f", 0, 1)] * 4
    assert steps(a, [launch("f", 0, 9), *a[1:]]) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_other_kernels_have_no_partner() -> None:
    assert steps([launch("f")], [launch("g")]) == [(0, None), (None, 0)]
    assert steps([], [launch("g")]) == [(None, 0)]


def test_iterations_of_a_loop_are_not_taken_for_one_another() -> None:
    """Each iteration launches the same kernels on other memory; B lacks three launches."""
    a = [launch(name, (k, name), (k, name, 1)) for k in range(40) for name in "fgh"]
    b = [launch(name, (k, name, 2), (k, name, 3)) for k in range(40) for name in "fgh"]
    for missing in (100, 61, 20):
        del b[missing]
    found = align(a, b)
    assert [step.a for step in found if step.b is None] == [20, 61, 100]
    assert all(step.a is not None for step in found)


names = st.lists(st.tuples(st.sampled_from("fgh"), st.integers(0, 2)), max_size=12)


@given(names, names)
@pytest.mark.parametrize("most", [1000, 0])  # 0: every edit is one too many
def test_every_launch_is_there_once_and_in_order(
    most: int, a: list[tuple[str, int]], b: list[tuple[str, int]]
) -> None:
    first, second = ([launch(name, after=value) for name, value in side] for side in (a, b))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aligning, "_MOST_EDITS", most)
        found = align(first, second)
    for side, launches in ((0, first), (1, second)):
        there = [step[side] for step in found if step[side] is not None]
        assert there == [*range(len(launches))] and all(i < j for i, j in pairwise(there))  # type: ignore[operator]
    for step in found:
        if step.a is not None and step.b is not None:
            assert first[step.a].kernel.name == second[step.b].kernel.name
    if most:  # no alignment pairs more
        assert sum(None not in step for step in found) >= _longest([x for x, _ in a], [x for x, _ in b])
    assert align(first, first) == [(i, i) for i in range(len(first))]


def _longest(a: list[str], b: list[str]) -> int:
    """Length of a longest common subsequence, by its definition."""
    row = [0] * (len(b) + 1)
    for x in a:
        before, row = row, [0]
        for j, y in enumerate(b):
            row.append(before[j] + 1 if x == y else max(before[j + 1], row[j]))
    return row[-1]
