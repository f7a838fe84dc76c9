"""Errors in ulps, where they are, and what uses a tolerance up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.replay import rounding_bias
from kerncap.replay.worker.common.error_statistics import Boxes, Errors, Percentiles
from kerncap.replay.worker.protocol import ErrorBoxes, ErrorStatistics


def errors(found: object, expected: object, dtype: str = "float32", atol: float = 1e-5) -> ErrorStatistics:
    x, y = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    stats = Errors(dtype, x.shape, 1.3e-6, atol)
    for start in range(0, x.size, 3):  # in blocks, as a large tensor
        stats.add(x.reshape(-1)[start : start + 3], y.reshape(-1)[start : start + 3])
    return replace(stats.result(), name="out")


@pytest.mark.parametrize(
    ("dtype", "neighbour"),
    [("float64", 2.0**-52), ("float32", 2.0**-23), ("float16", 2.0**-10), ("bfloat16", 2.0**-7)],
)
def test_an_ulp_is_the_distance_of_neighbours(dtype: str, neighbour: float) -> None:
    found = errors([1 + neighbour, 4 + 8 * neighbour, 0.75], [1, 4, 0.75], dtype)
    assert (found.ulp_max, found.ulp_mean) == (2.0, 1.0)
    assert found.worst == [1] and found.positive == 2 and found.negative == 0


def test_below_the_least_normal_number_ulps_do_not_shrink() -> None:
    assert errors([2.0**-149], [0.0]).ulp_max == 1.0


def test_nan_and_infinity_are_mapped_and_no_errors() -> None:
    nan, inf = np.nan, np.inf
    found = errors([[1, nan, inf], [nan, -inf, 2]], [[1, nan, inf], [5, inf, 2]])
    assert (found.nan_found, found.nan_expected, found.first_nan) == (2, 1, [0, 1])
    assert (found.inf_found, found.inf_expected, found.first_inf) == (2, 2, [0, 2])
    assert (found.special_differs, found.different, found.finite) == (2, 0, 2)


def test_percentiles_are_at_most_a_bin_too_large() -> None:
    values = np.random.default_rng(0).lognormal(0, 3, 10_000)
    shares = Percentiles()
    shares.add(values)
    for share in (0.5, 0.99):
        exact = float(np.quantile(values, share, method="inverted_cdf"))
        assert exact <= shares.at(share, float(values.max())) <= exact * 2 ** (1 / 16)


def test_boxes_of_what_differs_and_what_agrees() -> None:
    expected, found = np.zeros((4, 6)), np.zeros((4, 6))
    found[1:3, 4:] = 1
    boxes = Boxes((4, 6), 0.0, 0.5)
    for start in range(0, 24, 5):
        boxes.add(found.reshape(-1)[start : start + 5], expected.reshape(-1)[start : start + 5])
    assert boxes.result() == ErrorBoxes([(0, 4), (0, 6)], [(1, 3), (4, 6)])


@pytest.mark.parametrize("found", [1.0, np.nan, -np.inf])
def test_no_tolerance_of_an_infinity_takes_another_value_in(found: float) -> None:
    boxes = Boxes((3,), 0.1, 0.5)
    boxes.add(np.array([np.inf, found, 2.0]), np.array([np.inf, np.inf, 2.0]))
    assert boxes.result() == ErrorBoxes([(0, 3)], [(1, 2)])


RANDOM = np.random.default_rng(1)
VALUES = RANDOM.standard_normal(4096)


@pytest.mark.parametrize("scale", [1e-7, 3e-7, 2.5e-6])
def test_rounding_uses_no_tolerance_up(scale: float) -> None:
    assert not rounding_bias.uses_up(errors(VALUES + scale * RANDOM.standard_normal(4096), VALUES), "float32")


def test_a_row_off_by_an_ulp_is_no_abuse() -> None:
    assert not rounding_bias.uses_up(errors(VALUES * (1 + 2.0**-23), VALUES), "float32")


@pytest.mark.parametrize("share", [-0.9, 0.5])
def test_one_side_of_the_tolerance_everywhere_is(share: float) -> None:
    stats = errors(VALUES + share * (1e-5 + 1.3e-6 * np.abs(VALUES)), VALUES)
    assert "in the same direction" in rounding_bias.uses_up(stats, "float32")
    few = errors(VALUES[:8] + share * 1e-5, VALUES[:8])
    assert not rounding_bias.uses_up(few, "float32"), "a few numbers say nothing"


def test_both_sides_of_the_tolerance_everywhere_are_too() -> None:
    sides = np.where(RANDOM.random(4096) < 0.5, 9e-6, -9e-6)
    assert "uses up the tolerance" in rounding_bias.uses_up(errors(VALUES + sides, VALUES), "float32")


def test_so_is_an_error_that_leaves_some_elements_out() -> None:
    x = np.linspace(1, 2, 1000)
    found = np.where(np.arange(1000) % 5 < 3, x + 9e-6, x)
    said = rounding_bias.uses_up(errors(found, x), "float32")
    assert "600 of 1,000 elements are off in the same direction" in said
    few = np.where(np.arange(1000) % 5 < 2, x + 9e-6, x)
    assert not rounding_bias.uses_up(errors(few, x), "float32"), "half of them are right"


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_zeros_that_are_skipped_count_as_if_they_were_added(shape: list[int], data: st.DataObject) -> None:
    count = int(np.prod(shape))
    start = data.draw(st.integers(0, count - 1))
    stop = data.draw(st.integers(start + 1, count))
    expected = np.zeros(count)
    outside = [at for at in range(count) if not start <= at < stop]
    expected[outside] = data.draw(st.lists(st.integers(-3, 3), min_size=len(outside), max_size=len(outside)))
    found = expected.copy()
    found[outside] += data.draw(st.sampled_from([0.0, 1e-9, 1.0]))
    for kind in (lambda: Errors("float32", tuple(shape), 0.0, 0.0), lambda: Boxes(tuple(shape), 0.0, 0.0)):
        added, skipped = kind(), kind()
        for low, high in ((0, start), (start, stop), (stop, count)):
            if low < high:
                added.add(found[low:high], expected[low:high])
                if low == start:
                    skipped.skip_zeros(high - low)
                else:
                    skipped.add(found[low:high], expected[low:high])
        assert skipped.result() == added.result()
