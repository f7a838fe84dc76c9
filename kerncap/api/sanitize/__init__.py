"""`sanitize`: what a launch would do to memory, from a reproducer or a TTIR file. No kernel is executed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from kerncap.api.compiled_ttir import check_target, compile_source
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer
from kerncap.regular_file import read_regular_text
from kerncap.replay import worker_process
from kerncap.replay.worker_process import Program
from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.findings import CHECKS, LaunchReport
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.sources.reproducer import NoTtir, launch_from_reproducer, notes_of, target_of
from kerncap.sanitizer.sources.ttir_file import launch_from_ttir

MAX_TTIR_BYTES = 64 << 20
Stage = Literal["ttir", "ttgir"]  # which of a reproducer's texts; of Gluon there is only the second


def parse_checks(text: str | None) -> frozenset[str]:
    """``oob,race`` as a set; None: every check. Raises UsageError for a name that is not a check."""
    if text is None:
        return frozenset(CHECKS)
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in CHECKS]
    if unknown or not names:
        wrong = ", ".join(unknown) or "nothing"
        raise UsageError(f"--check {text}: {wrong} is not a check; choose from {', '.join(CHECKS)}")
    return frozenset(names)


def sanitize_reproducer(
    path: Path | str,
    options: Options | None = None,
    *,
    target: str | None = None,
    trusted: bool = False,
    python: str | None = None,
    program: Program = worker_process.program,
    stage: Stage = "ttir",
) -> list[LaunchReport]:
    """The one launch of a reproducer, judged on the memory before it.

    Reads the TTIR in the reproducer and executes nothing. Without TTIR (captured under Triton's
    interpreter), or with a ``target`` ("cuda:90"), the source is compiled by a Python that has Triton:
    ``python``, else as for a replay; ``program`` starts it. That imports the reproducer's module, so it has
    to be trusted. ``stage`` "ttgir" checks what the compiler made of the TTIR, and compiles nothing.

    Raises FormatError and UsageError as reading does, UsageError for one that is not trusted, and
    BackendUnavailable if there is neither TTIR nor a source that compiles.
    """
    check_target(target)
    with Reproducer.open(path) as reproducer:
        return [judged(reproducer, options or Options(), target, trusted, python, program, stage)]


def judged(
    reproducer: Reproducer,
    options: Options,
    target: str | None = None,
    trusted: bool = False,
    python: str | None = None,
    program: Program = worker_process.program,
    stage: Stage = "ttir",
) -> LaunchReport:
    """The launch of an open reproducer. See `sanitize_reproducer`."""
    text, why, compiled_for = None, None, target
    if reproducer.manifest.kernel.language == "triton":
        gluon = reproducer.code("ttir") is None and reproducer.code("ttgir") is not None
        if stage == "ttgir" or (gluon and target is None):
            text = _captured_ttgir(reproducer)
        elif target is not None:
            why = f"the check is for {target}"
        elif not has_code(reproducer):
            why = "it was captured without compiled code, under Triton's interpreter"
            compiled_for = target_of(reproducer.manifest.device)
        if why is not None and compiled_for is not None:
            text = compile_source(
                reproducer, compiled_for, why, trusted=trusted, python=python, program=program
            )
    try:
        launch = launch_from_reproducer(reproducer, text, compiled_for)
    except NoTtir as error:
        raise BackendUnavailable("TTIR", f"{reproducer.path}: {error}") from error
    report = sanitize(launch, options)
    notes = notes_of(reproducer.manifest) if options.bounds == "storage" else ()
    if why is not None:
        notes = (f"compiled from the reproducer's source for {compiled_for}", *notes)
    return replace(report, notes=(*notes, *report.notes))


def has_code(reproducer: Reproducer) -> bool:
    """Whether the text that is checked was captured, so that nothing is compiled."""
    return reproducer.code("ttir") is not None or reproducer.code("ttgir") is not None


def _captured_ttgir(reproducer: Reproducer) -> str:
    data = reproducer.code("ttgir")
    if data is None:
        raise BackendUnavailable("TTGIR", f"{reproducer.path}: it was captured without compiled code")
    return data.decode("utf-8", errors="replace")


def sanitize_ttir(
    path: Path, grid: Sequence[int], arguments: Mapping[str, str], options: Options | None = None
) -> list[LaunchReport]:
    """The kernel of a ``.ttir`` file with a grid and arguments given as text (see `sources.ttir_file`)."""
    text = read_regular_text(path, MAX_TTIR_BYTES)
    return [sanitize(launch_from_ttir(text, grid, arguments, path.name), options)]
