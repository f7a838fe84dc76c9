"""JSON and SARIF: what other programs read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kerncap.report import sanitize_json, sanitize_sarif
from kerncap.report.sanitize_answer import NO_PROGRAM
from kerncap.report.sanitize_finding import TITLES
from kerncap.report.sanitize_fingerprints import NAME
from kerncap.sanitizer.findings import CHECKS, LaunchReport, Program, Proved, Settled, Unproven, Violated
from tests.unit.report.sanitizer_report import STORE, at, full, report

# What is promised of each object: names and types.
LAUNCH = {
    "kernel": str, "grid": list, "result": str, "findings": list, "proved": int, "unproven": list,
    "violated": int, "proved_for_these_contents": int, "noted": list, "notes": list, "label": str,
    "configuration": dict, "python_stack": list, "repeats": int, "seconds": float,
}  # fmt: skip
FINDING = {
    "check": str, "access": str, "file": str, "line": int, "column": int, "argument": str, "program_id": list,
    "lane": list, "offset_bytes": int, "message": str, "iterations": list, "element": int, "mask": bool,
    "width_bytes": int, "for_these_contents": bool, "callers": list,
}  # fmt: skip


def data(reports: Sequence[LaunchReport], program: Program = NO_PROGRAM) -> dict[str, Any]:
    return sanitize_json.document(reports, program).as_dict()


def check(value: dict[str, Any], promised: dict[str, type]) -> None:
    for name, kind in promised.items():
        assert type(value[name]) is kind, (name, value[name])


def test_the_document() -> None:
    document = data([full()])
    assert document["result"] == "fail" and len(document["launches"]) == 1
    (launch,) = document["launches"]
    check(launch, LAUNCH)
    assert (launch["kernel"], launch["grid"]) == ("scale", [4, 1, 1])
    assert (launch["proved"], launch["proved_for_these_contents"], launch["violated"]) == (2, 1, 2)
    assert [one["check"] for one in launch["findings"]] == ["race", "oob", "race"]  # both sides of the race
    assert [one["check"] for one in launch["noted"]] == ["race"]
    for finding in launch["findings"]:
        check(finding, FINDING)
        assert finding["check"] in CHECKS and finding["access"] in ("load", "store", "atomic", "none")
        assert len(finding["program_id"]) == 3
    assert [(one["file"], one["line"], one["check"]) for one in launch["unproven"]] == [
        ("/app/k.py", 8, "oob"),
        ("/app/k.py", 6, "uninit"),  # once for the launch
    ]
    assert all(one["reason"] for one in launch["unproven"])


def test_a_finding_says_everything() -> None:
    (launch,) = data([full()])["launches"]
    race, store, _ = launch["findings"]
    assert store["message"] == STORE.message
    assert {name: store[name] for name in (
        "file", "line", "column", "callers", "argument", "shape", "strides", "lane", "element",
        "offset_bytes", "beyond_bytes", "lands_in", "address_expression", "mask_expression", "mask",
        "suggestion",
    )} == {
        "file": "/app/k.py", "line": 7, "column": 2, "callers": [["/app/k.py", 20, 5]], "argument": "out_ptr",
        "shape": [10, 100], "strides": [100, 1], "lane": [232], "element": 1000, "offset_bytes": 4000,
        "beyond_bytes": 96, "lands_in": "y_ptr", "address_expression": "out_ptr + offsets",
        "mask_expression": "offsets < m", "mask": True, "suggestion": "mask=offsets < n",
    }  # fmt: skip
    assert store["for_these_contents"] and store["other"] is None
    assert race["iterations"] == [["i", 2], ["k", 5]]
    assert (race["other"]["access"], race["other"]["line"], race["other"]["program_id"]) == (
        "store", 7, [1, 0, 0],
    )  # fmt: skip


def test_nothing_wrong_is_a_pass() -> None:
    proved = report(Settled("oob", "load", at(7), Proved("interval"), 1))
    assert data([proved])["result"] == "pass"
    assert data([proved], Program(3))["result"] == "undecided"


def test_nothing_looked_at_is_undecided() -> None:
    nothing = {
        "result": "undecided", "causes": [], "launches": [], "host_reads": [], "notes": [],
        "target_status": None,
    }  # fmt: skip
    assert data([]) == nothing
    assert data([report()])["result"] == "undecided"


def test_no_finding_is_left_out() -> None:
    many = Violated(tuple([STORE] * 500))
    (launch,) = data([report(Settled("oob", "store", at(7), many, 2))])["launches"]
    assert len(launch["findings"]) == 500


def test_sarif_has_what_the_standard_requires() -> None:
    document = json.loads(json.dumps(sanitize_sarif.document([full()])))
    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "kerncap" and [rule["id"] for rule in driver["rules"]] == list(CHECKS)
    assert set(TITLES) == set(CHECKS)
    assert len(run["results"]) == 4  # the race is one
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "note", "none") and result["message"]["text"]
        for location in (*result["locations"], *result.get("relatedLocations", ())):
            physical = location["physicalLocation"]
            assert physical["artifactLocation"]["uri"] == "file:///app/k.py"
            assert physical["region"]["startLine"] >= 1 and physical["region"]["startColumn"] >= 1
    assert [result["level"] for result in run["results"]].count("note") == 1
    (left,) = [result for result in run["results"] if result.get("kind") == "open"]
    assert left["level"] == "none" and left["ruleId"] == "oob" and "unproven: " in left["message"]["text"]
    [race] = [one for one in run["results"] if one["ruleId"] == "race" and one["level"] == "error"]
    assert race["relatedLocations"][0]["message"]["text"] == "the other access: store"


def test_one_cause_is_one_entry_with_how_often_it_was_seen() -> None:
    launches = [
        report(
            Settled("oob", "store", at(7), Violated((replace(STORE, beyond_bytes=beyond),)), 2),
            Settled("oob", "load", at(6), Unproven("too large"), 1),
            configuration={"B": size},
            repeats=repeats,
        )
        for beyond, size, repeats in ((96, "64", 0), (4096, "128", 4), (4, "64", 0))
    ]
    seen = {"launches": 7, "accesses": 3, "configurations": 2, "of_configurations": 3}
    launches.append(report(Settled("oob", "load", at(7), Proved("interval"), 2), configuration={"B": "256"}))
    [cause] = data(launches)["causes"]
    assert {name: cause[name] for name in seen} == seen
    assert (cause["check"], cause["line"], cause["baseline_state"]) == ("oob", 7, None)
    found, unproven = sanitize_sarif.document(launches)["runs"][0]["results"]
    assert found["occurrenceCount"] == unproven["occurrenceCount"] == 7
    assert found["partialFingerprints"] == {NAME: cause["fingerprint"]}
    assert seen.items() <= found["properties"].items()
