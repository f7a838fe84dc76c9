"""What `kerncap trace` keeps of a run: digests of the memory before and after each launch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from kerncap import whole_files
from kerncap.capture.payloads import Count, Pid, Rank, TracedRecord
from kerncap.capture.process_log import ProcessLog
from kerncap.errors import FormatError
from kerncap.format import schema
from kerncap.regular_file import read_regular

FORMAT_NAME = "kerncap-trace"
FORMAT_MAJOR = 3
MAX_BYTES = 2 << 30


class TracedProcess(Struct, frozen=True, kw_only=True):
    """One process: its launches in their order, and what else it launched, which was not hashed."""

    pid: Pid
    rank: Rank | None = None
    launches: tuple[TracedRecord, ...] = ()
    native: dict[schema.LongName, Count] = {}  # launches by kernel
    failed: tuple[schema.Text, ...] = ()  # launches that could not be examined
    complete: bool = True  # it ended by its own exit: nothing is missing at the end


class Trace(Struct, frozen=True, kw_only=True):
    """One run. ``hashing_ns`` is the part of ``wall_ns`` that went into kerncap's own work."""

    format: str = FORMAT_NAME
    version: Annotated[int, Meta(ge=1)] = FORMAT_MAJOR
    kerncap: schema.Name = ""
    command: schema.Names = ()
    time_ns: Count = 0
    wall_ns: Count = 0
    hashing_ns: Count = 0
    status: int = 0
    kernels: schema.Name | None = None  # the regular expression of ``-k``, if only those were hashed
    launch: tuple[int, int] | None = None  # of ``--launch``
    native: bool = False  # launches that the CUDA shim sees were hashed, too
    processes: Annotated[tuple[TracedProcess, ...], Meta(max_length=100_000)] = ()

    @property
    def launches(self) -> int:
        return sum(len(process.launches) for process in self.processes)

    @property
    def plain_ns(self) -> int:
        """About what the program takes without kerncap; ``hashing_ns`` is a sum over its processes."""
        return max(self.wall_ns - self.hashing_ns, self.wall_ns // 2)


def processes_of(
    logs: Iterable[ProcessLog], hooked: Collection[str], running: Collection[str]
) -> tuple[TracedProcess, ...]:
    """The processes that launched something, by rank, then by their start.

    ``hooked`` are names of Triton kernels: a native shim counts their launches too. ``running`` are the
    folders of processes that outlive the program.
    """
    by_pid: dict[int, list[ProcessLog]] = {}
    for log in logs:
        by_pid.setdefault(log.pid, []).append(log)
    found = []
    for pid, parts in by_pid.items():
        native: dict[str, int] = {}
        for part in parts:
            if part.is_native and part.counts is not None:
                hashed = Counter(launch.kernel.qualified_name for launch in part.traced)
                for name, counts in part.counts.kernels.items():
                    if counts.launches > hashed[name] and name not in hooked:
                        native[name] = native.get(name, 0) + counts.launches - hashed[name]
        launches = sorted(
            (launch for part in parts for launch in part.traced), key=lambda one: (one.time_ns, one.launch)
        )
        failed = [text for part in parts for text in _failures(part)]
        if launches or native or failed:
            started = min(part.process.time_ns if part.process is not None else 0 for part in parts)
            process = TracedProcess(
                pid=pid,
                rank=next((part.rank for part in parts if part.rank is not None), None),
                # The hook and a shim count separately.
                launches=tuple(
                    msgspec.structs.replace(launch, launch=number) for number, launch in enumerate(launches)
                ),
                native=native,
                failed=tuple(failed),
                complete=all(part.ended or part.is_native for part in parts)
                and not any(part.name in running for part in parts),
            )
            found.append((-1 if process.rank is None else process.rank, started, process))
    return tuple(process for _rank, _started, process in sorted(found, key=lambda each: each[:2]))


def _failures(log: ProcessLog) -> list[str]:
    named = [f"{failed.kernel}: {failed.reason}" if failed.kernel else failed.reason for failed in log.failed]
    return [*named, *log.complaints]


def write(path: Path, trace: Trace) -> None:
    """Raises UsageError if the file can't be written."""
    whole_files.write(path, msgspec.json.encode(trace) + b"\n")


def read(path: Path) -> Trace:
    """Raises UsageError for what is no regular file, FormatError for what is no trace."""
    try:
        trace = msgspec.json.decode(read_regular(path, MAX_BYTES), type=Trace)
    except (msgspec.DecodeError, RecursionError) as error:
        raise FormatError(path, 0, f"not a trace: {error}") from error
    if trace.format != FORMAT_NAME:
        raise FormatError(path, 0, f"not a trace: its format is {trace.format!r}")
    if trace.version != FORMAT_MAJOR:  # another has other digests
        raise FormatError(path, 0, f"trace of version {trace.version}; this kerncap reads {FORMAT_MAJOR}")
    return trace
