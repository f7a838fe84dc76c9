"""What an archive holds, or would hold."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap.format.document_types import Bytes, Region
from kerncap.format.private import Finding

TRACKER_BYTES = 25 * 1000 * 1000  # what bug trackers take


@dataclass(frozen=True)
class PackedFile:
    """One file: ``name`` inside the reproducer, bytes there and in the archive."""

    name: str
    size: int
    stored: int


@dataclass(frozen=True)
class Unviewed:
    """A region that is packed although no argument's view is in it."""

    region: Region
    size: Bytes
    kind: str
    reason: str
    name: str | None


@dataclass(frozen=True)
class Packed:
    """What was packed, or would be: ``written`` is false for a dry run."""

    path: Path
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
        """For ``--json``."""
        return {
            "path": str(self.path), "written": self.written, "size_bytes": self.size,
            "files": [{"name": f.name, "bytes": f.size, "stored_bytes": f.stored} for f in self.files],
            "unviewed_regions": [vars(one) for one in self.unviewed],
            "findings": [one.as_dict() for one in self.findings],
            "notes": list(self.notes),
        }  # fmt: skip
