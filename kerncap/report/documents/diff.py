"""``diff``: two reproducers, or two results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from kerncap.format.document_types import Bytes, Count, Document, Names, Notes, Path, says
from kerncap.format.memory_index import State
from kerncap.replay.stage_diff import StageDiff

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
class Difference:
    where: Annotated[str, says("Key, with the keys above it.")]
    kind: Annotated[Literal["value", "time", "told"], says("told: identifies the run; not a result.")]
    a: Any
    b: Any
    ratio: Annotated[float | None, says("B divided by A, for times.")] = None


Equal = Annotated[
    Literal["equal", "different", "undecided"],
    says("The exit status is 0 for equal, 1 for different, 5 for undecided: not everything was compared."),
]


class DiffDocument(Document, frozen=True, kw_only=True):
    """The differences between two reproducers."""

    result: Equal
    kind: Literal["reproducers"]
    differing: Annotated[Names, says("Names of the parts that differ, in display order.")]
    a: SideInfo
    b: SideInfo
    launch: tuple[Change, ...]
    arguments: tuple[Change, ...]
    code: tuple[CodeDiff, ...]
    source: tuple[SourceDiff, ...]
    views: tuple[ViewDiff, ...]
    regions: tuple[RegionDiff, ...]
    environment: Annotated[tuple[Change, ...], says("Shown, and not counted as a difference.")]
    notes: Notes
    counts: Annotated[dict[str, int], says("Counts of compared items.")]


class DiffResultsDocument(Document, frozen=True, kw_only=True):
    """The changes between two documents of one command."""

    result: Equal
    kind: Literal["results"]
    command: Annotated[str, says("Command that printed both.")]
    a: Path
    b: Path
    changes: tuple[Difference, ...]
    omitted: Annotated[Count, says("Number of changes that are not listed.")]
    max_ratio: float | None
    slower: Annotated[Names, says("Times that exceed max_ratio.")]
