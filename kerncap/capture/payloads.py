"""The payloads of a session's records (docs/session.md) as checked types.

A target may have crashed, or may be hostile: nothing of a record is used before it went
through `convert`, which refuses what does not fit with the place of it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from kerncap.errors import CaptureError
from kerncap.format import schema

Payload = TypeVar("Payload")

Ordinal = Annotated[int, Meta(ge=0, le=2**62)]
Count = Annotated[int, Meta(ge=0, le=2**62)]
Pid = Annotated[int, Meta(ge=1, le=2**31)]
ProcessFolder = Annotated[str, Meta(pattern=r"^[0-9]{1,10}-[0-9]{1,6}$")]
StateFile = Annotated[str, Meta(pattern=r"^[0-9]{1,18}\.(pre|post)$")]
CodePath = Annotated[str, Meta(pattern=r"^code/[A-Za-z0-9_+=@-][A-Za-z0-9._+=@-]{0,250}$")]
SourceFile = Annotated[str, Meta(pattern=r"^source-[0-9]{1,9}\.json$")]


class ProcessRecord(Struct, frozen=True):
    pid: Pid
    argv: tuple[str, ...] = ()
    executable: str | None = None
    python: str = ""
    packages: dict[str, str | None] = {}
    parent_folder: ProcessFolder | None = None


class SeenRecord(Struct, frozen=True):
    kernel: str
    qualified_name: str
    module: str | None = None
    file: str | None = None
    line: int | None = None
    mode: str = ""
    source_known: bool = False


class StateBytes(Struct, frozen=True):
    """Where raw bytes lie: a file of the process's folder, or a memfd by number."""

    file: StateFile | None = None
    memfd: Count | None = None


class KernelName(Struct, frozen=True):
    name: schema.Name
    qualified_name: schema.Name
    module: schema.Name | None = None
    file: schema.Name | None = None
    line: schema.Index | None = None


class LaunchRecord(Struct, frozen=True):
    launch: Ordinal
    mode: Literal["interpreter", "jit", "inductor"]
    kernel: KernelName
    ordinal: schema.Index
    grid: tuple[schema.Index, schema.Index, schema.Index]
    device: schema.Device
    arguments: Annotated[tuple[schema.Argument, ...], Meta(max_length=4096)]
    regions: Annotated[tuple[schema.Region, ...], Meta(max_length=1_000_000)]
    views: Annotated[tuple[schema.View, ...], Meta(max_length=1_000_000)]
    closure: schema.Closure
    pre: StateBytes | None = None
    pre_offsets: tuple[schema.Size, ...] = ()
    grid_source: schema.GridSource | None = None
    options: dict[schema.Name, schema.Value] = {}
    autotune: schema.Autotune | None = None
    source: SourceFile | None = None
    python_stack: tuple[tuple[schema.Name, int, schema.Name], ...] = ()
    time_ns: Count = 0
    condition: Literal["on_fault", "nonfinite", "differs"] | None = None


class CodeRecord(Struct, frozen=True):
    stage: schema.Name
    file: CodePath


class CompleteRecord(Struct, frozen=True):
    launch: Ordinal
    status: Literal["complete", "fault", "timeout"]
    error: schema.Text | None = None
    duration_ns: Count | None = None
    post: StateBytes | None = None
    chunks: tuple[tuple[schema.Index, schema.Index], ...] = ()
    code: Annotated[tuple[CodeRecord, ...], Meta(max_length=64)] = ()
    compiled: dict[schema.Name, schema.Value] = {}
    signature: dict[schema.Name, schema.Name | None] = {}
    divisibility: dict[schema.Name, int | None] = {}
    oracle: Literal["trusted", "suspect", "fault", "timeout"] = "trusted"
    condition: schema.Name | None = None
    detail: schema.Text | None = None
    copy_ns: dict[schema.Name, Count] = {}
    keep: bool = True


class DroppedRecord(Struct, frozen=True):
    launch: Ordinal
    reason: str = ""


class FailedRecord(Struct, frozen=True):
    reason: str
    launch: Ordinal | None = None
    kernel: str | None = None


class KernelCounts(Struct, frozen=True):
    """One kernel's launches in one process, or summed over several."""

    launches: Count = 0
    matched: Count = 0
    captured: Count = 0
    filtered: dict[str, Count] = {}
    configs: Count = 0
    time_ns: Count = 0
    bytes: Count = 0

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


def convert(payload: dict[str, Any], kind: type[Payload], what: str) -> Payload:
    """``payload`` as ``kind``; CaptureError with the place of what does not fit."""
    try:
        return msgspec.convert(payload, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise CaptureError(f"{what}: {error}") from error
