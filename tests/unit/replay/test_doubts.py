"""Launches that depend on what no reproducer holds, on the stand-in driver: undecided, with the reason.

The PTX says what the code reads; what it does is a host function of rig_kernels.cpp.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.replay import ReplayOptions, ReplayResult, replay
from kerncap.api.verify import StageResult, VerifyOptions, verify
from kerncap.format import schema

from .native import BASE, SPACING, Native

_N = 64


pytestmark = pytest.mark.usefixtures("stand_in")


def run(path: Path, **options: Any) -> ReplayResult:
    return replay(path, ReplayOptions(timed_runs=0, timeout_s=10.0, **options))


def saying(launch: Native, statement: str) -> Native:
    """The launch, with a statement in its PTX."""
    launch.code = {"ptx": launch.image().replace(b"  ret;", f"  {statement}\n  ret;".encode())}
    return launch


def doubled_beside(kernel: str, beside: Any, with_views: bool = False) -> Native:
    """``out = 2 * in`` with a known type, and an output beside it, of no known type by default."""
    x = np.arange(_N, dtype=np.float32)
    launch = Native(kernel).array(x).array(np.zeros(_N, np.float32), 2 * x)
    launch.with_views = with_views
    launch.array(np.zeros_like(beside), beside)
    return launch.integer(_N)


def clocked(with_views: bool = False) -> Native:
    times = np.arange(_N, dtype=np.uint64) + (np.uint64(0xABCD) << np.uint64(40))
    return doubled_beside("clocked", times, with_views)


def test_a_clock_is_not_judged_and_nothing_else_is_left_out(tmp_path: Path) -> None:
    verdict = run(clocked().seal(tmp_path)).verdict
    assert verdict.answer is Answer.UNDECIDED
    [reason] = verdict.reasons
    assert "of region 2 are in an output that differs from run to run" in reason and "not judged" in reason


@pytest.mark.parametrize("unreached_bytes", [0, 64])
def test_a_candidate_is_judged_beside_a_clock(tmp_path: Path, unreached_bytes: int) -> None:
    launch = clocked()
    launch.unreached_bytes = unreached_bytes
    path = launch.seal(tmp_path)
    right, wrong = tmp_path / "right.ptx", tmp_path / "wrong.ptx"
    right.write_bytes(launch.image(edition=0))
    wrong.write_bytes(launch.image(edition=1))
    assert run(path, candidate=right).answer is Answer.UNDECIDED
    result = run(path, candidate=wrong)
    assert result.answer is Answer.NO
    assert result.verdict.reasons[0].startswith("arg1: 64 of 64 elements differ")


_LARGE, _SMALL, _SCRATCH = (slice(4096 * k, 4096 * (k + 1)) for k in (0, 2, 4))


def three_outputs(wrong: slice | None, by: float, edition: int = 0) -> Native:
    """One block, of no known type: large sums, small values, and scratch that is left in any order."""
    x = np.random.default_rng(8).uniform(1, 2, 4096).astype(np.float32)
    post = np.zeros(5 * x.size, np.float32)
    post[_LARGE], post[_SMALL], post[_SCRATCH] = np.float32(1e6) * x, x, x
    if wrong is not None:
        post[wrong.start + 5] += np.float32(by)
    launch = Native("apart").array(x)
    launch.with_views = False
    launch.array(np.zeros_like(post), post).integer(x.size)
    launch.code = {"ptx": launch.image(edition=edition)}
    return launch


@pytest.mark.parametrize(
    "wrong, answer", [(None, Answer.UNDECIDED), (_LARGE, Answer.NO), (_SMALL, Answer.NO)]
)
def test_outputs_beside_scratch_are_judged(tmp_path: Path, wrong: slice | None, answer: Answer) -> None:
    verdict = run(three_outputs(wrong, 2e3 if wrong == _LARGE else 0.1).seal(tmp_path)).verdict
    assert verdict.answer is answer, verdict.reasons
    assert any(
        "bytes of region 1 are in an output that differs from run to run" in r for r in verdict.reasons
    )
    assert len(verdict.reasons) == (2 if wrong else 1), verdict.reasons


@pytest.mark.parametrize("wrong, answer", [(None, Answer.YES), (_SMALL, Answer.NO)])
def test_each_output_has_a_floor_of_its_own(tmp_path: Path, wrong: slice | None, answer: Answer) -> None:
    """Without the scratch: rounding of the large sums is more than the small values may be off by."""
    verdict = run(three_outputs(wrong, 0.1, edition=1).seal(tmp_path)).verdict
    assert verdict.answer is answer, verdict.reasons


@pytest.mark.parametrize("statement, answer", [("mov.u32 %r1, %smid;", Answer.UNDECIDED), ("", Answer.NO)])
def test_what_no_replay_shows_is_known_from_the_code(tmp_path: Path, statement: str, answer: Answer) -> None:
    launch = doubled_beside("placed", np.full(_N, 77, np.uint32))
    verdict = run(saying(launch, statement).seal(tmp_path)).verdict
    assert verdict.answer is answer, verdict.reasons
    assert ("reads smid" in verdict.summary) == bool(statement)


def test_a_candidate_is_not_wrong_where_the_captured_kernel_differs_too(tmp_path: Path) -> None:
    launch = doubled_beside("placed", np.full(_N, 77, np.uint32))
    candidate = tmp_path / "same.ptx"
    candidate.write_bytes(launch.image())
    path = saying(launch, "mov.u32 %r1, %smid;").seal(tmp_path)
    assert run(path, candidate=candidate).answer is Answer.UNDECIDED


@pytest.mark.parametrize("statement", ["call.uni (r), malloc, (s);", ""])
def test_a_fault_in_a_module_with_a_heap_is_undecided(tmp_path: Path, statement: str) -> None:
    launch = Native("_Z6strikePKfPfi").array(np.zeros(4, np.float32))
    launch.parameters[0] = struct.pack("<Q", BASE - 2 * SPACING)
    launch.array(np.zeros(4, np.float32), np.ones(4, np.float32)).integer(4)
    verdict = run(saying(launch, statement).seal(tmp_path)).verdict
    assert verdict.answer is (Answer.UNDECIDED if statement else Answer.NO)
    assert ("device's malloc" in verdict.summary) == bool(statement)


def beside_a_heap(launch: Native, in_use: bool = True) -> Native:
    """The launch, of a context in which other kernels use the device's heap."""
    limits = {"stack_bytes": 0, "heap_bytes": 0, "print_bytes": 0, "pending_launches": 0}
    launch.launch["limits"] = schema.Limits(**limits, heap_in_use=in_use)
    return launch


@pytest.mark.parametrize("in_use", [True, False])
def test_a_fault_beside_a_heap_is_undecided(tmp_path: Path, in_use: bool) -> None:
    """The address of what it reads may be one of the heap."""
    launch = Native("_Z6strikePKfPfi").array(np.zeros(4, np.float32))
    launch.parameters[0] = struct.pack("<Q", BASE - 2 * SPACING)
    launch.array(np.zeros(4, np.float32), np.ones(4, np.float32)).integer(4)
    verdict = run(beside_a_heap(launch, in_use).seal(tmp_path)).verdict
    assert verdict.answer is (Answer.UNDECIDED if in_use else Answer.NO)
    named = f"parameter byte 0 ({BASE - 2 * SPACING:#x}) may be addresses of the device's heap"
    assert (named in verdict.summary) == in_use


def test_a_difference_that_no_word_explains_is_one_beside_a_heap_too(tmp_path: Path) -> None:
    launch = Native("_Z6strikePKfPfi").array(np.zeros(4, np.float32))
    launch.array(np.zeros(4, np.float32), np.ones(4, np.float32)).integer(4)
    assert run(beside_a_heap(launch).seal(tmp_path)).answer is Answer.NO


@pytest.mark.parametrize("of", ["its own module", "other kernels"])
def test_a_candidate_that_faults_alone_is_wrong(tmp_path: Path, of: str) -> None:
    """The captured kernel ends well with the heap that there is here."""
    launch = doubled_beside("placed", np.full(_N, 77, np.uint32))
    candidate = tmp_path / "faults.ptx"
    candidate.write_bytes(launch.image(edition=1))
    if of == "other kernels":
        path = beside_a_heap(launch).seal(tmp_path)
    else:
        path = saying(launch, "call.uni (r), malloc, (s);").seal(tmp_path)
    result = run(path, candidate=candidate)
    assert result.answer is Answer.NO and "CUDA_ERROR_ILLEGAL_ADDRESS" in result.verdict.summary


def test_a_kernel_that_only_prints_says_so(tmp_path: Path) -> None:
    launch = Native("_Z7nothingPfi").array(np.zeros(4, np.float32)).integer(4)
    verdict = run(saying(launch, "call.uni (r), vprintf, (a, b);").seal(tmp_path)).verdict
    assert verdict.answer is Answer.UNDECIDED
    assert "its module prints" in verdict.summary


@pytest.mark.parametrize("taken", [True, False])
def test_a_relocated_replay_names_the_words_that_stayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: bool
) -> None:
    """The pointer that is counted through leads past all that was captured."""
    launch = Native("follow")
    cell = launch.region(np.array([BASE + SPACING, BASE + 9 * SPACING], np.uint64))
    launch.region(np.array([7, 7], np.int32), np.array([9, 7], np.int32))  # it counts by one, not by two
    launch.pointer(cell, "uint64", 2)
    if taken:
        monkeypatch.setenv("KERNCAP_RIG_TAKEN", f"{BASE + SPACING:#x}:0x1000")
    result = run(launch.seal(tmp_path))
    assert result.answer is (Answer.UNDECIDED if taken else Answer.NO), result.verdict.reasons
    named = f"byte 8 of region 0 ({BASE + 9 * SPACING:#x}) may be addresses"
    assert (named in " ".join(result.verdict.reasons)) == taken


def determinism(path: Path, **options: Any) -> StageResult:
    stages = ("smoke", "determinism")
    return verify(path, VerifyOptions(stages=stages, timeout_s=10.0, **options)).stages[1]


def test_a_clock_that_ticks_faster_makes_no_candidate_noisier(tmp_path: Path) -> None:
    launch, candidate = clocked(with_views=True), tmp_path / "faster.ptx"
    candidate.write_bytes(launch.image(edition=1))
    stage = determinism(launch.seal(tmp_path), candidate=candidate)
    assert stage.result == "pass", stage.reasons
    assert any("arg2" in each for each in stage.not_shown)


@pytest.mark.parametrize("statement, result", [("mov.u64 %rd1, %clock64;", "undecided"), ("", "fail")])
def test_a_clock_is_no_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, result: str
) -> None:
    monkeypatch.setenv("SOMETIMES_OFF_EVERY", "3")
    x = np.arange(1000, dtype=np.float32)
    launch = Native("_Z13sometimes_offPKfPfi").array(x).array(np.zeros(1000, np.float32), 3 * x)
    stage = determinism(saying(launch.integer(1000), statement).seal(tmp_path))
    assert stage.result == result, stage.reasons
    assert ("reads clock" in stage.reasons[0]) == bool(statement)


@pytest.mark.parametrize("name", ["nvshmemi_device_state_d", "state"])
def test_a_module_of_nvshmem_is_not_judged_without_the_other_ranks(tmp_path: Path, name: str) -> None:
    x = np.arange(_N, dtype=np.float32)
    launch = Native("doubled").array(x).array(np.zeros(_N, np.float32), 3 * x).integer(_N)
    launch.region(np.zeros(8, np.uint8), kind="global", name=name)
    verdict = run(launch.seal(tmp_path)).verdict
    assert verdict.answer is (Answer.NO if name == "state" else Answer.UNDECIDED)
    assert (name != "state") == any(f"{name} is the state of NVSHMEM" in each for each in verdict.reasons)
