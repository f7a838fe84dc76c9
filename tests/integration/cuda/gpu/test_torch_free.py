"""On a GPU: a Triton launch is judged alike by a worker with torch and by one that needs none."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kerncap.api.replay import ReplayOptions, replay
from kerncap.api.verify import VerifyOptions, verify
from kerncap.api.verify.verify_result import VerifyResult
from kerncap.replay import choose_engine as choose
from kerncap.replay import engine, pool
from kerncap.replay.pool import Pool
from tests.integration.conftest import CommandLine

from .captured import TARGETS, Captured, capture

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

# By kernel, an edit of its source that makes it wrong.
WRONG = {
    "scaled_add": ("* s +", "* s -"),
    "tiles_dot": ("range(0, K, BK)", "range(0, K - BK, BK)"),
    "copied_tile": ("* 2)", "* 3)"),
    "clustered": ("+ 1, mask", "+ 2, mask"),
    "by_scalars": ("+ shift", "- shift"),
    "counted": ("1, mask=mask)", "2, mask=mask)"),
}


@pytest.fixture(scope="module")
def launches(kerncap_of_module: CommandLine) -> Captured:
    options = ("-k", "|".join(WRONG), "--launch", "0:1")
    return capture(kerncap_of_module, sys.executable, TARGETS / "triton_launches.py", options=options)


@pytest.fixture(scope="module")
def shared() -> Iterator[Pool]:
    """One pool, so that what needs torch loads it once."""
    with Pool(lasting=True) as found:
        yield found


def judged(path: Path, shared: Pool, **options: Any) -> tuple[VerifyResult, VerifyResult]:
    """By a worker that needs no torch, and by one that has it."""
    asked = VerifyOptions(trust=True, **options)
    free = verify(path, asked, shared)
    with pytest.MonkeyPatch.context() as patch:
        for module in (choose, engine, pool):
            patch.setattr(module, "without_torch", lambda *_: None)
        return free, verify(path, asked, shared)


def same(free: VerifyResult, with_torch: VerifyResult) -> VerifyResult:
    """All that both say. Which measured write set was used, and so which stage measures it, may differ."""
    ours, theirs = free.as_dict(), with_torch.as_dict()
    assert ours == theirs
    return free


def edited(path: Path, folder: Path, old: str = "", new: str = "", head: str = "") -> Path:
    text = next((path / "source").glob("*.py")).read_text()
    assert old in text
    file = folder / "candidate.py"
    file.write_text(head + text.replace(old, new))
    return file


def test_each_launch_was_captured(launches: Captured) -> None:
    assert len(launches.reproducers) == len(WRONG), launches.names()
    launches.target_is_unchanged()


@pytest.mark.parametrize("kernel", WRONG)
def test_the_captured_kernel(launches: Captured, shared: Pool, kernel: str) -> None:
    path = launches.one(kernel)
    verify(path, VerifyOptions(trust=True), shared)  # which measures the write set, and keeps it
    found = same(*judged(path, shared))
    assert found.passed and found.verdict.exact, found.verdict.reasons
    assert found.engine == "jit" and found.triton


@pytest.mark.parametrize("kernel", WRONG)
def test_the_captured_image(launches: Captured, shared: Pool, kernel: str) -> None:
    free, with_torch = judged(launches.one(kernel), shared, engine="binary")
    assert (free.driver != "", with_torch.driver) == (True, "")
    found = same(dataclasses.replace(free, driver="", triton=with_torch.triton), with_torch)
    assert found.passed and found.verdict.exact, found.verdict.reasons


@pytest.mark.parametrize("kernel", WRONG)
def test_a_right_candidate(launches: Captured, shared: Pool, kernel: str, tmp_path: Path) -> None:
    path = launches.one(kernel)
    found = same(*judged(path, shared, candidate=edited(path, tmp_path)))
    assert found.passed, found.verdict.reasons


@pytest.mark.parametrize("kernel", WRONG)
def test_a_wrong_candidate(launches: Captured, shared: Pool, kernel: str, tmp_path: Path) -> None:
    path = launches.one(kernel)
    found = same(*judged(path, shared, candidate=edited(path, tmp_path, *WRONG[kernel])))
    assert found.answer.value == "fail", found.verdict


@pytest.mark.parametrize("head", ["# kerncap: BLOCK=128 grid=8\n", "# kerncap: BLOCK=128 grid=4\n"])
def test_another_configuration(launches: Captured, shared: Pool, tmp_path: Path, head: str) -> None:
    path = launches.one("scaled_add")
    found = same(*judged(path, shared, candidate=edited(path, tmp_path, head=head)))
    assert found.passed == ("grid=8" in head)


@pytest.mark.parametrize(
    ("old", "new"),
    [("* s +", "* missing +"), ("tl.load(x_ptr + i", "tl.load(x_ptr + i + (1 << 40)"),
     ("BLOCK: tl.constexpr)", "BLOCK: tl.constexpr, more)")],
)  # fmt: skip
def test_a_candidate_that_does_not_compile_or_end(
    launches: Captured, shared: Pool, tmp_path: Path, old: str, new: str
) -> None:
    path = launches.one("scaled_add")
    found, other = judged(path, shared, candidate=edited(path, tmp_path, old, new))
    assert (found.answer, found.judged_by) == (other.answer, other.judged_by)
    assert found.answer.value == "fail", found.verdict


def test_a_replay_is_timed(launches: Captured) -> None:
    found = replay(launches.one("tiles_dot"), ReplayOptions(trust=True))
    assert found.passed and found.timing is not None
    assert found.timing.clock == "device events" and found.timing.cold_ms


def test_a_faulting_candidate_does_not_end_the_pool(launches: Captured, tmp_path: Path) -> None:
    path = launches.one("scaled_add")
    wild = edited(path, tmp_path, "tl.load(x_ptr + i", "tl.load(x_ptr + i + (1 << 40)")
    with Pool(keep=2, apart=True) as kept:
        first = verify(path, VerifyOptions(trust=True, candidate=wild), kept)
        assert first.answer.value == "fail"
        assert verify(path, VerifyOptions(trust=True), kept).passed
