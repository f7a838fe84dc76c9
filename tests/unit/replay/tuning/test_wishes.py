"""What `kerncap tune` is asked for, and pages that show what it found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kerncap.answer import Answer
from kerncap.api.tune import TuneOptions, tune, wishes_of
from kerncap.api.tune.tune_result import ShapeInfo, TuneResult
from kerncap.errors import UsageError
from kerncap.replay.tuning import choice as choosing
from kerncap.replay.tuning import point as points
from kerncap.replay.tuning.constraints import Legal
from kerncap.replay.tuning.point import Parameter
from kerncap.replay.tuning.search import Found
from kerncap.replay.tuning.trial import Final, Trial
from kerncap.report import tune_html, tune_text
from tests.unit.replay.build import add


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (TuneOptions(bound=("A=9:3",)), "--bound A=9:3"),
        (TuneOptions(bound=("A",)), "--bound A:"),
        (TuneOptions(pin=("A",)), "--pin A"),
        (TuneOptions(pin=("A-B=3",)), "--pin A-B=3"),
        (TuneOptions(pin=("A=3", "A=4")), "--pin A=4: A is pinned already"),
        (TuneOptions(bound=("A=3:4", "A=5:6")), "--bound A=5:6: A has other bounds already"),
        (TuneOptions(timeout_s=float("inf")), "--timeout inf"),
        (TuneOptions(rtol=float("nan")), "--rtol nan"),
        (TuneOptions(time_s=float("nan")), "--time nan"),
        (TuneOptions(trials=0), "--trials 0"),
        (TuneOptions(sampler="best"), "--sampler best"),
        (TuneOptions(space="/nowhere.toml"), "--space /nowhere.toml"),
    ],
)
def test_what_can_t_be_read_is_named(options: TuneOptions, reason: str) -> None:
    with pytest.raises(UsageError, match=re.escape(reason)):
        wishes_of(options)


def test_values_of_pins() -> None:
    pins = wishes_of(TuneOptions(pin=("A=4", "B=true", "C=0.5", "D=relu", "E=None"))).pins
    assert pins == {"A": 4, "B": True, "C": 0.5, "D": "relu", "E": None}


def test_nothing_to_tune_says_why(tmp_path: Path) -> None:
    launch = add()  # its grid was given as numbers, and the interpreter has no options
    with pytest.raises(UsageError, match="nothing to tune .*BLOCK: the grid goes with it"):
        tune([launch.seal(tmp_path)], TuneOptions(workers=1))


def test_a_stranger_s_reproducer_needs_trust(tmp_path: Path) -> None:
    launch = add()
    launch.stranger = True
    with pytest.raises(UsageError, match="--trust"):
        tune([launch.seal(tmp_path)])


def result() -> TuneResult:
    found = Found(ended="the whole space was tried", seconds=1.0)
    rows = [
        Trial({"BLOCK": 64}, "d", "timed", ms=2.0),
        Trial({"BLOCK": 128}, "d", "slow", ms=9.0),
        Trial({"BLOCK": 256}, "d", "wrong", "out[3] = <script>alert(1)</script>"),
        Trial({"BLOCK": 512}, "d", "pruned", "too large"),
    ]
    found.trials = {points.key(row.point): {"d": row} for row in rows}
    found.finals = [Final({"BLOCK": 64}, "d", [2.0, 2.1], [4.0, 4.2])]
    return TuneResult(
        kernel="k", facts={"device": "cpu", "engine": "jit", "triton": "3", "torch": "2", "workers": 1},
        shapes=[ShapeInfo("d", "/x/k-1", {}, 4.0, {"BLOCK": 128})],
        parameters=[Parameter("BLOCK", "argument", (64, 128, 256, 512), 128)], pinned={"H": "a flag"},
        legal=Legal((), 4, True), sampler="grid", found=found,
        choice=choosing.choose(found, {"d": {}}, ()),
    )  # fmt: skip


def test_the_text_says_what_was_found_and_what_was_not() -> None:
    lines = tune_text.render(result()).splitlines()
    assert lines[-1] == "Result: PASS (1 configuration within 3 % of the best, 2.00x as fast as captured)"
    text = "\n".join(lines)
    assert "1 timed, 1 slow, 1 wrong, 1 pruned" in text and "*2 ms" in text
    assert "wrong: BLOCK=256" in text and "pruned 1: too large" in text and "H (a flag)" in text


def test_the_answer_is_no_only_if_every_configuration_was_run() -> None:
    found = result()
    assert found.answer is Answer.YES
    rows = [Trial({"BLOCK": size}, "d", "wrong") for size in (64, 128, 256, 512)]
    found.choice = choosing.choose(Found(), {"d": {}}, ())
    found.found.trials = {points.key(row.point): {"d": row} for row in rows}
    assert found.answer is Answer.NO
    for few in (rows[:3], [*rows[:3], Trial({"BLOCK": 512}, "d", "pruned", "too large")]):
        found.found.trials = {points.key(row.point): {"d": row} for row in few}
        assert found.answer is Answer.UNDECIDED
        assert tune_text.render(found).splitlines()[-1].startswith("Result: UNDECIDED (none of ")


def test_the_page_has_no_script_and_no_network() -> None:
    page = tune_html.render(result()).decode()
    assert "<script" not in page and "://" not in page and "&lt;script&gt;" in page
    assert "default-src &#39;none&#39;" in page and "script-src" not in page
    assert page.count("<circle") == 3 and "prefers-color-scheme: dark" in page
