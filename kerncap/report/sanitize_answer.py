"""How the memory operations of a launch were settled, counted one way for every kind of report."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace

from kerncap.answer import Answer
from kerncap.log import size
from kerncap.sanitizer.findings import (
    NOT_KNOWN,
    NOT_SANITISED,
    Check,
    LaunchReport,
    Program,
    Proved,
    Settled,
    Unproven,
    Violated,
)
from kerncap.sanitizer.ttir.ir import Location

NO_PROGRAM = Program()
_KILLED = 128 + signal.SIGKILL


@dataclass(frozen=True)
class Counts:
    """``findings`` counts what is wrong, the first three memory operations: each is one of these.

    ``contents`` are those of the proved ones that were decided on data from memory, ``promises`` those that
    were not decided. ``launches`` counts equal ones too, ``missed`` those that could not be examined.
    ``known`` counts causes of findings that a baseline has; ``findings`` is then the number of new ones.
    ``program_status`` is the exit status of the program that made them; 0 if none was run. Its own reads of
    unwritten memory are findings, too. ``needs_bytes``: the limit of memory that would be enough for what it
    left out; 0 if it left out nothing.
    """

    proved: int = 0
    unproven: int = 0
    violated: int = 0
    findings: int = 0
    contents: int = 0
    promises: int = 0
    launches: int = 0
    missed: int = 0
    program_status: int = 0
    known: int = 0
    needs_bytes: int = 0

    @property
    def operations(self) -> int:
        return self.proved + self.unproven + self.violated

    @property
    def why_open(self) -> str:
        """Why there is no yes, and what would decide it; empty if nothing is open."""
        if not self.launches and self.program_status:
            return f"no launch: {self.program_ending}"
        if not self.launches:
            return "no launch; a run that launches a Triton kernel would decide it"
        if self.missed:
            return f"{self.missed:,} of {self.launches:,} launches could not be examined; the notes say why"
        if not self.operations:
            return "nothing was judged; a launch with memory operations would decide it"
        if self.needs_bytes:
            enough = f"--max-memory {-(-self.needs_bytes >> 20)}MiB"
            return f"needs up to {size(self.needs_bytes)} for copies of contents; {enough} would decide it"
        if self.unproven:
            return "not everything is proved; the reasons above say what is missing"
        if self.promises:
            return "not every promise is proved; the reasons above say what is missing"
        if self.program_status:
            return f"{self.program_ending}; a run to its end would decide it"
        return ""

    @property
    def program_ending(self) -> str:
        if self.program_status == _KILLED:
            return "the program was killed, probably for memory"
        return f"the program ended with status {self.program_status}"

    @property
    def answer(self) -> Answer:
        """No for a finding; yes if all that there is was proved, and there is something."""
        if self.findings:
            return Answer.NO
        return Answer.UNDECIDED if self.why_open else Answer.YES

    def __add__(self, other: Counts) -> Counts:
        added = Counts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))
        return replace(added, needs_bytes=max(self.needs_bytes, other.needs_bytes))


@dataclass(frozen=True)
class UnprovenEntry:
    check: Check
    location: Location
    reason: str


def counts_of(report: LaunchReport) -> Counts:
    """An operation is proved if every check of it was; a broken promise is no memory operation.

    If memory comes from a file, it is unknown what was written before: that is said once (`unproven_of`)
    and leaves the operation's other checks as they are.
    """
    launches = 1 + report.repeats
    missed = launches if any(note.startswith(NOT_SANITISED) for note in report.notes) else 0
    promises = sum(one.check == "promise" and isinstance(one.verdict, Unproven) for one in report.settled)
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
    return Counts(
        proved, unproven, violated, len(report.findings), contents, promises, launches, missed,
        needs_bytes=report.needs_bytes,
    )  # fmt: skip


def counts_of_all(reports: Iterable[LaunchReport], program: Program = NO_PROGRAM) -> Counts:
    """All launches together. A program that failed may not have made all of its launches."""
    own = Counts(
        findings=len(program.host_reads), program_status=program.status, needs_bytes=program.needs_bytes
    )
    return sum((counts_of(report) for report in reports), own)


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
