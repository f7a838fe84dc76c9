"""``diverge``: where two runs of a program differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from kerncap.capture.payloads import TracedRecord
from kerncap.format.document_types import (
    Count,
    Document,
    Frame,
    Line,
    Names,
    Nanoseconds,
    Notes,
    Part,
    Path,
    says,
)
from kerncap.report.documents.diff import Change, DiffDocument, Equal


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


class DivergeFindings(Part, frozen=True, kw_only=True):
    side: Literal["A", "B"]
    findings: Annotated[Names, says("Findings of `kerncap sanitize` in the reproducer of this side.")]


class DivergeLaunch(Part, frozen=True, kw_only=True):
    """A launch in which the runs differ."""

    kind: Annotated[
        Literal["launch", "arguments", "memory", "only", "moved", "raised"],
        says(
            "launch: its inputs agree. arguments: it has other arguments. memory: its inputs differ, and no "
            "launch before it does. only: one run has it. moved: in another order. raised: an error."
        ),
    ]
    a: Place | None
    b: Place | None
    before: Annotated[Names, says("Arguments whose memory differs before it.")]
    after: Annotated[Names, says("Arguments whose memory differs after it.")]
    changed: tuple[Change, ...]
    since: Annotated[
        Place | None, says("Last launch that left equal bytes in the memory that differs before it.")
    ]
    raised: Annotated[tuple[str | None, str | None], says("Errors of A and B.")]
    diff: Annotated[DiffDocument | None, says("`kerncap diff` of both reproducers.")]
    sanitized: tuple[DivergeFindings, ...]
    problems: Annotated[Names, says("Why a reproducer or a report is missing.")]


class DivergeDocument(Document, frozen=True, kw_only=True):
    """The first launch in which two runs differ."""

    result: Equal
    once: Annotated[bool, says("True: both runs are of one command, so a difference is nondeterminism.")]
    aligned: Annotated[Count, says("Launches that both runs have.")]
    only: Annotated[tuple[Count, Count], says("Launches that only A has, and only B.")]
    search_ns: Annotated[Nanoseconds, says("Nanoseconds of the search with all of its runs.")]
    plain_ns: Annotated[Nanoseconds, says("Nanoseconds of the programs without kerncap, estimated.")]
    uncompared: Annotated[Names, says("What could not be compared.")]
    notes: Notes
    a: RunInfo
    b: RunInfo
    named: DivergeLaunch | None
    nondeterministic: Annotated[
        tuple[DivergeLaunch, ...], says("Launches that differ between two runs of one command.")
    ]
    changed: Annotated[tuple[Place, ...], says("Launches with other arguments and equal results.")]
    within: Annotated[tuple[Place, ...], says("Launches whose results are within the tolerance.")]
    harmless: Annotated[
        tuple[Place, ...], says("Launches that neither read nor write the bytes that differ.")
    ]
