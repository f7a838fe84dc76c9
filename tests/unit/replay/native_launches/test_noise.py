"""Native launches that differ from run to run, and many runs of those that do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kerncap.answer import Answer

from .. import native
from ..native import Native, run


def test_noise_is_allowed_by_the_type_that_it_has(tmp_path: Path) -> None:
    result = run(native.doubled("noisy", with_views=False).seal(tmp_path))
    assert result.passed, result.verdict.reasons
    assert "within tolerance" in result.verdict.line
    assert "region 1 as float32 (inferred)" in result.verdict.line


def test_noise_hides_no_wrong_result(tmp_path: Path) -> None:
    launch = native.doubled("noisy", with_views=False)
    region, before, after = launch.regions[1]
    wrong = np.frombuffer(after, np.float32).copy()
    wrong[3] *= 1.001
    launch.regions[1] = region, before, wrong.tobytes()
    result = run(launch.seal(tmp_path))
    assert not result.passed
    assert "region 1 as float32 (inferred): 1 of 1,000 elements differ" in result.verdict.reasons[0]


def test_rounding_that_no_replay_shows_is_undecided(tmp_path: Path) -> None:
    launch = native.add()
    region, before, after = launch.regions[2]
    values = np.frombuffer(after, np.float32).copy()
    values[10] = np.nextafter(values[10], np.float32(np.inf))
    launch.regions[2] = region, before, values.tobytes()
    verdict = run(launch.seal(tmp_path)).verdict
    assert verdict.answer is Answer.UNDECIDED
    assert "arg2: 1 of 1,000 elements differ, first at arg2[10]" in verdict.reasons[0]
    assert verdict.reasons[0].endswith("within tolerance, and 20 replays agree bit by bit")


def test_the_rate_of_wrong_replays_is_told(tmp_path: Path) -> None:
    result = run(native.doubled("racy").seal(tmp_path), until_fail=2000)
    assert not result.passed
    assert result.different is not None and result.different >= 1
    assert result.runs < 2000
    rate, *rest = result.verdict.reasons
    assert rate.startswith(f"{result.different:,} of {result.runs - 1:,} replays differ, the first is number")
    assert any("arg1" in reason for reason in rest)


def test_a_race_is_no_noise_floor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOMETIMES_OFF_EVERY", "3")  # so often that replays of the baseline show it, too
    x = np.arange(1000, dtype=np.float32)
    launch = Native("_Z13sometimes_offPKfPfi").array(x).array(np.zeros(1000, np.float32), 3 * x)
    path = launch.integer(1000).seal(tmp_path)
    assert run(path).answer in (Answer.UNDECIDED, Answer.YES), "one run may be right"
    result = run(path, until_fail=200)
    assert result.answer is Answer.NO, "that runs disagree is what was asked"
    assert any("arg1 differs from run to run by up to 1e+03" in why for why in result.verdict.reasons)


def test_without_a_wrong_replay_all_are_counted(tmp_path: Path) -> None:
    result = run(native.add().seal(tmp_path), until_fail=300)
    assert result.verdict.exact
    assert (result.runs, result.different) == (300, 0)


def test_a_kernel_that_faults_now_and_then_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = native.add().seal(tmp_path)
    assert run(path).verdict.exact  # the write set is known from here on
    monkeypatch.setenv("KERNCAP_RIG_FAULT_AT", "500")
    result = run(path, until_fail=2_000)
    assert not result.passed
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in result.verdict.line
    assert result.different is None


def test_timed_replays_are_in_a_row(tmp_path: Path) -> None:
    result = run(native.add().seal(tmp_path), timed_runs=300)
    assert result.verdict.exact
    timing = result.timing
    assert timing is not None and timing.runs == 300
    assert timing.low_ms <= timing.median_ms <= timing.high_ms
    assert timing.warm_ms is not None and timing.cold_ms is not None and timing.replays_per_s is not None


def test_an_update_in_place_is_timed_with_a_restore_before_each(tmp_path: Path) -> None:
    timing = run(native.scale().seal(tmp_path), timed_runs=20).timing
    assert timing is not None and timing.warm_ms == timing.median_ms
