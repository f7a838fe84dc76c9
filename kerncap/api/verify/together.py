"""`verify --together`: all ranks of one collective launch at once, as they ran in the application.

The captured kernels are judged first, as a candidate is compared with what they do here.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path

from kerncap.api.candidate_file import kept, refuse_inside
from kerncap.api.replay import check_numbers, load_candidate, not_run, outcome_result
from kerncap.api.verify.verify_result import StageResult, VerifyOptions, VerifyResult
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.replay import trust
from kerncap.replay.all_ranks_engine import Together
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.measure_write_set import measure
from kerncap.replay.outcome import NotHeld
from kerncap.replay.plain_run import EndedBadly
from kerncap.replay.verdict import judge, judge_again
from kerncap.replay.verdict_words import Verdict, badly_ended, undecided


def verify_together(paths: Sequence[Path], options: VerifyOptions) -> VerifyResult:
    """Judge the captured kernels of all ranks, or ``options.candidate`` in place of each.

    Raises FormatError, UsageError, BackendUnavailable or ReplayError; a wrong result is no exception.
    """
    _refuse_options(options)
    check_numbers(options.timeout_s, options.rtol, options.atol)
    with contextlib.ExitStack() as stack:
        reproducers = []
        for path in paths:
            reproducer = stack.enter_context(Reproducer.open(path))
            reproducer.max_expanded = options.max_size
            trust.require(reproducer, options.trust)
            reproducers.append(reproducer)
        candidate = stack.enter_context(kept(options.candidate))
        try:
            engine = Together(reproducers, options.device, options.python, options.timeout_s)
        except NotHeld as needs:
            found = not_run(needs)
            return _result(found, [_as("smoke", found.verdict)])
        with engine:
            stages, verdict = _judged(engine, options, None if candidate is None else candidate.path)
            if candidate is not None:
                verdict = candidate.close(verdict)
            for texts in (verdict.reasons, verdict.notes, *(stage.reasons for stage in stages)):
                texts[:] = map(engine.named, texts)
            verdict.summary = engine.named(verdict.summary)
            which = ORIGINAL if candidate is None else CANDIDATE
            return _result(
                outcome_result(engine, which, "the application's results of all ranks", verdict), stages
            )


def _refuse_options(options: VerifyOptions) -> None:
    given = {
        "--engine": options.engine not in ("auto", "binary"), "--emulator": options.emulator,
        "--reference": options.reference, "--expect": options.expect, "--prove": options.prove,
        "--hostile": options.hostile,
    }  # fmt: skip
    for name, value in given.items():
        if value:
            raise UsageError(f"{name} with --together: ranks are compared with what they did; leave it out")
    if options.candidate is not None:
        if not options.candidate.is_file():
            raise UsageError(f"{options.candidate}: no such candidate file")
        refuse_inside("--candidate", options.candidate)


def _judged(
    engine: Together, options: VerifyOptions, candidate: Path | None
) -> tuple[list[StageResult], Verdict]:  # fmt: skip
    if engine.manifest.oracle.kind != "trusted":
        verdict = undecided(
            "a rank's launch did not end well in the application, or nothing is known of its result"
        )
        return [_as("smoke", verdict)], verdict
    try:
        measured = measure(engine)
    except EndedBadly as error:
        verdict = _captured(badly_ended(error.outcome))
        return [_as("smoke", verdict)], verdict
    smoke = StageResult("smoke")
    smoke.shown.append("all ranks launch, and end in time with no fault")
    verdict = judge(engine, measured, ORIGINAL, options.tolerance)
    if candidate is None or not verdict.passed:
        verdict = verdict if candidate is None else _captured(verdict)
        return [smoke, _as("oracle", verdict)], verdict
    captured = engine.plain()
    if (refused := load_candidate(engine, candidate)) is not None:
        return [_as("smoke", refused)], refused
    ended = engine.plain(CANDIDATE)
    if not ended.ok:
        verdict = badly_ended(ended)
        if ended.status == "timeout" and captured.ok:
            verdict.notes.append(f"the captured kernels of all ranks ended in {captured.ns / 1e6:.3g} ms")
        return [_as("smoke", verdict)], verdict
    for judged in (judge, judge_again):
        verdict = judged(engine, measured, CANDIDATE, options.tolerance)
        if not verdict.passed:
            break
    return [smoke, _as("oracle", verdict)], verdict


def _captured(verdict: Verdict) -> Verdict:
    """No verdict on a candidate, when the captured kernels do not do here what they did."""
    found = undecided(f"the captured kernels: {verdict.summary}", *verdict.reasons)
    found.notes = verdict.notes
    return found


def _as(name: str, verdict: Verdict) -> StageResult:
    stage = StageResult(name)
    if verdict.passed:
        stage.shown.append(verdict.summary)
        return stage
    reasons = list(verdict.reasons)
    return stage.undecided(*reasons) if verdict.answer.value == "undecided" else stage.failed(*reasons)


def _result(found: object, stages: list[StageResult]) -> VerifyResult:
    values = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}  # type: ignore[arg-type]
    return VerifyResult(**values, stages=stages)
