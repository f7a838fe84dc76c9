"""A witness is run again: what the evaluator does not find is not believed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.concrete import run
from kerncap.sanitizer.diagnose.confirm import Confirmation, confirm
from kerncap.sanitizer.diagnose.finding_sentence import describe_place, memory_at
from kerncap.sanitizer.diagnose.place import place_of
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.symbolic.expr import Variable
from tests.unit.sanitizer.compiled import analysis_of, launch_of


@triton.jit
def rows(x, y, n, start, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    for k in range(start, n, BLOCK):
        offs = k + tl.arange(0, BLOCK)
        value = tl.load(x + row * n + offs, mask=offs < n)
        tl.store(y + row * n + offs, value, mask=offs < n)


@pytest.fixture(scope="module")
def launch() -> Launch:
    signature = {"x": "*fp32", "y": "*fp32", "n": "i32", "start": "i32"}
    return launch_of(rows, (3, 5), signature, {"BLOCK": 64}, x=(5, 200), y=(5, 200), n=200, start=16)


@pytest.fixture(scope="module")
def analysis(launch: Launch) -> Analysis:
    return analysis_of(launch)


def point(analysis: Analysis, pid: tuple[int, int, int], trip: int, lane: int) -> dict[Variable, int]:
    access = analysis.walked.accesses[1]
    assert access.lanes[0] is not None
    return {
        **dict(zip(analysis.walked.programs, pid, strict=True)),
        access.loops[0].counter: trip,
        access.lanes[0]: lane,
    }


def test_a_place_is_what_the_reader_would_compute(analysis: Analysis) -> None:
    access = analysis.walked.accesses[1]
    place = place_of(analysis, access, point(analysis, (2, 4, 0), 1, 3), access.targets[0])
    assert (place.program_id, place.lane, place.iterations) == ((2, 4, 0), (3,), (("k", 80),))
    assert (place.argument, place.element, place.offset_bytes, place.mask) == ("y", 883, 3532, True)
    assert describe_place(place) == "program (2, 4, 0), lane 3, k = 80"
    assert place_of(analysis, access, {}, access.targets[0]).program_id == (0, 0, 0)


def test_what_happens_is_confirmed(analysis: Analysis) -> None:
    access = analysis.walked.accesses[1]
    at = point(analysis, (2, 4, 0), 2, 55)
    assert confirm(analysis, access, access.targets[0], at) == Confirmation(True, "evaluator")


@pytest.mark.parametrize(("trip", "lane"), [(3, 0), (2, 56)])
def test_what_is_masked_or_never_reached_is_not(analysis: Analysis, trip: int, lane: int) -> None:
    access = analysis.walked.accesses[1]
    found = confirm(analysis, access, access.targets[0], point(analysis, (0, 0, 0), trip, lane))
    assert not found.holds


def test_another_address_is_not(analysis: Analysis) -> None:
    access = analysis.walked.accesses[1]
    wrong = replace(access.targets[0], offset_bytes=access.targets[0].offset_bytes + 4)
    found = confirm(analysis, access, wrong, point(analysis, (1, 1, 0), 0, 0))
    assert (found.holds, found.by) == (False, "evaluator")


@pytest.mark.parametrize(("lane", "holds"), [(55, True), (56, False)])
def test_expressions_have_the_say_where_the_evaluator_cannot_run(
    analysis: Analysis, monkeypatch: pytest.MonkeyPatch, lane: int, holds: bool
) -> None:
    def gives_up(*_: Any, **__: Any) -> run.Outcome:
        return run.Outcome(False, "tt.mystery is unknown")

    monkeypatch.setattr(run, "evaluate", gives_up)
    access = analysis.walked.accesses[1]
    found = confirm(analysis, access, access.targets[0], point(analysis, (0, 0, 0), 2, lane))
    assert (found.holds, found.by) == (holds, "expressions")
    assert "tt.mystery is unknown" in found.reason


def test_what_lies_at_an_address(launch: Launch) -> None:
    x, y = launch.storages
    assert memory_at(launch, y.address + 4, 0) == "y"
    assert memory_at(launch, y.address + 4, 1) == "y"  # a storage has its name even so
    assert memory_at(launch, x.address - 1, 1) is None
