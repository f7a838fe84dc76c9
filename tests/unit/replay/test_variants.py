"""Variants beside the captured kernel: configurations, what they were compiled to, times in turns."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.errors import ReplayError, UsageError
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.outcome import CandidateError, Config
from kerncap.replay.verdict import judge

from .build import ADD, add
from .resident import Resident, candidate, resident

_DIRTY = [2]


@pytest.fixture(scope="module")
def adder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    with resident(add(), tmp_path_factory.mktemp("adder")) as found:
        yield found


def test_another_block_and_grid_are_judged_by_the_same_oracle(adder: Resident) -> None:
    engine = adder.engine
    wide = engine.load_configured("wide", Config({"BLOCK": 1024}, grid=(1, 1, 1)))
    assert wide.grid == (1, 1, 1) and wide.compile_ms > 0
    assert judge(engine, adder.measured, "wide").passed
    # Half of the programs: what they would have written stays poison.
    engine.load_configured("short", Config({}, grid=(2, 1, 1)))
    assert "never written" in judge(engine, adder.measured, "short").summary
    engine.unload("short")
    assert not engine.is_loaded("short") and engine.is_loaded("wide")
    assert engine.compiled(ORIGINAL).grid == (4, 1, 1)
    with pytest.raises(ReplayError, match="short: not loaded"):
        engine.compiled("short")


def test_a_configuration_that_the_kernel_does_not_take(adder: Resident) -> None:
    with pytest.raises(CandidateError, match="the launch passes TILE, which it does not take"):
        adder.engine.load_configured("other", Config({"TILE": 8}))
    with pytest.raises(CandidateError, match="x_ptr is a tensor"):
        adder.engine.load_configured("other", Config({"x_ptr": 8}))
    with pytest.raises(CandidateError, match="the grid"):
        adder.engine.load_configured("other", Config(grid=(1, -1, 1)))
    with pytest.raises(UsageError, match="original"):
        adder.engine.load_configured(ORIGINAL, Config())
    assert not adder.engine.is_loaded("other")


def test_the_source_of_a_configuration_may_be_another(adder: Resident) -> None:
    source = ADD.replace("BLOCK: tl.constexpr)", "BLOCK: tl.constexpr, UP: tl.constexpr = 0)").replace(
        "mask=mask), mask=mask)", "mask=mask) + UP, mask=mask)"
    )
    path = candidate(adder.folder, source, "with_default.py")
    adder.engine.load_configured("up", Config({"UP": 1}), path)
    assert not judge(adder.engine, adder.measured, "up").passed
    adder.engine.load_configured("up", Config({"UP": 0}), path)
    assert judge(adder.engine, adder.measured, "up").passed


def test_times_come_in_turns_and_in_pairs(adder: Resident) -> None:
    engine = adder.engine
    engine.load_configured("again", Config())
    times = engine.interleaved([ORIGINAL, "again"], 3, _DIRTY)
    assert [len(found) for found in times.values()] == [3, 3] and list(times) == [ORIGINAL, "again"]
    assert all(t > 0 for found in times.values() for t in found)
    with pytest.raises(ReplayError, match="nobody: not loaded"):
        engine.interleaved([ORIGINAL, "nobody"], 3, _DIRTY)
    with pytest.raises(UsageError, match="different variants"):
        engine.interleaved([ORIGINAL, ORIGINAL], 3, _DIRTY)


@pytest.mark.long
def test_every_timed_launch_starts_from_the_captured_state(tmp_path: Path) -> None:
    """A kernel that adds to its output would drift: the state after the last is that after one."""
    source = ADD.replace("tl.load(x_ptr + i, mask=mask) +", "tl.load(x_ptr + i, mask=mask) - 7 + "
                         "tl.load(out_ptr + i, mask=mask) +")  # fmt: skip
    with resident(add(source=source), tmp_path) as found:
        found.engine.load_configured("again", Config())
        for ranges in (None, [(2, 0, 4000)]):
            found.engine.interleaved([ORIGINAL, "again"], 2, _DIRTY, ranges)
            (stats,) = found.engine.compare([(2, 1e-5, 1e-5)], "post")
            assert not stats.outside


def test_an_edit_within_the_same_second_and_of_the_same_length_is_seen(adder: Resident) -> None:
    path = candidate(adder.folder, ADD, "quick.py")
    adder.engine.load_candidate(path)
    assert judge(adder.engine, adder.measured, CANDIDATE).passed
    before = path.stat()
    path.write_text(path.read_text().replace("mask=mask) + tl", "mask=mask) - tl"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # the clock of a coarse file system
    adder.engine.load_candidate(path)
    assert not judge(adder.engine, adder.measured, CANDIDATE).passed
    assert not (path.parent / "__pycache__").exists()


def test_errors_know_their_line(adder: Resident) -> None:
    path = candidate(adder.folder, ADD.replace("mask = i < n", "mask = (i < n"), "open.py")
    with pytest.raises(CandidateError) as caught:
        adder.engine.load_candidate(path)
    assert (caught.value.file, caught.value.line) == (str(path), 9) and caught.value.column
    path = candidate(adder.folder, "raise KeyError(3)\n" + ADD, "raises.py")
    with pytest.raises(CandidateError) as caught:
        adder.engine.load_candidate(path)
    assert caught.value.line == 5
    path = candidate(adder.folder, ADD.replace("mask = i < n", "mask = i < m"), "unknown.py")
    adder.engine.load_candidate(path)
    outcome = adder.engine.launch(CANDIDATE)
    assert outcome.status == "error" and outcome.line == 9, outcome


def test_a_candidate_of_a_later_stage_needs_a_device(adder: Resident) -> None:
    path = adder.folder / "kernel.ttgir"
    path.write_text("module {}")
    with pytest.raises(UsageError, match=r"\.ttgir is run on a CUDA device"):
        adder.engine.load_candidate(path)


@pytest.mark.long
def test_loading_again_leaves_nothing_behind(adder: Resident) -> None:
    folder = adder.engine.connection.job.folder
    path = candidate(adder.folder, ADD, "same.py")
    adder.engine.load_candidate(path)
    before = sorted(folder.rglob("*"))
    for _ in range(3):
        adder.engine.load_candidate(path)
    assert sorted(folder.rglob("*")) == before
