"""Which launches are captured, and why the others are not."""

from __future__ import annotations

from typing import Any

import pytest

from kerncap.format.records import RecordKind

from .conftest import ADD, Outcome, Process, Run

TWO = (
    ADD
    + """
@triton.jit
def twice(x, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2)
x = torch.ones(32)
for step in range(6):
    add[(1,)](x, x, x, 8, BLOCK=[8, 16, 8, 32, 16, 8][step], num_warps=4)
    twice[(1,)](x, step, BLOCK=8)
"""
)


def captured(outcome: Outcome) -> list[tuple[str, int]]:
    return [(launch["kernel"]["name"], launch["ordinal"]) for launch in outcome.only.launches]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [("add", 0), ("twice", 0)]),
        ({"kernel": "twice"}, [("twice", 0)]),
        pytest.param({"kernel": "a|t"}, [("add", 0)], marks=pytest.mark.long),
        pytest.param({"kernel": r"^__main__\.twice$"}, [("twice", 0)], marks=pytest.mark.long),
        ({"kernel": "twice", "launch": [2, 4]}, [("twice", 2), ("twice", 3)]),
        pytest.param({"launch": [4, 5]}, [("add", 4), ("twice", 4)], marks=pytest.mark.long),
        ({"kernel": "add", "per_config": True}, [("add", 0), ("add", 1), ("add", 3)]),
        pytest.param({"kernel": "nothing"}, [], marks=pytest.mark.long),
        pytest.param({"limit_kernels": 1}, [("add", 0)], marks=pytest.mark.long),
        ({"limit_bytes": 100}, []),
    ],
)
def test_selection(run: Run, changes: dict[str, Any], expected: list[tuple[str, int]]) -> None:
    outcome = run(TWO, **changes)
    assert captured(outcome) == expected
    for name in ("add", "twice"):
        counts = outcome.only.counts(f"__main__.{name}")
        assert counts["launches"] == 6
        assert counts["captured"] == sum(kernel == name for kernel, _ in expected)
        assert counts["captured"] + sum(counts["filtered"].values()) == 6


def where_of(run: Run, expression: list[Any]) -> Process:
    return run(TWO, kernel="add|twice", where=expression, launch=[0, 100]).only


def test_where_counts_ordinals_after_itself(run: Run) -> None:
    size = ["item", ["attr", ["name", "x"], "shape"], 0]
    expression = ["and", ["==", ["name", "BLOCK"], ["const", 8]], ["==", size, ["const", 32]]]
    outcome = run(TWO, kernel="add", where=expression, launch=[1, 2])
    assert captured(outcome) == [("add", 1)]
    assert len(outcome.only.launches) == 1
    assert outcome.only.counts("__main__.add")["filtered"]["where"] == 3


@pytest.mark.long
def test_where_on_a_name_that_only_some_kernels_have(run: Run) -> None:
    process = where_of(run, ["==", ["name", "num_warps"], ["const", 4]])
    assert {launch["kernel"]["name"] for launch in process.launches} == {"add"}
    assert process.counts("__main__.twice")["filtered"] == {"where: no name num_warps": 6}


@pytest.mark.long
def test_where_on_grid_dtype_and_device(run: Run) -> None:
    expression = ["and", ["==", ["item", ["name", "grid"], 0], ["const", 1]],
                  ["and", ["in", ["attr", ["name", "x"], "dtype"], ["const", ["float32", "float16"]]],
                   ["==", ["name", "device"], ["const", "cpu"]]]]  # fmt: skip
    assert len(where_of(run, expression).launches) == 12


@pytest.mark.long
def test_where_never_computes_with_tensors(run: Run) -> None:
    process = where_of(run, [">", ["name", "x"], ["const", 0]])
    assert not process.launches
    assert process.counts("__main__.add")["filtered"] == {"where: a Tensor can't be compared": 6}


def test_stop_ends_the_target_after_the_capture(run: Run) -> None:
    outcome = run(TWO + "print('not reached')", kernel="add", stop=True)
    assert outcome.status == -15 and outcome.stdout == ""
    assert captured(outcome) == [("add", 0)] and outcome.only.completes


def test_list_only_times_and_captures_nothing(run: Run) -> None:
    process = run(TWO, list_only=True).only
    counts = process.counts("__main__.add")
    assert (counts["launches"], counts["matched"], counts["captured"], counts["configs"]) == (6, 6, 0, 3)
    assert counts["time_ns"] > 0 and not process.launches


def test_last_keeps_the_newest(run: Run) -> None:
    process = run(TWO, kernel="twice", last=2).only
    dropped = {record["launch"] for record in process.all(RecordKind.DROPPED)}
    kept = [launch["ordinal"] for launch in process.launches if launch["launch"] not in dropped]
    assert kept == [4, 5]
    assert {path.name for path in process.folder.glob("*.p*")} == {"4.pre", "4.post", "5.pre", "5.post"}
    assert process.counts("__main__.twice")["captured"] == 2
