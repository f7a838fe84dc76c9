"""compute-sanitizer's four tools on the isolated launch, if it is installed.

Each tool gets a worker that was told beforehand what to do: one that is asked step by step would be waited
for by the tool, and the tool by the engine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from kerncap import child, scratch
from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.errors import KerncapError
from kerncap.log import one_line
from kerncap.replay import candidates
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.limits import isolated_launch
from kerncap.replay.staging import Job, stage
from kerncap.replay.worker.protocol import Image

Loadable = tuple[Path, Image | None]  # a file, and what its compiler says of it, if that is needed

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_START_S = 30.0  # torch and Triton, instrumented: 7 s on an H200
_SMALL_BYTES = 1 << 30  # a launch of which four at a time are no burden
# Source: Compute Sanitizer 2025 User Manual: each report begins with a line of ========= and the error.
_LINE = re.compile(r"^=========\s{1,4}(\S.*)$")
_ENDED = re.compile(r"^=========\s+(ERROR|RACECHECK) SUMMARY", re.MULTILINE)
_SUMMARY = re.compile(r"^(ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY|COMPUTE-SANITIZER|Target application)")
_BEGINS = re.compile(
    r"^(Invalid|Uninitialized|Barrier error|Error: |Warning: |Race reported|Out-of-range|Misaligned|"
    r"Program hit|Address .* is|Divergent|Malloc|Write|Read)"
)

_MAX_PLACES = 3
_PLACE = re.compile(r"^=========\s{5,}(at \S.*)$")  # "at copy+0x120 in kernel.py:12", after an error

# An error that the driver gave back to a call. The worker asks for what a driver may not have; the launch's
# own are those of the call that launches, and faults, whichever call reports them.
_API = re.compile(r"^Program hit (?P<error>\w+) .* on CUDA API call to (?P<call>\w+)")
_LAUNCHES = ("cuLaunch", "cudaLaunch", "cuGraphLaunch", "cudaGraphLaunch")
_FAULTS = re.compile(
    r"LAUNCH_FAILED|LaunchFailure|ILLEGAL|Illegal|MISALIGNED|Misaligned|ASSERT|Assert|INVALID_PC|InvalidPc|"
    r"INVALID_ADDRESS_SPACE|InvalidAddressSpace|STACK_ERROR|StackError"
)


def check(case: Case, found: StageResult) -> None:
    """Run each tool; what it reports about the kernel is a reason."""
    if case.engine.choice.memory != "cuda":
        found.not_shown.append("compute-sanitizer: it checks launches on a CUDA device")
        return
    program = child.find("compute-sanitizer")
    if program is None:
        found.not_shown.append("compute-sanitizer: it is not on PATH")
        return
    with scratch.temporary("tool", case.folder) as folder:
        try:
            candidate = _candidate(case, Path(folder))
        except KerncapError as error:
            found.not_shown.append(f"compute-sanitizer: {one_line(str(error).splitlines()[0])}")
            return
        at_once = len(TOOLS) if case.reproducer.manifest.memory.pre_bytes < _SMALL_BYTES else 1
        with ThreadPoolExecutor(at_once) as pool:
            reports = list(pool.map(partial(_said, case, program, candidate), TOOLS))
    for tool, (errors, why_not) in zip(TOOLS, reports, strict=True):
        found.reasons += [f"compute-sanitizer {tool}: {text}" for text in errors]
        if why_not:
            found.not_shown.append(f"compute-sanitizer {tool}: {why_not}")
        elif not errors:
            found.shown.append(f"compute-sanitizer {tool} reports nothing")
    found.not_shown.append(
        "compute-sanitizer: accesses past a tensor within memory that is mapped (2 MiB at a time)"
    )


def _said(case: Case, program: str, candidate: Loadable | None, tool: str) -> tuple[Sequence[str], str]:
    """The tool's errors, or why it has nothing to say."""
    try:
        return _run(case, program, candidate, tool), ""
    except KerncapError as error:
        return (), one_line(str(error).splitlines()[0])


def _run(case: Case, program: str, candidate: Loadable | None, tool: str) -> list[str]:
    choice, limit_s = case.engine.choice, case.options.timeout_s
    job = stage(case.reproducer, choice.launcher, choice.memory, choice.device)
    try:
        log = job.folder / "report"
        file, compiled = (isolated_launch.own_file(job, choice), None) if candidate is None else candidate
        worker = isolated_launch.command(job, choice, file, limit_s, compiled)
        said = isolated_launch.output(
            "compute-sanitizer", [*command_line(program, tool, log, job), *worker], job.folder,
            _START_S + limit_s,
        )  # fmt: skip
        report = log.read_text(errors="replace") if log.exists() else ""
        errors = parse(report)
        if errors:
            return errors
        answered = isolated_launch.problem(job, tool)
        if answered or not isolated_launch.ended(job):
            last = (said.strip().splitlines() or ["it printed nothing"])[-1]
            raise KerncapError(answered or f"the launch was not run: {last}")
        if not _ENDED.search(report):
            raise KerncapError("its report is incomplete")
        return []
    finally:
        job.close()


def command_line(program: str, tool: str, log: Path, job: Job) -> list[str]:
    """compute-sanitizer with its options, up to the program that it starts."""
    return [
        program, "--tool", tool, "--log-file", str(log),
        "--kernel-name", f"kernel_substring={job.content['symbol']}",
    ]  # fmt: skip


def _candidate(case: Case, folder: Path) -> Loadable | None:
    """What the worker loads in place of the captured kernel. Raises KerncapError if it is not built."""
    path = case.options.candidate
    if path is None:
        return None
    if case.engine.choice.hostile:
        return case.engine.loadable(CANDIDATE)
    if case.engine.choice.launcher != "native" or path.suffix not in candidates.SUFFIXES:
        return path.resolve(), None
    arch, python = case.engine.facts.arch, case.engine.choice.python
    return candidates.compile_candidate(case.reproducer, path.resolve(), arch, folder, python).path, None


def _is_the_workers(message: str) -> bool:
    """Whether an error is of a call that the worker made, and not of the launch."""
    found = _API.match(message)
    return found is not None and not (
        found["call"].startswith(_LAUNCHES) or _FAULTS.search(found["error"]) is not None
    )


def parse(text: str) -> list[str]:
    """The errors of a report, each once: where it was seen, and how often."""
    found: dict[str, list[str]] = {}  # an error -> the place of each time, "" if the tool does not name it
    error = ""
    for line in text.splitlines():
        place = _PLACE.match(line.rstrip())
        if place is not None and error:
            found[error][-1] = one_line(place[1])
        error = ""
        matched = _LINE.match(line.strip())
        if matched is None or _SUMMARY.match(matched[1]):
            continue
        if _BEGINS.match(matched[1]) and not _is_the_workers(matched[1]):
            error = one_line(matched[1])
            found.setdefault(error, []).append("")
    return [_counted(error, places) for error, places in found.items()]


def _counted(error: str, places: Sequence[str]) -> str:
    named = [place for place in dict.fromkeys(places) if place]
    shown = ", ".join(named[:_MAX_PLACES])
    more = f" and {len(named) - _MAX_PLACES:,} places more" if len(named) > _MAX_PLACES else ""
    times = f" ({len(places):,} times)" if len(places) > 1 else ""
    return f"{error} {shown}{more}{times}" if named else f"{error}{times}"
