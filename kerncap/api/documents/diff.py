"""``diff``: two reproducers, or two results."""

from __future__ import annotations

from typing import Annotated, Literal

from kerncap.api.diff.diff_result import Change, CodeDiff, RegionDiff, SideInfo, SourceDiff, ViewDiff
from kerncap.api.diff.document_diff import Difference
from kerncap.format.document_types import Count, Document, Names, Notes, Path, says

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
    environment: Annotated[tuple[Change, ...], says("Shown, and not counted as a difference.")]
    code: tuple[CodeDiff, ...]
    source: tuple[SourceDiff, ...]
    views: tuple[ViewDiff, ...]
    regions: tuple[RegionDiff, ...]
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
