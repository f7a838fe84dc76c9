"""compute-sanitizer's four tools on the isolated launch, where it is installed.

The worker itself runs under the tool: its Python is a script that puts the tool before the real one.
"""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from kerncap.api.replay import load_candidate
from kerncap.api.verifying.result import Case, StageResult
from kerncap.errors import KerncapError
from kerncap.log import one_line
from kerncap.replay.engine import Engine

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
_SLOWER = 50.0  # a launch under a tool
# Source: Compute Sanitizer 2025 User Manual: each report begins with a line of ========= and the error.
_LINE = re.compile(r"^=========\s{1,4}(\S.*)$")
_SUMMARY = re.compile(r"^(ERROR SUMMARY|RACECHECK SUMMARY|LEAK SUMMARY|COMPUTE-SANITIZER|Target application)")
_BEGINS = re.compile(
    r"^(Invalid|Uninitialized|Barrier error|Error: |Warning: |Race reported|Out-of-range|Misaligned|"
    r"Program hit|Address .* is|Divergent|Malloc|Write|Read)"
)


def check(case: Case, found: StageResult) -> None:
    """Run each tool; what it reports about the kernel is a reason."""
    if case.engine.choice.memory != "cuda":
        found.not_shown.append("compute-sanitizer: it checks launches on a CUDA device")
        return
    program = shutil.which("compute-sanitizer")
    if program is None:
        found.not_shown.append("compute-sanitizer: it is not on PATH")
        return
    for tool in TOOLS:
        try:
            errors = _run(case, program, tool)
        except KerncapError as error:
            found.not_shown.append(f"compute-sanitizer {tool}: {one_line(str(error).splitlines()[0])}")
            continue
        found.reasons += [f"compute-sanitizer {tool}: {text}" for text in errors]
        if not errors:
            found.shown.append(f"compute-sanitizer {tool} reports nothing")
    found.not_shown.append(
        "compute-sanitizer: accesses past a tensor within memory that is mapped (2 MiB at a time)"
    )


def _run(case: Case, program: str, tool: str) -> list[str]:
    log = case.folder / f"{tool}.log"
    python = wrapper(case, program, tool, log)
    options = case.options
    choice = case.engine.choice
    with Engine(
        case.reproducer, choice.name, f"cuda:{choice.device}", str(python), options.timeout_s * _SLOWER
    ) as engine:
        refused = load_candidate(engine, options.candidate)
        if refused is not None:
            return list(refused.reasons)
        engine.restore()
        outcome = engine.launch(case.which)
    found = parse(log.read_text(errors="replace") if log.exists() else "")
    if not log.exists():
        raise KerncapError("it left no report")
    return found or ([] if outcome.ok else [outcome.message])


def wrapper(case: Case, program: str, tool: str, log: Path) -> Path:
    """A Python for the worker, and for it alone: what else it is asked runs without the tool."""
    name = case.reproducer.manifest.kernel.mangled or case.reproducer.manifest.kernel.name
    real = shlex.quote(case.engine.choice.python)
    command = [program, "--tool", tool, "--log-file", str(log), "--kernel-name", f"kernel_substring={name}"]
    script = case.folder / f"python-{tool}"
    script.write_text(
        "#!/bin/sh\n"
        "# The worker is started with five arguments after its text.\n"
        f'[ "$#" -ge 7 ] && exec {shlex.join(command)} {real} "$@"\n'
        f'exec {real} "$@"\n'
    )
    script.chmod(0o700)
    return script


def parse(text: str) -> list[str]:
    """The errors of a report, each once, with how often it came."""
    counts: dict[str, int] = {}
    for line in text.splitlines():
        matched = _LINE.match(line.strip())
        if matched is None or _SUMMARY.match(matched[1]):
            continue
        if _BEGINS.match(matched[1]):
            message = one_line(matched[1])
            counts[message] = counts.get(message, 0) + 1
    return [message if n == 1 else f"{message} ({n:,} times)" for message, n in counts.items()]
