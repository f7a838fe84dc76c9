"""Yes, no, undecided: what each is on the command line, and what several of them come to."""

from __future__ import annotations

from collections.abc import Callable

import click
import pytest
from click.testing import CliRunner

from kerncap.answer import Answer, of_all
from kerncap.cli.strict import strict_option
from kerncap.errors import ReplayError, UsageError
from kerncap.exit_status import exit_status
from kerncap.replay.outcome import Outcome
from kerncap.replay.verdict_words import badly_ended, fail, nothing_written, undecided
from kerncap.result_line import result_line

YES, NO, UNDECIDED = Answer.YES, Answer.NO, Answer.UNDECIDED


def test_exit_statuses() -> None:
    assert [exit_status(answer) for answer in (YES, NO, UNDECIDED)] == [0, 1, 5]
    assert [exit_status(answer, strict=True) for answer in (YES, NO, UNDECIDED)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ([YES], YES), ([YES, YES], YES), ([YES, UNDECIDED], UNDECIDED), ([UNDECIDED, NO, YES], NO),
        ([NO], NO), ([], UNDECIDED),
    ],
)  # fmt: skip
def test_a_no_decides_then_an_undecided(given: list[Answer], answer: Answer) -> None:
    assert of_all(given) is answer


def test_the_last_line() -> None:
    assert result_line(UNDECIDED, "why; what would tell") == "Result: UNDECIDED (why; what would tell)"
    assert undecided("why").line == "Result: UNDECIDED (why)" and fail("why").line == "Result: FAIL (why)"


def test_a_launch_that_writes_nothing_is_undecided() -> None:
    verdict = nothing_written()
    assert verdict.answer is UNDECIDED and "nothing to compare" in verdict.summary and not verdict.passed


@pytest.mark.parametrize(
    ("status", "answer"), [("error", NO), ("fault", NO), ("timeout", UNDECIDED)]
)  # fmt: skip
def test_only_our_own_limit_leaves_a_launch_undecided(status: str, answer: Answer) -> None:
    verdict = badly_ended(Outcome(status, "it said this", detail="a traceback"))
    assert verdict.answer is answer and "it said this" in verdict.summary
    assert ("--timeout" in verdict.summary) == (answer is UNDECIDED)
    assert verdict.notes == ["a traceback"]


def _raises(error: Exception) -> int:
    raise error


@pytest.mark.parametrize(
    ("command", "status", "strictly"),
    [
        (lambda: 0, 0, 0), (lambda: 1, 1, 1), (lambda: 5, 5, 1), (lambda: 4, 4, 4),
        (lambda: _raises(ReplayError("the worker was lost")), 5, 1),
        (lambda: _raises(UsageError("no such file")), 2, 2),
    ],
)  # fmt: skip
def test_strict_takes_undecided_for_a_no(command: Callable[[], int], status: int, strictly: int) -> None:
    @click.command()
    @strict_option
    def judged() -> int:
        return command()

    for arguments, expected in (([], status), (["--strict"], strictly)):
        done = CliRunner().invoke(judged, arguments, standalone_mode=False)
        found = done.return_value if done.exception is None else getattr(done.exception, "exit_status", None)
        assert found == expected
