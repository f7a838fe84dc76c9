"""What a comparison of two reproducers found: plain data, the shape of ``kerncap diff --json``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kerncap.answer import Answer
from kerncap.report.documents.diff import (
    Change,
    CodeDiff,
    DiffDocument,
    Equal,
    RegionDiff,
    SideInfo,
    SourceDiff,
    ViewDiff,
)

# The word of each answer to "are they equal?", in ``--json`` and, in capitals, in the last line.
WORDS: dict[Answer, Equal] = {Answer.YES: "equal", Answer.NO: "different", Answer.UNDECIDED: "undecided"}
NOT_COMPARED = "not compared: "  # how a `problem` begins that is no difference


@dataclass(frozen=True)
class ReproducerDiff:
    """Everything that two reproducers differ in. ``environment`` is shown and decides nothing."""

    a: SideInfo
    b: SideInfo
    launch: tuple[Change, ...]
    arguments: tuple[Change, ...]
    code: tuple[CodeDiff, ...]
    source: tuple[SourceDiff, ...]
    views: tuple[ViewDiff, ...]
    regions: tuple[RegionDiff, ...]
    environment: tuple[Change, ...]
    notes: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)  # what was compared

    @property
    def differing(self) -> list[str]:
        """The parts that differ, in the order in which they are shown."""
        memory: list[ViewDiff | RegionDiff] = [*self.views, *self.regions]
        parts = {
            "launch": bool(self.launch),
            "arguments": bool(self.arguments),
            "code": any(not one.same for one in self.code),
            "source": any(not one.same for one in self.source),
            "memory before": any(self._differs(one, "pre") for one in memory),
            "memory after": any(self._differs(one, "post") for one in memory),
        }
        return [name for name, differs in parts.items() if differs]

    @property
    def why_open(self) -> str:
        """Why it can't be said that they are equal, and what would tell; empty if nothing was left out."""
        memory: list[ViewDiff | RegionDiff] = [*self.views, *self.regions]
        if any(not state.complete for one in memory for state in one.states):
            return "not all memory was read; a larger --max-read would decide it"
        left = next((one for one in memory if one.problem.startswith(NOT_COMPARED)), None)
        return f"{left.name}: {left.problem}" if left is not None else ""

    @property
    def answer(self) -> Answer:
        """No for any difference; yes if everything was compared."""
        if self.differing:
            return Answer.NO
        return Answer.UNDECIDED if self.why_open else Answer.YES

    @property
    def equal(self) -> bool:
        return self.answer is Answer.YES

    @staticmethod
    def _differs(one: ViewDiff | RegionDiff, state: str) -> bool:
        if one.problem:
            return not one.problem.startswith(NOT_COMPARED)
        return any(each.different for each in one.states if each.state == state)

    def document(self) -> DiffDocument:
        """The document of ``--json``."""
        return DiffDocument(
            result=WORDS[self.answer], kind="reproducers", differing=tuple(self.differing), **vars(self)
        )

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return self.document().as_dict()
