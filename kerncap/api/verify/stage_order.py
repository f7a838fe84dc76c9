"""`verify`: the stages in their order, and the one result that they come to."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kerncap import scratch
from kerncap.answer import Answer
from kerncap.api.candidate_file import refuse_inside
from kerncap.api.replay import (
    ReplayResult,
    load_candidate,
    not_run,
    opened,
    outcome_result,
    runs_at_all,
    write_set,
)
from kerncap.api.reproduced_faults import asserts_again
from kerncap.api.verify.verify_result import (
    DEFAULT_STAGES,
    STAGES,
    Case,
    StageResult,
    VerifyOptions,
    VerifyResult,
)
from kerncap.errors import UsageError
from kerncap.replay.byte_effects import load
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.outcome import NotHeld
from kerncap.replay.poisoned_launch import SEED_A, launch_poisoned
from kerncap.replay.pool import Pool
from kerncap.replay.verdict_words import Verdict, badly_ended, fail, undecided

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
        return _with_stages(found, [_as(StageResult("smoke"), found.verdict)])


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
    smoke, judged_by, verdict = _smoke(case)
    stages = [smoke]
    if verdict is None:
        proved = _stage("sanitizer").begin(case) if "sanitizer" in wanted else None
        _measure(case, wanted)
        for number, name in enumerate(wanted, 2):
            case.options.reached(name, number, 1 + len(wanted))
            stages.append(proved() if proved and name == "sanitizer" else _stage(name).stage(case))
        judged_by, verdict = _overall(case, stages)
    verdict.notes = list(dict.fromkeys(verdict.notes))
    return _with_stages(outcome_result(case.engine, case.which, judged_by, verdict), stages)


def _with_stages(result: ReplayResult, stages: list[StageResult]) -> VerifyResult:
    values = {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
    return VerifyResult(**values, stages=stages)


def _stage(name: str) -> Any:
    """The module of a stage, loaded when it is run: together they are half of what verify would load."""
    return importlib.import_module(f"kerncap.api.verify.{name}_stage")


def _smoke(case: Case) -> tuple[StageResult, str, Verdict | None]:
    """Whether it builds, launches, and ends well in time; if not, the verdict on that, and by what."""
    stage = StageResult("smoke")
    options = case.options
    engine, which = case.engine, case.which
    refused = load_candidate(engine, case.options.candidate)
    if refused is not None:
        return stage.failed(*refused.reasons), "whether it loads", refused
    ended = _ends(case)
    if ended is not None and ended.passed:
        stage.shown.append(ended.summary)
        return stage, "the captured end", ended
    if ended is not None:
        return _as(stage, ended), "whether it ends", ended
    stage.shown.append("loads, launches, and ends in time with no fault")
    if options.hostile and which == CANDIDATE:
        from kerncap.api.verify import hostile

        hostile.say(case, stage)
    if engine.manifest.closure.without_values:
        nothing = runs_at_all(engine, which)
        return _as(stage, nothing), "whether it ends", nothing
    return stage, "whether it ends", None


def _ends(case: Case) -> Verdict | None:
    """The verdict on a plain run that does not even end well."""
    engine, options = case.engine, case.options
    if case.measured is None and _judges_at_once(case):
        case.measured = load(case.reproducer)
        if case.measured and launch_poisoned(engine, case.measured, ORIGINAL, SEED_A).ok:
            return None
    outcome = engine.plain(case.which)
    if outcome.ok:
        return None
    nobody_else = options.reference is None and options.expect is None
    if case.which == ORIGINAL and nobody_else and asserts_again(engine, outcome.message):
        return Verdict(Answer.YES, f"its own assert ends it, as in the application: {outcome.message}")
    return badly_ended(outcome)


def _judges_at_once(case: Case) -> bool:
    """Whether the oracle's run, under poison, is the next one: if it ends well so does one without."""
    trusted = case.reproducer.manifest.oracle.kind == "trusted"
    by_it = "oracle" in case.options.stages and case.options.reference is None
    return case.which == ORIGINAL and case.engine.choice.memory == "host" and trusted and by_it


def _as(stage: StageResult, verdict: Verdict) -> StageResult:
    """The stage with a verdict that is no pass."""
    if verdict.answer is Answer.NO:
        return stage.failed(*verdict.reasons)
    return stage.undecided(*verdict.reasons)


def _measure(case: Case, wanted: Sequence[str]) -> None:
    """The captured kernel's write set, if it ends well."""
    kind = case.reproducer.manifest.oracle.kind
    if case.measured is not None:
        return
    needed = kind == "trusted" or any(name != "oracle" for name in wanted)
    if needed and kind not in ("fault", "timeout"):
        case.measured = write_set(case.reproducer, case.engine)


def _overall(case: Case, stages: list[StageResult]) -> tuple[str, Verdict]:
    """What it was judged by, and the verdict on the whole: the oracle's, unless another stage decides.

    What was asked for by name has to be decided; of all stages, those that can be run here.
    """
    judging = stages[1:]
    failed = [stage for stage in judging if stage.result == "fail"]
    judged_by = case.judged_by or ", ".join(stage.name for stage in judging) or "whether it ends"
    if case.verdict is not None and case.verdict.answer is Answer.NO:
        return judged_by, _with_reasons(case.verdict, failed)
    if failed:
        reasons = [f"{stage.name}: {reason}" for stage in failed for reason in stage.reasons]
        verdict = fail(reasons[0], *reasons)
        verdict.notes += case.verdict.notes if case.verdict is not None else []
        return f"{judged_by}, {failed[0].name}" if case.judged_by else judged_by, verdict
    if case.verdict is not None and case.verdict.answer is Answer.UNDECIDED:
        return judged_by, case.verdict
    if not judging:
        return judged_by, Verdict(Answer.YES, "it launches and ends; nothing was compared")
    passed = [stage.name for stage in judging if stage.result == "pass" and stage.name != "oracle"]
    skipped = [stage.name for stage in judging if stage.result == "skipped"]
    everything = case.options.stages in (STAGES, DEFAULT_STAGES)
    open_ = [s for s in judging if s.result == "undecided" or s.result == "skipped" and not everything]
    nothing = not any(stage.decided for stage in judging)
    if open_ or nothing:
        reasons = [f"{stage.name}: {reason}" for stage in open_ or judging for reason in stage.reasons]
        verdict = undecided("; ".join([*(["nothing was judged"] if nothing else []), reasons[0]]), *reasons)
        verdict.notes += case.verdict.notes if case.verdict is not None else []
        return judged_by, verdict
    verdict = case.verdict or Verdict(Answer.YES, "")
    parts = [verdict.summary] if verdict.summary else []
    if passed:
        parts.append(f"{', '.join(passed)} passed")
    if skipped:
        parts.append(f"{', '.join(skipped)} skipped")
    verdict.summary = "; ".join(parts)
    return judged_by, verdict


def _with_reasons(verdict: Verdict, failed: list[StageResult]) -> Verdict:
    verdict.reasons += [f"{s.name}: {reason}" for s in failed if s.name != "oracle" for reason in s.reasons]
    return verdict
