"""The sanitizer's report as people read it, line by line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kerncap.answer import Answer
from kerncap.report.sanitize_answer import counts_of_all
from kerncap.report.sanitize_text import render, sanitized_line
from kerncap.sanitizer.findings import NOT_KNOWN, LaunchReport, Program, Proved, Settled, Unproven, Violated
from kerncap.sanitizer.ttir.ir import Frame, Location
from tests.unit.report.sanitizer_report import LOAD_RACE, NOTE, STORE, at, full, report

COUNTED = "memory operations: 2 proved (1 for these contents), 2 violated, 1 unproven"


def test_every_line() -> None:
    assert (
        render([full()]).splitlines()
        == f"""\
scale[4, 1, 1] from /app/layer.py:80: 3 findings; {COUNTED}
  note: compiled for cuda:90

  error[oob]: {STORE.message}
    --> /app/k.py:7:2
      5 |     offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
      6 |     x = tl.load(x_ptr + offsets, mask=offsets < n)\\x1b[31m
    > 7 |     tl.store(out_ptr + offsets, x * 2.0)
    called from /app/k.py:20
    witness   program (3, 0, 0), lane 232: 4 bytes at out_ptr + 1000 (byte 4,000), 96 bytes past the end
    address   out_ptr + offsets
    mask      offsets < m  (True there)
    tensor    out_ptr: shape (10, 100), strides (100, 1)
    lands in  y_ptr
    try       mask=offsets < n
    holds     for these contents of memory
    launched  /app/layer.py:80 in forward
    launched  train.py:3 in <module>

  error[race]: program (0, 0, 0), lane 6, i = 2 loads out_ptr + 70 (byte 280), and …
    --> /app/k.py:6:2
      4 | def scale(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
      5 |     offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    > 6 |     x = tl.load(x_ptr + offsets, mask=offsets < n)\\x1b[31m
      7 |     tl.store(out_ptr + offsets, x * 2.0)
    witness  program (0, 0, 0), lane 6, i = 2, k = 5: 4 bytes at out_ptr + 70 (byte 280)
    other    store at /app/k.py:7:2, program (1, 0, 0), lane 0, i = 0, k = 0; counted as a separate finding

  note: 1 race stores equal values; --portable lists them
  unproven[oob]: /app/k.py:8:2: contents of i are not available
  unproven[uninit]: /app/k.py:6:2: {NOT_KNOWN}

Result: FAIL (3 findings of 2 causes; 1 launch; {COUNTED})""".splitlines()
    )


ALL_PROVED = report(Settled("oob", "load", at(6), Proved("interval"), 1), notes=())


def test_nothing_wrong() -> None:
    one = report(Settled("oob", "load", at(6), Proved("interval"), 1), notes=(), repeats=2, label="launch 3")
    assert render([one]).splitlines() == [
        "scale[4, 1, 1] (launch 3), and 2 equal launches from /app/layer.py:80: memory operations: 1 proved",
        "",
        "Result: PASS (3 launches; memory operations: 1 proved)",
    ]


@pytest.mark.parametrize(
    ("reports", "why"),
    [
        ([], "no launch; a run that launches a Triton kernel would decide it)"),
        ([report()], "nothing was judged; a launch with memory operations would decide it; 1 launch"),
        ([ALL_PROVED, report(notes=("could not be sanitised: gone",), repeats=2)], "3 of 4 launches"),
        (
            [report(Settled("oob", "load", at(6), Unproven("no z3"), 1))],
            "not everything is proved; the reasons above say what is missing; 1 launch",
        ),
        (
            [ALL_PROVED, report(Settled("promise", "none", at(6), Unproven("no z3"), 1))],
            "not every promise is proved",
        ),
    ],
)
def test_what_was_not_judged_is_no_pass(reports: list[LaunchReport], why: str) -> None:
    assert sanitized_line(reports).startswith(f"Result: UNDECIDED ({why}")
    assert counts_of_all(reports).answer is Answer.UNDECIDED


def test_a_program_that_failed_may_have_launched_more() -> None:
    assert sanitized_line([], Program(3)) == "Result: UNDECIDED (no launch: the program ended with status 3)"
    assert sanitized_line([ALL_PROVED], Program(3)) == (
        "Result: UNDECIDED (the program ended with status 3; a run to its end would decide it; "
        "1 launch; memory operations: 1 proved)"
    )
    unproven = report(Settled("oob", "load", at(6), Unproven("no z3"), 1))
    assert sanitized_line([unproven], Program(3)).startswith("Result: UNDECIDED (not everything is proved")
    assert sanitized_line([unproven], Program(3)).endswith("; the program ended with status 3)")
    assert sanitized_line([full()], Program(3)).startswith("Result: FAIL (")
    assert sanitized_line([full()], Program(3)).endswith("; the program ended with status 3)")
    assert counts_of_all([ALL_PROVED], Program(3)).answer is Answer.UNDECIDED
    assert counts_of_all([full()], Program(3)).answer is Answer.NO


def test_what_the_limit_of_memory_left_out_is_no_pass() -> None:
    why = "needs up to 3.0 GiB for copies of contents; --max-memory 3073MiB would decide it"
    needs = (3 << 30) + 1
    assert sanitized_line([ALL_PROVED], Program(needs_bytes=needs)).startswith(
        f"Result: UNDECIDED ({why}; 1 launch"
    )
    limited = replace(report(Settled("oob", "load", at(6), Unproven("no room"), 1)), needs_bytes=needs)
    assert sanitized_line([limited, ALL_PROVED]).startswith(f"Result: UNDECIDED ({why}; 2 launches")
    assert counts_of_all([limited, limited, full()], Program(3)).answer is Answer.NO


def test_how_every_check_was_settled() -> None:
    lines = render([full()], every=True).splitlines()
    assert "  /app/k.py:6:2: load oob: proved (affine, for these contents)" in lines
    assert "  /app/k.py:7:2: store race: violated" in lines
    assert "  /app/k.py:8:2: load oob: unproven (contents of i are not available)" in lines
    noted = report(Settled("race", "store", at(7), Violated((NOTE,)), 2))
    assert "  /app/k.py:7:2: store race: noted" in render([noted], every=True).splitlines()


def test_findings_of_one_cause_are_shown_once_by_the_strongest() -> None:
    race = report(Settled("race", "load", at(6), Violated((LOAD_RACE,)), 1), notes=())
    far = replace(STORE, beyond_bytes=4096, message="far out")
    launches = [
        report(
            Settled("oob", "store", at(7), Violated((one,)), 2),
            notes=(),
            configuration={"B": size},
            repeats=n,
        )
        for one, size, n in ((STORE, "64", 0), (far, "128", 4), (replace(STORE, location=at(7, 9)), "64", 0))
    ]
    clean = replace(ALL_PROVED, configuration={"B": "256"})
    lines = render([race, *launches, clean], alone=lambda place: f"kerncap --at {place}").splitlines()
    assert [line for line in lines if "error[" in line] == [
        "  error[oob]: far out",
        f"  error[race]: {LOAD_RACE.message}",
    ]
    seen = [line.split(maxsplit=1)[1] for line in lines if line.startswith("    seen ")]
    assert seen == ["in 2 of 4 configurations, 7 launches", "in 1 of 4 configurations"]
    assert lines[1:3] == ["", "  error[oob]: far out"]  # its launch comes first
    assert [line.split(maxsplit=1)[1] for line in lines if line.startswith("    alone ")] == [
        "kerncap --at /app/k.py:7",
        "kerncap --at /app/k.py:6",
    ]
    assert lines[-1].startswith("Result: FAIL (4 findings of 2 causes; 9 launches;")


def test_the_findings_of_one_line_alone() -> None:
    lines = render([full(), ALL_PROVED], at="k.py:6").splitlines()
    assert [line for line in lines if "error[" in line] == [f"  error[race]: {LOAD_RACE.message}"]
    assert len([line for line in lines if line.startswith("scale[")]) == 1
    assert lines[-1].startswith("Result: FAIL (3 findings of 2 causes; 2 launches;")
    assert "error[" not in render([full()], at="other/k.py:6")


def test_many_findings_are_cut_with_a_count() -> None:
    many = tuple(replace(STORE, location=at(line)) for line in range(1, 31))
    lines = render([report(Settled("oob", "store", at(7), Violated(many), 2))]).splitlines()
    assert sum(line.startswith("  error[oob]") for line in lines) == 20
    assert "  and 10 causes more: --json has them all" in lines
    assert lines[-1].startswith("Result: FAIL (30 findings; 1 launch;")


def test_one_line_for_each_pair_of_lines_that_store_equal_values() -> None:
    assert NOTE.other is not None
    across = replace(NOTE, other=replace(NOTE.other, location=at(9)))
    back = replace(NOTE, location=at(9), other=replace(NOTE.other, location=at(7)))
    other_argument = replace(across, argument="y_ptr")
    noted = Violated((NOTE, across, back, other_argument))
    lines = render([report(Settled("race", "store", at(7), noted, 2))], portable=True).splitlines()
    assert [line.split(": programs")[0] for line in lines if line.startswith("  note[")] == [
        "  note[race]: /app/k.py:7:2",
        "  note[race]: /app/k.py:7:2 and /app/k.py:9:2",
    ]


def test_places_with_one_reason_share_a_line() -> None:
    settled = [Settled("oob", "load", at(line), Unproven("why"), line) for line in range(1, 8)]
    (line,) = [line for line in render([report(*settled)]).splitlines() if "unproven[" in line]
    places = ", ".join(f"/app/k.py:{n}:2" for n in range(1, 5))
    assert line == f"  unproven[oob]: {places} and 3 more places: why"


def test_a_race_between_two_lines_is_shown_once() -> None:
    lines = render([full()]).splitlines()
    assert sum(line.startswith("  error[race]") for line in lines) == 1
    itself = replace(LOAD_RACE, location=at(7))  # of one operation with itself
    lines = render([report(Settled("race", "store", at(7), Violated((itself,)), 2))]).splitlines()
    assert not any("of its own" in line for line in lines)


def test_what_is_not_known_is_left_out() -> None:
    bare = replace(STORE, location=Location(()), width_bytes=0, expression=None, mask_expression="True",
                   shape=None, lands_in=None, suggestion=None, contents=False, python_stack=())  # fmt: skip
    lines = render([report(Settled("promise", "none", Location(()), Violated((bare,)), -1))]).splitlines()
    assert lines[4:6] == ["    --> an unknown place", "    witness  program (3, 0, 0), lane 232"]
    assert lines[-1] == "Result: FAIL (1 finding; 1 launch; no memory operation)"


def test_files_below_here_are_named_from_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside = Location((Frame(f"{tmp_path}/pkg/k.py", 7, 2),))
    one = report(
        Settled("oob", "store", inside, Violated((replace(STORE, location=inside),)), 2),
        python_stack=((f"{tmp_path}/run.py", 3, "main"),),
    )
    monkeypatch.chdir(tmp_path)
    lines = render([one]).splitlines()
    assert lines[0].startswith("scale[4, 1, 1] from run.py:3: 1 finding;")
    assert "    --> pkg/k.py:7:2" in lines
    monkeypatch.chdir("/")
    assert f"    --> {tmp_path.relative_to('/')}/pkg/k.py:7:2" in render([one]).splitlines()
