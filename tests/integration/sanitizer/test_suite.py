"""The suite under the sanitizer: every bug at its line and argument, no other finding, true witnesses."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any

import pytest

from kerncap.sanitizer.findings import Finding, LaunchReport, Proved, Unproven, Violated
from tests.integration.sanitizer.oracle.client import Answer, ask
from tests.integration.sanitizer.suite.cases import Case, load_all, run_case

CASES = load_all()
CAMPAIGN = "KERNCAP_FUZZ_EXAMPLES" in os.environ
# Of a clean case brute force says again that it is clean, at half of the whole cost: a campaign asks of
# all of them, other runs of every fourth. `make test` asks of every third of those.
_CLEAN = [one.name for one in CASES.values() if not one.buggy]
ASKED = {one.name for one in CASES.values() if one.buggy}.union(_CLEAN if CAMPAIGN else _CLEAN[::4])
WITH_ORACLE = [
    one for one in CASES.values() if one.name in ASKED and one.oracle and (CAMPAIGN or not one.heavy)
]
SHORT = [one.name for one in WITH_ORACLE][::3]

# Checks whose witnesses the oracle lists one by one. Of a race it keeps a sample.
POINTWISE = ("oob", "overflow", "uninit", "alignment")


@cache
def reports(name: str) -> tuple[LaunchReport, ...]:
    return tuple(run_case(CASES[name]))


@cache
def oracle(short: bool) -> dict[str, Answer]:
    """Brute force over all cases that are cheap enough, in one process for those of `make test`."""
    asked = [one for one in WITH_ORACLE if (one.name in SHORT) == short]
    return ask({one.module for one in asked}, [one.name for one in asked])


def findings(name: str) -> list[Finding]:
    return [finding for report in reports(name) for finding in report.findings]


def by_habit(name: str) -> list[Finding]:
    return [
        finding
        for report in reports(name)
        for one in report.settled
        if isinstance(one.verdict, Violated)
        for finding in one.verdict.findings
        if finding.note == "portability"
    ]


def line_of(finding: Finding) -> int:
    return finding.location.frames[0].line


def key(finding: Finding) -> tuple[str, int, str | None]:
    return finding.check, line_of(finding), finding.argument


def lane(value: Iterable[int]) -> tuple[int, ...]:
    """A scalar's lane is () for the sanitizer and (0,) for the interpreter."""
    indices = tuple(value)
    return () if indices == (0,) else indices


def unproven(name: str) -> list[str]:
    return [
        f"{one.check} of the {one.access}, line {one.location.frames[0].line}: {one.verdict.reason}"
        for report in reports(name)
        for one in report.settled
        if isinstance(one.verdict, Unproven)
    ]


@pytest.mark.parametrize("one", CASES.values(), ids=repr)
def test_what_is_found_is_what_is_wrong(one: Case) -> None:
    found = {key(finding): finding.message for finding in findings(one.name)}
    # An access that an overflow sends out of bounds is both; the suite marks the cause.
    implied = {("oob", line, argument) for check, line, argument in one.expected if check == "overflow"}
    assert set(found) - implied == one.expected - implied, "\n".join([*found.values(), *unproven(one.name)])
    assert {key(finding) for finding in by_habit(one.name)} >= one.by_habit
    for finding in findings(one.name):
        assert len(finding.place.program_id) == 3
        assert finding.message
        if finding.check in POINTWISE:
            assert finding.place.offset_bytes is not None, finding.message
        if finding.check == "race":
            assert finding.other is not None, finding.message
            here, there = finding.place, finding.other.place
            assert (here.program_id, here.lane) != (there.program_id, there.lane), finding.message


@pytest.mark.parametrize(
    "one",
    [pytest.param(one, marks=() if one.name in SHORT else pytest.mark.long) for one in WITH_ORACLE],
    ids=repr,
)
def test_brute_force_agrees(one: Case) -> None:
    answer = oracle(one.name in SHORT)[one.name]
    assert answer.failure is None
    assert answer.found == one.expected | one.by_habit, "the case itself is wrong"
    for finding in findings(one.name):
        points = answer.violations.get(key(finding))
        if points is None and "only where an integer overflows" in finding.message:
            continue  # brute force keeps it under its cause
        assert points is not None, finding.message
        if finding.check in POINTWISE:
            witness = (finding.place.program_id, lane(finding.place.lane), finding.place.offset_bytes)
            assert witness in {(pid, lane(at), offset) for pid, at, offset in points}, finding.message
        if finding.check == "race":
            assert_pair(finding, answer)


def assert_pair(finding: Finding, answer: Answer) -> None:
    """The two accesses that a race names are two that brute force saw in conflict."""
    assert finding.other is not None
    pair = {
        (line_of(finding), finding.access, finding.argument),
        (finding.other.location.frames[0].line, finding.other.access, finding.other.place.argument),
    }
    assert pair in [set(one) for one in answer.races], finding.message


def test_the_suite_is_large_and_even() -> None:
    buggy = sum(one.buggy for one in CASES.values())
    assert len(CASES) >= 300
    assert 0.4 <= buggy / len(CASES) <= 0.6


def test_most_is_proved(record_property: Any) -> None:
    """Of all checks of all memory operations: how many are settled, and what the rest is for."""
    verdicts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for name in CASES:
        for report in reports(name):
            for one in report.settled:
                kind = "proved" if isinstance(one.verdict, Proved) else "unproven"
                verdicts["violated" if isinstance(one.verdict, Violated) else kind] += 1
                if isinstance(one.verdict, Unproven):
                    reasons[one.verdict.reason] += 1
    share = verdicts["proved"] / (verdicts["proved"] + verdicts["unproven"])
    record_property("proved_share", round(share, 4))
    assert share >= 0.97, f"{dict(verdicts)}: {reasons.most_common(5)}"
