"""The smoke stage: whether a launch builds, and ends well in time."""

from __future__ import annotations

from dataclasses import replace

from kerncap.answer import Answer
from kerncap.api.replay import load_candidate, runs_at_all
from kerncap.api.reproduced_faults import ASSERT, cause, ends_as_captured
from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.replay.byte_effects import load
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.poisoned_launch import SEED_A, launch_poisoned
from kerncap.replay.verdict_words import Verdict, badly_ended


def stage(case: Case) -> tuple[StageResult, str, Verdict | None]:
    """Whether it builds, launches, and ends well in time; if not, the verdict on that, and by what."""
    found = StageResult("smoke")
    options = case.options
    engine, which = case.engine, case.which
    refused = load_candidate(engine, case.options.candidate)
    if refused is not None:
        return found.failed(*refused.reasons), "whether it loads", refused
    ended = _ends(case)
    if ended is not None and ended.passed:
        found.shown.append(ended.summary)
        return found, "the captured end", ended
    if ended is not None:
        return judged(found, ended), "whether it ends", ended
    found.shown.append("loads, launches, and ends in time with no fault")
    if options.hostile and which == CANDIDATE:
        from kerncap.api.verify import hostile

        hostile.say(case, found)
    if engine.manifest.closure.without_values:
        nothing = runs_at_all(engine, which)
        return judged(found, nothing), "whether it ends", nothing
    return found, "whether it ends", None


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
    case.faulted = outcome.status == "fault"
    if case.which != ORIGINAL or not ends_as_captured(engine, outcome.message):
        return badly_ended(outcome)
    nobody_else = options.reference is None and options.expect is None
    if nobody_else and cause(outcome.message) == ASSERT:
        return Verdict(Answer.YES, f"its own assert ends it, as in the application: {outcome.message}")
    # All of the application's memory was there, and it ended so all the same.
    return badly_ended(replace(outcome, doubt=""))


def _judges_at_once(case: Case) -> bool:
    """Whether the oracle's run, under poison, is the next one: if it ends well so does one without."""
    trusted = case.reproducer.manifest.oracle.kind == "trusted"
    by_it = "oracle" in case.options.stages and case.options.reference is None
    return case.which == ORIGINAL and case.engine.choice.memory == "host" and trusted and by_it


def judged(stage: StageResult, verdict: Verdict) -> StageResult:
    """The stage with a verdict that is no pass."""
    if verdict.answer is Answer.NO:
        return stage.failed(*verdict.reasons)
    return stage.undecided(*verdict.reasons)
