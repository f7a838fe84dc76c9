"""What the stages of a verify come to: a no, a yes, or neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from kerncap.answer import Answer
from kerncap.api.verify import overall_verdict
from kerncap.api.verify.verify_result import STAGES, Case, StageResult, VerifyOptions, parse_stages
from kerncap.replay.outcome import Outcome
from kerncap.replay.verdict_words import Verdict, fail, nothing_written

YES, NO, UNDECIDED = Answer.YES, Answer.NO, Answer.UNDECIDED
SMOKE = StageResult("smoke", shown=["it ends"])


def stage(name: str, result: Any) -> StageResult:
    if result == "skipped":
        return StageResult.skipped(name, "not here")
    found = StageResult(name)
    if result == "undecided":
        return found.undecided("nobody knows")
    return found.failed("wrong") if result == "fail" else found


def overall(asked: str, verdict: Verdict | None, **results: Any) -> tuple[str, Verdict]:
    options = VerifyOptions(stages=parse_stages(asked))
    nothing = cast(Any, None)
    case = Case(nothing, nothing, "original", options, Path(), judged_by="the oracle", verdict=verdict)
    return overall_verdict.overall(case, [SMOKE, *(stage(name, result) for name, result in results.items())])


EXACT = Verdict(YES, "12 bytes identical", exact=True)


@pytest.mark.parametrize(
    ("asked", "verdict", "results", "answer"),
    [
        ("oracle", EXACT, {"oracle": "pass"}, YES),
        ("smoke", None, {}, YES),
        ("numerics", None, {"numerics": "pass"}, YES),
        # What was named has to be decided; of all, what can be run here.
        ("numerics", None, {"numerics": "skipped"}, UNDECIDED),
        ("oracle,numerics", EXACT, {"oracle": "pass", "numerics": "skipped"}, UNDECIDED),
        ("all", EXACT, {"oracle": "pass", "numerics": "skipped", "shapes": "skipped"}, YES),
        ("all", None, {"determinism": "skipped", "numerics": "skipped"}, UNDECIDED),
        # What ran and decides nothing leaves it open, whoever asked for it.
        ("all", EXACT, {"oracle": "pass", "determinism": "undecided"}, UNDECIDED),
        ("oracle", nothing_written(), {"oracle": "undecided"}, UNDECIDED),
        # A no is one, whatever else is open.
        ("all", EXACT, {"oracle": "pass", "determinism": "undecided", "memory": "fail"}, NO),
        ("oracle,memory", nothing_written(), {"oracle": "undecided", "memory": "fail"}, NO),
        ("all", fail("wrong"), {"oracle": "fail", "numerics": "undecided"}, NO),
    ],
)  # fmt: skip
def test_the_answer(asked: str, verdict: Verdict | None, results: dict[str, Any], answer: Answer) -> None:
    _, found = overall(asked, verdict, **results)
    assert found.answer is answer
    assert bool(found.reasons) == (answer is not YES)


def test_an_open_stage_is_named_with_its_reason() -> None:
    _, found = overall("oracle,numerics", EXACT, oracle="pass", numerics="skipped")
    assert found.line == "Result: UNDECIDED (numerics: not here)"
    _, found = overall("numerics", None, numerics="skipped")
    assert found.line == "Result: UNDECIDED (nothing was judged; numerics: not here)"


def test_all_of_the_stages_by_name_are_all() -> None:
    assert parse_stages(",".join(STAGES)) == parse_stages("all") == STAGES


def test_a_stage_that_showed_nothing_is_no_pass() -> None:
    assert StageResult("shapes").judged().result == "undecided"
    assert StageResult("shapes", not_shown=["other sizes"]).judged().reasons == ["other sizes"]
    assert StageResult("shapes", shown=["other values"]).judged().result == "pass"
    assert StageResult("oracle", shown=["within tolerance"], not_shown=["equality"]).judged().result == "pass"
    assert StageResult("shapes", shown=["other values"], reasons=["wrong"]).judged().result == "fail"


def test_a_launch_of_a_stage_that_took_too_long_leaves_it_open() -> None:
    late = StageResult("numerics").ended(Outcome("timeout", "the kernel did not end within 1 s"))
    assert late.result == "undecided" and "--timeout" in late.reasons[0]
    assert StageResult("numerics").ended(Outcome("fault", "gone")).result == "fail"
    assert StageResult("numerics").failed("wrong").undecided("late").result == "fail"
