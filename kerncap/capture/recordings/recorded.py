"""What the readers of recordings have in common: a launch put together from one, and its memory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import numpy.typing as npt

from kerncap.capture.payloads import LaunchRecord
from kerncap.errors import UsageError
from kerncap.format import schema
from kerncap.format.document_types import says
from kerncap.format.size_limits import MAX_REGIONS_BYTES
from kerncap.log import one_line
from kerncap.regular_file import read_regular

Bytes = npt.NDArray[np.uint8]
MAX_JSON_BYTES = 16 << 20


class Lacking(Exception):
    """One launch lacks something that a reproducer needs: what, and how it is recorded."""


@dataclass(frozen=True)
class Recorded:
    """One launch; ``memory`` has the contents of each region before it."""

    launch: LaunchRecord
    memory: Sequence[Bytes | Path]
    tool: str  # that recorded it, for notes
    code: dict[str, bytes] = field(default_factory=dict)
    source: str | None = None  # a module with the kernel
    original_file: str | None = None
    packages: dict[str, str] = field(default_factory=dict)
    compiled: dict[str, schema.Value] = field(default_factory=dict)
    expected: dict[int, Bytes] = field(default_factory=dict)  # region -> contents after the launch, if known
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LeftOut:
    """A launch that can't be made a reproducer."""

    launch: str
    reason: Annotated[str, says("What the recording lacks.")]


class Folder:
    """Files of a recording, by names that it may have chosen itself: none leads out of it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._real = os.path.realpath(root)

    def path(self, name: str) -> Path:
        """Raises UsageError for a name that leads out."""
        found = os.path.realpath(os.path.join(self._real, name)) if "\0" not in name else ""
        if os.path.commonpath([self._real, found or "/"]) != self._real:
            raise UsageError(f"{self.root}: {one_line(name)[:200]!r} leads out of the recording")
        return Path(found)

    def has(self, name: str) -> bool:
        return self.path(name).is_file()

    def read(self, name: str, limit: int) -> bytes:
        return read_regular(self.path(name), limit)

    def document(self, name: str) -> dict[str, Any]:
        return document(self.read(name, MAX_JSON_BYTES), self.root / name)


def document(data: bytes, where: Path) -> dict[str, Any]:
    """A JSON object. Raises UsageError."""
    try:
        found = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(
            f"{where}: not JSON: {one_line(str(error))[:200]}; give a log of tritonparse (.ndjson) or a "
            "folder of AMD's kerncap"
        ) from error
    if not isinstance(found, dict):
        raise UsageError(f"{where}: a JSON object was expected")
    return found


def number(value: object, what: str, most: int = (1 << 63) - 1) -> int:
    """A count or an address out of a document. Raises Lacking."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise Lacking(f"{what} is not a number from 0 to {most}")
    return value


def numbers(value: object, what: str, most: int = (1 << 48)) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > schema.MAX_DIMENSIONS:
        raise Lacking(f"{what} is not a list of numbers")
    return tuple(number(each, what, most) for each in value)


def grid_of(value: object) -> tuple[int, int, int]:
    x, y, z = (*numbers(value, "its grid", (1 << 31) - 1), 1, 1, 1)[:3]
    if not x * y * z:
        raise Lacking("its grid is empty")
    return x, y, z


def check_total(sizes: Sequence[int], limit: int | None) -> None:
    """Raises UsageError for more memory than ``limit``."""
    most = min(limit or MAX_REGIONS_BYTES, MAX_REGIONS_BYTES)
    if sum(sizes) > most:
        raise UsageError(f"memory: {sum(sizes):,} bytes are recorded, more than {most:,}; raise --max-size")
