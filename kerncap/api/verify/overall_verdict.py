"""The one verdict that the stages of `verify` come to."""

from __future__ import annotations

from kerncap.answer import Answer
from kerncap.api.verify.verify_result import DEFAULT_STAGES, STAGES, Case, StageResult
from kerncap.replay.verdict_words import Verdict, fail, undecided


def overall(case: Case, stages: list[StageResult]) -> tuple[str, Verdict]:
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
