"""Ratios of paired times."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.replay.paired_times import median, ratio


def test_what_slows_a_round_slows_both() -> None:
    """The load of the machine goes up tenfold meanwhile: the ratio of each round is what it was."""
    load = np.linspace(1, 10, 40)
    found = ratio(load * 2.0, load * 1.5)
    assert (found.low, found.median, found.high) == pytest.approx((0.75, 0.75, 0.75))
    assert found.differs


def test_noise_alone_is_no_difference() -> None:
    random = np.random.default_rng(3)
    base, other = random.normal(1, 0.1, 60), random.normal(1, 0.1, 60)
    found = ratio(base, other)
    assert found.low < 1 < found.high and not found.differs


def test_one_outlier_moves_nothing() -> None:
    base = [1.0] * 21
    assert ratio(base, [1.1] * 20 + [50.0]).high == pytest.approx(1.1)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=30), st.floats(0.1, 10))
def test_the_interval_holds_the_median_and_is_the_same_each_time(times: list[float], factor: float) -> None:
    other = [t * factor for t in reversed(times)]
    found = ratio(times, other)
    assert found.low <= found.median <= found.high
    assert found == ratio(times, other)


@pytest.mark.parametrize(("base", "other"), [([], []), ([1.0], [1.0, 2.0]), ([0.0], [1.0]), ([1.0], [-1.0])])
def test_what_has_no_ratio_is_refused(base: list[float], other: list[float]) -> None:
    with pytest.raises(ValueError, match="time"):
        ratio(base, other)


def test_the_median_of_nothing_is_refused() -> None:
    assert median([3.0, 1.0, 2.0]) == 2.0
    with pytest.raises(ValueError, match="no times"):
        median([])
