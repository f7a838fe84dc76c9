"""Smaller sizes, where integers that the launch reads may not fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.verify import VerifyOptions, verify
from kerncap.api.verify.other_sizes import halves
from kerncap.format import Reproducer

from .build import Launch
from .resident import candidate

pytest.importorskip("triton")
pytest.importorskip("torch")

PICK = """
@triton.jit
def pick(x_ptr, at_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + i, mask=i < n, other=0.0)
    at = tl.load(at_ptr + row)
    tl.store(out_ptr + row, tl.sum(tl.where(i == at, x, 0.0), axis=0))
"""
ONE_LOAD = PICK.replace("tl.sum(tl.where(i == at, x, 0.0), axis=0)", "tl.load(x_ptr + row * n + at)")


def launch(source: str, out: np.ndarray) -> Launch:  # type: ignore[type-arg]
    made = Launch(source, "pick", grid=(4, 1, 1)).tensor("x_ptr", X).tensor("at_ptr", AT)
    made = made.tensor("out_ptr", np.zeros(4, np.float32), out.astype(np.float32))
    return made.argument("n", 24).constexpr("BLOCK", 32)


X = np.random.default_rng(0).random((4, 24), dtype=np.float32) + 0.5
AT = np.array([3, 20, 0, 22], dtype=np.int64)
PICKED = X[np.arange(4), AT]


def test_what_integers_may_not_fit_is_undecided(tmp_path: Path) -> None:
    path = launch(PICK, PICKED).seal(tmp_path)
    result = verify(path, VerifyOptions(candidate=candidate(tmp_path, ONE_LOAD)))
    assert result.verdict.answer is Answer.UNDECIDED
    assert "on n = 13: differs from the captured kernel" in result.verdict.line
    assert result.verdict.line.endswith("at_ptr may not fit that size, and a capture of it would decide it)")


def test_a_size_has_one_element_more_than_its_blocks(tmp_path: Path) -> None:
    made = launch(PICK, PICKED).constexpr("PART", 8)
    with Reproducer.open(made.seal(tmp_path)) as captured:
        assert [one.name for one in halves(captured.manifest)] == ["n = 9"]


def test_a_size_at_which_the_captured_kernel_gives_infinities_is_left_out(tmp_path: Path) -> None:
    inverse, loaded = (one.replace("out_ptr + row, ", "out_ptr + row, 1.0 / ") for one in (PICK, ONE_LOAD))
    path = launch(inverse, 1 / PICKED).seal(tmp_path)
    result = verify(path, VerifyOptions(candidate=candidate(tmp_path, loaded)))
    assert result.passed, result.verdict
    assert (
        "n = 13: the captured kernel fails there (it gives NaN or infinities)" in result.stages[1].not_shown
    )
