"""Numbers that nobody can mean: one line of usage and status 2, before anything is opened or started."""

from __future__ import annotations

import click
import pytest

from kerncap.cli import group, main

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
    "replay nowhere --atol": FLOATS[1:],
    "replay nowhere --compare captured --max-ratio": FLOATS,
    "replay nowhere --max-size": SIZES,
    "verify nowhere --timeout": FLOATS,
    "blame nowhere --timeout": FLOATS,
    "verify nowhere --rtol": FLOATS[1:],
    "verify nowhere --max-size": SIZES,
    "arm nowhere --last": INTEGERS,
    "arm nowhere --wait": FLOATS,
    "arm nowhere --fault-timeout": FLOATS,
    "tune nowhere --rtol": FLOATS[1:],
    "tune nowhere --atol": FLOATS[1:],
    "minimize nowhere --timeout": FLOATS,
    "minimize nowhere --rtol": FLOATS[1:],
    "minimize nowhere --atol": FLOATS[1:],
    "minimize nowhere --max-size": SIZES,
    "export nowhere --as script --max-size": SIZES,
    "gc nowhere --keep-size": SIZES,
    "sanitize nowhere --max-memory": SIZES,
    "diff nowhere nowhere --max-ratio": FLOATS,
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
    "from-recording nowhere --max-size": SIZES,
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


def takes_a_number(option: click.Parameter) -> bool:
    ranged = isinstance(option.type, click.IntRange | click.FloatRange)
    return ranged or option.type in (click.INT, click.FLOAT) or option.name in ("max_size", "max_memory")


def test_every_option_that_takes_a_number_is_among_them() -> None:
    """Of each command, so that a new one has to be listed here."""
    context = click.Context(group)
    known = {(words.split()[0], words.split()[-1]) for words in (*OPTIONS, *BEFORE_A_COMMAND)}
    missing = [
        (name, option.opts)
        for name in group.list_commands(context)
        for option in group.get_command(context, name).params
        if takes_a_number(option) and not known & {(name, each) for each in option.opts}
    ]
    assert missing == []


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
