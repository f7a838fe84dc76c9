"""What the reproducers of both sides say of a launch whose digests differ."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kerncap.api.diverge import two_runs
from kerncap.api.diverge.judge import Tolerance, Verdict, judge
from kerncap.api.diverge.launch_differences import pairs_of
from kerncap.api.diverge.two_runs import Captured
from kerncap.capture.outcome import SelfCheck
from tests.unit.diverge.launches import launch, run
from tests.unit.replay.build import Launch

COPY = """
@triton.jit
def copy(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))
"""


def sealed(folder: Path, value: float, left: float | None = None) -> Path:
    """Never replayed, so that its write set is not known. ``left``: what it wrote in place of ``value``."""
    folder.mkdir()
    x = np.full(16, value, np.float32)
    y = x if left is None else np.full_like(x, left)
    copy = Launch(COPY, "copy").tensor("x", x).tensor("y", np.zeros_like(x), y).constexpr("BLOCK", 16)
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


class Checks:
    """Counts self-checks, in the place of what is measured."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(two_runs, "check_captured", self._check)

    def of(self, path: Path) -> Captured:
        result: Any = SimpleNamespace(path=path, self_checks={})
        return Captured(path, unmeasured=result)

    def _check(self, *results: Any, timeout_s: float) -> None:
        for result in results:
            self.count += 1
            result.self_checks[result.path] = SelfCheck("skipped", "it was not replayed")


@pytest.mark.parametrize(
    "before, verdict, checks", [(1.0, Verdict.DIFFERENT, 0), (2.0, Verdict.OPEN, 2)], ids=["equal", "other"]
)
def test_what_it_reads_is_measured_only_if_it_matters(
    before: float, verdict: Verdict, checks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = Checks(monkeypatch)
    captured = done.of(sealed(tmp_path / "a", 1.0)), done.of(sealed(tmp_path / "b", before, left=3.0))
    [pair] = pairs_of(run([launch("copy", 1, 1)]), run([launch("copy", 2, 2)]))
    found = judge(pair, captured, Tolerance())
    assert (found.verdict, done.count) == (verdict, checks)
    assert ("it was not replayed" in found.said) == bool(checks)
