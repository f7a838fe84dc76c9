"""``capture``, ``seal`` and ``list``: what was launched, and what was taken."""

from __future__ import annotations

from typing import Annotated, Literal

from kerncap.report.documents.basics import (
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
    """A kernel of the program, with what became of its launches."""

    name: Annotated[str, says("As it is written in the source.")]
    qualified_name: Annotated[str, says("With module or namespaces, template arguments and parameters.")]
    mangled: Annotated[str | None, says("The linker's name, of CUDA and HIP kernels.")]
    file: Path | None
    line: Line | None
    launches: Count
    matched: Annotated[Count, says("Launches that the selectors chose.")]
    captured: Count
    filtered: Annotated[dict[str, int], says("Launches that were not taken, by the reason.")]
    configs: Annotated[Count, says("Distinct configurations; 0 where they were not counted.")]
    time_ns: Annotated[Nanoseconds, says("Nanoseconds of all launches; 0 where they were not timed.")]
    bytes: Annotated[Bytes, says("Bytes of memory that were captured.")]


class LastLaunch(Part, frozen=True, kw_only=True):
    """One of the last launches before a fault."""

    kernel: str
    grid: Extents
    block: Extents
    stream: Annotated[int | str, says("The stream's handle.")]


class SelfCheckResult(Part, frozen=True, kw_only=True):
    """One replay right after the capture."""

    result: Literal["pass", "fail", "skipped"]
    reason: str


class CapturedLaunch(Part, frozen=True, kw_only=True):
    """A reproducer that was written."""

    path: Path
    kernel: str
    qualified_name: str
    launch: Annotated[int, says("Which launch of the kernel, from 0; from the arming on.")]
    grid: tuple[int, ...]
    pid: int
    rank: Annotated[int | None, says("The process's rank, of torchrun, MPI or Slurm.")]
    local_rank: int | None
    range: Annotated[Names, says("NVTX ranges that were open, the outermost first.")]
    generation: Annotated[int, says("Which arming took it; 0 is that of the start.")]
    oracle: Annotated[str, says("trusted, suspect, fault, …: what the application's result is worth.")]
    size_bytes: Annotated[Bytes, says("Bytes of memory.")]
    disk_bytes: Annotated[Bytes, says("Bytes on disk.")]


class CaptureDocument(Document, frozen=True, kw_only=True):
    """What a run left behind. The exit status is the program's own where that failed."""

    captured: Annotated[tuple[Path, ...], says("The reproducers that were written.")]
    reproducers: Annotated[tuple[CapturedLaunch, ...], says("The same with what they are of.")]
    reason: Annotated[str | None, says("Why nothing was captured.")]
    target_status: Annotated[int, says("The program's exit status; 128 + n for signal n.")]
    target_signal: Annotated[str | None, says("The signal that ended it, as in SIGSEGV.")]
    kernels: tuple[SeenKernel, ...]
    failed: Annotated[Names, says("Launches that could not be captured, one line each.")]
    notes: Notes
    last_launches: Annotated[tuple[LastLaunch, ...], says("Before a fault, the oldest first.")]
    fault_command: Annotated[
        str | None, says("After a fault: the command that keeps the launch that faults.")
    ]
    self_checks: Annotated[dict[str, SelfCheckResult], says("By the reproducer's path.")]
    launches: Count
    overhead_ns: Annotated[Nanoseconds, says("Nanoseconds that being armed cost, over all launches.")]
    session: Annotated[Path | None, says("The session's folder where it was kept.")]


class ListedTimes(Part, frozen=True, kw_only=True):
    """How often and how long, of some launches."""

    launches: Count
    time_ns: Annotated[Nanoseconds, says("Nanoseconds of the timed launches.")]
    timed_launches: Count
    mean_ns: Annotated[float | None, says("Nanoseconds of a timed launch.")]
    min_ns: Annotated[int | None, says("Nanoseconds of the shortest.")]
    max_ns: Annotated[int | None, says("Nanoseconds of the longest.")]


class ListedRow(Part, frozen=True, kw_only=True):
    """Launches of a kernel in one process that are alike."""

    launches: Count
    grid: Extents | None
    block: Extents | None
    shared_bytes: Annotated[int | None, says("Bytes of dynamic shared memory.")]
    config: Annotated[str | None, says("What a Triton launch was compiled with.")]
    stream: str | None
    device: int | None
    range: Annotated[Names, says("NVTX ranges that were open, the outermost first.")]
    route: str | None
    time_ns: Nanoseconds
    timed: Annotated[Count, says("Launches that time_ns is the sum of.")]
    min_ns: int | None
    max_ns: int | None
    rest: Annotated[bool, says("All launches for which there was no row of their own.")]
    pid: int
    rank: int | None


class ListedKernel(SeenKernel, frozen=True, kw_only=True):
    """A kernel with its share of the time and the command that captures it."""

    timed_launches: Count
    mean_ns: Annotated[float | None, says("Nanoseconds of a timed launch.")]
    min_ns: Annotated[int | None, says("Nanoseconds of the shortest.")]
    max_ns: Annotated[int | None, says("Nanoseconds of the longest.")]
    short_name: Annotated[str, says("For a table; no other kernel of this listing has it.")]
    configurations: Annotated[int | None, says("As capture --per-config tells them apart.")]
    share: Annotated[Fraction, says("Of the time of all kernels, from 0 to 1.")]
    share_of_wall: Annotated[float | None, says("Of the program's wall time, from 0 to 1.")]
    speedup_if_twice_as_fast_wall: Annotated[
        float | None, says("How many times faster the program gets at most, by Amdahl's law.")
    ]
    speedup_if_gone_wall: Annotated[float | None, says("The same if it took no time; null: no bound.")]
    share_of_device: Annotated[float | None, says("Of the time of all kernels, from 0 to 1.")]
    speedup_if_twice_as_fast_device: Annotated[
        float | None, says("How many times faster all kernels together get at most.")
    ]
    speedup_if_gone_device: Annotated[float | None, says("The same if it took no time; null: no bound.")]
    rows: tuple[ListedRow, ...]
    stack: Annotated[Stack, says("Python's call stack at its first launch, innermost last.")]
    command: Annotated[str, says("For a shell: captures the first launch of exactly this kernel.")]
    command_is_exact: Annotated[bool, says("No other kernel of the run has a name that it chooses.")]


class GroupedKernel(ListedTimes, frozen=True, kw_only=True):
    """A kernel's launches in one group."""

    name: str
    qualified_name: str
    command: Annotated[
        str | None, says("Captures the first of them; null where no selector tells them apart.")
    ]


class ListedGroup(ListedTimes, frozen=True, kw_only=True):
    """What lies in one range (directly), stream, device, rank, or configuration."""

    name: Annotated[Names, says("From the outermost range; of a configuration the kernel's name first.")]
    share_of_device: float | None
    kernels: tuple[GroupedKernel, ...]


class ClockOfProcess(Part, frozen=True, kw_only=True):
    """What measured in one process."""

    pid: int
    clock: Literal["cupti", "events", "hsa", "host"]
    reason: Annotated[str | None, says("Why there was no better one.")]


class ListDocument(Document, frozen=True, kw_only=True):
    """The kernels of a run, the most expensive first."""

    kernels: tuple[ListedKernel, ...]
    kernel_count: Annotated[Count, says("All that were found, whatever --top shows.")]
    by: Literal["range", "stream", "device", "rank", "configuration"] | None
    groups: Annotated[tuple[ListedGroup, ...], says("With --by, the largest first.")]
    wall_ns: Annotated[Nanoseconds, says("Nanoseconds from the program's start to its end.")]
    program_ns: Annotated[
        Nanoseconds, says("The same without what listing cost; shares of wall are of this.")
    ]
    device_ns: Annotated[Nanoseconds, says("Nanoseconds of all timed launches.")]
    clocks: tuple[ClockOfProcess, ...]
    process_count: Annotated[Count, says("Processes that launched something.")]
    notes: Notes
    failed: Annotated[Names, says("What could not be recorded, one line each.")]
    reason: Annotated[str | None, says("Why there is none.")]
    target_status: Annotated[int, says("The program's exit status; 128 + n for signal n.")]
    launches: Count
    overhead_ns: Annotated[Nanoseconds, says("Nanoseconds that listing cost, over all launches.")]


class ArmedLaunch(Part, frozen=True, kw_only=True):
    """A reproducer that came out while `arm` waited."""

    path: Path
    kernel: str
    launch: int
    pid: int
    rank: int | None


class ArmDocument(Document, frozen=True, kw_only=True):
    """What a dormant program was armed for, and with --wait what came of it."""

    session: Path
    generation: Annotated[int, says("The number of this arming, from 1.")]
    waited: bool
    captured: tuple[Path, ...]
    reproducers: tuple[ArmedLaunch, ...]
    failed: Names
    reason: Annotated[str | None, says("Why there is none.")]
