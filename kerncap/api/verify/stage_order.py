"""`verify`: the stages in their order."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kerncap import scratch
from kerncap.answer import Answer
from kerncap.api.candidate_file import refuse_inside
from kerncap.api.replay import ReplayResult, not_run, opened, outcome_result, write_set
from kerncap.api.verify import smoke_stage
from kerncap.api.verify.overall_verdict import overall
from kerncap.api.verify.verify_result import (
    DEFAULT_STAGES,
    STAGES,
    Case,
    StageResult,
    VerifyOptions,
    VerifyResult,
)
from kerncap.errors import UsageError
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.outcome import NotHeld
from kerncap.replay.pool import Pool
from kerncap.replay.verdict_words import Verdict

_BY_DEFAULT = VerifyOptions()


def verify(path: Path, options: VerifyOptions = _BY_DEFAULT, pool: Pool | None = None) -> VerifyResult:
    """Judge the captured kernel, or ``options.candidate``; in an engine out of ``pool``, if there is one.

    Raises FormatError, UsageError, BackendUnavailable or ReplayError; a wrong result is no exception.
    """
    if options.reference is not None and not options.reference.is_file():
        raise UsageError(f"{options.reference}: no such reference file")
    if options.reference is not None:
        refuse_inside("--reference", options.reference)
    if options.prove and options.candidate is None:
        raise UsageError("--prove: there is nothing to compare with the captured kernel; add --candidate")
    wanted = [name for name in STAGES if name in options.stages and name != "smoke"]
    wanted += ["proof"] * options.prove
    if "sanitizer" in wanted and options.candidate is not None and options.candidate.suffix == ".py":
        _stage("sanitizer").load_ahead()
    try:
        with (
            opened(path, options, pool, options.torch_free) as (reproducer, engine, candidate),
            scratch.temporary("verify") as folder,
        ):
            if candidate is None:
                return judged(Case(reproducer, engine, ORIGINAL, options, Path(folder)), wanted)
            options = dataclasses.replace(options, candidate=candidate.path)
            result = judged(Case(reproducer, engine, CANDIDATE, options, Path(folder)), wanted)
            said = [words for s in result.stages for words in (s.reasons, s.shown, s.not_shown)]
            result.verdict = candidate.close(result.verdict, *said)
            return result
    except NotHeld as needs:
        found = not_run(needs)
        return _with_stages(found, [smoke_stage.judged(StageResult("smoke"), found.verdict)])


def judged(case: Case, wanted: Sequence[str]) -> VerifyResult:
    """The result of smoke and the ``wanted`` stages, in an engine that may have judged others before."""
    case.ttir = None
    if case.which == CANDIDATE and case.engine.choice.torch_free and "oracle" in wanted:
        _stage("shapes").begin_some_sizes(case)
    if case.options.stages == DEFAULT_STAGES and not (
        case.which == CANDIDATE and _stage("sanitizer").applies(case)
    ):
        wanted = [name for name in wanted if name != "sanitizer"]
    case.options.reached("smoke", 1, 1 + len(wanted))
    smoke, judged_by, verdict = smoke_stage.stage(case)
    stages = [smoke]
    if verdict is None:
        proved = _stage("sanitizer").begin(case) if "sanitizer" in wanted else None
        _measure(case, wanted)
        for number, name in enumerate(wanted, 2):
            case.options.reached(name, number, 1 + len(wanted))
            stages.append(proved() if proved and name == "sanitizer" else _stage(name).stage(case))
        judged_by, verdict = overall(case, stages)
    failed = verdict.answer is Answer.NO and case.which == ORIGINAL
    if failed or (case.faulted and not verdict.passed):
        _explain(case, stages, verdict)
    verdict.notes = list(dict.fromkeys(verdict.notes))
    return _with_stages(outcome_result(case.engine, case.which, judged_by, verdict), stages)


def _explain(case: Case, stages: list[StageResult], verdict: Verdict) -> None:
    """Add what the sanitizer finds: a stray access reaches memory that is not in the reproducer, or none.

    A fault that memory which was left out might explain is one of the kernel's then.
    """
    asked = "sanitizer" in case.options.stages and all(stage.name != "sanitizer" for stage in stages)
    if not asked or not _stage("sanitizer").applies(case):
        return
    stages.append(found := _stage("sanitizer").stage(case))
    if found.result == "fail":
        reasons = [f"sanitizer: {reason}" for reason in found.reasons]
        verdict.answer = Answer.NO
        verdict.summary += f"; {reasons[0]}"
        verdict.reasons += reasons


def _with_stages(result: ReplayResult, stages: list[StageResult]) -> VerifyResult:
    values = {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
    return VerifyResult(**values, stages=stages)


def _stage(name: str) -> Any:
    """The module of a stage, loaded when it is run: together they are half of what verify would load."""
    return importlib.import_module(f"kerncap.api.verify.{name}_stage")


def _measure(case: Case, wanted: Sequence[str]) -> None:
    """The captured kernel's write set, if it ends well."""
    kind = case.reproducer.manifest.oracle.kind
    if case.measured is not None:
        return
    needed = kind == "trusted" or any(name != "oracle" for name in wanted)
    if needed and kind not in ("fault", "timeout"):
        case.measured = write_set(case.reproducer, case.engine)
