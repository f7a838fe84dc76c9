"""What the reproducers of both sides say of a launch whose digests differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kerncap.api.diverge.judge import Tolerance, Verdict, judge
from kerncap.api.diverge.launch_differences import pairs_of
from kerncap.api.diverge.two_runs import Captured
from tests.unit.diverge.launches import launch, run
from tests.unit.replay.build import Launch

COPY = """
@triton.jit
def copy(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))
"""


def sealed(folder: Path, value: float) -> Path:
    """Never replayed, so that its write set is not known."""
    folder.mkdir()
    x = np.full(16, value, np.float32)
    copy = Launch(COPY, "copy").tensor("x", x).tensor("y", np.zeros_like(x), x).constexpr("BLOCK", 16)
    return copy.seal(folder)


def test_why_it_is_not_known_what_a_launch_reads(tmp_path: Path) -> None:
    captured = (
        Captured(sealed(tmp_path / "a", 1.0), unchecked="one replay takes longer than --self-check-timeout"),
        Captured(sealed(tmp_path / "b", 2.0)),
    )
    [pair] = pairs_of(run([launch("copy", 1, 1)]), run([launch("copy", 2, 2)]))
    found = judge(pair, captured, Tolerance())
    assert found.verdict is Verdict.OPEN
    assert found.said == (
        "which bytes it reads could not be measured (A: one replay takes longer than --self-check-timeout; "
        "B: its self-check measured nothing)"
    )
