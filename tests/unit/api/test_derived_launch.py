"""Launches that are derived from a captured one: the values of floating types."""

from __future__ import annotations

import numpy as np
import pytest

from kerncap.api.verify.derived_launch import decoded


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        ("float32", np.array([0x7F800001, 0x3FC00000], np.uint32)),
        ("bfloat16", np.array([0x7F81, 0x3FC0], np.uint16)),
    ],
)
def test_a_signalling_nan_is_read_without_a_warning(dtype: str, words: np.ndarray) -> None:  # type: ignore[type-arg]
    """Memory that nobody wrote holds any bits."""
    nan, half = decoded(words, dtype)
    assert np.isnan(nan) and half == 1.5
