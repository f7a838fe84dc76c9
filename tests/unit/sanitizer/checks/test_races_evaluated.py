"""Races among the accesses of an evaluated launch: addresses that only this launch's data tell."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import triton
import triton.language as tl

from kerncap.sanitizer.checks.races.evaluated import race_observer
from kerncap.sanitizer.findings import Finding, Proved, Unproven, Verdict, Violated
from tests.unit.sanitizer.checks.race_runs import evaluated, kind_of, launched, line, zeros


@triton.jit
def scatter_constant(index, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + tl.load(index + i), 7)


@triton.jit
def scatter_data(index, x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + tl.load(index + i), tl.load(x + i))


@triton.jit
def pages(table, x, o, STEPS: tl.constexpr, B: tl.constexpr):
    """Each program writes the pages that its row of the table names."""
    pid = tl.program_id(0)
    i = tl.arange(0, B)
    for step in range(STEPS):
        page = tl.load(table + pid * STEPS + step)
        tl.store(o + page * B + i, tl.load(x + pid * B + i) + step)


@triton.jit
def gather_in_place(index, x, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    value = tl.load(x + tl.load(index + i))
    tl.store(x + i, value + 1)


@triton.jit
def words_over_bytes(index, o, B: tl.constexpr):
    """Four bytes at any byte of the tensor."""
    pid = tl.program_id(0)
    place = o + tl.load(index + pid)
    tl.store(place.to(tl.pointer_type(tl.int32)), pid)


F, W = "*fp32", "*i32"


def _ints(*values: int) -> npt.NDArray[np.int32]:
    return np.array(values, dtype=np.int32)


def _finding(verdict: Verdict) -> Finding:
    assert isinstance(verdict, Violated), verdict
    return verdict.findings[0]


def _scattered(kernel: Any, index: npt.NDArray[Any], data: npt.NDArray[Any] | None = None) -> Verdict:
    signature = {"index": W, "x": F, "o": F} if data is not None else {"index": W, "o": W}
    contents = [index, data, zeros(64)] if data is not None else [index, zeros(64, "int32")]
    shapes = {"index": (64,), "x": (64,), "o": (64,)}
    values = {name: shapes[name] for name in signature}
    launch = launched(kernel, (4,), signature, contents, **values, B=16)
    return evaluated(launch)[line(kernel, "tl.store")]


TWICE = np.arange(64, dtype=np.int32)
TWICE[50] = 3


def test_a_permutation_is_proved_for_these_contents() -> None:
    assert _scattered(scatter_constant, np.arange(64, dtype=np.int32)[::-1]) == Proved("evaluated", True)


def test_a_constant_at_one_place_is_a_note() -> None:
    finding = _finding(_scattered(scatter_constant, TWICE))
    assert finding.note and finding.contents
    assert finding.place.element == 3 and finding.other is not None
    assert {finding.place.program_id, finding.other.place.program_id} == {(0, 0, 0), (3, 0, 0)}
    assert {finding.place.lane, finding.other.place.lane} == {(3,), (2,)}


@pytest.mark.parametrize(
    ("data", "outcome", "says"),
    [
        (np.arange(64, dtype=np.float32), "violated", "their values differ"),
        (np.full(64, 2.5, dtype=np.float32), "note", "they store the same value"),
        # Memory that nobody has filled in yet says nothing about what will be stored.
        (np.zeros(64, dtype=np.float32), "violated", "their values differ for some contents of memory"),
    ],
)
def test_data_at_one_place(data: npt.NDArray[Any], outcome: str, says: str) -> None:
    verdict = _scattered(scatter_data, TWICE, data)
    assert kind_of(verdict) == outcome
    assert says in _finding(verdict).message


@triton.jit
def stored_twice(index, x, z, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + tl.load(index + i), tl.load(x + i))
    tl.store(o + tl.load(index + i) * 1, tl.load(z + i))


@pytest.mark.parametrize(
    ("x", "z"),
    [
        ((3, 3, 3, 9), (3, 3, 3, 3)),
        ((3, 3, 3, 3), (3, 3, 9, 3)),
        ((3, 3, 3, 3), (5, 5, 5, 5)),
        ((3, 9, 9, 9), (3, 3, 3, 3)),
    ],
)
def test_the_witness_names_two_programs_that_differ(x: tuple[int, ...], z: tuple[int, ...]) -> None:
    """Not any two of those that meet."""
    contents = (_ints(0, 0, 0, 0), _ints(*x), _ints(*z), zeros(4, "int32"))
    run = launched(
        stored_twice, (4,), {"index": W, "x": W, "z": W, "o": W}, contents,
        index=(4,), x=(4,), z=(4,), o=(4,), B=1,
    )  # fmt: skip
    differing = [
        finding
        for verdict in evaluated(run).values()
        if isinstance(verdict, Violated)
        for finding in verdict.findings
        if "their values differ" in finding.message
    ]
    stored = {line(stored_twice, "load(x"): x, line(stored_twice, "load(z"): z}
    assert differing
    for one in differing:
        assert one.other is not None
        here, there = (side.place.program_id[0] for side in (one, one.other))
        at, beside = (side.location.frames[0].line for side in (one, one.other))
        assert here != there and stored[at][here] != stored[beside][there], one.message


@triton.jit
def bytes_and_words(index, x, o, B: tl.constexpr):
    """A word at a place that the table names; then a byte beside all of them, which cuts the cells."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store((o + tl.load(index + i)).to(tl.pointer_type(tl.int32)), tl.load(x + i))
    tl.store(o + 256 + tl.program_id(0), 1)


@pytest.mark.parametrize(
    ("other", "outcome", "says"),
    [(0x01020304, "note", "they store the same value"), (0x01020305, "violated", "their values differ")],
)
def test_words_are_compared_byte_by_byte(other: int, outcome: str, says: str) -> None:
    data = np.arange(64, dtype=np.int32) + 1
    data[[3, 50]] = 0x01020304, other
    launch = launched(
        bytes_and_words, (4,), {"index": W, "x": W, "o": "*i8"}, [TWICE * 4, data, zeros(512, "int8")],
        index=(64,), x=(64,), o=(512,), B=16,
    )  # fmt: skip
    verdict = evaluated(launch)[line(bytes_and_words, "tl.pointer_type")]
    assert kind_of(verdict) == outcome
    assert says in _finding(verdict).message


def test_the_witness_has_its_iterations() -> None:
    table = _ints(0, 1, 2, 3, 4, 1, 6, 7)
    launch = launched(
        pages, (2,), {"table": W, "x": F, "o": F}, [table, np.arange(64, dtype=np.float32), zeros(256)],
        table=(8,), x=(64,), o=(256,), STEPS=4, B=32,
    )  # fmt: skip
    finding = _finding(evaluated(launch)[line(pages, "tl.store")])
    assert finding.other is not None
    assert finding.place.iterations == finding.other.place.iterations == (("step", 1),)
    assert finding.argument == "o" and finding.place.element is not None and finding.place.element // 32 == 1


def test_a_read_of_what_another_program_writes() -> None:
    own, foreign = np.arange(64), np.arange(64)
    foreign[20] = 5
    for index, expected in ((own, "proved"), (foreign, "violated")):
        launch = launched(
            gather_in_place,
            (4,),
            {"index": W, "x": F},
            [index.astype(np.int32), zeros(64)],
            index=(64,),
            x=(64,),
            B=16,
        )
        verdicts = evaluated(launch)
        assert kind_of(verdicts[line(gather_in_place, "value = tl.load")]) == expected
        assert kind_of(verdicts[line(gather_in_place, "tl.store")]) == expected


@pytest.mark.parametrize(("places", "expected"), [((0, 4, 9, 17), "proved"), ((0, 4, 9, 12), "violated")])
def test_parts_of_elements_meet(places: tuple[int, ...], expected: str) -> None:
    launch = launched(
        words_over_bytes,
        (4,),
        {"index": W, "o": "*i8"},
        [_ints(*places), zeros(64, "int8")],
        index=(4,),
        o=(64,),
        B=1,
    )
    assert kind_of(evaluated(launch)[line(words_over_bytes, "tl.store")]) == expected


def test_too_many_bytes_are_unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(race_observer, "MAX_CELLS", 8)
    verdict = _scattered(scatter_constant, TWICE)
    assert isinstance(verdict, Unproven) and "too large" in verdict.reason
