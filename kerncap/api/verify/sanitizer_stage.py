"""The sanitizer stage: the proof for all programs of a Triton launch, of a candidate or the captured kernel.

Bounds are those of the tensors as they were passed. A candidate answers for what the captured kernel does not
do; the proof is worked out beside the other stages, for compiling the source takes seconds.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kerncap.api.compiled_ttir import DoesNotCompile, compile_source
from kerncap.api.verify import candidate_ttir
from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.errors import KerncapError
from kerncap.format import Reproducer
from kerncap.log import counted, one_line
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.outcome import Config
from kerncap.replay.worker_process import Program

if TYPE_CHECKING:
    from kerncap.sanitizer.findings import LaunchReport
    from kerncap.sanitizer.launch import Launch
    from kerncap.sanitizer.options import Options

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
    triton = case.reproducer.manifest.kernel.language == "triton" or not case.engine.one_launch
    return triton and (candidate is None or candidate.suffix == ".py")


def begin(case: Case) -> Callable[[], StageResult]:
    """Begin with the proof in a thread of its own; what this gives waits for it."""
    if not applies(case):
        return lambda: StageResult.skipped("sanitizer", "it takes Triton's source")
    if not case.engine.one_launch:
        return lambda: _of_several(case)  # in this thread, which reads the range's files
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
    if wrong and candidate is not None and _ended_well(captured):
        known, *_ = _findings(captured, python, program)
        for text in [text for text, key in wrong.items() if key in known.values()]:
            found.not_shown.append(f"as the captured kernel does: {text}")
            del wrong[text]
    return _said(found, wrong, proved, undecided)


def _of_several(case: Case) -> StageResult:
    """A module in place of launches of a range, each of its launches on the memory before the first one.

    What earlier ones change of that the others are not told: then a check is undecided, and none is wrong.
    """
    from kerncap.api.compiled_ttir import Instead
    from kerncap.api.prove.range_launches import module_launches, replaced_launches
    from kerncap.replay.ranges.as_one import RangeAsOne
    from kerncap.sanitizer.launch import NoContents

    whole, candidate, python = case.reproducer, case.options.candidate, case.engine.choice.python
    assert isinstance(whole, RangeAsOne) and candidate is not None
    found = StageResult("sanitizer")
    try:
        module = Instead(candidate.read_text(encoding="utf-8"), candidate.name)
        first, *others = module_launches(whole, module, python)
        wrong, proved, undecided = _of_launches(
            [first, *(replace(each, contents=NoContents()) for each in others)]
        )
        if wrong:
            triton = [each for each in whole.replaced if each.manifest.kernel.language == "triton"]
            known, *_ = _of_launches(replaced_launches(whole, triton, python))
            kinds = {(check, access) for check, access, _ in known.values()}
            for text in [text for text, (check, access, _) in wrong.items() if (check, access) in kinds]:
                found.not_shown.append(f"a captured launch has a finding of this kind too: {text}")
                del wrong[text]
    except (KerncapError, OSError, UnicodeDecodeError) as error:
        return StageResult.skipped("sanitizer", _first_line(error))
    return _said(found, wrong, proved, undecided)


def _said(found: StageResult, wrong: Iterable[str], proved: int, undecided: int) -> StageResult:
    found.failed(*wrong)
    if undecided:
        found.not_shown.append(f"{counted(undecided, 'check')} that it leaves undecided")
    if not wrong and not proved:
        return StageResult.skipped("sanitizer", f"{counted(undecided, 'check')}, none decided")
    if not wrong:
        found.shown.append(f"{counted(proved, 'check')} proved for every program of the grid, nothing found")
    return found


# By message: the check, read or write, and the argument.
_Wrong = dict[str, tuple[str, str, str | None]]


def _findings(
    captured: Path, python: str, program: Program, candidate: InPlace | None = None
) -> tuple[_Wrong, int, int]:
    """What is wrong; how many checks are proved, how many undecided."""
    # Loaded late: no other stage needs the sanitizer.
    from kerncap.api.prove.proof_launches import with_ttir
    from kerncap.api.sanitize import judged

    with Reproducer.open(captured) as reproducer:  # its own: another thread reads the case's
        if candidate is None:
            return _of_reports([judged(reproducer, _options(), python=python, program=program)])
        return _of_launches([with_ttir(reproducer, candidate.ttir(), candidate.config)])


def _of_launches(launches: Iterable[Launch]) -> tuple[_Wrong, int, int]:
    from kerncap.sanitizer.engine import sanitize

    return _of_reports(sanitize(launch, _options()) for launch in launches)


def _options() -> Options:
    from kerncap.sanitizer.options import Options

    return Options(bounds="view")


def _of_reports(reports: Iterable[LaunchReport]) -> tuple[_Wrong, int, int]:
    from kerncap.sanitizer.findings import Proved, Unproven

    wrong: _Wrong = {}
    proved = undecided = 0
    for report in reports:
        for finding in report.findings:
            text = f"{finding.check}: {one_line(finding.message)}"
            wrong[text] = (finding.check, finding.access, finding.argument)
        proved += sum(isinstance(one.verdict, Proved) for one in report.settled)
        undecided += sum(isinstance(one.verdict, Unproven) for one in report.settled)
    return wrong, proved, undecided


def _ended_well(captured: Path) -> bool:
    """Whether the application's launch did: else what it did may be what ended it, and excuses nobody."""
    with Reproducer.open(captured) as reproducer:
        return reproducer.manifest.oracle.kind not in ("fault", "timeout")


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
