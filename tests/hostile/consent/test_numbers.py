"""Numbers that nobody can mean: one line of usage and status 2, before anything is opened or started."""

from __future__ import annotations

import pytest

from kerncap.cli import main

HUGE = "1000000000000000"
FLOATS = (HUGE, "9" * 400, "nan", "inf", "-1", "x")
INTEGERS = (HUGE, str(2**63), "9" * 400, "-1", "nan", "0x10", "")
SIZES = (HUGE, "9" * 400, "9" * 400 + "GiB", "0", "0.0001", "-1", "nan", "inf", "1e3000")
OPTIONS = {
    "replay nowhere -n": INTEGERS,
    "replay nowhere --until-fail": INTEGERS,
    "replay nowhere --timeout": FLOATS,
    "replay nowhere --rtol": FLOATS[1:],
    "verify nowhere --atol": FLOATS[1:],
    "tune nowhere --trials": INTEGERS,
    "tune nowhere --patience": INTEGERS,
    "tune nowhere --workers": INTEGERS,
    "tune nowhere --time": FLOATS,
    "tune nowhere --timeout": FLOATS,
    "minimize nowhere --time": FLOATS,
    "diff nowhere nowhere --lines": INTEGERS,
    "diff nowhere nowhere --max-read": FLOATS,
    "sanitize nowhere --solver-timeout": FLOATS,
    "unpack nowhere --max-size": SIZES,
    "mcp --max-bytes": INTEGERS,
}
BEFORE_A_COMMAND = {
    "list -n": INTEGERS,
    "capture --last": INTEGERS,
    "capture --fault-timeout": FLOATS,
    "capture --self-check-timeout": FLOATS,
    "capture --max-size": SIZES,
}
CASES = [(words, value, "") for words, values in OPTIONS.items() for value in values]
CASES += [(words, value, "-- false") for words, values in BEFORE_A_COMMAND.items() for value in values]


@pytest.mark.parametrize(
    ("words", "value", "rest"), CASES, ids=lambda each: each.replace(" ", "-")[:40] if each else ""
)
def test_a_number_that_nobody_means(
    words: str, value: str, rest: str, capfd: pytest.CaptureFixture[str]
) -> None:
    status = main([*words.split(), value, *rest.split()])
    told = capfd.readouterr().err
    assert status == 2, told
    assert "Traceback" not in told and "internal error" not in told
    assert "no such reproducer" not in told and "nowhere: " not in told.replace("'nowhere'", "")
