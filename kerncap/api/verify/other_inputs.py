"""A candidate that agrees once is run again, and on other values, places and sizes.

That tells work from a result that was left over, cached, or written into the source.
"""

from __future__ import annotations

from collections.abc import Callable

from kerncap.api.verify import one_way_conditions, shapes_stage, steering
from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.api.verify.wider_types import multiplies_in_tf32
from kerncap.replay import boundary_values, equal_places, extreme_values, other_contents, wider_values
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE
from kerncap.replay.judge_requests import stream_problem
from kerncap.replay.verdict_words import Verdict, fail, undecided

_IN_STREAM = "all of its work is in the stream that it is launched in"


def not_by_chance(
    case: Case, measured: Measured, verdict: Verdict, trusted: bool, found: StageResult
) -> Verdict:
    """The verdict on a candidate that agrees once, after it was run again, and on other values."""
    engine, options = case.engine, case.options
    if not trusted or options.reference is not None:
        found.not_shown.append("work on other values: there is no trusted kernel to compare with")
        return verdict
    found.shown.append("a second run on the same contents does the work again")  # smoke's was the first
    other = other_contents.on_other_values(engine, measured, options.tolerance)
    found.shown += other.shown
    found.not_shown += other.not_shown
    further: list[Callable[[], other_contents.Shown]] = [
        lambda: other_contents.on_other_counts(engine, measured, options.tolerance),
        lambda: _wider(case, measured, other),
    ]
    if engine.one_launch:
        further.append(lambda: shapes_stage.on_some_numbers(case, measured))
        further.append(lambda: shapes_stage.on_some_sizes(case, measured))
    further.append(
        lambda: extreme_values.on_extreme_values(engine, measured, options.tolerance, _is_coarse(case))
    )
    if engine.one_launch:
        further += _on_boundaries(case, measured)
    else:
        found.not_shown.append("other sizes: launches in a row have those that they were captured with")
    shown, contents, numbers = other, list(other.contents), list(other.numbers)
    while not shown.reasons and not shown.open and further:
        shown = further.pop(0)()
        found.shown += shown.shown
        found.not_shown += shown.not_shown
        contents += shown.contents
        numbers += shown.numbers
    if not shown.reasons and not shown.open and engine.one_launch:
        shown = one_way_conditions.on_conditions(case, contents, numbers)
        found.shown += shown.shown
        found.not_shown += shown.not_shown
    if shown.reasons:
        return _failed(verdict, shown.reasons)
    if shown.open:
        open_ = undecided(f"{shown.open[0]}; {shown.remedy}", *shown.open)
        open_.notes = verdict.notes
        return open_
    if engine.choice.torch_free:  # nothing but its image is launched, by the judge
        found.shown.append(_IN_STREAM)
    elif engine.choice.memory == "cuda" and engine.choice.launcher != "native":
        engine.restore()
        problem = stream_problem(engine, CANDIDATE, sorted(measured.written))
        if problem:
            return _failed(verdict, [f"it returns before its stream has finished: {problem}"])
        found.shown.append(_IN_STREAM)
    return verdict


def _on_boundaries(case: Case, measured: Measured) -> list[Callable[[], other_contents.Shown]]:
    """What may leave the verdict open, after all that may decide it."""
    engine, tolerance = case.engine, case.options.tolerance
    known = steering.begin(case, measured)
    return [
        lambda: boundary_values.on_boundary_values(engine, measured, tolerance, known()),
        lambda: boundary_values.on_other_places(engine, measured, tolerance, known()),
        lambda: shapes_stage.on_free_integers(case, measured, known().free),
        lambda: equal_places.on_equal_places(known()),
    ]


def _wider(case: Case, measured: Measured, other: other_contents.Shown) -> other_contents.Shown:
    """On values beyond the captured ones; and errors that have one side on ``other`` values, and on more."""
    wider = wider_values.on_wider_values(case.engine, measured, case.options.tolerance, _is_coarse(case))
    if wider.reasons or wider.open or not any(other.shifts.values()):
        return wider
    second = other_contents.on_other_values(case.engine, measured, case.options.tolerance, seed=6)
    found = wider_values.biases(case.engine, other, second)
    found.shown, found.not_shown, found.contents = wider.shown, wider.not_shown, wider.contents
    return found


def idle_on_repeated(case: Case, measured: Measured, verdict: Verdict) -> None:
    """Say of a candidate that left its work undone whether it does it on contents that are new to it."""
    new = other_contents.on_other_values(case.engine, measured, case.options.tolerance, seed=3)
    if new.shown and not new.reasons:
        verdict.reasons.insert(0, "it works on contents that are new to it, and not on the same ones again")
        verdict.summary = verdict.reasons[0]


def _failed(verdict: Verdict, reasons: list[str]) -> Verdict:
    failed = fail(reasons[0], *reasons)
    failed.notes = verdict.notes
    return failed


def _is_coarse(case: Case) -> bool:
    """Whether inputs may be rounded to TF32."""
    text = "".join(one.source_text() or "" for one in case.reproducer.in_range or [case.reproducer])
    return case.reproducer.manifest.kernel.language != "triton" or multiplies_in_tf32(text)
