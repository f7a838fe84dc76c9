from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np
import pytest

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks import promises
from kerncap.sanitizer.findings import Finding, Proved, Unproven, Verdict, Violated
from kerncap.sanitizer.symbolic.expr import (
    TRUE,
    Buffer,
    Expr,
    Variable,
    const,
    minimum,
    read,
    rem_trunc,
    unknown,
    var,
)
from kerncap.sanitizer.ttir.ir import (
    FloatType,
    Frame,
    IntType,
    Location,
    Operation,
    PointerType,
    TensorType,
    Value,
)
from kerncap.sanitizer.walk.access import Promise
from tests.unit.sanitizer.checks.hand_made import FIRST_ADDRESS, Scene, lane, loop

ADDED = Location((Frame("kernel.py", 5, 1),))


def promise_of(
    kind: Literal["divisibility", "contiguity", "constancy", "assume"],
    value: Expr,
    amounts: tuple[int, ...],
    lanes: tuple[Variable | None, ...] = (),
    contiguity: tuple[int, ...] | None = None,
    path: Expr = TRUE,
    pointee: Any = None,
    **more: Any,
) -> Promise:
    shape = tuple(1 if one is None else one.points for one in lanes)
    element = IntType(32) if pointee is None else PointerType(pointee)
    operation = Operation("arith.addi", results=(Value("%offs", TensorType(shape, element)),), location=ADDED)
    return Promise(
        operation=more.pop("operation", operation), kind=kind, location=ADDED, path=path,
        loops=more.pop("loops", ()), lanes=lanes, shape=shape, value=value, amounts=amounts,
        contiguity=contiguity or (1,) * max(1, len(shape)), subject="offs",
    )  # fmt: skip


def check(analysis: Analysis, kind: Any, value: Expr, amounts: tuple[int, ...], *lanes: Variable) -> Verdict:
    return promises.check(analysis, promise_of(kind, value, amounts, lanes))


def finding_of(verdict: object) -> Finding:
    assert isinstance(verdict, Violated)
    (finding,) = verdict.findings
    return finding


LANE = lane(128)


@pytest.fixture
def scene() -> Scene:
    return Scene(grid=(16, 1, 1))


def test_the_first_element_of_a_contiguous_group_is_what_divides(scene: Scene) -> None:
    # tl.multiple_of(pid * 128 + tl.arange(0, 128), 128), without max_contiguous
    offs = scene.pid * 128 + var(LANE)
    for contiguity in ((1,), (128,), (4,)):
        verdict = promises.check(
            scene.analysis(), promise_of("divisibility", offs, (128,), (LANE,), contiguity)
        )
        assert isinstance(verdict, Proved), contiguity


def test_a_group_that_begins_elsewhere_is_broken(scene: Scene) -> None:
    offs = scene.pid * 100 + var(LANE)
    verdict = promises.check(scene.analysis(), promise_of("divisibility", offs, (64,), (LANE,)))
    finding = finding_of(verdict)
    assert (finding.check, finding.access, finding.location) == ("promise", "none", ADDED)
    assert (finding.place.program_id, finding.place.lane) == ((1, 0, 0), (0,))
    assert "tl.multiple_of(offs, 64): offs[0] is 100, which is not a multiple of 64" in finding.message


def test_without_contiguity_every_element_must_divide(scene: Scene) -> None:
    strided = var(LANE) * 16
    analysis = scene.analysis()
    assert isinstance(check(analysis, "divisibility", strided, (16,), LANE), Proved)
    finding = finding_of(check(analysis, "divisibility", strided, (32,), LANE))
    assert finding.place.lane[0] % 2 == 1


def test_real_groups_that_are_shorter_than_the_axis_count(scene: Scene) -> None:
    # groups of 16: 0..15, 32..47, …; every first element divides by 32, not by 64
    offs = var(LANE) // 16 * 32 + var(LANE) % 16
    analysis = scene.analysis()
    assert isinstance(check(analysis, "divisibility", offs, (32,), LANE), Proved)
    assert isinstance(check(analysis, "divisibility", offs, (64,), LANE), Violated)
    assert isinstance(check(analysis, "contiguity", offs, (16,), LANE), Proved)
    finding = finding_of(check(analysis, "contiguity", offs, (32,), LANE))
    assert finding.place.lane[0] % 32 == 15


def test_offsets_that_wrap_around_at_the_end(scene: Scene) -> None:
    # (pid * 128 + arange) % M, the promise of many matmuls: true only where 128 divides M
    offs = scene.pid * 128 + var(LANE)
    analysis = scene.analysis()
    whole, ragged = (rem_trunc(offs, const(size)) for size in (2048, 2000))
    for kind in ("contiguity", "divisibility"):
        assert isinstance(promises.check(analysis, promise_of(kind, whole, (128,), (LANE,), (128,))), Proved)
    finding = finding_of(promises.check(analysis, promise_of("contiguity", ragged, (128,), (LANE,), (128,))))
    assert finding.place.program_id == (15, 0, 0)
    assert finding.place.lane == (79,)
    assert "offs[79] is 1999, and the next one along axis 0 is 0" in finding.message


def test_a_promise_of_more_than_the_axis_is_one_of_the_axis(scene: Scene) -> None:
    verdict = promises.check(scene.analysis(), promise_of("contiguity", var(LANE), (1024,), (LANE,)))
    assert isinstance(verdict, Proved)


def test_every_axis_for_itself(scene: Scene) -> None:
    rows, columns = lane(8, 0), lane(32, 1)
    tile = var(rows) * 64 + var(columns)
    analysis = scene.analysis()
    assert isinstance(check(analysis, "contiguity", tile, (1, 32), rows, columns), Proved)
    assert isinstance(check(analysis, "contiguity", tile, (8, 1), rows, columns), Violated)
    assert isinstance(check(analysis, "divisibility", tile, (1, 64), rows, columns), Proved)
    # along axis 0 nothing is contiguous: there every element of a column counts
    assert isinstance(check(analysis, "divisibility", tile, (64, 1), rows, columns), Violated)


def test_constancy(scene: Scene) -> None:
    steps = var(LANE) // 8
    analysis = scene.analysis()
    assert isinstance(check(analysis, "constancy", steps, (8,), LANE), Proved)
    finding = finding_of(check(analysis, "constancy", steps, (16,), LANE))
    assert finding.place.lane[0] % 16 == 7


def test_a_clamped_tail_is_not_contiguous(scene: Scene) -> None:
    # the last lane's variable is bounded: min(lane, 127) is the lane, min(lane, 126) is not
    analysis = scene.analysis()
    for most, expected in ((127, Proved), (126, Violated)):
        value = minimum(var(LANE), const(most))
        assert isinstance(check(analysis, "contiguity", value, (128,), LANE), expected)


def test_pointers_count_in_elements_and_divide_in_bytes(scene: Scene) -> None:
    pointers = FIRST_ADDRESS + 4 * (scene.pid * 4 + var(LANE))
    analysis = scene.analysis()
    of_floats = FloatType("f32", 32)
    ask = lambda kind, amount: promises.check(  # noqa: E731
        analysis, promise_of(kind, pointers, (amount,), (LANE,), pointee=of_floats)
    )
    assert isinstance(ask("contiguity", 128), Proved)
    assert isinstance(ask("divisibility", 16), Proved)
    assert "0x7f" in finding_of(ask("divisibility", 32)).message


def for_target(scene: Scene, target: str) -> Analysis:
    analysis = scene.analysis()
    return dataclasses.replace(analysis, launch=dataclasses.replace(analysis.launch, target=target))


def test_a_promise_of_more_than_the_widest_access_is_a_note() -> None:
    """Rows of 240 bytes that are promised to be multiples of 64 load no other way than as multiples of 16."""
    of_floats = FloatType("f32", 32)
    for target, row, noted in (
        ("cuda:90", 240, True), ("hip:gfx942", 240, True), ("cuda:100", 240, False), ("", 240, False),
        ("cuda:90", 200, False), ("cuda:100", 224, True),
    ):  # fmt: skip
        scene = Scene(grid=(16, 1, 1))
        analysis = for_target(scene, target)
        pointers = FIRST_ADDRESS + row * scene.pid
        found = finding_of(
            promises.check(analysis, promise_of("divisibility", pointers, (64,), pointee=of_floats))
        )
        assert (found.note == "portability") is noted, (target, row)
    # Of numbers a promise may decide more than the width of an access.
    scene = Scene(grid=(16, 1, 1))
    analysis = for_target(scene, "cuda:90")
    assert (
        finding_of(promises.check(analysis, promise_of("divisibility", 16 * scene.pid, (64,)))).note is None
    )


def test_a_false_promise_is_undecided_if_nothing_tells_whether_it_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(grid=(16, 1, 1))
    pointers = FIRST_ADDRESS + 240 * scene.pid
    promise = promise_of("divisibility", pointers, (64,), pointee=FloatType("f32", 32))
    divides = promises._divides

    def asked(analysis: Analysis, promise: Any, axis: int, amount: int, lane: Any) -> Verdict:
        return Unproven("a reason") if amount == 16 else divides(analysis, promise, axis, amount, lane)

    monkeypatch.setattr(promises, "_divides", asked)
    verdict = promises.check(for_target(scene, "cuda:90"), promise)
    assert isinstance(verdict, Unproven)
    assert verdict.reason.endswith("one of 16, the widest access, is not shown: a reason")
    assert isinstance(promises.check(for_target(scene, "cuda:100"), promise), Violated)


def test_unreached_promises_bind_nobody(scene: Scene) -> None:
    value = scene.pid + 1
    analysis = scene.analysis()
    assert isinstance(promises.check(analysis, promise_of("divisibility", value, (2,))), Violated)
    never = promise_of("divisibility", value, (32,), path=scene.pid > 15)
    assert isinstance(promises.check(analysis, never), Proved)


def test_iterations_of_loops_are_told(scene: Scene) -> None:
    around = loop(10, "k", step=3)
    value = var(around.counter) * 3
    finding = finding_of(
        promises.check(scene.analysis(), promise_of("divisibility", value, (9,), loops=(around,)))
    )
    ((name, at),) = finding.place.iterations
    assert name == "k" and at % 3 == 0 and at % 9 != 0


def test_an_assumption_must_hold_for_every_program(scene: Scene) -> None:
    analysis = scene.analysis()
    assert isinstance(promises.check(analysis, promise_of("assume", scene.pid < 16, ())), Proved)
    finding = finding_of(promises.check(analysis, promise_of("assume", scene.pid >= 3, ())))
    assert finding.place.program_id[0] < 3
    assert "tl.assume(offs)" in finding.message


def test_specialised_arguments() -> None:
    scene = Scene()
    scene.tensor("x", (8,), storage_offset=4)
    analysis = scene.analysis()
    for number, expected in (
        (FIRST_ADDRESS, Proved),
        (FIRST_ADDRESS + 4, Violated),
        (48, Proved),
        (50, Violated),
    ):
        promise = promise_of("divisibility", const(number), (16,), operation=None)
        verdict = promises.check(analysis, promise)
        assert isinstance(verdict, expected)
        if isinstance(verdict, Violated):
            assert finding_of(verdict).argument == "offs"


def test_unknown_values_prove_nothing(scene: Scene) -> None:
    value = unknown("inline assembly", "asm", (scene.pid,))
    verdict = promises.check(scene.analysis(), promise_of("divisibility", value, (16,)))
    assert isinstance(verdict, Unproven)
    assert "inline assembly" in verdict.reason


def test_values_from_memory_hold_for_these_contents() -> None:
    scene = Scene(grid=(4, 1, 1))
    scene.tensor("starts", (4,), dtype="int32", contents=np.array([0, 64, 128, 320], np.int32))
    start = read(Buffer(0, 32), scene.pid * 4)
    offs = start + var(LANE)
    analysis = scene.analysis()
    verdict = check(analysis, "divisibility", offs, (64,), LANE)
    assert isinstance(verdict, Proved) and verdict.contents
    finding = finding_of(check(analysis, "divisibility", offs, (128,), LANE))
    assert finding.contents and finding.place.program_id[0] in (1, 3)
