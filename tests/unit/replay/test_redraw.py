"""Other values of the same kind."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kerncap.replay.worker.native import value_ops as native
from kerncap.replay.worker.native.dtypes import Number
from kerncap.replay.worker.protocol import Spread
from kerncap.replay.worker.torch_backend.perturb import perturb
from kerncap.replay.worker.torch_backend.redraw import redraw


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_floats_keep_their_range_and_what_is_special(dtype: str) -> None:
    x = torch.linspace(-3, 5, 999, dtype=getattr(torch, dtype))[torch.randperm(999)]
    x[7], x[8], x[9] = float("nan"), float("inf"), float("-inf")
    y, again = x.clone(), x.clone()
    assert redraw(y, 1, 0) and redraw(again, 1, 0)
    assert torch.equal(y.nan_to_num(9), again.nan_to_num(9)), "the same each time"
    assert y[7].isnan() and y[8] == float("inf") and y[9] == float("-inf")
    finite = y[y.isfinite()]
    assert -3 <= float(finite.min()) < -1 and 2 < float(finite.max()) <= 5
    assert int((y != x).sum()) > 900
    other = x.clone()
    assert redraw(other, 2, 0) and not torch.equal(other.nan_to_num(9), y.nan_to_num(9))


def test_what_is_sorted_stays_sorted() -> None:
    x = torch.arange(1, 100, dtype=torch.float32)
    assert redraw(x, 1, 0)
    assert bool((x.diff() > 0).all())


def test_equal_values_become_unequal_and_zeros_small() -> None:
    for value in (0.0, 2.0):
        x = torch.full((64,), value)
        assert redraw(x, 1, 0)
        assert len(x.unique()) > 16 and float(x.max()) <= max(value, 0.27)


def test_integers_only_change_places_and_not_where_they_are_in_order() -> None:
    x = torch.tensor([3, 1, 2, 9, 4, 7])
    y = x.clone()
    assert redraw(y, 1, 0) and sorted(y.tolist()) == sorted(x.tolist())
    twice = x.clone()
    assert redraw(twice, 1, 0, repeats=True)
    assert set(twice.tolist()) < set(x.tolist()) and len(twice.unique()) == 3, "a sum of them is another"
    for kept in (torch.arange(9), torch.full((9,), 4), torch.tensor([True, False])):
        assert not redraw(kept, 1, 0)


@pytest.mark.parametrize("view", range(4))
def test_a_single_integer_is_perturbed_too(view: int) -> None:
    counter = torch.zeros(1, dtype=torch.int32)
    assert perturb(counter, torch.ones(1, dtype=torch.uint8), view) == 1 and counter.item() == 1
    many = torch.zeros(64, dtype=torch.int32)
    assert 8 < perturb(many, torch.ones(64, dtype=torch.uint8), view) < 56, "of many some"


def test_a_broadcast_tensor_is_changed_once() -> None:
    row = torch.arange(5, dtype=torch.float32)[torch.tensor([2, 0, 1, 4, 3])]
    wide = row.expand(3, 5)
    alone = row.clone()
    assert redraw(alone, 1, 0)
    assert redraw(wide, 1, 0) and torch.equal(row, alone)


@pytest.mark.parametrize(
    ("spread", "low", "high"),
    [
        (Spread(largest=256.0), 190, 257),
        (Spread(largest=2.0**-9), 2**-10, 2**-8),
        (Spread(offset=64.0), 300, 999),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_floats_leave_their_range_alike_in_both_workers(
    dtype: str, spread: Spread, low: float, high: float
) -> None:
    x = np.random.default_rng(1).uniform(-3, 5, 100).astype(dtype)
    x[7] = np.inf
    bits, tensor = x.copy().view(f"u{x.itemsize}"), torch.from_numpy(x.copy())
    assert native.redraw(Number(dtype, x.itemsize), bits, 1, 0, spread)
    assert redraw(tensor, 1, 0, spread=spread)
    y = tensor.numpy()
    assert np.array_equal(y, bits.view(dtype)) and np.isinf(y[7])
    finite = np.delete(y, 7)
    assert low <= np.abs(finite).max() <= high
    assert len(np.unique(finite)) > 8, "the type tells them apart"
    if spread.offset:
        assert finite.min() > 300


def test_a_native_worker_does_it_without_torch() -> None:
    x = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    x[3] = np.nan
    bits = x.copy().view(np.uint32)
    assert native.redraw(Number("float32", 4), bits, 1, 0)
    y = bits.view(np.float32)
    assert np.isnan(y[3]) and np.isfinite(np.delete(y, 3)).all()
    assert float(np.nanmax(np.abs(y))) <= float(np.nanmax(np.abs(x)))
    assert int((y != x).sum()) > 90
    assert not native.redraw(Number("int32", 4), bits, 1, 0)
