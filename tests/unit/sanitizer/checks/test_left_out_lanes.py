"""Lanes that a masked load without `other` leaves out, if the evaluation says whether they count."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from kerncap.sanitizer import engine
from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import Unproven, Violated
from kerncap.sanitizer.symbolic.solve import Solver
from tests.unit.sanitizer.checks.memory_launches import ArrayContents
from tests.unit.sanitizer.compiled import launch_of

BLOCK, N = 16, 10


@triton.jit
def combined(x, w, y, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """Of 16 columns 10 hold data, in two blocks of rows."""
    offs = tl.arange(0, BLOCK)
    here = offs < n
    row = tl.load(x + offs, mask=here)
    if HOW == "times memory":
        made = tl.sum(row * tl.load(w + offs))
    elif HOW == "scaled in loops":
        total = tl.zeros((BLOCK,), tl.float32)
        for i in range(2):
            for k in range(2):
                value = tl.load(x + k * n + offs, mask=here)
                total += value * (tl.load(w + i) - tl.load(w + 2 + k))
        made = tl.sum(total)
    elif HOW == "shifted in a loop":
        total = tl.zeros((BLOCK,), tl.float32)
        for k in range(2):
            total += tl.load(x + k * n + offs, mask=here) - tl.load(w)
        made = tl.sum(total)
    elif HOW == "from one":
        total = tl.full((BLOCK,), 1.0, tl.float32)
        for k in range(2):
            total += tl.load(x + k * n + offs, mask=here)
        made = tl.sum(total)
    elif HOW == "largest in a loop":
        total = tl.full((BLOCK,), -float("inf"), tl.float32)
        for k in range(2):
            total = tl.maximum(total, tl.load(x + k * n + offs, mask=here))
        made = tl.max(total)
    elif HOW == "softmax by infinity":
        scores = row + tl.where(here, 0.0, -float("inf"))
        made = tl.sum(tl.exp(scores - tl.max(scores)))
    elif HOW == "different neighbours" or HOW == "different from memory":
        other = tl.load(x + offs, mask=here) if HOW == "different neighbours" else tl.load(w + offs)
        made = tl.sum((row != other).to(tl.float32))
    elif HOW == "end of scan":
        tl.store(y + offs * 0, tl.cumsum(row, 0), mask=offs == BLOCK - 1)
        made = 0.0
    elif HOW == "scan in a loop":
        made = 0.0
        for _ in range(n):
            made += tl.sum(tl.exp(tl.cumsum(row, 0)))
    elif HOW == "added to memory":
        tl.atomic_add(y + offs, row * tl.load(w + offs))
        made = 0.0
    tl.store(y + 1, made)


@triton.jit
def multiplied(x, w, y, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    rows = tl.load(x + i * BLOCK + j, mask=j < n)
    if HOW == "memory":
        made = tl.dot(rows, tl.load(w + i * BLOCK + j))
    elif HOW == "added":
        weights = tl.load(w + i * BLOCK + j)
        made = tl.dot(weights, weights) + rows
    else:  # zeros by a mask twice: added to one that was left out, and multiplied by it
        zeros = tl.load(w + i * BLOCK + j, mask=j < n, other=0.0)
        shifted = tl.dot(zeros, tl.trans(zeros)) + rows
        made = tl.dot(
            tl.exp(shifted) if HOW == "ones" else shifted,
            tl.load(w + i * BLOCK + j, mask=i < n, other=0.0 if HOW == "zeros" else 1.0),
        )
    tl.store(y + i * BLOCK + j, made)


@triton.jit
def exchanged(x, w, y, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """Of pairs of lanes, of which one may hold no data."""
    offs = tl.arange(0, BLOCK)
    pairs = tl.reshape(tl.load(x + offs, mask=offs < n - 1).to(tl.int32, bitcast=True), (BLOCK // 2, 2))
    second = tl.arange(0, 2)[None, :]
    left = tl.broadcast_to(tl.sum(pairs * (1 - second), 1)[:, None], (BLOCK // 2, 2))
    right = tl.broadcast_to(tl.sum(pairs * second, 1)[:, None], (BLOCK // 2, 2))
    order = tl.reshape(tl.load(w + offs), (BLOCK // 2, 2)) > 0
    made = tl.reshape(pairs ^ tl.where(order, left ^ right, 0), (BLOCK,)).to(tl.float32, bitcast=True)
    tl.store(y + offs, tl.exp(made) if HOW == "exp" else made)


@triton.jit
def looked_up(x, w, y, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """Places, of which the last six are left out."""
    offs = tl.arange(0, BLOCK)
    places = tl.flip(tl.load(x + offs, mask=offs < n).to(tl.int32))
    count = 0 if HOW == "nowhere" else 4
    tl.store(y + offs, tl.load(w + places, mask=offs < tl.load(y).to(tl.int32) - 2 + count, other=1.0))


def noted(kernel: Any, how: str, x: float, odd: float) -> str:
    """What is said of the uninit check: "error", "note" or nothing.

    x: all data; odd: weights that data which are left out are multiplied by. The others are 0.5.
    """
    launch = launch_of(
        kernel, (1,), {"x": "*fp32", "w": "*fp32", "y": "*fp32", "n": "i32"}, {"BLOCK": BLOCK, "HOW": how},
        x=(BLOCK, BLOCK), w=(BLOCK, BLOCK), y=(BLOCK, BLOCK), n=N,
    )  # fmt: skip
    data, weights = np.full(BLOCK * BLOCK, x, np.float32), np.full(BLOCK * BLOCK, 0.5, np.float32)
    weights[[12, 13, 12 * BLOCK]] = odd
    weights[0] = x / 4
    contents = {"x": data, "w": weights, "y": data}
    arrays = [contents[one.name] for one in launch.storages]
    written = [np.ones(one.size_bytes, np.bool_) for one in launch.storages]
    report = sanitize(replace(launch, contents=ArrayContents(arrays, written)))
    verdicts = [one.verdict for one in report.settled if one.check == "uninit"]
    assert not any(isinstance(verdict, Unproven) for verdict in verdicts)
    found = [one for verdict in verdicts if isinstance(verdict, Violated) for one in verdict.findings]
    if any(one.note is None for one in found):
        return "error"
    return "note" if found else ""


@pytest.mark.parametrize("how", ["times memory", "scaled in loops", "from one", "softmax by infinity"])
def test_lanes_that_add_nothing(how: str) -> None:
    assert noted(combined, how, 2.0, 0.5) == "note"


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_zero_times_what_is_no_number(number: float) -> None:
    for how in ("times memory", "added to memory"):
        assert noted(combined, how, 2.0, number) == "error"
        assert noted(combined, how, 2.0, 0.5) == "note"
    assert noted(multiplied, "memory", 2.0, number) == "error"
    assert noted(multiplied, "memory", 2.0, 0.5) == "note"


@pytest.mark.parametrize("how", ["shifted in a loop", "largest in a loop", "different from memory"])
def test_lanes_that_count(how: str) -> None:
    assert noted(combined, how, 2.0, 0.5) == "error"


def test_a_left_out_lane_that_is_added_to_a_product() -> None:
    assert noted(multiplied, "added", 2.0, 0.5) == "error"


def test_data_that_are_zero_by_chance_hide_nothing() -> None:
    """The kernel is right for these numbers; for others it is not."""
    assert noted(combined, "shifted in a loop", 0.0, 0.0) == "error"
    assert noted(multiplied, "zeros", 0.0, 0.0) == "note"
    assert noted(multiplied, "ones", 0.0, 0.0) == "error"


def test_left_out_lanes_are_equal_to_each_other() -> None:
    assert noted(combined, "different neighbours", 2.0, 0.5) == "note"


def test_lanes_that_are_exchanged_keep_what_they_are() -> None:
    assert noted(exchanged, "", 2.0, 0.5) == "note"
    assert noted(exchanged, "exp", 2.0, 0.5) == "error"


def test_the_end_of_a_scan_holds_all_that_was_added() -> None:
    assert noted(combined, "end of scan", 2.0, 0.5) == "note"
    assert noted(combined, "scan in a loop", 2.0, 0.5) == "error"


def test_a_lane_that_is_masked_off_goes_to_no_place() -> None:
    assert noted(looked_up, "nowhere", 2.0, 0.5) == ""
    assert noted(looked_up, "some", 2.0, 0.5) == "error"


@triton.jit
def network(x, w, y, n, HOW: tl.constexpr, BLOCK: tl.constexpr):
    """A sort by hand, of left-out lanes too."""
    offs = tl.arange(0, BLOCK)
    numbers = tl.load(x + offs, mask=offs < n).to(tl.int32)
    for step in tl.static_range(24):
        pairs = tl.reshape(numbers, (BLOCK // 2, 2))
        second = tl.arange(0, 2)[None, :]
        left = tl.broadcast_to(tl.sum(pairs * (1 - second), 1)[:, None], (BLOCK // 2, 2))
        right = tl.broadcast_to(tl.sum(pairs * second, 1)[:, None], (BLOCK // 2, 2))
        numbers = tl.reshape(pairs ^ tl.where((left > right + step), left ^ right, 0), (BLOCK,))
    tl.store(y + offs, numbers.to(tl.float32), mask=offs < n)


@pytest.mark.parametrize("kernel, how, expected", [
    (combined, "times memory", "note"), (combined, "scaled in loops", "note"),
    (combined, "scan in a loop", "error"), (multiplied, "memory", "note"), (network, "", ""),
])  # fmt: skip
def test_a_walk_leaves_long_questions_to_the_checks(
    kernel: Any, how: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lanes add is asked for each operation, iteration and attempt: once is enough, if it is read."""
    walk, ask = engine.walk, Solver.satisfiable
    walking: list[bool] = []

    def watched(*given: Any) -> Any:
        walking.append(True)
        try:
            return walk(*given)
        finally:
            walking.pop()

    def asked(solver: Solver, *conditions: Any) -> Any:
        assert not walking, conditions
        return ask(solver, *conditions)

    monkeypatch.setenv("KERNCAP_SANITIZER_STRICT", "1")
    monkeypatch.setattr(engine, "walk", watched)
    monkeypatch.setattr(Solver, "satisfiable", asked)
    assert noted(kernel, how, 2.0, 0.5) == expected
