"""Errors of one side: what is told from rounding, and what two sets of values have to agree on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kerncap.replay import rounding_bias
from kerncap.replay.worker.common.error_statistics import Errors
from kerncap.replay.worker.protocol import ErrorStatistics

N = 4096


def statistics(found: Any, expected: Any, dtype: str = "float32") -> ErrorStatistics:
    errors = Errors(dtype, (N,), 1.3e-6, 1e-5)
    errors.add(found.astype(np.float64), expected.astype(np.float64))
    return errors.result()


def values(seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(N).astype(np.float32)


def added(x: Any) -> Any:
    return (x.astype(np.float64) + 2e-6).astype(np.float32)


def grown(x: Any) -> Any:
    return (x.astype(np.float64) * (1 + 1.5e-6)).astype(np.float32)


@pytest.mark.parametrize(("change", "outward"), [(added, False), (grown, True)])
def test_a_shift_is_told_on_two_sets_of_values(change: Any, outward: bool) -> None:
    first, second = (
        rounding_bias.shifts(statistics(change(x), x), "float32") for x in (values(1), values(2))
    )
    assert [shift.outward for shift in first] == [outward]
    text, fails = rounding_bias.biased("out", "float32", first, second)
    assert text.startswith("out: a biased error: +") and fails
    assert rounding_bias.biased("out", "float32", first, []) == ("", False), "one set may be a chance"


def test_rounding_has_no_side() -> None:
    x, rng = values(1), np.random.default_rng(3)
    another_order = (x.astype(np.float64) * (1 + 2e-7 * rng.standard_normal(N))).astype(np.float32)
    assert rounding_bias.shifts(statistics(another_order, x), "float32") == []
    last_place = np.nextafter(
        x, np.float32(np.inf) * np.sign(x)
    )  # an approximation that is one ulp too large
    assert rounding_bias.shifts(statistics(last_place, x), "float32") == []


def test_a_shift_far_below_the_last_place_of_16_bits_decides_nothing() -> None:
    text, fails = rounding_bias.biased(
        "out", "float16", [rounding_bias.Shift(False, 1e-6, 2e-5)], [rounding_bias.Shift(False, 1.1e-6, 2e-5)]
    )
    assert text and not fails
    _, fails = rounding_bias.biased(
        "out", "float16", [rounding_bias.Shift(False, 1e-4, 1e-3)], [rounding_bias.Shift(False, 1e-4, 1e-3)]
    )
    assert fails


def test_errors_of_float32_in_float64_are_told_from_another_order() -> None:
    rows = np.random.default_rng(1).standard_normal((N, 100))
    expected = rows.sum(axis=1)
    other_order = np.add.accumulate(rows, axis=1)[:, -1]
    assert (other_order != expected).any()
    assert not rounding_bias.as_of_float32(statistics(other_order, expected, "float64"), "float64")
    narrow = statistics(rows.astype(np.float32).astype(np.float64).sum(axis=1), expected, "float64")
    assert "like those of float32 (median" in rounding_bias.as_of_float32(narrow, "float64")
    assert not rounding_bias.as_of_float32(narrow, "float32")
