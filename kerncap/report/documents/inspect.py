"""``inspect``: the manifest, with references resolved."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, UnsetType

from kerncap.format.document_types import Address, Bytes, Count, Document, Notes, Part, Path, Region, says
from kerncap.format.schema import Manifest


class ResolvedTensor(Part, frozen=True, kw_only=True):
    """A tensor of an argument: a view of a region. ``offset`` and ``alignment`` are bytes."""

    view: Annotated[int, says("Index in the manifest's views.")]
    name: str | None
    dtype: str
    shape: Annotated[tuple[int, ...], says("Elements.")]
    strides: Annotated[tuple[int, ...], says("Elements.")]
    region: Region
    offset: Bytes
    address: Address
    alignment: Annotated[int, says("Largest power of two that divides the address, at most 4096.")]


class ResolvedArgument(Part, frozen=True, kw_only=True):
    """An argument of the launch, in the kernel's order."""

    name: str
    role: Annotated[str, says("Parameter kind: runtime, constexpr, …")]
    kind: Annotated[str, says("Kind of the value, as in the manifest.")]
    tensors: tuple[ResolvedTensor, ...] | UnsetType = UNSET


class Alias(Part, frozen=True, kw_only=True):
    """Two tensor arguments whose byte ranges overlap."""

    arguments: tuple[str, str]
    region: Region
    bytes: Bytes
    same_range: bool


class StoredRegion(Part, frozen=True, kw_only=True):
    """Bytes of one region, before and after the launch."""

    pre_bytes: Bytes
    post_bytes: Bytes
    chunks_changed: Count


class Stored(Part, frozen=True, kw_only=True):
    """Sizes of the memory, stored and expanded."""

    memory_bytes: Annotated[Bytes, says("Bytes on disk.")]
    pre_bytes: Bytes
    post_bytes: Bytes
    chunks: Count
    regions: tuple[StoredRegion, ...]


class WrittenRegion(Part, frozen=True, kw_only=True):
    """How much of a region the launch writes, measured by replays."""

    region: Region
    written_bytes: Bytes
    size: Bytes
    also_input: Annotated[bool, says("True if the launch reads some of these bytes before it writes them.")]


class CodePlace(Part, frozen=True, kw_only=True):
    """Which line of the source a byte of the kernel's code comes from."""

    offset: Annotated[int, says("Bytes from the beginning of the kernel's code.")]
    file: Annotated[str | None, says("As the compiler was given it; null outside of the kernel's lines.")]
    line: int | None


class InspectDocument(Document, frozen=True, kw_only=True):
    """Everything about a reproducer. Nothing in it was executed."""

    path: Path
    manifest_sha256: str
    manifest: Annotated[Manifest, says("manifest.json; kerncap/format/FORMAT.md explains it.")]
    arguments: tuple[ResolvedArgument, ...]
    aliases: tuple[Alias, ...]
    stored: Stored
    checks: Annotated[dict[str, Any] | None, says("checks.json: results of replays on this machine.")]
    write_set: tuple[WrittenRegion, ...] | None
    digests: Annotated[str, says("'verified', or the digests that were not checked.")]
    notes: Notes
    places: Annotated[tuple[CodePlace, ...] | UnsetType, says("One for each --at.")] = UNSET
