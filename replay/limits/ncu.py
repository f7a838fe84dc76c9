"""Runs Nsight Compute on one isolated launch: the replay worker under ``ncu``, one kernel by its name."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap.errors import BackendUnavailable, ReplayError
from kerncap.format import Reproducer
from kerncap.log import one_line
from kerncap.replay.choose import Choice
from kerncap.replay.limits.ncu_csv import KernelRow, parse
from kerncap.replay.staging import Job, stage

NAME = "Nsight Compute"
_WORKER = Path(__file__).parents[1] / "worker"
_TIMEOUT_S = 300.0  # torch and Triton from a cold disk, and some dozens of passes
_LAUNCH_S = 240.0
_NO_PERMISSION = "ERR_NVGPUCTRPERM"

# What the explanation and the counts read. Names that a chip does not have are left out by ncu's sections;
# where a list is refused as a whole, the next one is tried.
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
    """One profiled launch; ``report`` is ncu's own file, where it was kept."""

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
    on_path = shutil.which("ncu", path=environment.get("PATH"))
    if on_path:
        yield Path(on_path)
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
        if environment.get(name):
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
    every other run. Raises BackendUnavailable without ncu or without the right to use it, ReplayError where
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
        raise BackendUnavailable(NAME, f"reading {report} needs ncu, and there is none")
    command = [str(ncu), "--import", str(report), "--csv", "--page", "raw", "--print-units", "base"]
    text = _output(command, dict(os.environ), report.parent)
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
    requests, replies = job.folder / "requests", job.folder / "replies"
    file = str(source.resolve()) if source is not None else str(job.folder / _own_file(job, choice))
    asked: list[dict[str, Any]] = [
        {"op": "open"},
        {"op": "load", "which": "original", "path": file, "limit_s": _LAUNCH_S, "stages": "stages"},
        {"op": "restore", "state": "pre"},
        {"op": "launch", "which": "original", "limit_s": _LAUNCH_S},
    ]
    requests.write_text("".join(json.dumps(one) + "\n" for one in asked))
    replies.unlink(missing_ok=True)
    text = (_WORKER / "limits" / "once.py").read_text(encoding="utf-8")
    symbol = str(job.content["symbol"])
    command = command_line(ncu, sections, metrics, clock_control, report, symbol)
    command += [choice.python, "-c", text, str(_WORKER), str(job.path), str(requests), str(replies)]
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITON_INTERPRET", "KERNCAP_SESSION")}
    return _output(command, environment, job.folder)


def _own_file(job: Job, choice: Choice) -> str:
    content = job.content
    if choice.launcher == "native":
        return str(content["images"][0])
    return str(content["code"]["cubin"] if choice.launcher == "binary" else content["source"])


def _output(command: list[str], environment: dict[str, str], folder: Path) -> str:
    """Both streams of a child, which may fail: what it printed says why."""
    environment = {**environment, "LC_ALL": "C"}
    try:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=environment, cwd=folder, start_new_session=True,
        )  # fmt: skip
    except OSError as error:
        raise BackendUnavailable(NAME, f"{command[0]} can't be started: {error.strerror}") from error
    try:
        said, _ = child.communicate(timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        raise ReplayError(f"ncu did not end within {_TIMEOUT_S:g} s") from None
    text = said.decode(errors="replace")
    if _NO_PERMISSION in text:
        raise BackendUnavailable(
            NAME,
            f"the driver keeps its counters for administrators ({_NO_PERMISSION}): run as root, or load the "
            "nvidia module with NVreg_RestrictProfilingToAdminUsers=0",
        )
    return text


def _failure(job: Job, said: str) -> ReplayError:
    """Why no report came of it: what the worker answered, else what ncu printed."""
    try:
        for line in (job.folder / "replies").read_text(errors="replace").splitlines():
            reply = json.loads(line)
            outcome = reply.get("outcome", {})
            if "refused" in reply:
                return ReplayError(f"the replay worker did not start under ncu: {reply['refused']}")
            if reply.get("ok") is False or outcome.get("status", "ok") != "ok":
                return ReplayError(
                    f"the launch did not end well under ncu: {reply.get('message') or outcome.get('message')}"
                )
    except (OSError, ValueError, AttributeError):
        pass
    lines = [line for line in said.splitlines() if "==ERROR==" in line or "==WARNING==" in line]
    text = "; ".join(lines[:3]) or (said.strip().splitlines()[-1:] or ["it printed nothing"])[0]
    return ReplayError(f"ncu made no report of the launch: {one_line(text)}")


def _version(ncu: Path) -> str:
    try:
        done = subprocess.run(
            [str(ncu), "--version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    last = next((line for line in done.stdout.splitlines() if line.startswith("Version")), "")
    return last.removeprefix("Version").strip()
