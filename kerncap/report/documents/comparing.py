"""``diff``: two reproducers, or two results."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from kerncap.report.documents.basics import Bytes, Count, Document, Names, Notes, Part, Path, says
from kerncap.report.documents.judging import StageDifference

Equal = Annotated[
    Literal["equal", "different", "undecided"],
    says("The exit status is 0 for equal, 1 for different, 5 for undecided: not everything was compared."),
]
Side = Annotated[Literal["a", "b"] | None, says("Where one side alone has it.")]


class ChangedFact(Part, frozen=True, kw_only=True):
    what: str
    a: Annotated[str | None, says("Null where A does not have it.")]
    b: Annotated[str | None, says("Null where B does not have it.")]
    ratio: Annotated[float | None, says("B by A, of times and sizes.")]


class ErrorBin(Part, frozen=True, kw_only=True):
    """Elements that err by ``least`` up to ``below``; texts are infinities."""

    least: float | str
    below: float | str
    count: Count


class ErrorHistogram(Part, frozen=True, kw_only=True):
    measure: Annotated[Literal["absolute", "relative", "ulps"], says("By decade; ulps by power of two.")]
    bins: tuple[ErrorBin, ...]
    none: Annotated[Count, says("Other bits and the same value, as of -0.0 and 0.0.")]
    special: Annotated[Count, says("NaN or infinity on one side.")]


class HeatMap(Part, frozen=True, kw_only=True):
    """Where in a tensor, by cells of ``row_step`` by ``column_step`` elements."""

    rows: Count
    columns: Count
    row_step: Count
    column_step: Count
    wrapped: Annotated[bool, says("A vector: each row goes on where the last one ended.")]
    different: tuple[tuple[int, ...], ...]
    elements: tuple[tuple[int, ...], ...]
    special: tuple[tuple[int, ...], ...]


class FirstElement(Part, frozen=True, kw_only=True):
    index: tuple[int, ...]
    a: str
    b: str


class ComparedState(Part, frozen=True, kw_only=True):
    """Elements of a view, or bytes that no view has, before or after the launch."""

    state: Literal["pre", "post"]
    elements: Count
    different: Count
    complete: Annotated[bool, says("False: the limit of what is read was reached.")]
    first: FirstElement | None
    box: Annotated[tuple[tuple[int, int], ...], says("The smallest that holds all that differ, by axis.")]
    axes: Annotated[tuple[int, ...], says("How many indices of each axis meet one that differs.")]
    errors: Annotated[dict[str, Any], says("Statistics of the errors by name.")]
    histograms: tuple[ErrorHistogram, ...]
    heat: HeatMap | None
    pointers: Annotated[Count, says("Words that differ, and point to the same place.")]
    ignored: Annotated[Count, says("Elements that differ, and mean nothing to the launch.")]
    measured: Annotated[Count, says("Elements that differ, and that errors and histograms are of.")]


class ComparedView(Part, frozen=True, kw_only=True):
    name: str
    dtypes: tuple[str | None, str | None]
    shapes: Annotated[tuple[tuple[int, ...] | None, tuple[int, ...] | None], says("Elements, of A and B.")]
    states: tuple[ComparedState, ...]
    problem: Annotated[str, says("Why they can't be compared; empty where they can.")]


class ComparedRegion(Part, frozen=True, kw_only=True):
    """Bytes of a pair of regions that no compared view holds."""

    name: str
    regions: tuple[int | None, int | None]
    sizes: Annotated[tuple[Bytes | None, Bytes | None], says("Bytes, of A and B.")]
    how: Annotated[str, says("Why they are a pair.")]
    states: tuple[ComparedState, ...]
    problem: str


class ComparedCode(Part, frozen=True, kw_only=True):
    """One stage of the compiled kernel."""

    stage: str
    same: bool
    how: Annotated[str, says("bytes: the same file; text: without locations and numbering; binary.")]
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
    """Everything that two reproducers differ in."""

    result: Equal
    kind: Literal["reproducers"]
    differing: Annotated[Names, says("The parts that differ, in the order in which they are shown.")]
    a: ComparedSide
    b: ComparedSide
    launch: tuple[ChangedFact, ...]
    arguments: tuple[ChangedFact, ...]
    environment: Annotated[tuple[ChangedFact, ...], says("Told; decides nothing.")]
    code: tuple[ComparedCode, ...]
    source: tuple[ComparedSource, ...]
    views: tuple[ComparedView, ...]
    regions: tuple[ComparedRegion, ...]
    notes: Notes
    counts: Annotated[dict[str, int], says("What was compared.")]


class ChangedValue(Part, frozen=True, kw_only=True):
    where: Annotated[str, says("The key, with the keys above it.")]
    kind: Annotated[Literal["value", "time", "told"], says("told: which run it was, not what came of it.")]
    a: Any
    b: Any
    ratio: Annotated[float | None, says("B by A, of times.")]


class DiffResultsDocument(Document, frozen=True, kw_only=True):
    """What changed between two documents of one command."""

    result: Equal
    kind: Literal["results"]
    command: Annotated[str, says("That printed both.")]
    a: Path
    b: Path
    changes: tuple[ChangedValue, ...]
    omitted: Annotated[Count, says("Changes that are not listed, for there are very many.")]
    max_ratio: float | None
    slower: Annotated[Names, says("Times that take longer than max_ratio allows.")]
