"""Whether anything is outside of a tolerance, told alone and with all else: the same answer."""

from __future__ import annotations

import pytest
import torch

from kerncap.replay.worker.torch_backend import compare_views

INF, NAN = float("inf"), float("nan")
VALUES = (0.0, -0.0, 1.0, 1.0009765625, 1.5, -1.0, 60000.0, 5.9604644775390625e-08, INF, -INF, NAN)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("rtol", "atol"), [(0.0, 0.0), (1e-3, 1e-5), (0.5, 0.0), (0.0, 1.0)])
def test_of_floats(dtype: str, rtol: float, atol: float) -> None:
    for now in VALUES:
        for expected in VALUES:
            a, b = (torch.tensor([1.0, value], dtype=getattr(torch, dtype)) for value in (now, expected))
            stats = compare_views.compare(a, b, rtol, atol)
            assert compare_views.within(a, b, rtol, atol) == (not stats.outside), (now, expected, stats)


@pytest.mark.parametrize("atol", [0.0, 2.0])
def test_of_integers_and_flags(atol: float) -> None:
    large = 2**53
    for now, expected in ((large, large + 1), (large, large), (3, 5), (3, 6), (-1, 1)):
        a, b = torch.tensor([now]), torch.tensor([expected])
        assert compare_views.within(a, b, 0.0, atol) == (not compare_views.compare(a, b, 0.0, atol).outside)
    assert not compare_views.within(torch.tensor([True]), torch.tensor([False]), 0.0, 0.0)
    assert compare_views.within(torch.tensor([True]), torch.tensor([True]), 0.0, 0.0)


def test_the_last_of_several_blocks_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare_views, "ELEMENTS", 8)
    a, b = torch.zeros(5, 4), torch.zeros(5, 4)
    assert compare_views.within(a, b, 0.0, 0.0)
    b[4, 3] = 1.0
    assert not compare_views.within(a, b, 0.0, 0.0)
    assert compare_views.compare(a, b, 0.0, 0.0).first.index == [4, 3]
