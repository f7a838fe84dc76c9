"""``minimize``, ``pack``, ``unpack``, ``export`` and ``report``: files to share, and private data."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from kerncap.format.archive.packed import PackedFile, Unviewed
from kerncap.format.document_types import Bytes, Count, Document, Names, Notes, Part, Path, says  # fmt: skip
from kerncap.format.private import Finding

TRACKER_BYTES = 25 * 1000 * 1000  # what bug trackers take


class PackDocument(Document, frozen=True, kw_only=True):
    """The packed files, or those that would be. If private data stops it: path null, reason, findings."""

    path: Annotated[Path | None, says("The archive; null if nothing is to be written.")]
    written: Annotated[bool, says("False for --dry-run, and if private data was found.")]
    reason: Annotated[str | UnsetType, says("Why nothing was written.")] = UNSET
    size_bytes: Annotated[Bytes | UnsetType, says("Bytes of the archive.")] = UNSET
    files: tuple[PackedFile, ...] | UnsetType = UNSET
    unviewed_regions: tuple[Unviewed, ...] | UnsetType = UNSET
    findings: Annotated[tuple[Finding, ...], says("Private data, with replacements.")]
    notes: Notes | UnsetType = UNSET


@dataclass(frozen=True)
class Packed:
    """What was packed, or would be: ``written`` is false for a dry run."""

    path: pathlib.Path
    size: int
    files: tuple[PackedFile, ...]
    unviewed: tuple[Unviewed, ...]
    findings: tuple[Finding, ...]  # what private things were found, and what became of them
    written: bool = True
    notes: tuple[str, ...] = ()

    @property
    def is_large(self) -> bool:
        """More than bug trackers take."""
        return self.size > TRACKER_BYTES

    def as_dict(self) -> dict[str, Any]:
        """The document of ``kerncap pack --json``."""
        return PackDocument(
            path=str(self.path),
            written=self.written,
            size_bytes=self.size,
            files=self.files,
            unviewed_regions=self.unviewed,
            findings=self.findings,
            notes=self.notes,
        ).as_dict()


class UnpackDocument(Document, frozen=True, kw_only=True):
    """The folder of the unpacked reproducer."""

    path: Path


class MinimizeDocument(Document, frozen=True, kw_only=True):
    """The result of minimizing. Bytes count stored memory, except closure_bytes."""

    path: Annotated[Path | None, says("The new reproducer; null if nothing could be left out.")]
    before_bytes: Bytes
    after_bytes: Bytes
    needed_bytes: Annotated[Bytes, says("Bytes of memory that the launch needs.")]
    closure_bytes: Annotated[Bytes, says("Bytes of all regions.")]
    regions_left_out: Count
    how: Annotated[str, says("How the needed bytes were found.")]
    tries: Annotated[Count, says("Number of replays or runs of the command.")]
    seconds: float
    verified: Annotated[str, says("Result of the check of the new reproducer.")]
    complete: Annotated[bool, says("False: the time limit ended the search.")]
    ratio: Annotated[float, says("after_bytes divided by before_bytes.")]


class ExportedFile(Part, frozen=True, kw_only=True):
    name: Annotated[str, says("Path in the project.")]
    bytes: Bytes


class ExportDocument(Document, frozen=True, kw_only=True):
    """A project that runs the launch without kerncap. If private data stops it: path null, reason."""

    kind: Annotated[
        Literal["script", "cmake", "pytest", "kernelbench", "flashinfer-trace", "pygpubench"] | UnsetType,
        says("Kind of the project."),
    ] = msgspec.field(default=UNSET, name="as")
    path: Annotated[Path | None, says("The folder or file; null if nothing was written.")]
    written: bool | UnsetType = UNSET
    reason: Annotated[str | None | UnsetType, says("Why nothing was written.")] = UNSET
    size_bytes: Annotated[Bytes | UnsetType, says("Bytes of all files.")] = UNSET
    files: tuple[ExportedFile, ...] | UnsetType = UNSET
    run: Annotated[Names | UnsetType, says("Commands that run it.")] = UNSET
    notes: Notes | UnsetType = UNSET
    findings: Annotated[tuple[Finding, ...], says("Private data, with replacements.")]


class ReportDocument(Document, frozen=True, kw_only=True):
    """One HTML page of a reproducer. If private data stops it: path null, a reason, the findings."""

    path: Annotated[Path | None, says("The page; null if nothing was written.")]
    written: bool
    reason: Annotated[str | None, says("Why nothing was written.")]
    size_bytes: Annotated[Bytes | UnsetType, says("Bytes of the page.")] = UNSET
    kernel: str | UnsetType = UNSET
    results: Annotated[Names | UnsetType, says("Results that the page shows.")] = UNSET
    left_out: Annotated[Names | UnsetType, says("Parts that the page leaves out, with the reason.")] = UNSET
    findings: Annotated[tuple[Finding, ...], says("Private data, with replacements.")]


class CollectedReproducer(Part, frozen=True, kw_only=True):
    path: Path
    size_bytes: Annotated[Bytes, says("Bytes of its files.")]
    sealed_s: Annotated[int, says("When it was written, in seconds since 1970.")]


class LeftAlone(Part, frozen=True, kw_only=True):
    """A folder with a manifest that is not removed at any age."""

    path: Path
    reason: str


class GcDocument(Document, frozen=True, kw_only=True):
    """Reproducers that are old or take too much space, the newest first."""

    removed: Annotated[bool, says("False without --delete: they are still there.")]
    reproducers: tuple[CollectedReproducer, ...]
    size_bytes: Annotated[Bytes, says("Bytes of all of them.")]
    kept: Annotated[Count, says("Number of reproducers that stay.")]
    left_alone: tuple[LeftAlone, ...]
