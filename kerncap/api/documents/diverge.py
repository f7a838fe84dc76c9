"""``diverge``: where two runs of a program differ."""

from __future__ import annotations

from typing import Annotated, Literal

from kerncap.api.diverge.diverge_result import Place, RunInfo
from kerncap.format.document_types import Count, Document, Names, Notes, Part, says
from kerncap.report.documents.diff import Change, DiffDocument, Equal


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
    a: RunInfo
    b: RunInfo
    once: Annotated[bool, says("True: both runs are of one command, so a difference is nondeterminism.")]
    aligned: Annotated[Count, says("Launches that both runs have.")]
    only: Annotated[tuple[Count, Count], says("Launches that only A has, and only B.")]
    named: DivergeLaunch | None
    nondeterministic: Annotated[
        tuple[DivergeLaunch, ...], says("Launches that differ between two runs of one command.")
    ]
    changed: Annotated[tuple[Place, ...], says("Launches with other arguments and equal results.")]
    within: Annotated[tuple[Place, ...], says("Launches whose results are within the tolerance.")]
    harmless: Annotated[
        tuple[Place, ...], says("Launches that neither read nor write the bytes that differ.")
    ]
    uncompared: Annotated[Names, says("What could not be compared.")]
    notes: Notes
