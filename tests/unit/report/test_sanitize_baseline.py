"""Findings that a SARIF log has are known, by their cause and not by their line; a log is a stranger's."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kerncap.answer import Answer
from kerncap.errors import UsageError
from kerncap.report import sanitize_baseline, sanitize_sarif
from kerncap.report.sanitize_baseline import Baseline, counts_of_run
from kerncap.report.sanitize_fingerprints import NAME
from kerncap.report.sanitize_text import render, sanitized_line
from kerncap.sanitizer.findings import (
    Finding,
    HostRead,
    LaunchReport,
    Place,
    Program,
    Proved,
    Settled,
    Unproven,
    Violated,
)
from tests.unit.report.sanitizer_report import LOAD_RACE, NOTE, SOURCE, STORE, STORE_RACE, at, full, report

READ = HostRead("aten::sum", "self", "float32", (10, 64), 128, (8, 0), (("train.py", 3, "<module>"),))


def violated(*findings: Finding, **changes: Any) -> LaunchReport:
    settled = (Settled(one.check, one.access, one.location, Violated((one,)), 2) for one in findings)
    return report(*settled, **changes)


def known(folder: Path, *reports: LaunchReport, program: Program = Program()) -> Baseline:  # noqa: B008
    """What a run that gave these reports wrote."""
    path = folder / "known.sarif"
    path.write_text(json.dumps(sanitize_sarif.document(reports, program)))
    return sanitize_baseline.read(path)


def answer(baseline: Baseline, *reports: LaunchReport, program: Program = Program()) -> Answer:  # noqa: B008
    return counts_of_run(reports, program, baseline).answer


def states(baseline: Baseline, *reports: LaunchReport) -> list[tuple[str, str, str]]:
    [run] = sanitize_sarif.document(reports, baseline=baseline)["runs"]
    return [(one["ruleId"], one["level"], one["baselineState"]) for one in run["results"]]


MOVED = "# a line\n# more\n" + SOURCE.replace("x * 2.0)", "x *  2.0)  # twice")


@pytest.mark.parametrize(
    "again",
    [
        violated(STORE),
        violated(replace(STORE, location=at(9, 30)), sources={"/app/k.py": MOVED}),
        violated(STORE, grid=(900, 2, 1), repeats=3, configuration={"BLOCK": "64"}),
        violated(
            replace(STORE, place=Place((9, 0, 0), (1,)), message="other", beyond_bytes=8, lands_in=None)
        ),
        violated(replace(STORE, expression="out_ptr + 256 * pid", contents=False), label="launch 7"),
    ],
    ids=["same", "moved", "grid", "witness", "expression"],
)
def test_a_cause_is_known_wherever_it_moves(tmp_path: Path, again: LaunchReport) -> None:
    baseline = known(tmp_path, violated(STORE))
    assert answer(baseline, again) is Answer.YES
    assert states(baseline, again) == [("oob", "error", "unchanged")]


AGAIN = SOURCE.splitlines()[6]


@pytest.mark.parametrize(
    "other",
    [
        violated(replace(STORE, argument="y_ptr")),
        violated(replace(STORE, check="overflow")),
        violated(replace(STORE, location=at(6))),
        violated(STORE, kernel="scale_rows"),
        violated(STORE, sources={"/app/k.py": SOURCE.replace("2.0", "3.0")}),
        violated(STORE, replace(STORE, location=at(9)), sources={"/app/k.py": SOURCE + AGAIN}),
    ],
    ids=["tensor", "check", "line", "kernel", "text", "second line with this text"],
)
def test_another_cause_is_new(tmp_path: Path, other: LaunchReport) -> None:
    assert answer(known(tmp_path, violated(STORE)), other) is Answer.NO


def test_both_sides_of_a_race_are_one_cause(tmp_path: Path) -> None:
    baseline = known(tmp_path, violated(LOAD_RACE))
    assert answer(baseline, violated(STORE_RACE)) is Answer.YES
    assert answer(baseline, violated(replace(LOAD_RACE, location=at(7), access="store"))) is Answer.NO


def test_without_a_text_the_expression_tells_but_not_its_numbers(tmp_path: Path) -> None:
    first, second, other = (
        violated(replace(STORE, expression=f"out_ptr + {offset}"), sources={})
        for offset in ("64 * pid", "128 * pid", "row")
    )
    baseline = known(tmp_path, first)
    assert answer(baseline, second) is Answer.YES
    assert answer(baseline, other) is Answer.NO


def test_a_note_or_an_open_question_excuses_no_finding(tmp_path: Path) -> None:
    open_ = report(Settled("oob", "store", at(7), Unproven("too large"), 2))
    assert answer(known(tmp_path, open_), violated(STORE)) is Answer.NO
    assert answer(known(tmp_path, violated(NOTE)), violated(replace(NOTE, note=None))) is Answer.NO
    # And what is open stays so.
    assert answer(known(tmp_path, open_), open_) is Answer.UNDECIDED
    assert answer(known(tmp_path, violated(STORE)), violated(STORE), program=Program(3)) is Answer.UNDECIDED


def test_reads_by_torch_are_known_too(tmp_path: Path) -> None:
    proved = report(Settled("oob", "load", at(7), Proved("interval"), 1))
    program = Program(0, (READ,))
    baseline = known(tmp_path, proved, program=program)
    assert answer(baseline, proved, program=program) is Answer.YES
    assert "  known[uninit]: train.py:3: aten::sum uses" in render(
        [proved], program=program, baseline=baseline
    )
    other = Program(0, (READ, replace(READ, operation="aten::mean")))
    assert answer(baseline, proved, program=other) is Answer.NO


def test_what_is_said(tmp_path: Path) -> None:
    baseline = known(tmp_path, violated(STORE))
    name = baseline.name
    text = render([violated(STORE)], baseline=baseline)
    assert f"  known[oob]: /app/k.py:7:2: {STORE.message}" in text and "error[" not in text
    assert text.splitlines()[-1] == (
        f"Result: PASS (no new finding, 1 known in {name}; 1 launch; memory operations: 0 proved, 1 violated)"
    )
    text = render([violated(STORE), violated(LOAD_RACE)], baseline=baseline)
    assert text.index("error[race]") < text.index("known[oob]")
    assert text.splitlines()[-1].startswith(f"Result: FAIL (1 new finding, 1 known in {name}; 2 launches; ")
    assert sanitized_line([full()], baseline=Baseline("none.sarif")).startswith(
        "Result: FAIL (2 new findings, 0 known in none.sarif; "
    )


def test_states_of_the_standard(tmp_path: Path) -> None:
    baseline = known(tmp_path, full())
    now = violated(STORE, replace(STORE, argument="y_ptr"))
    assert sorted(states(baseline, now)) == [
        ("oob", "error", "new"),
        ("oob", "error", "unchanged"),
        ("oob", "none", "absent"),
        ("race", "error", "absent"),
        ("race", "note", "absent"),
    ]
    # What is gone is in the log that this run writes, and no later run takes it for known.
    path = tmp_path / "next.sarif"
    path.write_text(json.dumps(sanitize_sarif.document([now], baseline=baseline)))
    assert answer(sanitize_baseline.read(path), violated(LOAD_RACE)) is Answer.NO


def log(results: object, driver: object = "kerncap") -> object:
    return {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": driver}}, "results": results}]}


RESULT = {"ruleId": "oob", "level": "error", "partialFingerprints": {NAME: "x"}}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff\xfe", b"[" * 200_000, b"1" * 10_000, b"[]", b"null", b'{"runs": []}',
        b'{"version": "2.1.0"}',
        b'{"version": "2.1.0", "runs": [1, null, {"tool": []}]}',
        *(
            json.dumps(one).encode()
            for one in (
                log(None), log({}), log([1]), log([[]]), log([{}]), log([{**RESULT, "ruleId": []}]),
                log([{**RESULT, "ruleId": "none"}]), log([{**RESULT, "level": {}}]), log([], ["kerncap"]),
                log([{**RESULT, "partialFingerprints": {NAME: 1}}]), log([], "another"),
                log([{**RESULT, "partialFingerprints": []}]),
            )
        ),
    ],
)  # fmt: skip
def test_what_is_no_log_of_ours_is_refused_in_one_line(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log.sarif"
    path.write_bytes(data)
    with pytest.raises(UsageError) as refused:
        sanitize_baseline.read(path)
    assert str(refused.value).startswith(f"{path}: ") and "\n" not in str(refused.value)
    assert "give what `kerncap sanitize --sarif FILE` wrote" in str(refused.value)


def test_a_log_that_has_no_end_is_refused(tmp_path: Path) -> None:
    fifo, large = tmp_path / "fifo", tmp_path / "large"
    os.mkfifo(fifo)
    large.touch()
    os.truncate(large, sanitize_baseline.MAX_BYTES + 1)
    for path in (fifo, large, tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UsageError):
            sanitize_baseline.read(path)


@pytest.mark.parametrize(
    "more",
    [
        {"locations": 7}, {"locations": [{"physicalLocation": {"artifactLocation": {"uri": {}}}}]},
        {"message": {"text": ["a"]}}, {"message": {"text": "a\x1b[31m\nb" * 10_000}}, {"kind": {}},
        {"locations": [{"physicalLocation": {
            "artifactLocation": {"uri": "k.py"}, "region": {"startLine": 10**30},
        }}]},
    ],
)  # fmt: skip
def test_strange_parts_of_a_result_do_no_harm(tmp_path: Path, more: dict[str, Any]) -> None:
    path = tmp_path / "log.sarif"
    path.write_text(json.dumps(log([{**RESULT, **more}])))
    [gone] = sanitize_sarif.document([], baseline=sanitize_baseline.read(path))["runs"][0]["results"]
    assert gone["baselineState"] == "absent" and gone["locations"] == []
    assert len(gone["message"]["text"]) <= 4000 and "\x1b" not in gone["message"]["text"]
