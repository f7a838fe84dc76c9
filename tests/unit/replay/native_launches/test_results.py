"""Results of native launches and of candidates for them: right, wrong, next to their output, none."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.verify import VerifyOptions, verify
from kerncap.format import Reproducer, schema
from kerncap.replay.engine import Engine
from kerncap.replay.worker.protocol import Backend

from .. import native
from ..native import BASE, SPACING, Native, edited, run


def test_the_way_over_memory_is_the_one_meant(tmp_path: Path, stand_in: str) -> None:
    with Reproducer.open(native.add().seal(tmp_path)) as reproducer, Engine(reproducer) as engine:
        assert engine.connection.call(Backend.open).bulk == stand_in


def test_values_on_which_comparisons_turn_reach_the_device(tmp_path: Path) -> None:
    with Reproducer.open(native.add().seal(tmp_path)) as reproducer, Engine(reproducer) as engine:
        engine.restore()
        assert engine.connection.call(Backend.boundaries, [0, 1], [], []) == [0, 1]
        assert {0, 1} <= set(engine.differing("pre"))
        engine.restore()
        assert engine.connection.call(Backend.boundaries, [0], [], []) == [0]
        assert engine.differing("pre") == [0]


def test_the_captured_launch_gives_the_captured_result(tmp_path: Path) -> None:
    result = run(native.add().seal(tmp_path))
    assert result.verdict.line == "Result: PASS (12,000 bytes identical, 4,000 written bytes poisoned)"
    assert (result.engine, result.triton, result.driver) == ("binary", "", "13.0")
    assert result.relocated == []


def test_parameters_of_unknown_layout_go_as_one_buffer(tmp_path: Path) -> None:
    assert run(native.add(with_layout=False).seal(tmp_path)).verdict.exact


def test_a_wrong_oracle_fails_with_the_element(tmp_path: Path) -> None:
    launch = native.add()
    region, before, after = launch.regions[2]
    wrong = bytearray(after)
    wrong[40:44] = struct.pack("<f", 5.0)
    launch.regions[2] = region, before, bytes(wrong)
    result = run(launch.seal(tmp_path))
    assert not result.passed
    assert "arg2[10]: expected 5.0" in " ".join(result.verdict.reasons).replace(
        "first at arg2[10]: ", "arg2[10]: "
    )


def test_a_candidate_that_does_nothing_fails(tmp_path: Path) -> None:
    launch = native.add()
    result = run(launch.seal(tmp_path), candidate=edited(launch, tmp_path, edition=1))
    assert not result.passed
    assert "4,000 bytes of arg2 were never written (first at arg2[0])" in result.verdict.reasons


def test_a_candidate_that_does_nothing_fails_without_types(tmp_path: Path) -> None:
    launch = native.add(with_views=False)
    result = run(launch.seal(tmp_path), candidate=edited(launch, tmp_path, edition=1))
    assert (
        "4,000 bytes of region 2 were never written (first at byte 0 of region 2)" in result.verdict.reasons
    )


def test_a_write_beside_the_region_is_found(tmp_path: Path) -> None:
    launch = native.add()
    result = run(launch.seal(tmp_path), candidate=edited(launch, tmp_path, edition=2))
    assert not result.passed
    assert "0 bytes past the end of region 2, which holds arg2" in result.verdict.reasons[0]


def test_a_candidate_may_differ_by_rounding_where_the_type_is_known(tmp_path: Path) -> None:
    launch = native.add()
    result = run(launch.seal(tmp_path), candidate=edited(launch, tmp_path, edition=3))
    assert result.passed and not result.verdict.exact
    assert "within tolerance" in result.verdict.line


def test_a_candidate_may_not_differ_where_no_type_is_known(tmp_path: Path) -> None:
    launch = native.add(with_views=False)
    result = run(launch.seal(tmp_path), candidate=edited(launch, tmp_path, edition=3))
    assert not result.passed
    assert "bytes differ (first at byte" in result.verdict.reasons[0]


def test_an_update_in_place_is_applied_once(tmp_path: Path) -> None:
    assert run(native.scale().seal(tmp_path), timed_runs=50).verdict.exact


def test_a_candidate_that_does_nothing_in_place_fails(tmp_path: Path) -> None:
    launch = native.scale(s=1.0)  # the oracle shows no work: other scalars do
    image = launch.image(kernel="_Z7nothingPfi", sizes=[8, 4, 4])
    candidate = tmp_path / "nothing.ptx"
    candidate.write_bytes(image)
    result = run(launch.seal(tmp_path), candidate=candidate)
    assert not result.passed
    assert run(launch.seal(tmp_path / "again"), candidate=edited(launch, tmp_path)).passed


def test_nothing_written_is_nothing_to_compare(tmp_path: Path) -> None:
    launch = Native("_Z7nothingPfi").array(np.zeros(4, np.float32)).integer(4)
    line = run(launch.seal(tmp_path)).verdict.line
    assert line.startswith("Result: UNDECIDED (nothing to compare: the launch writes nothing")


def strikes(error: str) -> Native:
    """A launch that reads where nothing is, and ended with ``error`` in the application."""
    launch = Native("_Z6strikePKfPfi", oracle=schema.Oracle(kind="fault", error=error))
    launch.array(np.zeros(4, np.float32))
    launch.parameters[0] = struct.pack("<Q", BASE - SPACING)
    return launch.array(np.zeros(4, np.float32)).integer(4)


def test_a_fault_is_reproduced_and_kills_only_the_worker(tmp_path: Path) -> None:
    result = run(strikes("CUDA_ERROR_ILLEGAL_ADDRESS").seal(tmp_path))
    assert result.verdict.line == "Result: PASS (fault reproduced: the kernel: CUDA_ERROR_ILLEGAL_ADDRESS)"


@pytest.mark.parametrize(
    ("error", "answer"), [("CUDA_ERROR_ILLEGAL_ADDRESS", Answer.NO), ("CUDA_ERROR_ASSERT", Answer.UNDECIDED)]
)
def test_memory_that_was_left_out_explains_no_fault_that_the_application_had(
    tmp_path: Path, error: str, answer: Answer
) -> None:
    launch = strikes(error)
    launch.unreached_bytes = 64
    result = verify(launch.seal(tmp_path), VerifyOptions(expect="finite"))
    assert result.answer is answer, result.verdict


def test_an_endless_kernel_is_a_timeout(tmp_path: Path) -> None:
    launch = Native("_Z7foreverPi", oracle=schema.Oracle(kind="timeout"))
    launch.array(np.zeros(1, np.int32))
    result = run(launch.seal(tmp_path), timeout_s=0.5)
    assert result.verdict.line.startswith("Result: PASS (timeout reproduced: the kernel did not end within")


def test_verify_by_a_reference_of_numpy(tmp_path: Path) -> None:
    reference = tmp_path / "reference.py"
    reference.write_text("def reference(args):\n    return {'arg2': args['arg0'] + args['arg1']}\n")
    launch = native.add(oracle=schema.Oracle(kind="suspect", detail="a test"))
    path = launch.seal(tmp_path)
    assert verify(path, VerifyOptions(reference=reference)).passed
    before = reference.stat()
    reference.write_text("def reference(args):\n    return {'arg2': args['arg0'] - args['arg1']}\n")
    os.utime(reference, ns=(before.st_atime_ns, before.st_mtime_ns))  # saved twice within a second
    assert not verify(path, VerifyOptions(reference=reference)).passed


def test_verify_finds_a_nan(tmp_path: Path) -> None:
    x = np.ones(9, np.float32)
    after = x + 1
    after[4] = np.nan
    launch = Native("_Z8make_nanPfi", oracle=schema.Oracle(kind="suspect", condition="nonfinite"))
    path = launch.array(x, after).integer(9).seal(tmp_path)
    result = verify(path, VerifyOptions(expect="finite"))
    assert not result.passed
    assert "arg0[4] = nan" in result.verdict.reasons[0]
