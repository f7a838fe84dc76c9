"""What a comparison of two reproducers found: plain data, the shape of ``kerncap diff --json``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from kerncap.answer import Answer
from kerncap.format.document_types import Bytes, Count, Names, says
from kerncap.format.memory_index import State
from kerncap.replay.stage_diff import StageDiff

# The word of each answer to "are they equal?", in ``--json`` and, in capitals, in the last line.
WORDS = {Answer.YES: "equal", Answer.NO: "different", Answer.UNDECIDED: "undecided"}
NOT_COMPARED = "not compared: "  # how a `problem` begins that is no difference


Measure = Literal["absolute", "relative", "ulps"]
Side = Annotated[Literal["A", "B"] | None, says("The side that has it, if only one does.")]


@dataclass(frozen=True)
class Change:
    what: str
    a: Annotated[str | None, says("Null if A does not have it.")]
    b: Annotated[str | None, says("Null if B does not have it.")]
    ratio: Annotated[float | None, says("B divided by A, for times and sizes.")] = None


@dataclass(frozen=True)
class Bin:
    """Number of elements with an error from ``least`` up to ``below``."""

    least: float
    below: float
    count: Count


@dataclass(frozen=True)
class Histogram:
    measure: Annotated[Measure, says("absolute and relative are by decade, ulps by power of two.")]
    bins: tuple[Bin, ...]
    none: Annotated[Count, says("Elements with other bits and the same value, such as -0.0 and 0.0.")] = 0
    special: Annotated[Count, says("Elements with NaN or infinity on one side.")] = 0


@dataclass(frozen=True)
class Heat:
    """Map of a tensor, in cells of ``row_step`` by ``column_step`` elements."""

    # The last axis runs to the right, all others are folded into rows.
    rows: Count
    columns: Count
    row_step: Count
    column_step: Count
    wrapped: Annotated[bool, says("True for a vector that is wrapped into rows.")]
    different: tuple[tuple[int, ...], ...]
    elements: tuple[tuple[int, ...], ...]
    special: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class First:
    index: tuple[int, ...]
    a: str
    b: str


@dataclass(frozen=True)
class StateDiff:
    """Elements of a view, or bytes outside every view, before or after the launch."""

    state: State
    elements: Count
    different: Count
    complete: Annotated[bool, says("False: the reading limit was reached.")] = True
    first: First | None = None
    box: Annotated[
        tuple[tuple[int, int], ...], says("Smallest box that holds all differing elements, by axis.")
    ] = ()
    axes: Annotated[
        tuple[int, ...], says("For each axis, the number of indices with a differing element.")
    ] = ()
    errors: Annotated[dict[str, Any], says("Error statistics by name.")] = field(default_factory=dict)
    histograms: tuple[Histogram, ...] = ()
    heat: Heat | None = None
    pointers: Annotated[Count, says("Words that differ and point to the same place.")] = 0
    ignored: Annotated[Count, says("Elements that differ and don't matter to the launch.")] = 0
    measured: Annotated[Count, says("Differing elements in errors and histograms.")] = 0

    @property
    def same(self) -> bool:
        return not self.different and self.complete


@dataclass(frozen=True)
class ViewDiff:
    # `states` has no "post" if neither launch changes the view's region: it is as before.
    name: str
    dtypes: tuple[str | None, str | None]
    shapes: Annotated[
        tuple[tuple[int, ...] | None, tuple[int, ...] | None], says("Shapes of A and B, in elements.")
    ]
    states: tuple[StateDiff, ...] = ()
    problem: Annotated[str, says("Why they can't be compared; empty if they can.")] = ""

    @property
    def same(self) -> bool:
        return not self.problem and all(state.same for state in self.states)


@dataclass(frozen=True)
class RegionDiff:
    """Bytes of a pair of regions outside every compared view."""

    name: str
    regions: tuple[int | None, int | None]
    sizes: Annotated[tuple[Bytes | None, Bytes | None], says("Sizes of A and B in bytes.")]
    how: Annotated[str, says("Why they were paired.")]
    states: tuple[StateDiff, ...] = ()
    problem: str = ""

    @property
    def same(self) -> bool:
        return not self.problem and all(state.same for state in self.states)


@dataclass(frozen=True)
class CodeDiff:
    """One stage of the compiled kernel."""

    stage: str
    same: bool
    how: Annotated[
        str,
        says(
            "bytes: equal files. text: compared without locations and numbering. binary: compared as bytes."
        ),
    ]
    only_in: Side = None
    text: StageDiff | None = None
    note: str = ""


@dataclass(frozen=True)
class SourceDiff:
    file: str
    same: bool
    only_in: Side = None
    lines: Annotated[Names, says("The first lines of a unified diff.")] = ()
    lines_total: Count = 0
    note: str = ""


@dataclass(frozen=True)
class SideInfo:
    path: str
    kernel: str
    manifest_sha256: str
    created: str
    oracle: str


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

    def as_dict(self) -> dict[str, Any]:
        """The document of ``--json``."""
        found = dataclasses.asdict(self)
        return {"result": WORDS[self.answer], "kind": "reproducers", "differing": self.differing, **found}
