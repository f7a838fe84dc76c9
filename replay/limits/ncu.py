"""Runs Nsight Compute on one isolated launch: the replay worker under ``ncu``, one kernel by its name."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncap import child
from kerncap.errors import BackendUnavailable, ReplayError
from kerncap.format import Reproducer
from kerncap.log import one_line
from kerncap.replay.choose_engine import Choice
from kerncap.replay.limits import isolated_launch
from kerncap.replay.limits.ncu_csv import KernelRow, parse
from kerncap.replay.staging import Job, stage

NAME = "Nsight Compute"
_TIMEOUT_S = 300.0  # torch and Triton from a cold disk, and some dozens of passes
_LAUNCH_S = 240.0
_NO_PERMISSION = "ERR_NVGPUCTRPERM"

# What the explanation and the counts read. Names that a chip does not have are left out by ncu's sections;
# if a list is refused as a whole, the next one is tried.
SECTIONS = (
    *("SpeedOfLight", "ComputeWorkloadAnalysis", "MemoryWorkloadAnalysis", "MemoryWorkloadAnalysis_Tables"),
    *("SchedulerStats", "WarpStateStats", "LaunchStats", "Occupancy", "InstructionStats"),
)
_COUNTERS = (
    "dram__bytes_read.sum", "dram__bytes_write.sum", "lts__t_bytes.sum", "gpu__time_duration.sum",
    "smsp__cycles_elapsed.avg.per_second",
    *(f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum"
      for op in ("fadd", "fmul", "ffma", "dadd", "dmul", "dfma")),
)  # fmt: skip
_TABLES = (
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
)
# From the fullest to what every chip since Volta has.
REQUESTS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (SECTIONS, (*_COUNTERS, *_TABLES)),
    (SECTIONS, _COUNTERS[:5]),
    (("SpeedOfLight", "LaunchStats", "Occupancy"), ()),
)
COUNTER_REQUESTS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("SpeedOfLight", "ComputeWorkloadAnalysis"), _COUNTERS),
    (("SpeedOfLight",), _COUNTERS[:5]),
)


@dataclass(frozen=True)
class Profiled:
    """One profiled launch; ``report`` is ncu's own file, if it was kept."""

    row: KernelRow
    version: str
    report: Path | None = None


def find(environment: dict[str, str] | None = None) -> Path | None:
    """ncu on PATH, in the CUDA toolkit, or where its own installer puts it."""
    for path in _places(environment if environment is not None else dict(os.environ)):
        if path.is_file() and os.access(path, os.X_OK):
            return path
    return None


def _places(environment: dict[str, str]) -> Iterator[Path]:
    on_path = child.find("ncu", environment.get("PATH"))
    if on_path:
        yield Path(on_path)
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        if os.path.isabs(environment.get(name, "")):
            yield Path(environment[name]) / "bin" / "ncu"
    yield Path("/usr/local/cuda/bin/ncu")
    yield from sorted(Path("/opt/nvidia/nsight-compute").glob("*/ncu"), reverse=True)


def profile(
    reproducer: Reproducer,
    choice: Choice,
    requests: Sequence[tuple[tuple[str, ...], tuple[str, ...]]] = REQUESTS,
    *,
    clock_control: str = "none",
    output: Path | None = None,
    source: Path | None = None,
) -> Profiled:
    """Profile the launch once. ``source``: a candidate in place of the kernel's own file.

    ``clock_control``: ``base`` lets ncu hold the clocks at their base, ``none`` leaves them as they are in
    every other run. Raises BackendUnavailable without ncu or without the right to use it, ReplayError if
    the launch does not run under it.
    """
    ncu = find()
    if ncu is None:
        raise BackendUnavailable(
            NAME,
            "there is no ncu: install Nsight Compute (it is part of the CUDA toolkit), or put it on PATH",
        )
    job = stage(reproducer, choice.launcher, choice.memory, choice.device)
    try:
        report = job.folder / "profile.ncu-rep"
        said = ""
        for sections, metrics in requests:
            said = _run(ncu, job, choice, sections, metrics, clock_control, report, source)
            if report.is_file():
                break
        else:
            raise _failure(job, said)
        row = read_report(report, ncu)
        if output is not None:
            try:
                shutil.copyfile(report, output)
            except OSError as error:
                raise ReplayError(f"{output}: ncu's report can't be written: {error.strerror}") from error
        return Profiled(row, _version(ncu), output)
    finally:
        job.close()


def read_report(report: Path, ncu: Path | None = None) -> KernelRow:
    """The kernel of an ``.ncu-rep`` file, the last of several. Raises BackendUnavailable, ReplayError."""
    ncu = ncu or find()
    if ncu is None:
        raise BackendUnavailable(NAME, f"reading {report} needs ncu, which is not installed")
    command = [str(ncu), "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]
    text = _output(command, report.parent)
    rows = parse(text)
    if not rows:
        raise ReplayError(f"{report}: ncu profiled no kernel")
    return rows[-1]


# --- one run -----------------------------------------------------------------------------------------


def command_line(
    ncu: Path, sections: Sequence[str], metrics: Sequence[str], clock_control: str, report: Path, symbol: str
) -> list[str]:
    """ncu with its options, up to the program that it starts."""
    options = [f"--section={name}" for name in sections]
    if metrics:
        options.append(f"--metrics={','.join(metrics)}")
    return [
        str(ncu), "--target-processes=all", "--kernel-name-base=mangled", f"--kernel-name={symbol}",
        "--launch-count=1", f"--clock-control={clock_control}", "--force-overwrite",
        f"--export={report.with_suffix('')}", *options,
    ]  # fmt: skip


def _run(
    ncu: Path, job: Job, choice: Choice, sections: Sequence[str], metrics: Sequence[str],
    clock_control: str, report: Path, source: Path | None,
) -> str:  # fmt: skip
    """Run the launch under ncu; what ncu printed."""
    file = source.resolve() if source is not None else isolated_launch.own_file(job, choice)
    command = command_line(ncu, sections, metrics, clock_control, report, str(job.content["symbol"]))
    return _output([*command, *isolated_launch.command(job, choice, file, _LAUNCH_S)], job.folder)


def _output(command: list[str], folder: Path) -> str:
    try:
        text = isolated_launch.output(NAME, command, folder, _TIMEOUT_S)
    except ReplayError as error:
        raise ReplayError(f"ncu: {error}") from None
    if _NO_PERMISSION in text:
        raise BackendUnavailable(
            NAME,
            f"the driver keeps its counters for administrators ({_NO_PERMISSION}): run as root, or load the "
            "nvidia module with NVreg_RestrictProfilingToAdminUsers=0",
        )
    return text


def _failure(job: Job, said: str) -> ReplayError:
    """Why no report came of it: what the worker answered, else what ncu printed."""
    answered = isolated_launch.problem(job, "ncu")
    if answered:
        return ReplayError(answered)
    lines = [line for line in said.splitlines() if "==ERROR==" in line or "==WARNING==" in line]
    text = "; ".join(lines[:3]) or (said.strip().splitlines()[-1:] or ["it printed nothing"])[0]
    return ReplayError(f"ncu made no report of the launch: {one_line(text)}")


def _version(ncu: Path) -> str:
    try:
        done = child.run_text([str(ncu), "--version"], timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    last = next((line for line in done.stdout.splitlines() if line.startswith("Version")), "")
    return last.removeprefix("Version").strip()
