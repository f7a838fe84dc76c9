"""Launches that only print: captured kernel and candidate are compared by their text in replays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.replay import ReplayOptions, ReplayResult, replay
from kerncap.api.verify import VerifyOptions, verify
from kerncap.format import schema

from . import build
from .native import Native


def run(folder: Path, captured: int | None = None, candidate: int | None = 0) -> ReplayResult:
    """The answer on one edition of the kernel `printing` for a launch of another one."""
    launch = Native("printing").array(np.arange(8, dtype=np.float32)).integer(8)
    launch.code = {"ptx": launch.image(edition=captured)}
    options: dict[str, Any] = {}
    if candidate is not None:
        options["candidate"] = folder / "candidate.ptx"
        options["candidate"].write_bytes(launch.image(edition=candidate))
    return replay(launch.seal(folder), ReplayOptions(timed_runs=0, timeout_s=10.0, **options))


@pytest.mark.usefixtures("stand_in")
def test_a_candidate_that_prints_the_same_passes(tmp_path: Path) -> None:
    """In any order, on the captured values and on others."""
    verdict = run(tmp_path).verdict
    assert verdict.answer is Answer.YES, verdict.reasons
    assert "(8 lines, on other values too, on arg1 = 7 in place of 8 too)" in verdict.summary
    assert verdict.notes == ["what the application itself printed is not known"]


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    "edition, said",
    [
        (1, "prints 'element 7 is 7' 0 times, the captured kernel 1 times"),
        (2, "on other values: prints 'element "),
        (6, "on arg1 = 7 in place of 8: prints 'element 7 is 7' 1 times, the captured kernel 0 times"),
        pytest.param(
            3, "prints 'element 0 is 0' 0 times, the captured kernel 1 times", marks=pytest.mark.long
        ),
        pytest.param(
            5, "prints 'and more of it' 4,000 times, the captured kernel 0 times", marks=pytest.mark.long
        ),
    ],
)
def test_a_candidate_that_prints_something_else_fails(tmp_path: Path, edition: int, said: str) -> None:
    verdict = run(tmp_path, candidate=edition).verdict
    assert verdict.answer is Answer.NO, verdict.summary
    assert verdict.summary.startswith(said)


def application(folder: Path, printed: str, edition: int = 0, **options: Any) -> ReplayResult:
    """The answer on one edition of the kernel, which printed that in the application."""
    launch = Native("printing").array(np.arange(8, dtype=np.float32)).integer(8)
    launch.code = {"ptx": launch.image(edition=edition)}
    launch.oracle = schema.Oracle(kind="trusted", printed=printed)
    return replay(launch.seal(folder), ReplayOptions(timed_runs=0, timeout_s=10.0, **options))


PRINTED = "".join(f"element {i} is {i}\n" for i in reversed(range(8)))


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    "printed, edition, answer, said",
    [
        (PRINTED, 0, Answer.YES, "it prints what the application printed (8 lines); nothing is written"),
        (PRINTED, 1, Answer.NO, "prints 'element 7 is 7' 0 times, in the application 1 times"),
        (PRINTED + "x\n", 0, Answer.NO, "prints 'x' 0 times, in the application 1 times"),
        (
            PRINTED,
            4,
            Answer.UNDECIDED,
            "nothing to compare: nothing is written, and what the captured kernel",
        ),
    ],
)
def test_text_that_the_application_did_not_print(
    tmp_path: Path, printed: str, edition: int, answer: Answer, said: str
) -> None:
    verdict = application(tmp_path, printed, edition).verdict
    assert (verdict.answer, verdict.summary[: len(said)]) == (answer, said)


@pytest.mark.usefixtures("stand_in")
def test_a_candidate_is_judged_by_what_the_application_printed(tmp_path: Path) -> None:
    candidate = tmp_path / "candidate.ptx"
    same = Native("printing").array(np.arange(8, dtype=np.float32)).integer(8)
    candidate.write_bytes(same.image(edition=0))
    right = application(tmp_path, PRINTED, candidate=candidate)
    assert right.verdict.answer is Answer.YES and not right.verdict.notes
    assert right.verdict.summary.startswith(
        "it prints what the application printed (8 lines, on other values"
    )


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    "captured, candidate, said",
    [
        (None, None, "the launch writes nothing that was captured"),
        pytest.param(3, 3, "the launch writes nothing that was captured", marks=pytest.mark.long),
        (4, 4, "what the captured kernel prints is not the same in two replays"),
        (5, 5, "more than 4,096 bytes are printed, of which a device may lose some"),
    ],
)
def test_what_text_does_not_decide_is_undecided(
    tmp_path: Path, captured: int | None, candidate: int | None, said: str
) -> None:
    verdict = run(tmp_path, captured, candidate).verdict
    assert verdict.answer is Answer.UNDECIDED, verdict.summary
    assert said in verdict.summary


def beside_memory(folder: Path, captured: int | None, candidate: int) -> ReplayResult:
    """The answer on one edition of the kernel `telling`, which writes memory and prints."""
    values = np.arange(8, dtype=np.float32)
    launch = Native("telling").array(values).array(0 * values, 2 * values).integer(8)
    printing = launch.image(edition=captured).replace(b"  ret;", b"  call.uni (r), vprintf, (a, b);\n  ret;")
    launch.code = {"ptx": printing}
    file = folder / "candidate.ptx"
    file.write_bytes(launch.image(edition=candidate))
    return replay(launch.seal(folder), ReplayOptions(timed_runs=0, timeout_s=10.0, candidate=file))


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize(
    "captured, candidate, answer, said",
    [
        (None, 0, Answer.YES, "it prints the same as the captured kernel in a replay (1 line)"),
        (None, 1, Answer.NO, "prints 'last is 14' 0 times, the captured kernel 1 times"),
        (2, 2, Answer.YES, "what it prints is not compared: what the captured kernel prints is not the same"),
        pytest.param(
            3,
            1,
            Answer.NO,
            "prints 'last is 15' 1 times, the captured kernel 0 times",
            marks=pytest.mark.long,
        ),
    ],
)
def test_text_beside_what_is_written(
    tmp_path: Path, captured: int | None, candidate: int, answer: Answer, said: str
) -> None:
    verdict = beside_memory(tmp_path, captured, candidate).verdict
    assert verdict.answer is answer, verdict.summary
    assert any(line.startswith(said) for line in (verdict.summary, *verdict.notes)), verdict


PRINTS = (
    build.HEADER
    + """@triton.jit
def show(x_ptr):
    tl.device_print("x", tl.load(x_ptr + tl.program_id(0)))
"""
)


@pytest.mark.long
def test_text_of_the_interpreter_is_compared_too(tmp_path: Path) -> None:
    launch = build.Launch(PRINTS, "show", grid=(2, 1, 1))
    path = launch.tensor("x_ptr", np.arange(2, dtype=np.float32)).seal(tmp_path)
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(PRINTS)
    wrong.write_text(PRINTS.replace('"x"', '"y"'))
    assert verify(path, VerifyOptions(candidate=right)).answer is Answer.YES
    result = verify(path, VerifyOptions(candidate=wrong))
    assert result.answer is Answer.NO and "times, the captured kernel" in result.verdict.summary
