"""What the captured kernel does not reproduce is no mistake of its own, nor of a candidate."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.verify import VerifyOptions, verify
from kerncap.format import Reproducer
from kerncap.replay import doubts
from kerncap.replay.verdict import judge
from kerncap.replay.worker.common import bitmap
from tests import golden

from .build import ADD, HEADER, Launch, add
from .resident import candidate, resident

# It needs what lay in its output, and reads that nowhere else.
READS = ADD.replace(
    "tl.store(out_ptr + i, ", "was = tl.load(out_ptr + i, mask=mask) == 7\n    tl.store(out_ptr + i, was * ("
).replace("y_ptr + i, mask=mask), ", "y_ptr + i, mask=mask)), ")


def of_other_result() -> Launch:
    """A launch of which the application left one element otherwise."""
    launch = add(256)
    base, before, after = launch.regions[2]
    changed = np.frombuffer(bytes(after), np.float32).copy()
    changed[3] += 1
    launch.regions[2] = base, before, changed.tobytes()
    return launch


def test_what_is_read_now_and_then_is_not_poisoned(tmp_path: Path) -> None:
    """As if the measurement had not seen that the output is read."""
    with resident(add(256, source=READS), tmp_path) as opened:
        measured = opened.measured
        measured.also_input.clear()
        measured.untouched.clear()
        measured.add(2, ~bitmap.empty(measured.sizes[2]))
        verdict = judge(opened.engine, measured)
        assert verdict.passed and "nothing was poisoned: " in verdict.notes[-1], verdict
        assert not measured.output(2).any()
        assert opened.judge(READS).passed
        wrong = opened.judge(READS.replace("tl.load(y_ptr + i, mask=mask)", "1"))
        assert wrong.answer is Answer.NO
        nothing = opened.judge(READS.replace("mask = i < n", "mask = i < 0"))
        assert nothing.answer is Answer.NO


def test_a_result_that_was_there_before_is_poisoned(tmp_path: Path) -> None:
    """Without poison, nothing would show that the launch made it."""
    total = "(tl.load(x_ptr + i, mask=mask) + tl.load(y_ptr + i, mask=mask))"
    launch = add(256, source=READS.replace(" == 7", f" == {total}"))
    base, _, after = launch.regions[2]
    launch.regions[2] = base, after, after
    with resident(launch, tmp_path) as opened:
        measured = opened.measured
        measured.also_input.clear()
        measured.untouched.clear()
        measured.add(2, ~bitmap.empty(measured.sizes[2]))
        assert judge(opened.engine, measured).answer is Answer.NO and not measured.also_input


def test_textures_may_name_others() -> None:
    with Reproducer.open(Path(golden.__file__).parent / "v1.7") as reproducer:
        assert "may be handles of others" in doubts.of_missing(reproducer.manifest)
    with Reproducer.open(Path(golden.__file__).parent / "v1.6") as reproducer:
        assert not doubts.of_missing(reproducer.manifest)


@pytest.mark.parametrize("source", [None, ADD])
def test_memory_that_was_left_out_may_be_missing(tmp_path: Path, source: str | None) -> None:
    launch = of_other_result()
    launch.unreached_bytes = 64
    path = launch.seal(tmp_path)
    file = None if source is None else candidate(tmp_path, source)
    result = verify(path, VerifyOptions(candidate=file))
    assert result.answer is Answer.UNDECIDED, result.verdict
    assert "64 B of the application's memory are left out" in result.verdict.summary


def test_another_result_with_all_of_the_memory_fails(tmp_path: Path) -> None:
    result = verify(of_other_result().seal(tmp_path))
    assert result.answer is Answer.NO and "1 of 256 elements differ" in result.verdict.summary


def test_a_wrong_candidate_fails_beside_memory_that_was_left_out(tmp_path: Path) -> None:
    launch = add(256)
    launch.unreached_bytes = 64
    file = candidate(tmp_path, HEADER + ADD.replace(" + tl.load(y_ptr", " - tl.load(y_ptr"))
    assert verify(launch.seal(tmp_path), VerifyOptions(candidate=file)).answer is Answer.NO
