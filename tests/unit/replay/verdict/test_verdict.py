"""What a replay must and must not pass, how often and how fast."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.unit.replay import build
from tests.unit.replay.verdict.replayed import run, scale

pytest.importorskip("triton")
pytest.importorskip("torch")


def test_vector_add_is_identical(tmp_path: Path) -> None:
    result = run(build.add().seal(tmp_path))
    assert result.verdict.line == "Result: PASS (12,000 bytes identical, 4,000 written bytes poisoned)"


def test_a_wrong_oracle_fails_with_index_and_values(tmp_path: Path) -> None:
    launch = build.add()
    base, before, after = launch.regions[2]
    wrong = np.frombuffer(after, np.float32).copy()
    wrong[17] += 1
    launch.regions[2] = (base, before, wrong.tobytes())
    result = run(launch.seal(tmp_path))
    assert not result.passed
    assert "out_ptr: 1 of 1,000 elements differ, first at out_ptr[17]" in result.verdict.reasons[0]


def test_until_fail_counts_runs(tmp_path: Path) -> None:
    result = run(build.add().seal(tmp_path), until_fail=3)
    assert result.passed and result.runs == 3


@pytest.mark.long
def test_timed_runs_give_median_and_spread(tmp_path: Path) -> None:
    timing = run(scale().seal(tmp_path), timed_runs=3).timing
    assert timing is not None and timing.runs == 3
    assert 0 < timing.low_ms <= timing.median_ms <= timing.high_ms
