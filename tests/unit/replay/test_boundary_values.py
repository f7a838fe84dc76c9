"""Values on which comparisons turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kerncap.answer import Answer
from kerncap.api.verify import VerifyOptions, verify
from kerncap.replay.worker.common.boundary_values import on_boundaries
from kerncap.replay.worker.native import value_ops as native
from kerncap.replay.worker.native.dtypes import Number
from kerncap.replay.worker.torch_backend.boundaries import give_boundaries
from kerncap.replay.worker.torch_backend.compare_views import never

from .build import Launch
from .resident import candidate


def test_integers_get_equal_ones_neighbours_ends_and_numbers_and_most_stay() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.choice(np.arange(-500, 500), (2, 400), replace=False).astype(np.int32)
    new = on_boundaries(x, x.min(), x.max(), [y], [7.0, 9999.0], [11.0, 8888.0])
    changed = new != x
    assert 50 < changed.sum() <= 100
    assert (new == y).any(), "as the other tensor"
    assert (new[changed] == np.roll(x, -1)[changed]).any(), "as its neighbour"
    assert {-1, 1} <= set((new - x)[changed].tolist())
    given = set(new[changed].tolist())
    assert {int(x.min()), int(x.max()), 0, 6, 7, 8, 10, 11, 12} <= given
    assert 9999 in given, "the captured kernel's own number"
    assert not {9998, 10000, 8888} & given and new[new != 9999].max() == x.max()


def test_of_a_few_each_gets_one() -> None:
    x = np.array([5, 9], dtype=np.int64)
    assert (on_boundaries(x, 5, 9, [], [], []) != x).any()
    assert on_boundaries(np.array([3]), 3, 3, [], [], []).tolist() == [3], "nothing else is known of it"
    assert on_boundaries(np.array([3]), 3, 3, [], [4.0], []).tolist() == [4]


def test_floats_get_ties_and_zeros_and_what_is_special_stays() -> None:
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((2, 400))
    x[::5] = np.nan
    y[::3] = np.inf
    new = on_boundaries(x, -3.0, 3.0, [y], [0.5, 1e30], [2.0, 100.0])
    assert np.array_equal(np.isfinite(new), np.isfinite(x))
    given = new[new != x]
    assert {0.0, 0.5, 2.0} <= set(given.tolist()) and not {100.0, 1e30} & set(given.tolist())
    assert np.signbit(new[new == 0]).any() and not np.signbit(new[new == 0]).all()
    assert (new == y).any() and (new[:-1] == new[1:]).any()
    assert (np.abs(given) % 1 == 0.5).sum() > 10, "halves, on which roundings turn"
    positive = on_boundaries(np.abs(x), 0.1, 3.0, [], [], [])
    assert not (positive == 0).any(), "zero may be outside of what it is for"


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64", "bool", "float32", "float16"])
def test_both_workers_give_the_same(dtype: str) -> None:
    rng = np.random.default_rng(2)
    kind: Any = np.dtype(dtype)
    first, second = (rng.integers(0, 2 if dtype == "bool" else 99, (2, 9, 70)) / 1).astype(kind)
    known, own = [3.0], [50.0]
    tensor, other = torch.from_numpy(first.copy()), torch.from_numpy(second)
    assert give_boundaries(tensor, [other], known, own, 2, never)
    bits = first.copy().view(f"u{kind.itemsize}")
    number = Number(dtype, kind.itemsize)
    others = [native._numbers(number, second.view(bits.dtype))]
    assert native._give_boundaries(number, bits, others, known, own, 2)
    assert tensor.numpy().tobytes() == bits.tobytes() != first.tobytes()


def test_what_is_sorted_stays() -> None:
    offsets = torch.tensor([0, 3, 3, 9, 20])
    assert not give_boundaries(offsets, [], [4.0], [], 0, never)


def test_rows_with_gaps_and_broadcast_rows_are_changed_in_place() -> None:
    wide = torch.arange(40, dtype=torch.int32).flip(0).reshape(4, 10)
    part, beside = wide[:, 2:7], wide[:, 7:].clone()
    before = part.clone()
    assert give_boundaries(part, [], [], [], 0, never)
    assert not torch.equal(part, before) and torch.equal(wide[:, 7:], beside)
    row = torch.tensor([5, 1, 9])
    assert give_boundaries(row.expand(4, 3), [], [], [], 0, never) and row.tolist() != [5, 1, 9]


LARGEST = """
@triton.jit
def largest(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=-float("inf"))
    tl.store(out_ptr + i, (x == tl.max(x, 0)).to(tl.int8), mask=i < n)
"""


def test_a_difference_where_two_are_equal_is_undecided_and_no_stored_result(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    x = np.random.default_rng(4).standard_normal(30).astype(np.float32)
    launch = Launch(LARGEST, "largest").tensor("x_ptr", x)
    launch = launch.tensor("out_ptr", np.full(30, 9, np.int8), (x == x.max()).astype(np.int8))
    path = launch.argument("n", 30).constexpr("BLOCK", 32).seal(tmp_path)
    first = candidate(tmp_path, LARGEST.replace("x == tl.max(x, 0)", "i == tl.argmax(x, 0)"))
    verdict = verify(path, VerifyOptions(candidate=first, stages=("oracle",))).verdict
    assert verdict.answer is Answer.UNDECIDED
    assert "on boundary values of x_ptr: differs from the captured kernel: out_ptr: 1 of 30" in verdict.line


ABOVE = """
@triton.jit
def above(x_ptr, out_ptr, limit, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out_ptr + i, (tl.load(x_ptr + i) > limit).to(tl.float32))
"""


def test_a_number_that_is_passed_and_compared_is_a_boundary(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    x = np.random.default_rng(4).standard_normal(64).astype(np.float32)
    launch = Launch(ABOVE, "above").tensor("x_ptr", x)
    launch = launch.tensor("out_ptr", np.full(64, 9, np.float32), (x > np.float32(0.3)).astype(np.float32))
    path = launch.argument("limit", 0.3).constexpr("BLOCK", 64).seal(tmp_path)
    answers = {}
    for sign in (">=", ">"):
        file = candidate(tmp_path, ABOVE.replace("> limit", f"{sign} limit + 0"))
        answers[sign] = verify(path, VerifyOptions(candidate=file, stages=("oracle",))).verdict
    assert answers[">"].answer is Answer.YES, answers
    assert answers[">="].answer is Answer.UNDECIDED
    assert "on boundary values of x_ptr: differs from the captured kernel: out_ptr: " in answers[">="].line


SCATTER = """
@triton.jit
def scatter(x_ptr, place_ptr, out_ptr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = out_ptr + tl.load(place_ptr + i)
    tl.atomic_add(at, tl.load(x_ptr + i))
"""


def test_a_scatter_without_atomics_is_undecided_if_all_places_differ(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    rng = np.random.default_rng(5)
    x, places = rng.standard_normal(32).astype(np.float32), rng.permutation(40)[:32]
    post = np.zeros(40, np.float32)
    post[places] = x
    launch = Launch(SCATTER, "scatter", grid=(2, 1, 1)).tensor("x_ptr", x).tensor("place_ptr", places)
    path = launch.tensor("out_ptr", np.zeros_like(post), post).constexpr("BLOCK", 16).seal(tmp_path)
    first = candidate(
        tmp_path,
        SCATTER.replace(
            "tl.atomic_add(at, tl.load(x_ptr + i))", "tl.store(at, tl.load(at) + tl.load(x_ptr + i))"
        ),
    )
    verdict = verify(path, VerifyOptions(candidate=first, stages=("oracle",))).verdict
    assert verdict.answer is Answer.UNDECIDED
    assert verdict.line.startswith(
        "Result: UNDECIDED (out_ptr is changed without atomics, at places that memory"
    )
