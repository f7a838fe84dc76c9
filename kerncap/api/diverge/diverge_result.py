"""What `diverge` found: plain data, the shape of ``kerncap diverge --json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from kerncap.answer import Answer
from kerncap.api.diff.diff_result import WORDS, ReproducerDiff
from kerncap.report.documents.diff import Change
from kerncap.report.documents.diverge import DivergeDocument, DivergeFindings, DivergeLaunch, Place, RunInfo
from kerncap.sanitizer.findings import LaunchReport

# In which way the first difference came in.
LAUNCH = "launch"  # its inputs agree, its results do not
ARGUMENTS = "arguments"  # it has other arguments, and other results
MEMORY = "memory"  # its inputs differ, and no traced launch before it differs
ONLY = "only"  # one side does not launch it
MOVED = "moved"  # both launch it, in another order
RAISED = "raised"  # it raised an error on one side, or another one


@dataclass(frozen=True)
class Named:
    """The first launch in which both runs differ; ``a`` or ``b`` is None if only one side has it.

    ``before`` and ``after`` are arguments whose memory differs then; ``since`` is the last launch that left
    equal bytes in what differs before. ``sanitized`` are the reports of both reproducers.
    """

    kind: str
    a: Place | None
    b: Place | None
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    changed: tuple[Change, ...] = ()
    since: Place | None = None
    raised: tuple[str | None, str | None] = (None, None)
    diff: ReproducerDiff | None = None
    sanitized: tuple[tuple[Literal["A", "B"], tuple[LaunchReport, ...]], ...] = ()
    problems: tuple[str, ...] = ()  # why a reproducer or a report is missing


@dataclass(frozen=True)
class Divergence:
    """``named`` is the answer; without it, ``nondeterministic`` and ``uncompared`` leave it open.

    ``once``: both sides are one command, so that what is named is nondeterminism itself.
    """

    a: RunInfo
    b: RunInfo
    once: bool
    aligned: int
    only: tuple[int, int]
    changed: tuple[Place, ...]  # aligned launches with other arguments, whose results agree
    search_ns: int  # all runs included
    plain_ns: int  # of the programs without kerncap
    named: Named | None = None
    nondeterministic: tuple[Named, ...] = ()
    within: tuple[Place, ...] = ()  # within the tolerance
    harmless: tuple[Place, ...] = ()  # what differs is nothing that the launch reads or writes
    uncompared: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def answer(self) -> Answer:
        """Whether both runs agree."""
        if self.named is not None:
            return Answer.NO
        open_ = self.uncompared or self.nondeterministic or not self.aligned
        return Answer.UNDECIDED if open_ else Answer.YES

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        found = {
            "named": None if self.named is None else _launch(self.named),
            "nondeterministic": tuple(map(_launch, self.nondeterministic)),
        }
        return DivergeDocument(result=WORDS[self.answer], **{**vars(self), **found}).as_dict()


def _launch(one: Named) -> DivergeLaunch:
    sanitized = tuple(
        DivergeFindings(
            side=side, findings=tuple(finding.message for report in reports for finding in report.findings)
        )
        for side, reports in one.sanitized
    )
    diff = None if one.diff is None else one.diff.document()
    return DivergeLaunch(**{**vars(one), "diff": diff, "sanitized": sanitized})
