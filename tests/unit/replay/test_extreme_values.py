"""Values far from the captured ones: what is left out shows on them, and rounding fails nobody."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kerncap.replay.extreme_values import on_extreme_values
from kerncap.replay.other_contents import Shown
from kerncap.replay.verdict_words import BY_DTYPE

from .build import Launch
from .resident import Resident, candidate, resident

pytest.importorskip("triton")
ROWS, COLUMNS = 2, 90
KERNEL = """
@triton.jit
def rows(x_ptr, weights_ptr, norm_ptr, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at, mask = tl.program_id(0) * columns + i, i < columns
    x = tl.load(x_ptr + at, mask=mask, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(weights_ptr + at, e / tl.sum(e, 0), mask=mask)
    x = tl.where(mask, x, 0.0)
    mean = tl.sum(x, 0) / columns
    c = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(c * c, 0) / columns
    tl.store(norm_ptr + at, c / tl.sqrt(variance + 1e-6), mask=mask)
"""
ONE_PASS = KERNEL.replace("tl.sum(c * c, 0) / columns", "tl.sum(x * x, 0) / columns - mean * mean")
WRONG = {
    "no maximum": (KERNEL.replace(" - tl.max(x, 0)", ""), "far from zero: differs .* weights_ptr: "),
    "cancellation": (ONE_PASS, "far from zero: differs .* norm_ptr: "),
    "left-out lanes of a maximum": (
        KERNEL.replace('-float("inf")', "-1000.0"),
        "far below zero: differs .* weights_ptr: ",
    ),
    "a limit": (
        KERNEL.replace("c / tl.sqrt(", "tl.where(tl.abs(c) > 100.0, 0.0, c) / tl.sqrt("),
        "up to 256: differs .* norm_ptr: ",
    ),
    "no epsilon": (KERNEL.replace(" + 1e-6", ""), "below 1e-06: differs .* norm_ptr: "),
}
HONEST = {
    "the same": KERNEL,
    "another base and another order": KERNEL.replace(
        "e = tl.exp(x - tl.max(x, 0))", "y = x * 1.4426950408889634\n    e = tl.exp2(y - tl.max(y, 0))"
    )
    .replace("mean = tl.sum(x, 0) / columns", "mean = tl.sum(tl.sum(tl.reshape(x, (16, 8)), 0), 0) / columns")
    .replace("c / tl.sqrt(variance + 1e-6)", "c * tl.rsqrt(variance + 1e-6)"),
}


def _resident(folder: Path, source: str) -> Iterator[Resident]:
    x = np.random.default_rng(3).standard_normal((ROWS, COLUMNS)).astype(np.float32)
    launch = Launch(source, "rows", grid=(ROWS, 1, 1)).tensor("x_ptr", x)
    for name in ("weights_ptr", "norm_ptr"):
        launch = launch.tensor(name, np.zeros_like(x), np.ones_like(x))
    with resident(launch.argument("columns", COLUMNS).constexpr("BLOCK", 128), folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def exact(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    yield from _resident(tmp_path_factory.mktemp("exact"), KERNEL)


@pytest.fixture(scope="module")
def one_pass(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    yield from _resident(tmp_path_factory.mktemp("one_pass"), ONE_PASS)


def tried(rows: Resident, source: str) -> Shown:
    rows.engine.load_candidate(candidate(rows.folder, source))
    found = on_extreme_values(rows.engine, rows.measured, BY_DTYPE, coarse=False)
    assert not found.reasons, "a difference decides nothing"
    return found


@pytest.mark.parametrize("name", WRONG)
def test_work_that_is_left_out_is_undecided(exact: Resident, name: str) -> None:
    source, said = WRONG[name]
    found = tried(exact, source)
    assert len(found.open) == 1
    assert re.match(rf"on values of x_ptr {said}", found.open[0]), found.open


@pytest.mark.parametrize("name", HONEST)
def test_another_rounding_passes(exact: Resident, name: str) -> None:
    found = tried(exact, HONEST[name])
    assert not found.open
    assert found.not_shown == ["NaN and infinities in x_ptr that were not captured"]
    assert found.shown == [
        f"as the captured kernel on values of x_ptr {kind}"
        for kind in ("far from zero", "far below zero", "up to 256", "below 1e-06")
    ]


def test_a_candidate_is_no_worse_for_being_more_exact(one_pass: Resident) -> None:
    found = tried(one_pass, KERNEL)
    assert not found.open
    of_far = ["far" in text for text in found.not_shown]
    assert of_far == [True, True, False], "its own results are none there"
    assert len(found.shown) == 2
