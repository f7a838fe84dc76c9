"""The payloads of a session's records (docs/session.md) as checked types.

A target may have crashed, or may be hostile: nothing of a record is used before it went
through `convert`, which refuses what does not fit with the place of it.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from kerncap.errors import CaptureError
from kerncap.format import contract, schema

Payload = TypeVar("Payload")

Ordinal = Annotated[int, Meta(ge=0, le=2**62)]
Count = Annotated[int, Meta(ge=0, le=2**62)]
Pid = Annotated[int, Meta(ge=1, le=2**31)]
ProcessFolder = Annotated[str, Meta(pattern=r"^[0-9]{1,10}-[0-9]{1,6}$")]
StateFile = Annotated[str, Meta(pattern=r"^[0-9]{1,18}\.(pre|post)$")]
CodePath = Annotated[str, Meta(pattern=r"^code/[A-Za-z0-9_+=@-][A-Za-z0-9._+=@-]{0,250}$")]
SourceFile = Annotated[str, Meta(pattern=r"^source-[0-9]{1,9}\.json$")]
ProgramFile = Annotated[str, Meta(pattern=r"^program-[0-9]{1,9}\.json$")]
# "<folder>/<token>": the hook's words about a launch that a native shim captured.
AnnotationName = Annotated[str, Meta(pattern=r"^[0-9]{1,10}-[0-9]{1,6}/[0-9]{1,20}$")]
Rank = Annotated[int, Meta(ge=0, lt=2**31)]
RangeNames = Annotated[tuple[schema.Name, ...], Meta(max_length=1024)]
Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}$")]
Frame = tuple[schema.Name, int, schema.Name]
MAX_STRIPES = 64
MAX_ROWS = 8192 + 1024  # of a process: its rows, and a kernel's rest


class ProcessRecord(Struct, frozen=True):
    pid: Pid
    argv: tuple[str, ...] = ()
    executable: str | None = None
    python: str = ""
    packages: dict[str, str | None] = {}
    parent_folder: ProcessFolder | None = None
    shim: str = contract.word.shim.triton
    cwd: str | None = None
    time_ns: Count = 0
    rank: Rank | None = None
    local_rank: Rank | None = None


class SeenRecord(Struct, frozen=True):
    kernel: str
    qualified_name: str
    module: str | None = None
    file: str | None = None
    line: int | None = None
    mode: str = ""
    source_known: bool = False
    mangled: str | None = None
    image_kind: str | None = None


class StateBytes(Struct, frozen=True):
    """Where raw bytes lie: a file of the process's folder, or a memfd by number.

    With ``stripes`` the file is the first of several; `files` names them all.
    """

    file: StateFile | None = None
    memfd: Count | None = None
    stripes: Annotated[int, Meta(ge=1, le=MAX_STRIPES)] = 1
    stripe_bytes: Annotated[int, Meta(ge=schema.CHUNK_BYTES, le=1 << 40)] | None = None

    def files(self) -> tuple[str, ...]:
        """Names in the process's folder, in the order of the stripes."""
        if self.file is None:
            return ()
        return (self.file, *(f"{self.file}.{number}" for number in range(1, self.stripes)))


class KernelName(Struct, frozen=True):
    name: schema.LongName
    qualified_name: schema.LongName
    module: schema.Name | None = None
    file: schema.Name | None = None
    line: schema.Index | None = None
    mangled: schema.LongName | None = None


class ImageRecord(Struct, frozen=True):
    """The image that a native kernel came from, as the driver was given it."""

    file: CodePath | None = None
    kind: str = contract.word.image_kind.unknown
    origin: str = ""
    mapped_from: str | None = None


class OrderingCall(Struct, frozen=True):
    """A driver call that may order streams, or the launch itself."""

    call: contract.StreamCall
    thread: Count
    event: Count | None = None
    stream_number: Count | None = None
    stream_kind: contract.StreamKind | None = None
    context: Count | None = None


class LaunchRecord(Struct, frozen=True):
    launch: Ordinal
    mode: contract.Mode
    kernel: KernelName
    ordinal: schema.Index
    grid: tuple[schema.Index, schema.Index, schema.Index]
    device: schema.Device
    regions: Annotated[tuple[schema.Region, ...], Meta(max_length=schema.MAX_LIST)]
    closure: schema.Closure
    arguments: Annotated[tuple[schema.Argument, ...], Meta(max_length=4096)] = ()
    views: Annotated[tuple[schema.View, ...], Meta(max_length=schema.MAX_VIEWS)] = ()
    pre: StateBytes | None = None
    pre_offsets: tuple[schema.Size, ...] = ()
    grid_source: schema.GridSource | None = None
    options: dict[schema.Name, schema.Value] = {}
    autotune: schema.Autotune | None = None
    source: SourceFile | None = None
    python_stack: tuple[tuple[schema.Name, int, schema.Name], ...] = ()
    time_ns: Count = 0
    condition: contract.Condition | None = None
    # Of a native launch:
    block: tuple[schema.Index, schema.Index, schema.Index] | None = None
    cluster: tuple[schema.Index, schema.Index, schema.Index] | None = None
    shared_bytes: schema.Size | None = None
    cooperative: bool = False
    launch_attributes: Annotated[tuple[schema.LaunchAttribute, ...], Meta(max_length=64)] = ()
    parameters: schema.Parameters | None = None
    dispatch: schema.Dispatch | None = None
    limits: schema.Limits | None = None
    textures: Annotated[tuple[schema.Texture, ...], Meta(max_length=schema.MAX_LIST)] = ()
    stream: schema.Name | None = None
    route: schema.Name | None = None
    image: ImageRecord | None = None
    program: ProgramFile | None = None
    annotation: AnnotationName | None = None
    notes: Annotated[tuple[schema.Text, ...], Meta(max_length=4096)] = ()
    range: RangeNames = ()
    generation: Count = 0
    position: schema.Index | None = None  # in the order of all launches, with a range of launches
    # Of a range: what came since the launch before it, and the launch itself.
    order: Annotated[tuple[OrderingCall, ...], Meta(max_length=1 << 17)] | None = None
    sparse: bool = False
    collective: schema.Collective | None = None


class CodeRecord(Struct, frozen=True):
    stage: schema.Name
    file: CodePath


class CompleteRecord(Struct, frozen=True):
    launch: Ordinal
    status: contract.Status
    error: schema.Text | None = None
    duration_ns: Count | None = None
    post: StateBytes | None = None
    chunks: tuple[tuple[schema.Index, schema.Index], ...] = ()
    code: Annotated[tuple[CodeRecord, ...], Meta(max_length=64)] = ()
    compiled: dict[schema.Name, schema.Value] = {}
    signature: dict[schema.Name, schema.Name | None] = {}
    divisibility: dict[schema.Name, int | None] = {}
    oracle: contract.Oracle = "trusted"
    condition: schema.Name | None = None
    detail: schema.Text | None = None
    printed: schema.Text | None = None
    copy_ns: dict[schema.Name, Count] = {}
    keep: bool = True


class AnnotationRecord(Struct, frozen=True):
    """What the Triton hook knows of a launch: ``launch`` before it, ``complete`` after it."""

    token: Annotated[int, Meta(ge=0)]
    launch: dict[str, Any] | None = None
    graph: bool = False
    complete: dict[str, Any] | None = None


class LastLaunch(Struct, frozen=True):
    kernel: str
    grid: tuple[schema.Index, schema.Index, schema.Index] = (0, 0, 0)
    block: tuple[schema.Index, schema.Index, schema.Index] = (0, 0, 0)
    stream: str = ""
    index: Count = 0


class LastRecord(Struct, frozen=True):
    """The last launches of a process before the first fault that its shim saw, newest last."""

    launches: Annotated[tuple[LastLaunch, ...], Meta(max_length=4096)] = ()
    error: str | None = None


class ProgressRecord(Struct, frozen=True):
    """A copy that takes longer than a second: ``done`` of ``total`` bytes."""

    launch: Ordinal
    kernel: str
    done: Count
    total: Count


class DroppedRecord(Struct, frozen=True):
    launch: Ordinal
    reason: str = ""


class FailedRecord(Struct, frozen=True):
    reason: str
    launch: Ordinal | None = None
    kernel: str | None = None
    generation: Count = 0


class RowRecord(Struct, frozen=True):
    """Launches of a kernel that are alike, and how long those took that were timed (``kerncap list``)."""

    launches: Count
    grid: tuple[schema.Index, schema.Index, schema.Index] | None = None
    block: tuple[schema.Index, schema.Index, schema.Index] | None = None
    shared_bytes: schema.Size | None = None
    config: schema.LongName | None = None
    stream: schema.Name | None = None
    device: schema.Index | None = None
    range: RangeNames = ()
    route: schema.Name | None = None
    graph: schema.Index | None = None
    time_ns: Count = 0
    timed: Count = 0
    min_ns: Count | None = None
    max_ns: Count | None = None
    rest: bool = False  # of the launches that found no row


class KernelCounts(Struct, frozen=True):
    """One kernel's launches in one process, or summed over several."""

    launches: Count = 0
    matched: Count = 0
    captured: Count = 0
    filtered: dict[str, Count] = {}
    configs: Count = 0
    time_ns: Count = 0
    bytes: Count = 0
    # Of `kerncap list`, of one process; a sum has none.
    rows: Annotated[tuple[RowRecord, ...], Meta(max_length=MAX_ROWS)] = ()
    stack: Annotated[tuple[Frame, ...], Meta(max_length=1024)] = ()
    timed: Count = 0
    min_ns: Count | None = None
    max_ns: Count | None = None

    def __add__(self, other: KernelCounts) -> KernelCounts:
        filtered = dict(self.filtered)
        for reason, count in other.filtered.items():
            filtered[reason] = filtered.get(reason, 0) + count
        return KernelCounts(
            launches=self.launches + other.launches,
            matched=self.matched + other.matched,
            captured=self.captured + other.captured,
            filtered=filtered,
            configs=max(self.configs, other.configs),
            time_ns=self.time_ns + other.time_ns,
            bytes=max(self.bytes, other.bytes),
        )


class CountsRecord(Struct, frozen=True):
    kernels: Annotated[dict[str, KernelCounts], Meta(max_length=100_000)] = {}
    overhead_ns: Count = 0
    launches: Count = 0
    graphs: Annotated[tuple[Count, ...], Meta(max_length=1024)] = ()
    clock: contract.Clock | None = None
    clock_reason: str | None = None


class HashedRegion(Struct, frozen=True):
    """A storage's digests before and after a launch. Addresses in it mean nothing in another process."""

    base: schema.Address
    size: schema.Size
    kind: str = contract.word.region_kind.device
    before: Digest | None = None
    after: Digest | None = None
    addresses: bool = False


class TracedRecord(Struct, frozen=True):
    """A launch of ``kerncap trace``. ``reason``: why it was not hashed; ``error``: what it raised."""

    launch: Ordinal
    mode: contract.Mode
    kernel: KernelName
    ordinal: schema.Index
    grid: tuple[schema.Index, schema.Index, schema.Index] | None = None
    arguments: Annotated[tuple[schema.Argument, ...], Meta(max_length=4096)] = ()
    options: dict[schema.Name, schema.Value] = {}
    views: Annotated[tuple[schema.View, ...], Meta(max_length=schema.MAX_VIEWS)] = ()
    hashed: Annotated[tuple[HashedRegion, ...], Meta(max_length=schema.MAX_LIST)] = ()
    python_stack: Annotated[tuple[Frame, ...], Meta(max_length=64)] = ()
    range: RangeNames = ()
    time_ns: Count = 0
    reason: schema.Text | None = None
    error: schema.Text | None = None

    def __post_init__(self) -> None:
        is_hashed = self.reason is None and self.error is None
        if is_hashed and any(view.region >= len(self.hashed) for view in self.views):
            raise ValueError("a view of a region that does not exist")


class TimedThing(Struct, frozen=True):
    """What happens again and again: launches of a kernel that are alike, copies on a stream, a range."""

    kind: contract.Timed
    name: schema.LongName
    config: schema.LongName | None = None
    stream: schema.Name | None = None
    device: schema.Index | None = None
    thread: Count | None = None
    graph: schema.Index | None = None
    grid: tuple[schema.Index, schema.Index, schema.Index] | None = None
    block: tuple[schema.Index, schema.Index, schema.Index] | None = None


class TimelineRecord(Struct, frozen=True):
    """What ran since the record before; ``events`` are thing, start and length in ns, bytes."""

    things: Annotated[tuple[TimedThing, ...], Meta(max_length=1 << 15)] = ()
    events: Annotated[tuple[tuple[Count, Count, Count, Count], ...], Meta(max_length=1 << 19)] = ()
    lost: Count = 0


class EndRecord(Struct, frozen=True):
    time_ns: Count = 0


def convert(payload: dict[str, Any], kind: type[Payload], what: str) -> Payload:
    """``payload`` as ``kind``; CaptureError with the place of what does not fit."""
    try:
        return msgspec.convert(payload, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise CaptureError(f"{what}: {error}") from error
