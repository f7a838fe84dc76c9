"""``minimize``, ``pack``, ``unpack``, ``export`` and ``report``: what leaves the machine, what is private."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from kerncap.report.documents.basics import (
    Bytes,
    Count,
    Document,
    Names,
    Notes,
    Part,
    Path,
    Region,
    says,
)  # fmt: skip


class PackedEntry(Part, frozen=True, kw_only=True):
    name: Annotated[str, says("Inside of the reproducer.")]
    bytes: Bytes
    stored_bytes: Annotated[Bytes, says("Bytes in the archive.")]


class UnviewedRegion(Part, frozen=True, kw_only=True):
    """A region that goes along though no argument's view lies in it."""

    region: Region
    size: Bytes
    kind: str
    reason: str
    name: str | None


class PrivatePlace(Part, frozen=True, kw_only=True):
    """Where something private was; the text itself is not told."""

    kind: Literal["secret", "user", "host", "variable"]
    what: str
    file: Annotated[str, says("Inside of the reproducer.")]
    line: Annotated[int | None, says("From 1; null in the manifest and in a file that is no text.")]
    key: Annotated[str | None, says("Of the manifest: where it is there.")]
    shown: Annotated[str, says("Enough to find it, not enough to use it.")]
    became: Annotated[str, says("What is there now; kept: it stays.")]


class PackDocument(Document, frozen=True, kw_only=True):
    """What was packed, or would be. Where something private stops it: path null, a reason, the findings."""

    path: Annotated[Path | None, says("The archive; null where nothing is to be written.")]
    written: Annotated[bool, says("False for --dry-run, and where something private was found.")]
    findings: Annotated[tuple[PrivatePlace, ...], says("What is private, and what became of it.")]
    reason: Annotated[str | UnsetType, says("Why nothing was written.")] = UNSET
    size_bytes: Annotated[Bytes | UnsetType, says("Bytes of the archive.")] = UNSET
    files: tuple[PackedEntry, ...] | UnsetType = UNSET
    unviewed_regions: tuple[UnviewedRegion, ...] | UnsetType = UNSET
    notes: Notes | UnsetType = UNSET


class UnpackDocument(Document, frozen=True, kw_only=True):
    """Where the reproducer's folder is."""

    path: Path


class MinimizeDocument(Document, frozen=True, kw_only=True):
    """What was left out. Bytes are of memory as it is stored, but for the closure's."""

    path: Annotated[Path | None, says("The new reproducer; null where nothing could be left out.")]
    before_bytes: Bytes
    after_bytes: Bytes
    needed_bytes: Annotated[Bytes, says("Bytes of the regions that were kept.")]
    closure_bytes: Annotated[Bytes, says("Bytes of the regions.")]
    regions_left_out: Count
    how: Annotated[str, says("How it was found out what is needed.")]
    tries: Annotated[Count, says("Replays or runs of the command that it took.")]
    seconds: float
    verified: Annotated[str, says("What the new one's own check says.")]
    complete: Annotated[bool, says("False: the time was up before everything was asked.")]
    ratio: Annotated[float, says("after_bytes by before_bytes.")]


class ExportedFile(Part, frozen=True, kw_only=True):
    name: Annotated[str, says("Inside of the project.")]
    bytes: Bytes


class ExportDocument(Document, frozen=True, kw_only=True):
    """A project that runs the launch without kerncap. Where something private stops it: path null, reason."""

    path: Annotated[Path | None, says("The folder or file; null where nothing was written.")]
    findings: Annotated[tuple[PrivatePlace, ...], says("What is private, and what became of it.")]
    kind: Annotated[Literal["script", "cmake", "pytest"] | UnsetType, says("What was made.")] = msgspec.field(
        default=UNSET, name="as"
    )
    written: bool | UnsetType = UNSET
    reason: Annotated[str | None | UnsetType, says("Why nothing was written.")] = UNSET
    size_bytes: Annotated[Bytes | UnsetType, says("Bytes of all files.")] = UNSET
    files: tuple[ExportedFile, ...] | UnsetType = UNSET
    run: Annotated[Names | UnsetType, says("The commands that run it.")] = UNSET
    notes: Notes | UnsetType = UNSET


class ReportDocument(Document, frozen=True, kw_only=True):
    """One HTML page of a reproducer. Where something private stops it: path null, a reason, the findings."""

    path: Annotated[Path | None, says("The page; null where nothing was written.")]
    written: bool
    reason: Annotated[str | None, says("Why nothing was written.")]
    findings: Annotated[tuple[PrivatePlace, ...], says("What is private, and what became of it.")]
    size_bytes: Annotated[Bytes | UnsetType, says("Bytes of the page.")] = UNSET
    kernel: str | UnsetType = UNSET
    results: Annotated[Names | UnsetType, says("The results that are shown in it.")] = UNSET
    left_out: Annotated[Names | UnsetType, says("What is not in the page, and why.")] = UNSET
