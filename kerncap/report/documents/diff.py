"""``diff``: two reproducers, or two results."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from kerncap.report.documents.basics import Bytes, Count, Document, Names, Notes, Part, Path, says
from kerncap.report.documents.replay import StageDifference

Equal = Annotated[
    Literal["equal", "different", "undecided"],
    says("The exit status is 0 for equal, 1 for different, 5 for undecided: not everything was compared."),
]
Side = Annotated[Literal["a", "b"] | None, says("The side that has it, if only one does.")]


class ChangedFact(Part, frozen=True, kw_only=True):
    what: str
    a: Annotated[str | None, says("Null if A does not have it.")]
    b: Annotated[str | None, says("Null if B does not have it.")]
    ratio: Annotated[float | None, says("B divided by A, for times and sizes.")]


class ErrorBin(Part, frozen=True, kw_only=True):
    """Number of elements with an error from ``least`` up to ``below``; strings are infinities."""

    least: float | str
    below: float | str
    count: Count


class ErrorHistogram(Part, frozen=True, kw_only=True):
    measure: Annotated[
        Literal["absolute", "relative", "ulps"],
        says("absolute and relative are by decade, ulps by power of two."),
    ]
    bins: tuple[ErrorBin, ...]
    none: Annotated[Count, says("Elements with other bits and the same value, such as -0.0 and 0.0.")]
    special: Annotated[Count, says("Elements with NaN or infinity on one side.")]


class HeatMap(Part, frozen=True, kw_only=True):
    """Map of a tensor, in cells of ``row_step`` by ``column_step`` elements."""

    rows: Count
    columns: Count
    row_step: Count
    column_step: Count
    wrapped: Annotated[bool, says("True for a vector that is wrapped into rows.")]
    different: tuple[tuple[int, ...], ...]
    elements: tuple[tuple[int, ...], ...]
    special: tuple[tuple[int, ...], ...]


class FirstElement(Part, frozen=True, kw_only=True):
    index: tuple[int, ...]
    a: str
    b: str


class ComparedState(Part, frozen=True, kw_only=True):
    """Elements of a view, or bytes outside every view, before or after the launch."""

    state: Literal["pre", "post"]
    elements: Count
    different: Count
    complete: Annotated[bool, says("False: the reading limit was reached.")]
    first: FirstElement | None
    box: Annotated[
        tuple[tuple[int, int], ...], says("Smallest box that holds all differing elements, by axis.")
    ]
    axes: Annotated[tuple[int, ...], says("For each axis, the number of indices with a differing element.")]
    errors: Annotated[dict[str, Any], says("Error statistics by name.")]
    histograms: tuple[ErrorHistogram, ...]
    heat: HeatMap | None
    pointers: Annotated[Count, says("Words that differ and point to the same place.")]
    ignored: Annotated[Count, says("Elements that differ and don't matter to the launch.")]
    measured: Annotated[Count, says("Differing elements in errors and histograms.")]


class ComparedView(Part, frozen=True, kw_only=True):
    name: str
    dtypes: tuple[str | None, str | None]
    shapes: Annotated[
        tuple[tuple[int, ...] | None, tuple[int, ...] | None], says("Shapes of A and B, in elements.")
    ]
    states: tuple[ComparedState, ...]
    problem: Annotated[str, says("Why they can't be compared; empty if they can.")]


class ComparedRegion(Part, frozen=True, kw_only=True):
    """Bytes of a pair of regions outside every compared view."""

    name: str
    regions: tuple[int | None, int | None]
    sizes: Annotated[tuple[Bytes | None, Bytes | None], says("Sizes of A and B in bytes.")]
    how: Annotated[str, says("Why they were paired.")]
    states: tuple[ComparedState, ...]
    problem: str


class ComparedCode(Part, frozen=True, kw_only=True):
    """One stage of the compiled kernel."""

    stage: str
    same: bool
    how: Annotated[
        str,
        says(
            "bytes: equal files. text: compared without locations and numbering. binary: compared as bytes."
        ),
    ]
    only_in: Side
    text: StageDifference | None
    note: str


class ComparedSource(Part, frozen=True, kw_only=True):
    file: str
    same: bool
    only_in: Side
    lines: Annotated[Names, says("The first lines of a unified diff.")]
    lines_total: Count
    note: str


class ComparedSide(Part, frozen=True, kw_only=True):
    path: Path
    kernel: str
    manifest_sha256: str
    created: str
    oracle: str


class DiffDocument(Document, frozen=True, kw_only=True):
    """The differences between two reproducers."""

    result: Equal
    kind: Literal["reproducers"]
    differing: Annotated[Names, says("Names of the parts that differ, in display order.")]
    a: ComparedSide
    b: ComparedSide
    launch: tuple[ChangedFact, ...]
    arguments: tuple[ChangedFact, ...]
    environment: Annotated[tuple[ChangedFact, ...], says("Shown, and not counted as a difference.")]
    code: tuple[ComparedCode, ...]
    source: tuple[ComparedSource, ...]
    views: tuple[ComparedView, ...]
    regions: tuple[ComparedRegion, ...]
    notes: Notes
    counts: Annotated[dict[str, int], says("Counts of compared items.")]


class ChangedValue(Part, frozen=True, kw_only=True):
    where: Annotated[str, says("Key, with the keys above it.")]
    kind: Annotated[Literal["value", "time", "told"], says("told: identifies the run; not a result.")]
    a: Any
    b: Any
    ratio: Annotated[float | None, says("B divided by A, for times.")]


class DiffResultsDocument(Document, frozen=True, kw_only=True):
    """The changes between two documents of one command."""

    result: Equal
    kind: Literal["results"]
    command: Annotated[str, says("Command that printed both.")]
    a: Path
    b: Path
    changes: tuple[ChangedValue, ...]
    omitted: Annotated[Count, says("Number of changes that are not listed.")]
    max_ratio: float | None
    slower: Annotated[Names, says("Times that exceed max_ratio.")]
