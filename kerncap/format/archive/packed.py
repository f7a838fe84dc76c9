"""What an archive holds, or would hold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from kerncap.format.document_types import Bytes, Region, says


@dataclass(frozen=True)
class PackedFile:
    name: Annotated[str, says("Path in the reproducer.")]
    bytes: Bytes
    stored_bytes: Annotated[Bytes, says("Bytes in the archive.")]


@dataclass(frozen=True)
class Unviewed:
    """A region that is packed although no argument's view is in it."""

    region: Region
    size: Bytes
    kind: str
    reason: str
    name: str | None
