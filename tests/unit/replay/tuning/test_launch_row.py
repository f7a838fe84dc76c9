"""Launches in a row as one space: how their parameters are named, and what a name means."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.replay.tuning.constraints import COUNTED
from kerncap.replay.tuning.executor import Executor, Job
from kerncap.replay.tuning.launch_row import LaunchRow
from kerncap.replay.tuning.point import Parameter
from kerncap.replay.tuning.samplers import make
from kerncap.replay.tuning.search import Limits, Search
from kerncap.replay.tuning.space import LaunchSpace, Space, Wishes
from kerncap.replay.tuning.space_file import SpaceFile
from kerncap.replay.tuning.trial import Final, Trial
from tests.unit.replay.build import Launch, add
from tests.unit.replay.tuning.test_space import GRID, grid_source

SCALE = """
@triton.jit
def scale(x_ptr, factor, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * factor)
"""


@contextlib.contextmanager
def row_of(tmp_path: Path, *launches: Launch) -> Iterator[LaunchRow]:
    with contextlib.ExitStack() as stack:
        opened = [
            stack.enter_context(Reproducer.open(launch.seal(tmp_path / str(number))))
            for number, launch in enumerate(launches)
        ]
        yield LaunchRow([LaunchSpace(each) for each in opened], compiled=True)


def adding() -> Launch:
    return dataclasses.replace(add(), mode="jit", grid_source=grid_source(GRID, n=1000))


def scaling() -> Launch:
    import numpy as np

    launch = Launch(SCALE, "scale", mode="jit").tensor("x_ptr", np.zeros(64, np.float32))
    return launch.argument("factor", 2).constexpr("WIDE", True).constexpr("BLOCK", 64)


def values(space: Space) -> dict[str, tuple[Any, ...]]:
    return {p.name: p.values for p in space.parameters}


def test_a_parameter_is_named_by_its_launch_where_another_has_the_name(tmp_path: Path) -> None:
    with row_of(tmp_path, adding(), scaling()) as row:
        space = row.space(Wishes())
    assert {"WIDE", "add.BLOCK", "scale.BLOCK", "add.num_warps", "scale.num_warps"} == values(space).keys()
    assert space.pinned["num_stages"] == "the kernel has no loop to pipeline"
    assert {"num_stages", "num_ctas", "maxnreg"} >= {name for name in space.pinned if "." not in name}


def test_a_kernel_that_is_launched_twice_has_a_number_and_shares_nothing(tmp_path: Path) -> None:
    with row_of(tmp_path, scaling(), adding(), scaling()) as row:
        space = row.space(Wishes())
        assert {"scale[0].BLOCK", "scale[1].BLOCK", "scale[0].WIDE", "add.BLOCK"} <= values(space).keys()
        given = {"scale[0].BLOCK": 32, "scale[1].BLOCK": 128, "add.BLOCK": 512, "scale[1].num_warps": 8}
        assert row.split(given) == {
            "scale[0]": {"BLOCK": 32}, "add": {"BLOCK": 512}, "scale[1]": {"BLOCK": 128, "num_warps": 8}
        }  # fmt: skip


def test_a_name_without_launch_or_number_means_each_that_it_fits(tmp_path: Path) -> None:
    with row_of(tmp_path, scaling(), adding(), scaling()) as row:
        pins = {"num_warps": 4, "scale.WIDE": True, "scale[1].BLOCK": 16}
        space = row.space(Wishes(pins=pins, bounds={"add.BLOCK": (128, 256)}))
    found = values(space)
    assert {name for name, tried in found.items() if tried == (4,)} == {
        "scale[0].num_warps", "add.num_warps", "scale[1].num_warps"
    }  # fmt: skip
    assert found["scale[0].WIDE"] == found["scale[1].WIDE"] == (True,)
    assert found["scale[1].BLOCK"] == (16,) and len(found["scale[0].BLOCK"]) > 1
    assert set(found["add.BLOCK"]) == {128, 256}


def test_a_space_file_keeps_all_that_it_does_not_name(tmp_path: Path) -> None:
    with row_of(tmp_path, scaling(), adding()) as row:
        space = row.space(Wishes(SpaceFile({"add.BLOCK": (128, 256)})))
    assert {name: sorted(tried) for name, tried in values(space).items()} == {"add.BLOCK": [128, 256]}
    assert space.pinned["scale.BLOCK"] == space.pinned["num_warps"] == "the space file does not name it"


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (Wishes(pins={"DEPTH": 1}), "--pin: no launch has a parameter DEPTH; there are .*add.BLOCK"),
        (Wishes(pins={"factor": 1}), "--pin: no launch has a parameter factor"),
        (Wishes(bounds={"scale[2].BLOCK": (1, 64)}), "no launch has a parameter scale.2..BLOCK"),
        (Wishes(pins={"num_warps": 4, "add.num_warps": 8}), "--pin: add.num_warps is given twice"),
        (Wishes(forbids=("BLOCK > 64",)), "BLOCK is not known; there are .*add.BLOCK"),
        (Wishes(forbids=("scale[2].BLOCK > 64",)), "scale is not known"),
        (Wishes(SpaceFile(only_listed=True)), "no @triton.autotune list"),
    ],
)
def test_what_names_nothing_is_refused(tmp_path: Path, wishes: Wishes, said: str) -> None:
    with row_of(tmp_path, scaling(), adding(), scaling()) as row, pytest.raises(UsageError, match=said):
        row.space(wishes)


def test_constraints_are_over_parameters_of_several_launches(tmp_path: Path) -> None:
    forbids = ("scale[0].BLOCK != scale[1].BLOCK", "add.BLOCK > n", "factor - 2")
    with row_of(tmp_path, scaling(), adding(), scaling()) as row:
        with pytest.raises(UsageError, match="factor is not known"):
            row.space(Wishes(forbids=forbids))
        forbids = (*forbids[:2], "scale[1].factor - 2")
        space = row.space(Wishes(pins={"num_warps": 4, "WIDE": True}, forbids=forbids))
    legal = space.legal()
    assert legal.points and all(p["scale[0].BLOCK"] == p["scale[1].BLOCK"] for p in legal.points)
    # Of add's 64 to 1024 elements n = 1000 leaves four, of scale's 16 to 256 all five remain.
    assert {p["add.BLOCK"] for p in legal.points} == {64, 128, 256, 512} and len(legal.points) == 4 * 5


class _Instant:
    """Each configuration takes a millisecond."""

    capacity = 1

    def __init__(self) -> None:
        self.tried: list[Job] = []

    def facts(self) -> dict[str, Any]:
        return {"original_ms": {"a": 1.0}}

    def submit(self, job: Job) -> None:
        self.tried.append(job)

    def wait(self) -> list[Trial]:
        return [Trial(self.tried[-1].point, "a", "timed", ms=1.0, runs=1)]

    def finals(self, *_: object) -> list[Final]:
        return []


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_the_trials_end_the_search_of_any_space(sampler: str) -> None:
    parameters = [Parameter(f"k[{n}].BLOCK", "argument", (64, 16, 32, 128), 64) for n in range(200)]
    space = Space(parameters, [], [], {}, [], scopes=[{}])
    legal = space.legal()
    assert (legal.points, legal.size, legal.exact) == (None, COUNTED, False)
    assert legal.counted == "at least 1,000,000,000,000,000,000 combinations"
    executor = _Instant()
    proposes = make(sampler, space, legal, 20)
    found = Search(space, proposes, cast(Executor, executor), ["a"], Limits(20)).run()
    changed = [sum(value != 64 for value in job.point.values()) for job in executor.tried]
    assert len(changed) == 20 and found.ended == "20 trials"
    assert changed.count(1) == 10 and max(changed) > 1


def test_a_space_that_is_sampled_was_not_tried_whole(tmp_path: Path) -> None:
    with row_of(tmp_path, *[scaling() for _ in range(9)]) as row:
        equal = tuple(f"scale[{n}].BLOCK != scale[0].BLOCK or scale[{n}].WIDE" for n in range(9))
        space = row.space(Wishes(pins={"num_warps": 4}, forbids=equal))
    proposes = make("random", space, space.legal(), 500)
    found = Search(space, proposes, cast(Executor, _Instant()), ["a"], Limits(500)).run()
    assert found.ended.startswith("no other configuration was found at random"), found.ended
