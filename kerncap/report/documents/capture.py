"""``capture``, ``seal``, ``from-recording`` and ``list``: what was launched, and what was taken."""

from __future__ import annotations

from typing import Annotated, Literal

from kerncap.capture.outcome import ArmedCapture, SelfCheck
from kerncap.capture.recordings.recorded import LeftOut
from kerncap.format.contract import Clock
from kerncap.format.document_types import (
    Bytes,
    Count,
    Document,
    Extents,
    Fraction,
    Line,
    Names,
    Nanoseconds,
    Notes,
    Part,
    Path,
    Stack,
    says,
)


class SeenKernel(Part, frozen=True, kw_only=True):
    """A kernel of the program, with counts of its launches."""

    name: Annotated[str, says("Name as written in the source.")]
    qualified_name: Annotated[str, says("Name with module or namespaces, template arguments and parameters.")]
    mangled: Annotated[str | None, says("Symbol name, for CUDA and HIP kernels.")]
    file: Path | None
    line: Line | None
    launches: Count
    matched: Annotated[Count, says("Launches that the selectors matched.")]
    captured: Count
    filtered: Annotated[dict[str, int], says("Launches that were not captured, by reason.")]
    configs: Annotated[Count, says("Distinct configurations; 0 if they were not counted.")]
    time_ns: Annotated[Nanoseconds, says("Nanoseconds of all launches; 0 if they were not timed.")]
    bytes: Annotated[Bytes, says("Bytes of captured memory.")]


class LastLaunch(Part, frozen=True, kw_only=True):
    """One of the last launches before a fault."""

    kernel: str
    grid: Extents
    block: Extents
    stream: Annotated[int | str, says("Stream handle.")]


class CapturedLaunch(Part, frozen=True, kw_only=True):
    """A reproducer that was written."""

    path: Path
    kernel: str
    qualified_name: str
    launch: Annotated[int, says("Number of the launch of this kernel, from 0, counted since arming.")]
    launches: Annotated[Count, says("Launches that it holds; more than 1 in a range.")]
    grid: tuple[int, ...]
    pid: int
    rank: Annotated[int | None, says("Rank of the process under torchrun, MPI or Slurm.")]
    local_rank: int | None
    range: Annotated[Names, says("Open NVTX ranges, outermost first.")]
    generation: Annotated[int, says("Number of the selection that captured it; 0 is the one at the start.")]
    oracle: Annotated[
        str, says("trusted, suspect, fault, …: whether the application's result can be trusted.")
    ]
    size_bytes: Annotated[Bytes, says("Bytes of memory.")]
    disk_bytes: Annotated[Bytes, says("Bytes on disk.")]


class CaptureDocument(Document, frozen=True, kw_only=True):
    """The launches that a run captured. The exit status is the program's if it failed."""

    captured: Annotated[tuple[Path, ...], says("Paths of the reproducers.")]
    reproducers: Annotated[
        tuple[CapturedLaunch, ...], says("The reproducers, with the launch that each one holds.")
    ]
    reason: Annotated[str | None, says("Why nothing was captured.")]
    target_status: Annotated[int, says("Exit status of the program; 128 + n for signal n.")]
    target_signal: Annotated[str | None, says("Signal that ended the program, such as SIGSEGV.")]
    kernels: tuple[SeenKernel, ...]
    failed: Annotated[Names, says("Launches that could not be captured, one line each.")]
    notes: Notes
    last_launches: Annotated[tuple[LastLaunch, ...], says("The last launches before a fault, oldest first.")]
    fault_command: Annotated[
        str | None, says("After a fault: the command that captures the faulting launch.")
    ]
    self_checks: Annotated[dict[str, SelfCheck], says("By path of the reproducer.")]
    launches: Count
    overhead_ns: Annotated[Nanoseconds, says("Nanoseconds of overhead while armed, over all launches.")]
    session: Annotated[Path | None, says("Session folder, if it was kept.")]


class FromRecordingDocument(Document, frozen=True, kw_only=True):
    """The reproducers of launches that another tool recorded."""

    path: Annotated[Path, says("The recording.")]
    tool: Annotated[str, says("The tool that recorded it.")]
    reproducers: tuple[Path, ...]
    left_out: Annotated[tuple[LeftOut, ...], says("Launches that the recording does not hold whole.")]


TimeNs = Annotated[Nanoseconds, says("Nanoseconds of all timed launches together.")]
MeanNs = Annotated[float | None, says("Mean nanoseconds of a timed launch.")]
MinNs = Annotated[int | None, says("Nanoseconds of the shortest launch.")]
MaxNs = Annotated[int | None, says("Nanoseconds of the longest launch.")]


class ListedRow(Part, frozen=True, kw_only=True):
    """Launches of a kernel in one process with equal parameters."""

    launches: Count
    grid: Extents | None
    block: Extents | None
    shared_bytes: Annotated[int | None, says("Bytes of dynamic shared memory.")]
    config: Annotated[str | None, says("Constexprs and options of a Triton launch.")]
    stream: str | None
    device: int | None
    range: Annotated[Names, says("Open NVTX ranges, outermost first.")]
    route: str | None
    graph: Annotated[int | None, says("Number of the graph, in the order of first launches.")]
    time_ns: Nanoseconds
    timed: Annotated[Count, says("Number of launches in time_ns.")]
    min_ns: int | None
    max_ns: int | None
    rest: Annotated[bool, says("True for the row that sums up launches without a row.")]
    pid: int
    rank: int | None


class ListedKernel(SeenKernel, frozen=True, kw_only=True):
    """A kernel with its share of the time and the command that captures it."""

    timed_launches: Count
    mean_ns: MeanNs
    min_ns: MinNs
    max_ns: MaxNs
    short_name: Annotated[str, says("Shortened name, unique in this listing.")]
    configurations: Annotated[
        int | None, says("Number of configurations, as capture --per-config distinguishes them.")
    ]
    share: Annotated[Fraction, says("Share of the time of all kernels, from 0 to 1.")]
    share_of_wall: Annotated[float | None, says("Share of the program's wall time, from 0 to 1.")]
    speedup_if_twice_as_fast_wall: Annotated[
        float | None, says("Upper bound on the program's speedup, by Amdahl's law.")
    ]
    speedup_if_gone_wall: Annotated[
        float | None, says("The same if the kernel took no time; null: no bound.")
    ]
    share_of_device: Annotated[float | None, says("Share of the time of all kernels, from 0 to 1.")]
    speedup_if_twice_as_fast_device: Annotated[
        float | None, says("Upper bound on the speedup of all kernels together.")
    ]
    speedup_if_gone_device: Annotated[
        float | None, says("The same if the kernel took no time; null: no bound.")
    ]
    rows: tuple[ListedRow, ...]
    stack: Annotated[Stack, says("Python call stack at the first launch, innermost last.")]
    command: Annotated[str, says("Shell command that captures the first launch of this kernel.")]
    command_is_exact: Annotated[bool, says("True if the command matches no other kernel of the run.")]


class GroupedKernel(Part, frozen=True, kw_only=True):
    """A kernel's launches in one group."""

    name: str
    qualified_name: str
    launches: Count
    time_ns: TimeNs
    timed_launches: Count
    mean_ns: MeanNs
    min_ns: MinNs
    max_ns: MaxNs
    command: Annotated[
        str | None,
        says("Shell command that captures the first of them; null if no selector distinguishes them."),
    ]


class ListedGroup(Part, frozen=True, kw_only=True):
    """Launches directly in one range, graph, stream, device, rank or configuration."""

    name: Annotated[Names, says("Ranges, outermost first; for a configuration, the kernel's name first.")]
    launches: Count
    time_ns: TimeNs
    timed_launches: Count
    mean_ns: MeanNs
    min_ns: MinNs
    max_ns: MaxNs
    command: Annotated[
        str | None, says("For a graph: shell command that captures one launch of it as a range.")
    ]
    share_of_device: float | None
    kernels: tuple[GroupedKernel, ...]


class ClockOfProcess(Part, frozen=True, kw_only=True):
    """Clock of one process."""

    pid: int
    clock: Clock
    reason: Annotated[str | None, says("Why no better clock was available.")]


class TimelineFile(Part, frozen=True, kw_only=True):
    """The trace that --timeline wrote."""

    path: Path
    launches: Annotated[Count, says("Launches with a start and an end.")]
    copies: Annotated[Count, says("Copies and fills.")]
    ranges: Count
    lost: Annotated[Count, says("Number of events that found no room.")]


class ListDocument(Document, frozen=True, kw_only=True):
    """The kernels of a run, most expensive first."""

    kernels: tuple[ListedKernel, ...]
    kernel_count: Annotated[Count, says("Number of all kernels, regardless of --top.")]
    by: Literal["range", "graph", "stream", "device", "rank", "configuration"] | None
    groups: Annotated[tuple[ListedGroup, ...], says("With --by: groups, largest first.")]
    wall_ns: Annotated[Nanoseconds, says("Wall time of the program in nanoseconds.")]
    program_ns: Annotated[
        Nanoseconds, says("The same without the overhead of listing; shares of wall time refer to this.")
    ]
    device_ns: Annotated[Nanoseconds, says("Device time of all timed launches in nanoseconds.")]
    clocks: tuple[ClockOfProcess, ...]
    process_count: Annotated[Count, says("Number of processes that launched a kernel.")]
    timeline: Annotated[TimelineFile | None, says("With --timeline.")]
    notes: Notes
    failed: Annotated[Names, says("Failures to record, one line each.")]
    reason: Annotated[str | None, says("Why nothing was found.")]
    target_status: Annotated[int, says("Exit status of the program; 128 + n for signal n.")]
    launches: Count
    overhead_ns: Annotated[Nanoseconds, says("Nanoseconds of overhead, over all launches.")]


class ArmDocument(Document, frozen=True, kw_only=True):
    """The selection of a dormant program, and with --wait the captures."""

    session: Path
    generation: Annotated[int, says("Number of this selection, from 1.")]
    waited: bool
    captured: tuple[Path, ...]
    reproducers: tuple[ArmedCapture, ...]
    failed: Names
    reason: Annotated[str | None, says("Why nothing was captured.")]
