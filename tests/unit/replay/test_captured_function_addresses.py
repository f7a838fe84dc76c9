"""Addresses of functions in variables, parameters and memory: others in each process."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.export import export
from kerncap.api.replay import ReplayOptions, ReplayResult, replay
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.replay import captured_function_addresses
from tests.unit.capture.built_images import cubin

from .native import Native

HERE, THERE = 0x7F10_0000_1000, 0x7E00_0000_5000  # as `through` has it, in the application


def through(
    captured: tuple[int, int] = (THERE, THERE + 256), called: int = 1, functions: tuple[str, ...] = ("a", "b")
) -> Native:
    """A launch that calls one of the two functions in its module's table."""
    launch = Native("through").array(
        np.zeros(2, np.uint64), np.array([7 + called, THERE + 256 * called], np.uint64)
    )
    launch.region(np.array(captured, np.uint64), kind="global", name="table")
    launch.parameter(struct.pack("<Q", THERE + 256 * called), THERE + 256 * called)
    image = cubin(
        kernels={"through": launch.layout},
        variables=[("table", ".nv.global.init")],
        content=struct.pack("<2Q", HERE, HERE + 512),
        functions=functions,
    )
    launch.code = {"cubin": image}
    return launch


def run(path: Path) -> ReplayResult:
    return replay(path, ReplayOptions(timed_runs=0, timeout_s=10.0))


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("called", [0, 1])
def test_the_words_become_what_they_are_here(tmp_path: Path, called: int) -> None:
    """In the parameters and in the table; what the launch writes of them is compared as it was there."""
    result = run(through(called=called).seal(tmp_path))
    assert result.answer is Answer.YES, result.verdict.reasons
    assert "addresses of 2 functions are others here" in result.notes


def test_an_export_names_the_variable(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"table \(byte 0\) has the address of a function"):
        export(through().seal(tmp_path), "cmake", tmp_path / "project")


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("is_taken", [False, True])
def test_a_word_that_was_no_relocation_stays(tmp_path: Path, is_taken: bool) -> None:
    """A fault then says nothing of the kernel if its code takes addresses of functions."""
    launch = through(functions=())
    if is_taken:
        del launch.regions[1]
        launch.code = {"cubin": cubin(kernels={"through": launch.layout}, functions=["first"])}
    result = run(launch.seal(tmp_path))
    assert result.answer is (Answer.UNDECIDED if is_taken else Answer.NO)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in result.verdict.summary
    assert ("has addresses of functions" in result.verdict.summary) == is_taken


@pytest.mark.usefixtures("stand_in")
def test_words_that_contradict_each_other_decide_nothing(tmp_path: Path) -> None:
    """The program changed its table: both words hold one function there, and two here."""
    result = run(through(captured=(THERE + 256, THERE + 256)).seal(tmp_path))
    assert result.answer is Answer.UNDECIDED, result.verdict.reasons


def test_words_are_found_in_captured_variables_only(tmp_path: Path) -> None:
    with Reproducer.open(through().seal(tmp_path)) as reproducer:
        assert captured_function_addresses.of_reproducer(reproducer) == [
            {"region": 1, "offset": 0, "captured": THERE},
            {"region": 1, "offset": 8, "captured": THERE + 256},
        ]
    other = through()
    other.code = {"cubin": (other.code or {})["cubin"][:-70]}
    with Reproducer.open(other.seal(tmp_path)) as reproducer:
        assert captured_function_addresses.of_reproducer(reproducer) == []
