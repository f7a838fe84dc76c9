"""What `diverge` found: plain data, the shape of ``kerncap diverge --json``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any

from kerncap.answer import Answer
from kerncap.api.diff.diff_result import WORDS, ReproducerDiff
from kerncap.capture.payloads import TracedRecord
from kerncap.format.document_types import Count, Frame, Line, Names, Nanoseconds, Path, says
from kerncap.report.documents.diff import Change
from kerncap.sanitizer.findings import LaunchReport

# In which way the first difference came in.
LAUNCH = "launch"  # its inputs agree, its results do not
ARGUMENTS = "arguments"  # it has other arguments, and other results
MEMORY = "memory"  # its inputs differ, and no traced launch before it differs
ONLY = "only"  # one side does not launch it
MOVED = "moved"  # both launch it, in another order
RAISED = "raised"  # it raised an error on one side, or another one


@dataclass(frozen=True)
class RunInfo:
    """One of the two runs."""

    name: str
    command: Names
    recorded: Annotated[str | None, says("File of `kerncap trace`, if it was not run now.")]
    rank: Annotated[int | None, says("Rank whose launches were compared, with --ranks.")]
    launches: Annotated[Count, says("Triton launches that were traced.")]
    status: Annotated[int, says("Exit status of the program.")]
    wall_ns: Nanoseconds
    hashing_ns: Annotated[
        Nanoseconds, says("Nanoseconds of wall_ns that kerncap took; a sum over processes.")
    ]


@dataclass(frozen=True)
class Place:
    """A launch."""

    kernel: str
    ordinal: Annotated[Count, says("Launch of this kernel in its process, from 0.")]
    position: Annotated[Count, says("Triton launch in its process, from 0.")]
    process: Annotated[Count, says("Process of the run, by rank and start, from 0.")]
    file: Annotated[str | None, says("File that defines the kernel.")]
    line: Line | None
    launched_from: Annotated[Frame | None, says("File, line and function that launch it.")]
    reproducer: Path | None = None

    @classmethod
    def of(cls, launch: TracedRecord, process: int, reproducer: str | None = None) -> Place:
        kernel = launch.kernel
        stack = launch.python_stack
        return cls(
            kernel.name, launch.ordinal, launch.launch, process, kernel.file, kernel.line,
            stack[-1] if stack else None, reproducer,
        )  # fmt: skip


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
    sanitized: tuple[tuple[str, tuple[LaunchReport, ...]], ...] = ()
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
        return {
            "result": WORDS[self.answer],
            **{
                each.name: getattr(self, each.name)
                for each in dataclasses.fields(self)
                if each.name not in ("a", "b", "named", "nondeterministic", "changed", "within", "harmless")
            },
            "a": dataclasses.asdict(self.a),
            "b": dataclasses.asdict(self.b),
            "named": None if self.named is None else _named(self.named),
            "nondeterministic": [_named(one) for one in self.nondeterministic],
            **{
                name: [dataclasses.asdict(one) for one in getattr(self, name)]
                for name in ("changed", "within", "harmless")
            },
        }


def _named(one: Named) -> dict[str, Any]:
    return {
        "kind": one.kind,
        "a": None if one.a is None else dataclasses.asdict(one.a),
        "b": None if one.b is None else dataclasses.asdict(one.b),
        "before": one.before,
        "after": one.after,
        "changed": [dataclasses.asdict(change) for change in one.changed],
        "since": None if one.since is None else dataclasses.asdict(one.since),
        "raised": one.raised,
        "diff": None if one.diff is None else one.diff.as_dict(),
        "sanitized": [
            {"side": side, "findings": [finding.message for report in reports for finding in report.findings]}
            for side, reports in one.sanitized
        ],
        "problems": one.problems,
    }
