"""``inspect`` and ``replay`` of a range, and ``slice``: several launches, and what flows between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from kerncap.format.document_types import (
    Bytes,
    Count,
    Document,
    LaunchInProgram,
    LaunchInRange,
    Names,
    Notes,
    Part,
    Path,
    Word,
    says,
)
from kerncap.report.documents.replay import ViewDifference


class RangeStep(Part, frozen=True, kw_only=True):
    """One launch, as it ran on what those before it left in memory."""

    launch: LaunchInRange
    position: LaunchInProgram
    kernel: str
    result: Annotated[
        Literal["pass", "fail", "undecided"] | None, says("Whether memory was then the application's.")
    ]
    summary: str
    changed_between_regions: Annotated[
        int, says("Regions that something outside the range changed since the launch before.")
    ]
    changed_between_bytes: Bytes
    compared_bytes: Annotated[Bytes, says("Bytes that the application's launch changed.")]
    poisoned_bytes: Annotated[Bytes, says("Written bytes that were filled with poison before.")]
    views: Annotated[tuple[ViewDifference, ...], says("Tensors that differ.")]


class ReplayRangeDocument(Document, frozen=True, kw_only=True):
    """A replay of a range, up to the first launch that does not do what it did in the application."""

    result: Word
    summary: str
    reasons: Annotated[Names, says("Why it failed or is undecided, one line each.")]
    exact: Annotated[bool, says("True if equal bit by bit, not only within the noise of replays.")]
    path: Path
    launches: Annotated[Count, says("Launches that were to run.")]
    engine: Annotated[str, says("Engine that ran it: interpreter, jit, binary.")]
    device: Annotated[str, says("cpu, or the GPU's name.")]
    first_differing: Annotated[int | None, says("First launch that differs or is undecided, from 0.")]
    steps: Annotated[tuple[RangeStep, ...], says("The launches that ran, in order.")]
    notes: Notes


@dataclass
class LaunchFlow:
    """What one launch writes and reads."""

    launch: LaunchInRange
    position: LaunchInProgram
    kernel: str
    stream: Annotated[str, says("For a person; the same text for the same stream.")]
    grid: tuple[int, ...]
    is_measured: Annotated[
        bool,
        says("True if replays measured it; else it is taken to write what changed and read its arguments."),
    ]
    written: Bytes = 0
    from_outside: Annotated[Bytes, says("Bytes that it reads and no launch before it wrote.")] = 0
    read_inside: Annotated[Bytes, says("Bytes of what it writes that later launches read.")] = 0
    overwritten: Annotated[Bytes, says("Bytes of what it writes that are gone before the range ends.")] = 0
    changed_before: Annotated[
        Bytes, says("Bytes that something outside the range changed since the launch before.")
    ] = 0
    changed_before_regions: Count = 0


# `from` is a word of Python's.
class Flow(Part, frozen=True, kw_only=True, rename={"source": "from", "target": "to"}):
    """Bytes that one launch reads of what another wrote."""

    source: LaunchInRange
    target: LaunchInRange
    bytes: Bytes
    ordered: Annotated[
        bool | None,
        says("True if the first launch has ended when the second begins; null if that is not known."),
    ]


class MissingLaunch(Part, frozen=True, kw_only=True):
    """A launch of the range that could not be captured."""

    position: LaunchInProgram
    reason: str


class InspectRangeDocument(Document, frozen=True, kw_only=True):
    """The launches of a range, and what flows between them."""

    path: Path
    manifest_sha256: str
    command: Names
    device: str
    launches: tuple[LaunchFlow, ...]
    flows: tuple[Flow, ...]
    missing: tuple[MissingLaunch, ...]
    memory_bytes: Annotated[Bytes, says("Bytes of memory, as stored.")]
    digests: Annotated[str, says("verified, or what was not checked.")]
    notes: Notes


@dataclass(frozen=True)
class Fusion:
    """Neighbouring launches as one: memory traffic now, and what of it goes."""

    first: LaunchInRange
    last: LaunchInRange
    kernels: Names
    reads: Annotated[Bytes, says("Bytes that the launches read, each launch counted separately.")]
    writes: Annotated[Bytes, says("Bytes that they write, counted in the same way.")]
    saved_reads: Annotated[Bytes, says("Bytes that one of them wrote, or has read before.")]
    saved_writes: Annotated[Bytes, says("Bytes that are overwritten before anything else reads them.")]
    more_writes: Annotated[
        Bytes, says("Bytes that are saved too if nothing after the range needs what flows between them.")
    ]
    saved_launches: Count
    traffic_ms: Annotated[float | None, says("Milliseconds of the traffic at the device's bandwidth.")]
    fused_ms: Annotated[float | None, says("The same with all that may be saved.")]


class RangeLimitsDocument(Document, frozen=True, kw_only=True):
    """What fusing the launches of a range would save."""

    path: Path
    device: Annotated[str | None, says("Device of the ceilings; null without them.")]
    launch_us: Annotated[float | None, says("Microseconds of an empty launch there.")]
    whole: Annotated[Fusion, says("All launches as one.")]
    pairs: Annotated[
        tuple[Fusion, ...], says("Neighbours between which bytes flow; the largest saving first.")
    ]
    notes: Notes


class SliceDocument(Document, frozen=True, kw_only=True):
    """The reproducer that was made of one launch of a range."""

    path: Path
    launch: LaunchInRange
