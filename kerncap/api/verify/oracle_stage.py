"""The oracle stage: the application's own result, or a substitute if that can't be trusted.

A candidate is judged on its second run (smoke is the first), and on other inputs (`other_inputs`).
"""

from __future__ import annotations

from types import ModuleType

from kerncap.answer import Answer, of_all
from kerncap.api.verify.judges import (
    AGREEING_REPLAYS,
    by_agreement,
    by_finiteness,
    by_reference,
    written_otherwise,
)
from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.measure_write_set import measure
from kerncap.replay.stray_writes import stray_notes
from kerncap.replay.verdict import judge
from kerncap.replay.verdict_words import Verdict


def stage(case: Case) -> StageResult:
    """Judge by all that there is; the verdict stays with the case."""
    engine, which, options = case.engine, case.which, case.options
    trusted = case.reproducer.manifest.oracle.kind == "trusted"
    measured = case.measured if trusted and case.measured is not None else measure(engine, which)
    judges: list[tuple[str, Verdict]] = []
    if options.reference is not None:
        judged = by_reference(engine, measured, which, options.reference, options.tolerance)
        judges.append((f"the reference {options.reference.name}", judged))
    if options.expect == "finite":
        judges.append(("finite", by_finiteness(engine, measured, which)))
    if trusted and options.reference is None:
        judges.insert(0, ("the application's result", judge(engine, measured, which, options.tolerance)))
    if not judges:
        agreement = by_agreement(engine, measured, which)
        judges.append((f"the agreement of {AGREEING_REPLAYS} replays", agreement))
    if (
        not trusted
        and which == CANDIDATE
        and (left := written_otherwise(case.reproducer, engine, measured))
    ):  # fmt: skip
        judges.insert(0, ("what the captured kernel writes", Verdict(Answer.NO, left[0], left)))
    answer = of_all(judged.answer for _, judged in judges)
    name, verdict = next(j for j in judges if j[1].answer is answer)
    names = ", ".join(n for n, _ in judges) if verdict.passed else name
    found = StageResult("oracle")
    if verdict.passed:
        found.shown += [f"{judged_by}: {judged.summary}" for judged_by, judged in judges]
    if which == CANDIDATE and verdict.passed:
        verdict = _other_inputs().not_by_chance(case, measured, verdict, trusted, found)
    elif (
        which == CANDIDATE
        and trusted
        and verdict.answer is Answer.NO
        and any("never written" in reason for reason in verdict.reasons)
    ):
        _other_inputs().idle_on_repeated(case, measured, verdict)
    if trusted or which != CANDIDATE:
        verdict.notes += stray_notes(engine.manifest, measured)
    if verdict.answer is Answer.NO:
        found.failed(*verdict.reasons)
    elif verdict.answer is Answer.UNDECIDED:
        found.undecided(*verdict.reasons)
    if verdict.passed and not verdict.exact:
        found.not_shown.append("equality bit by bit")
    case.judged_by, case.verdict = names, verdict
    return found


def _other_inputs() -> ModuleType:
    """Of candidates only, and half of what this stage would load."""
    from kerncap.api.verify import other_inputs

    return other_inputs
