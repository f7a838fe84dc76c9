"""The memory stage: what a launch reads and writes next to its tensors.

Every storage lies alone between guards; the checkers that are installed look at the launch, too.
"""

from __future__ import annotations

from collections.abc import Iterator

from kerncap.answer import Answer
from kerncap.api.candidate_settings import described
from kerncap.api.replay import load_candidate
from kerncap.api.verify import compute_sanitizer
from kerncap.api.verify.derived_launch import GUARD_BYTES, NotDerivable, derive
from kerncap.api.verify.own_engine import engine_of
from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.errors import KerncapError
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.measure_write_set import measure
from kerncap.replay.memory_names import place_name
from kerncap.replay.stray_writes import stray_notes
from kerncap.replay.verdict import judge, judge_again
from kerncap.replay.verdict_words import Verdict
from kerncap.replay.worker.common import bitmap
from kerncap.replay.write_set_units import outside_views


def stage(case: Case) -> StageResult:
    """Guards and compute-sanitizer, as far as each applies."""
    found = StageResult("memory")
    _guards(case, found)
    asked = case.engine.config(CANDIDATE) if case.which == CANDIDATE else None
    if asked is None:
        compute_sanitizer.check(case, found)
    else:
        found.not_shown.append(
            "compute-sanitizer: it takes the captured launch, and the candidate's file asks for another "
            f"({described(asked)})"
        )
    if not found.shown and not found.reasons:
        return StageResult("memory", "skipped", found.not_shown[:1], [], found.not_shown)
    return found.judged()


# --- guards ------------------------------------------------------------------------------------------


def _guards(case: Case, found: StageResult) -> None:
    if case.measured is None:
        found.not_shown.append("guards: the captured kernel fails here")
        return
    try:
        path = derive(case.reproducer, case.folder)
        with engine_of(case, path) as engine:
            _between_guards(case, engine, found)
    except NotDerivable as error:
        found.not_shown.append(f"guards around every tensor: {error}")
    except KerncapError as error:
        found.not_shown.append(f"guards around every tensor: {str(error).splitlines()[0]}")


def _between_guards(case: Case, engine: Engine, found: StageResult) -> None:
    measured = measure(engine, ORIGINAL)
    who = "the captured kernel"
    reasons = stray_notes(engine.manifest, measured)
    reasons += _read_beside(engine, measured)
    if case.which == CANDIDATE:
        found.not_shown += [f"guards: {reason}" for reason in reasons]  # no fault of the candidate's
        refused = load_candidate(engine, case.options.candidate)
        reasons, who = [], "the candidate"
        for verdict in (refused,) if refused else _verdicts(case, engine, measured):
            if verdict.answer is Answer.UNDECIDED:
                found.not_shown += [f"guards: {reason}" for reason in verdict.reasons]
                return
            reasons += [f"between guards: {reason}" for reason in verdict.reasons]
    found.reasons += list(dict.fromkeys(reasons))
    if not reasons:
        found.shown.append(
            f"with {GUARD_BYTES:,} bytes of poison around every tensor, {who} writes none of it, "
            "and its result depends on none"
        )
        found.not_shown.append("reads outside a tensor whose values are not used")


def _verdicts(case: Case, engine: Engine, measured: Measured) -> Iterator[Verdict]:
    """Under two poisons: a result that depends on what lies beside a tensor is wrong under one at least."""
    yield judge(engine, measured, CANDIDATE, case.options.tolerance)
    yield judge_again(engine, measured, CANDIDATE, case.options.tolerance)


def _read_beside(engine: Engine, measured: Measured) -> list[str]:
    """Guards that could not be poisoned without an effect."""
    reasons = []
    for region in range(len(measured.sizes)):
        outside = outside_views(engine.manifest, region)
        if not outside.any():
            continue
        read = outside & ~measured.poisonable(region)
        untouched_known = region in measured.untouched
        if read.any() and untouched_known:
            place = place_name(engine.manifest, region, bitmap.first(read))
            reasons.append(f"the captured kernel's result depends on memory outside its tensors (at {place})")
    return reasons
