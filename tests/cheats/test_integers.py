"""What only values tell that the launch did not have: such a candidate is undecided, an honest one passes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kerncap.answer import Answer
from kerncap.api.verify import VerifyOptions, VerifyResult
from tests.integration.conftest import CommandLine
from tests.parameters import first_of

from .resident import HERE, Resident, resident

SOURCE = (HERE / "graded_rows.py").read_text().partition("\n\ndef main")[0]
KNOWN = (
    "tl.where(place == 0, 4, tl.where(place == 1, 0, tl.where(place == 4, 2, tl.where(place == 5, 5, 7))))"
)
BOUNDARIES = "on boundary values of x_ptr, mark_ptr, limit_ptr, kept_ptr: differs from the captured kernel: "
CHEATS = {
    "at least, for more than": ("mark > limit", "mark >= limit", BOUNDARIES),
    "a case for one number": ("mark > limit", "(mark > limit) & (mark != 333)", BOUNDARIES),
    "a case for zero": ("x * gain", "tl.where(x == 0.0, 1.0, x * gain)", BOUNDARIES),
    "an integer that is passed, as a constant": (
        "x * level",
        "x * 3",
        "on level = 2 in place of 3: differs from the captured kernel: ",
    ),
    "indices as constants": (
        "tl.load(row_ptr + place)",
        KNOWN,
        "on another order of row_ptr: out_ptr is the result for the captured values again: ",
    ),
}
HONEST = {
    "a difference, and the interpreter": ("mark > limit", "mark - limit > 0"),
    "the other way round": ("mark > limit", "limit < mark"),
    "flags as factors": ("tl.where(kept != 0, x, 0.0)", "x * kept.to(tl.float32)"),
    "flags that are one": ("kept != 0", "kept == 1"),
}

INTERPRETED = "import os\nos.environ['TRITON_INTERPRET'] = '1'\n"  # and still there is TTIR to read


@pytest.fixture(scope="module")
def rows(kerncap_of_module: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    folder = tmp_path_factory.mktemp("candidates")
    with resident(kerncap_of_module, folder, VerifyOptions(trust=True), "graded_rows") as opened:
        yield opened


def judged(rows: Resident, old: str, new: str, ahead: str = "") -> VerifyResult:
    assert old in SOURCE
    file = rows.case.folder / "candidate.py"
    file.write_text(ahead + SOURCE.replace(old, new))
    return rows.judge_file(file)


@first_of("name", CHEATS)
def test_a_cheat_is_undecided(rows: Resident, name: str) -> None:
    old, new, said = CHEATS[name]
    verdict = judged(rows, old, new).verdict
    assert verdict.answer is Answer.UNDECIDED, verdict
    assert verdict.reasons[0].startswith(said), verdict.reasons
    assert verdict.line.endswith("; a capture that has such values would decide it)"), verdict.line


def test_a_number_as_a_constant_fails(rows: Resident) -> None:
    verdict = judged(rows, "x * gain", "x * 2.0").verdict
    assert verdict.answer is Answer.NO
    assert verdict.line.startswith(
        "Result: FAIL (on gain = 1.5 in place of 2: differs from the captured kernel: "
    )


@first_of("name", HONEST)
def test_an_honest_rewrite_passes(rows: Resident, name: str) -> None:
    asks = "interpreter" in name and rows.case.engine.choice.memory == "host"
    result = judged(rows, *HONEST[name], ahead=INTERPRETED if asks else "")
    oracle = result.stages[1]
    assert result.passed, result.verdict
    assert "as the captured kernel on boundary values of x_ptr, mark_ptr, limit_ptr, kept_ptr" in oracle.shown
    assert "as the captured kernel on another order of row_ptr" in oracle.shown
    assert "as the captured kernel on level = 2 in place of 3" in oracle.shown
    assert {
        "integers beyond the range of mark_ptr, limit_ptr, kept_ptr",
        "other integers than those that row_ptr had: they may be places in memory, or lengths",
    } <= set(oracle.not_shown)
