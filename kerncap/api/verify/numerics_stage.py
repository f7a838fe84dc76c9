"""The numerics stage: how exact the captured kernel and the candidate are, against a result of more digits.

The reference is the same source in wider types, or the user's. Tolerance follows the output's type and the
length of what is added up.
"""

from __future__ import annotations

import math
from typing import Any

import numpy.typing as npt

from kerncap.api.verify.derived_launch import NotDerivable
from kerncap.api.verify.own_engine import engine_of
from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.api.verify.wider_types import derive_wide, multiplies_in_tf32, reduces
from kerncap.errors import KerncapError
from kerncap.format.schema import Manifest
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.judge_requests import FLOATS, errors, errors_against, values
from kerncap.replay.memory_names import view_name
from kerncap.replay.outcome import Outcome
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.protocol import REFERENCE, ErrorStatistics, Limits
from kerncap.replay.write_set_units import extent

# Half the distance of neighbours at 1. Source: IEEE 754-2019 table 3.5; bfloat16 has 8 bits, TF32 11.
_UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
_TF32 = 2.0**-11
# A sum of K terms is off by at most some λ·√K·u·Σ|x| with a probability that λ sets, and not by K·u·Σ|x|.
# Source: Higham and Mary, "A New Approach to Probabilistic Rounding Error Analysis", SIAM J. Sci. Comput. 41
# (2019). What always holds: Higham, "Accuracy and Stability of Numerical Algorithms", section 4.2.
_LAMBDA = 4.0
_ROUNDINGS = 8.0  # of the output's type, for the operations around a sum: exp, division, multiplications
_NOT_WORSE = 2.0  # than the captured kernel: a candidate as exact as that is exact enough
_UNLIKE = 0.05  # of the largest value: the wider source does another thing


def stage(case: Case) -> StageResult:
    """Errors of both kernels against the reference; a candidate may be no worse than tolerance."""
    if case.measured is None:
        return StageResult.skipped("numerics", "the captured kernel fails here")
    manifest = case.engine.manifest
    views = [
        number
        for number, view in enumerate(manifest.views)
        if view.dtype in _UNIT and view.region in case.measured.written and 0 not in view.shape
        and (case.measured.written[view.region] & _bytes_of(case, number)).any()
    ]  # fmt: skip
    if not views:
        return StageResult.skipped("numerics", "no floating-point tensor is written")
    found = StageResult("numerics")
    expected: dict[int, npt.NDArray[Any]] = {}
    if case.options.reference is None:
        try:
            expected = _wide(case, views)
        except NotDerivable as error:
            return StageResult.skipped("numerics", f"no reference of more digits: {error}; give --reference")
        except KerncapError as error:
            why = str(error).splitlines()[0]
            return StageResult.skipped("numerics", f"the source does not run in wider types: {why}")
        found.shown.append("against the same source in float64")
    else:
        said = case.engine.reference(case.options.reference)
        views = [view for view in views if view in said]
        if not views:
            return found.undecided(f"{case.options.reference.name} does not cover what the launch writes")
        found.shown.append(f"against {case.options.reference.name}, rounded to the tensor's type")
    original = _errors(case, ORIGINAL, views, expected)
    if isinstance(original, Outcome):
        return found.ended(original, "the captured kernel: ")
    if unlike := [s.name for s in original.values() if s.abs_max > _UNLIKE * s.scale and expected]:
        return StageResult.skipped(
            "numerics", f"in wider types the source gives something else for {', '.join(unlike)}: "
            "what it does depends on its types"
        )  # fmt: skip
    candidate = _errors(case, CANDIDATE, views, expected) if case.which == CANDIDATE else {}
    if isinstance(candidate, Outcome):
        return found.ended(candidate)
    for view in views:
        _judge(case, view, original[view], candidate.get(view), found)
    found.not_shown.append("errors on other values than these")
    return found.judged()


def limits(case: Case, view: int) -> tuple[Limits, int]:
    """(view, rtol, atol / largest value) by the rule of this stage, and the length of what is added up."""
    text = case.reproducer.source_text() or ""
    on_device = case.engine.choice.launcher != "interpreter"
    rtol, atol, length = rounding_limits(case.engine.manifest, text, view, on_device)
    tolerance = case.options.tolerance
    rtol = rtol if tolerance.rtol is None else tolerance.rtol
    atol = atol if tolerance.atol is None else tolerance.atol
    return (view, rtol, atol), length


def rounding_limits(manifest: Manifest, text: str, view: int, on_device: bool) -> tuple[float, float, int]:
    """How far rounding may move a view's values, as shares of the value and of the largest one; the length
    of what is added up by the source ``text``. ``on_device``: products may be rounded to TF32."""
    dtype = manifest.views[view].dtype
    unit, length = _UNIT[dtype], _length(manifest, text)
    adds = unit if dtype == "float64" else _UNIT["float32"]  # Triton adds narrower types up in float32
    if on_device and "float32" in {v.dtype for v in manifest.views} and multiplies_in_tf32(text):
        adds = _TF32
    return _ROUNDINGS * unit, _LAMBDA * math.sqrt(length) * adds, length


def _length(manifest: Manifest, text: str) -> int:
    """The longest dimension of a floating-point tensor, if anything is added up at all."""
    if text and not reduces(text):
        return 1
    shapes = [v.shape for v in manifest.views if v.dtype.startswith(FLOATS)]
    return max((length for shape in shapes for length in shape), default=1)


def _judge(
    case: Case, view: int, original: ErrorStatistics, candidate: ErrorStatistics | None, found: StageResult
) -> None:
    (_, rtol, atol), length = limits(case, view)
    name = view_name(case.engine.manifest, view)
    scale = original.scale or 1.0
    allowed = rtol * scale + atol * (scale if case.options.atol is None else 1.0)
    for who, stats in (("the captured kernel", original), ("the candidate", candidate)):
        if stats is None:
            continue
        found.shown.append(f"{name}, {who}: {described(stats)}")
        if stats.special_differs:
            found.reasons.append(
                f"{name}, {who}: NaN or infinity differs from the reference in {stats.special_differs:,} "
                f"elements ({specials(stats)})"
            )
        judged = candidate is None or who == "the candidate"
        most = max(allowed, _NOT_WORSE * original.abs_max if candidate is not None else 0.0)
        if judged and stats.abs_max > most:
            index = ", ".join(map(str, stats.worst or []))
            found.reasons.append(
                f"{name}, {who}: off by up to {stats.abs_max:.3g} (allowed {most:.3g} for "
                f"{case.engine.manifest.views[view].dtype} and sums of {length:,}), most ulps at [{index}]"
            )
        elif judged and candidate is not None and _less_exact(original, stats):
            found.reasons.append(
                f"{name}, {who}: its mean error is {stats.ulp_mean:.3g} ulps, the captured kernel's "
                f"{original.ulp_mean:.3g}: within tolerance, and less exact throughout"
            )


def _less_exact(original: ErrorStatistics, candidate: ErrorStatistics) -> bool:
    """Whether a candidate is much worse on average: more than rounding in another order makes of it."""
    return bool(candidate.ulp_median > 8.0 and candidate.ulp_median > 16.0 * max(1.0, original.ulp_median))


def described(stats: ErrorStatistics) -> str:
    """Errors in ulps, relative, and their mean with its sign, on one line."""
    text = (
        f"ulps max {stats.ulp_max:.3g}, mean {stats.ulp_mean:.2g}, p99 {stats.ulp_p99:.3g}; "
        f"relative max {stats.rel_max:.2g}, mean {stats.rel_mean:.2g}, p99 {stats.rel_p99:.2g}; "
        f"mean signed {stats.signed_mean:+.2g}"
    )
    return f"{text}; {specials(stats)}" if stats.nan_found or stats.inf_found else text


def specials(stats: ErrorStatistics) -> str:
    """How many NaN and infinities, and where the first are."""
    parts = []
    for word, count, expected, first in (
        ("NaN", stats.nan_found, stats.nan_expected, stats.first_nan),
        ("infinite", stats.inf_found, stats.inf_expected, stats.first_inf),
    ):
        where = f", first at [{', '.join(map(str, first))}]" if first is not None else ""
        parts.append(f"{count:,} {word} (reference {expected:,}{where})")
    return ", ".join(parts)


def _wide(case: Case, views: list[int]) -> dict[int, npt.NDArray[Any]]:
    """What the source in wider types leaves in the views."""
    path = derive_wide(case.reproducer, case.folder)
    with engine_of(case, path) as engine:
        engine.restore()
        outcome = engine.launch(ORIGINAL)
        if not outcome.ok:
            raise KerncapError(outcome.message)
        return {view: values(engine, view) for view in views}


def _errors(
    case: Case, which: str, views: list[int], expected: dict[int, npt.NDArray[Any]]
) -> dict[int, ErrorStatistics] | Outcome:
    """Statistics by view of one run, or how it ended badly."""
    engine = case.engine
    engine.restore()
    outcome = engine.launch(which)
    if not outcome.ok:
        return outcome
    if not expected:
        return {s.view: s for s in errors(engine, [(v, 0.0, 0.0) for v in views], REFERENCE)}
    return {view: errors_against(engine, (view, 0.0, 0.0), expected[view]) for view in views}


def _bytes_of(case: Case, number: int) -> bitmap.Bits:
    view = case.engine.manifest.views[number]
    start, stop = extent(view)
    return bitmap.span(case.engine.manifest.regions[view.region].size, max(0, start), stop)
