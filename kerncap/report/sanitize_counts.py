"""How the memory operations of a launch were settled, counted one way for every kind of report."""

from __future__ import annotations

from dataclasses import dataclass

from kerncap.sanitizer.checks.uninit import NOT_KNOWN
from kerncap.sanitizer.findings import LaunchReport, Proved, Settled, Unproven, Violated
from kerncap.sanitizer.ttir.ir import Location


@dataclass(frozen=True)
class Counts:
    """``findings`` counts what is wrong, the others memory operations: each is one of the three.

    ``contents`` are those of the proved ones that were decided on data from memory.
    """

    proved: int = 0
    unproven: int = 0
    violated: int = 0
    findings: int = 0
    contents: int = 0

    @property
    def operations(self) -> int:
        return self.proved + self.unproven + self.violated

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.proved + other.proved,
            self.unproven + other.unproven,
            self.violated + other.violated,
            self.findings + other.findings,
            self.contents + other.contents,
        )


@dataclass(frozen=True)
class UnprovenEntry:
    check: str
    location: Location
    reason: str


def counts_of(report: LaunchReport) -> Counts:
    """An operation is proved if every check of it was; a broken promise is no memory operation.

    Where memory comes from a file, nobody knows what was written before: that is said once (`unproven_of`)
    and leaves the operation's other checks as they are.
    """
    by_operation: dict[int, list[Settled]] = {}
    for one in report.settled:
        if one.check != "promise":
            by_operation.setdefault(one.order, []).append(one)
    proved = unproven = violated = contents = 0
    for group in by_operation.values():
        if any(isinstance(one.verdict, Violated) and not _only_notes(one.verdict) for one in group):
            violated += 1
        elif any(_is_open(one) for one in group):
            unproven += 1
        else:
            proved += 1
            contents += any(isinstance(one.verdict, Proved) and one.verdict.contents for one in group)
    return Counts(proved, unproven, violated, len(report.findings), contents)


def unproven_of(report: LaunchReport) -> list[UnprovenEntry]:
    """Everything that was not decided, with its reason, each once."""
    found: dict[UnprovenEntry, None] = {}
    freshness: UnprovenEntry | None = None
    for one in report.settled:
        if not isinstance(one.verdict, Unproven):
            continue
        entry = UnprovenEntry(one.check, one.location, one.verdict.reason)
        if one.verdict.reason == NOT_KNOWN:
            freshness = freshness or entry
        else:
            found[entry] = None
    return [*found, *([freshness] if freshness is not None else [])]


def _only_notes(verdict: Violated) -> bool:
    return all(finding.note for finding in verdict.findings)


def _is_open(one: Settled) -> bool:
    return isinstance(one.verdict, Unproven) and one.verdict.reason != NOT_KNOWN
