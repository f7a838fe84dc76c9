"""The sanitizer stage: the proof for all programs of a Triton launch, of a candidate or the captured kernel.

Bounds are those of the tensors as they were passed. A candidate answers for what the captured kernel does not
do; the proof is worked out beside the other stages, for compiling the source takes seconds.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kerncap.api.compiled_ttir import DoesNotCompile, compile_source
from kerncap.api.verify import candidate_ttir
from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.errors import KerncapError
from kerncap.format import Reproducer
from kerncap.log import counted, one_line
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.outcome import Config
from kerncap.replay.worker_process import Program

_SANITIZER = "kerncap.api.sanitize"


@dataclass(frozen=True)
class InPlace:
    """TTIR in place of the captured kernel's, and the configuration that it is launched in, if another."""

    ttir: Callable[[], str]
    config: Config | None


def load_ahead() -> None:
    """Load the sanitizer, half a second, in a thread: while an engine is waited for."""
    threading.Thread(target=importlib.import_module, args=(_SANITIZER,), daemon=True).start()


def stage(case: Case) -> StageResult:
    """The proof as it is worked out."""
    return begin(case)()


def applies(case: Case) -> bool:
    """Whether there is anything to prove: a Triton kernel, and a candidate that is source."""
    candidate = case.options.candidate
    triton = case.reproducer.manifest.kernel.language == "triton"
    return triton and (candidate is None or candidate.suffix == ".py")


def begin(case: Case) -> Callable[[], StageResult]:
    """Begin with the proof in a thread of its own; what this gives waits for it."""
    if not applies(case):
        return lambda: StageResult.skipped("sanitizer", "it takes Triton's source")
    candidate = None
    if case.options.candidate is not None:
        config = case.engine.config(CANDIDATE) if case.which == CANDIDATE else None
        candidate = InPlace(candidate_ttir.candidate(case), config)
    threads = ThreadPoolExecutor(1)
    found = threads.submit(
        checked, case.reproducer.path, case.engine.choice.python, case.engine.program, candidate
    )
    threads.shutdown(wait=False)
    return found.result


def checked(captured: Path, python: str, program: Program, candidate: InPlace | None) -> StageResult:
    """The stage of the captured kernel, or of ``candidate``."""
    found = StageResult("sanitizer")
    try:
        wrong, proved, undecided = _findings(captured, python, program, candidate)
    except DoesNotCompile as error:
        if candidate is None or not _source_compiles(captured, python, program):
            return StageResult.skipped("sanitizer", _first_line(error))
        return found.failed(f"it does not compile, and the captured kernel does: {_first_line(error)}")
    except (KerncapError, OSError, UnicodeDecodeError) as error:
        return StageResult.skipped("sanitizer", _first_line(error))
    if wrong and candidate is not None:
        known, *_ = _findings(captured, python, program)
        for text in [text for text, key in wrong.items() if key in known.values()]:
            found.not_shown.append(f"as the captured kernel does: {text}")
            del wrong[text]
    found.failed(*wrong)
    if undecided:
        found.not_shown.append(f"{counted(undecided, 'check')} that it leaves undecided")
    if not wrong and not proved:
        return StageResult.skipped("sanitizer", f"{counted(undecided, 'check')}, none decided")
    if not wrong:
        found.shown.append(f"{counted(proved, 'check')} proved for every program of the grid, nothing found")
    return found


def _findings(
    captured: Path, python: str, program: Program, candidate: InPlace | None = None
) -> tuple[dict[str, tuple[str, str, str | None]], int, int]:
    """What is wrong, each with its kind; how many checks are proved, how many undecided."""
    # Loaded late: no other stage needs the sanitizer.
    from kerncap.api.prove.proof_launches import with_ttir
    from kerncap.api.sanitize import judged
    from kerncap.sanitizer.engine import sanitize
    from kerncap.sanitizer.findings import Proved, Unproven
    from kerncap.sanitizer.options import Options

    wrong: dict[str, tuple[str, str, str | None]] = {}
    options = Options(bounds="view")
    with Reproducer.open(captured) as reproducer:  # its own: another thread reads the case's
        if candidate is None:
            report = judged(reproducer, options, python=python, program=program)
        else:
            report = sanitize(with_ttir(reproducer, candidate.ttir(), candidate.config), options)
    for finding in report.findings:
        text = f"{finding.check}: {one_line(finding.message)}"
        wrong[text] = (finding.check, finding.access, finding.argument)
    proved = sum(isinstance(one.verdict, Proved) for one in report.settled)
    undecided = sum(isinstance(one.verdict, Unproven) for one in report.settled)
    return wrong, proved, undecided


def _source_compiles(captured: Path, python: str, program: Program) -> bool:
    """Whether the captured source does, by the same compiler: else that may be at fault."""
    from kerncap.sanitizer.sources.reproducer import target_of

    with Reproducer.open(captured) as reproducer:
        target = target_of(reproducer.manifest.device)
        try:
            compile_source(reproducer, target, "a candidate does not compile", python=python, program=program)
        except KerncapError:
            return False
    return True


def _first_line(error: Exception) -> str:
    return one_line(str(error).splitlines()[0]) if str(error) else type(error).__name__
