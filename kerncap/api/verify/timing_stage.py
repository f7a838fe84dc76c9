"""The timing stage: candidate and captured kernel in turns, and whether what is timed is what was judged.

Each timed launch begins on the restored memory, by the judge's clock. What works while it is judged, and not
while it is timed, or does many launches' work in one, leaves something else in memory. A time in which the
device can't have written the result is a suspicion, and no success.
"""

from __future__ import annotations

from kerncap.answer import Answer
from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.errors import KerncapError
from kerncap.replay import paired_times
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.limits.impossible_times import of_launch
from kerncap.replay.repeated_runs import dirtied, run_timed
from kerncap.replay.verdict import judge_timed

_DEVICE_ROUNDS, _HOST_ROUNDS = 20, 2


def stage(case: Case) -> StageResult:
    """Time both, then judge memory as the last timed launch of the candidate left it."""
    engine, measured = case.engine, case.measured
    if case.which != CANDIDATE:
        return StageResult.skipped("timing", "there is no candidate to time against the captured kernel")
    if measured is None or case.reproducer.manifest.oracle.kind != "trusted":
        return StageResult.skipped("timing", "there is no result to compare timed launches with")
    found = StageResult("timing")
    rounds = _DEVICE_ROUNDS if engine.choice.on_device else _HOST_ROUNDS
    dirty = sorted(measured.written)
    doubts: list[str] = []
    try:
        floor = of_launch(engine, measured)
        for cold in (False, True):
            if cold and not (engine.choice.on_device and engine.choice.launcher != "native"):
                continue
            engine.restore()
            times = engine.interleaved((ORIGINAL, CANDIDATE), rounds, dirty, dirtied(measured), cold)
            ratio = paired_times.ratio(times[ORIGINAL], times[CANDIDATE])
            if floor is not None and (doubt := floor.problem(paired_times.median(times[CANDIDATE]))):
                doubts.append(doubt)
            cache = "with other data in the cache" if cold else "with the restored data in the cache"
            found.shown.append(
                f"{paired_times.median(times[CANDIDATE]):.3g} ms, {ratio.median:.3g} of the captured kernel's"
                f" time ({ratio.low:.3g} to {ratio.high:.3g}), {cache if engine.choice.on_device else 'here'}"
            )
        run_timed(engine, measured, CANDIDATE, rounds)
        verdict = judge_timed(engine, measured, CANDIDATE, case.options.tolerance)
    except KerncapError as error:
        return found.undecided(f"it can't be timed: {str(error).splitlines()[0]}")
    if verdict.answer is Answer.UNDECIDED:
        return found.undecided(*verdict.reasons)
    if verdict.answer is Answer.YES and doubts:
        return found.undecided(*doubts)
    if verdict.answer is Answer.YES:
        found.shown.append("what timed launches leave in memory is the result, too")
    return found.failed(*verdict.reasons)
