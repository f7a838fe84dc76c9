"""Candidates that pretend: each fails, with a reason that names what it does; honest rewrites pass."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.api.replay import opened
from kerncap.api.verify import VerifyOptions, VerifyResult, parse_stages
from kerncap.api.verifying.result import STAGES, Case
from kerncap.api.verifying.run import judged
from kerncap.errors import UsageError
from kerncap.replay import trust
from kerncap.replay.engine import CANDIDATE
from tests.integration.conftest import CommandLine

TARGETS = Path(__file__).parent / "targets"

# candidate -> what the first reason says
DISHONEST = {
    "noop": "bytes of out_ptr were never written (first at out_ptr[0, 0])",
    "stale": "out_ptr is the result for the captured values again: cached or stored, not computed",
    "nan_everywhere": "400 elements are NaN on one side only",
    "other_shape": "bytes of out_ptr were never written (first at out_ptr[0, 64])",
    "by_address": "out_ptr is the result for the captured values again: cached or stored, not computed",
    "repeated_input": "it works on contents that are new to it, and not on the same ones again",
    "clock": "it replaces time.perf_counter_ns, a clock that launches are timed by",
    "outside": "bytes outside ",
    "wrong_tail": "differs only in out_ptr[0:4, 96:100]",
    "first_tile": "bytes of out_ptr were never written (first at out_ptr[1, 0])",
    "tolerance": "are off in the same direction, by 0.9 of the tolerance on average",
    "exit": "the kernel ended its process with status 0",
    "reads_oracle": "out_ptr is the result for the captured values again: cached or stored, not computed",
    "own_launch": "it is no function of Triton's but of a InterpretedFunction that its module defines",
}


class Resident:
    """One launch in one engine, in which all candidates are judged."""

    def __init__(self, case: Case) -> None:
        self._case = case

    def judge(self, kind: str, name: str, stages: tuple[str, ...] = ("oracle",)) -> VerifyResult:
        trust.agree(self._case.reproducer.manifest_sha256)  # in this test, too
        # What a candidate keeps beside itself is its own affair, and no file of the repository.
        file = shutil.copy(TARGETS / kind / f"{name}.py", self._case.folder)
        self._case.options = dataclasses.replace(self._case.options, candidate=Path(file))
        self._case.verdict, self._case.judged_by = None, ""
        return judged(self._case, stages)


@pytest.fixture(scope="module")
def rows(kerncap_of_module: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    [path] = kerncap_of_module.capture("-k", "rms_rows", target=TARGETS / "rms_rows.py")
    with opened(path, VerifyOptions(trust=True)) as (reproducer, engine):
        folder = tmp_path_factory.mktemp("candidates")
        yield Resident(Case(reproducer, engine, CANDIDATE, VerifyOptions(), folder))


def test_every_dishonest_candidate_is_known() -> None:
    assert {path.stem for path in (TARGETS / "dishonest").glob("*.py")} == set(DISHONEST)


@pytest.mark.parametrize("name", sorted(DISHONEST))
def test_a_dishonest_candidate_fails_by_name(rows: Resident, name: str) -> None:
    result = rows.judge("dishonest", name)
    assert not result.passed
    assert DISHONEST[name] in result.verdict.reasons[0], result.verdict.reasons


@pytest.mark.long
def test_another_order_passes_every_stage(rows: Resident) -> None:
    result = rows.judge("honest", "other_order", STAGES[1:])
    assert result.passed, result.verdict.reasons
    assert {stage.name: stage.result for stage in result.stages} == dict.fromkeys(STAGES, "pass")
    shown = {stage.name: stage.shown for stage in result.stages}
    assert shown["determinism"] == [
        "the captured kernel: 2 runs agree bit by bit", "the candidate: 2 runs agree bit by bit"
    ]  # fmt: skip
    assert shown["numerics"][0] == "against the same source in float64"
    assert shown["numerics"][2].startswith("out_ptr, the candidate: ulps max ")
    assert shown["shapes"] == [
        "as the captured kernel on other values of x_ptr, w_ptr",
        "as the captured kernel on rows = 3",
        "as the captured kernel on rows = 1",
        "as the captured kernel on columns = 99",
        "as the captured kernel on columns = 51",
        "as the captured kernel on columns = 1",
        "as the captured kernel on padded rows (x_stride = 132, out_stride = 104) at other addresses",
        "as the captured kernel on tensors that begin one element later, at other addresses",
    ]
    assert "bytes of poison around every tensor, the candidate writes none" in shown["memory"][0]
    assert result.as_dict()["stages"][0]["shown"] == ["loads, launches, and ends in time with no fault"]


def test_a_size_that_was_written_into_the_source_fails_elsewhere(rows: Resident) -> None:
    result = rows.judge("elsewhere", "one_size", ("oracle", "shapes"))
    assert [(stage.name, stage.result) for stage in result.stages] == [
        ("smoke", "pass"), ("oracle", "pass"), ("shapes", "fail")
    ]  # fmt: skip
    assert "shapes: on columns = 99: differs from the captured kernel" in result.verdict.reasons[0]


def test_a_less_exact_kernel_fails_by_its_ulps(rows: Resident) -> None:
    result = rows.judge("dishonest", "tolerance", ("numerics",))
    assert [stage.result for stage in result.stages] == ["pass", "fail"]
    assert "within tolerance, and less exact throughout" in result.verdict.reasons[0]


def test_stages_that_do_not_exist_are_named() -> None:
    assert parse_stages("memory,oracle") == ("smoke", "oracle", "memory")
    assert parse_stages("all") == STAGES
    with pytest.raises(UsageError, match="--stages oracle,speed: speed is no stage; there are smoke, oracle"):
        parse_stages("oracle,speed")


@pytest.mark.long
def test_another_split_passes(rows: Resident) -> None:
    result = rows.judge("honest", "other_split")
    assert result.passed, result.verdict.reasons
    assert "a second run on the same contents does the work again" in result.stages[1].shown
    assert "as the captured kernel on other values of x_ptr, w_ptr" in result.stages[1].shown
