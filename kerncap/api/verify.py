"""Verify: is a kernel, or a candidate for it, correct? And the self-check after a capture.

Held against the application's own result where that is trusted; else against the user's reference, a
predicate, or the agreement of several replays, and the result says which.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kerncap.api.replay import (
    ReplayOptions,
    ReplayResult,
    end_again,
    load_candidate,
    opened,
    outcome_result,
    runs_at_all,
    save_checks,
    without_values,
    write_set,
)
from kerncap.errors import BackendUnavailable, KerncapError, UsageError
from kerncap.format import Reproducer, SelfCheck
from kerncap.replay import bitmap
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.measured import SEED_A, Measured
from kerncap.replay.noise import of_replays
from kerncap.replay.tolerance import view_tolerance
from kerncap.replay.units import place_name, units, view_name
from kerncap.replay.verdict import (
    gap_reasons,
    judge,
    outside_reasons,
    run_poisoned,
    settle,
    stray_notes,
)
from kerncap.replay.wording import Tolerance, Verdict, fail, mismatch, within
from kerncap.replay.write_set import OutOfTime, measure

AGREEING_REPLAYS = 3


@dataclass(frozen=True, kw_only=True)
class VerifyOptions(ReplayOptions):
    """``reference``: a Python file with ``reference(args)``; ``expect``: a predicate on what is written."""

    reference: Path | None = None
    expect: Literal["finite"] | None = None


VerifyResult = ReplayResult


def verify(path: Path, options: VerifyOptions = VerifyOptions()) -> VerifyResult:
    """Judge the captured kernel, or ``options.candidate``.

    Raises FormatError, UsageError, BackendUnavailable or ReplayError; a wrong result is no exception.
    """
    if options.reference is not None and not options.reference.is_file():
        raise UsageError(f"{options.reference}: no such reference file")
    with opened(path, options) as (reproducer, engine):
        which = CANDIDATE if options.candidate else ORIGINAL
        if (refused := load_candidate(engine, options.candidate)) is not None:
            return outcome_result(engine, which, "whether it loads", refused)
        trusted = reproducer.manifest.oracle.kind == "trusted"
        ended = _ends(engine, which)
        if ended is not None:
            return outcome_result(engine, which, "whether it ends", ended)
        if without_values(engine):
            return outcome_result(engine, which, "whether it ends", runs_at_all(engine, which))
        measured = write_set(reproducer, engine) if trusted else measure(engine, which)
        judges: list[tuple[str, Verdict]] = []
        if options.reference is not None:
            judged = by_reference(engine, measured, which, options.reference, options.tolerance)
            judges.append((f"the reference {options.reference.name}", judged))
        if options.expect == "finite":
            judges.append(("finite", by_finiteness(engine, measured, which)))
        if trusted and options.reference is None:
            judges.insert(0, ("the application's result", judge(engine, measured, which, options.tolerance)))
        if not judges:
            judges.append(
                (f"the agreement of {AGREEING_REPLAYS} replays", by_agreement(engine, measured, which))
            )
        if not trusted and which == CANDIDATE and (left := written_otherwise(reproducer, engine, measured)):
            judges.insert(0, ("what the captured kernel writes", Verdict(False, left[0], left)))
        name, verdict = next((j for j in judges if not j[1].passed), judges[0])
        if trusted or which == ORIGINAL:
            verdict.notes += stray_notes(engine.manifest, measured)
        return outcome_result(
            engine, which, name if not verdict.passed else ", ".join(n for n, _ in judges), verdict
        )


def written_otherwise(reproducer: Reproducer, engine: Engine, measured: Measured) -> list[str]:
    """What the captured kernel writes and a candidate does not, whose ``measured`` writes these are; and
    tensors, or memory beside them, that only the candidate writes to.

    Finite values and agreement are nothing if they are left over. Empty where the captured kernel can't run.
    """
    if reproducer.manifest.oracle.kind in ("fault", "timeout"):
        return []
    reasons = []
    captured = write_set(reproducer, engine)
    for region, bits in captured.written.items():
        left = bits & ~measured.written.get(region, bitmap.empty(measured.sizes[region]))
        if left.any():
            where = place_name(engine.manifest, region, bitmap.first(left))
            reasons.append(f"{bitmap.count(left):,} bytes were never written (first at {where})")
    more: dict[int, bitmap.Bits] = {}
    for unit in units(engine.manifest):
        none = bitmap.empty(measured.sizes[unit.region])
        whole = unit.bits(measured.sizes[unit.region])
        added = measured.written.get(unit.region, none) & whole
        # Within a tensor that the captured kernel writes, more may be just what was wrong with it.
        if added.any() and not (captured.written.get(unit.region, none) & whole).any():
            more[unit.region] = more.get(unit.region, none) | added
    return reasons + outside_reasons(engine.manifest, more)


def _ends(engine: Engine, which: str) -> Verdict | None:
    """A failed verdict when a plain run does not even end well."""
    engine.restore()
    outcome = engine.launch(which)
    if outcome.ok:
        return None
    verdict = fail(outcome.message)
    if outcome.detail:
        verdict.notes.append(outcome.detail)
    return verdict


def by_reference(engine: Engine, measured: Measured, which: str, file: Path, tolerance: Tolerance) -> Verdict:
    """Compare the views that the user's reference speaks of."""
    views = engine.reference(file)
    if not views:
        return fail("nothing to compare", f"{file.name} gives no tensor and changes none")
    failed = run_poisoned(engine, measured, which, SEED_A)
    if failed is not None:
        return failed
    generation = engine.generation
    manifest = engine.manifest
    wanted = [
        (v, *view_tolerance(manifest.views[v].dtype, 0.0, tolerance.rtol, tolerance.atol)) for v in views
    ]
    assert engine.generation == generation
    hit = settle(engine, measured, SEED_A)
    found = engine.compare(wanted, "reference")
    reasons = (
        gap_reasons(engine)
        + outside_reasons(manifest, hit)
        + outside_reasons(manifest, _spoiled(engine, measured))
    )
    reasons += [mismatch(stats) for stats in found if stats["outside"]]
    if reasons:
        return Verdict(False, reasons[0], reasons, views=found)
    names = ", ".join(str(stats["name"]) for stats in found)
    exact = not any(stats["different"] for stats in found)
    summary = f"{names} as the reference has it" + ("" if exact else f", {within(found)}")
    verdict = Verdict(True, summary, views=found, exact=exact)
    if unjudged := _unjudged(engine, measured, views):
        verdict.notes.append(f"{file.name} says nothing of {', '.join(unjudged)}: not judged")
    return verdict


def _spoiled(engine: Engine, measured: Measured) -> dict[int, bitmap.Bits]:
    """Bytes that are only read by what was ``measured``, and are not as they were."""
    spoiled = {}
    for region in engine.differing("pre"):
        none = bitmap.empty(measured.sizes[region])
        spoiled[region] = (
            engine.diff(region, "pre") & ~measured.written.get(region, none) & ~measured.idle(region)
        )
    return spoiled


def _unjudged(engine: Engine, measured: Measured, views: list[int]) -> list[str]:
    """The written tensors of which a reference says nothing."""
    names = []
    for unit in units(engine.manifest):
        written = measured.written.get(unit.region)
        if written is None or set(unit.views) & set(views):
            continue
        if (written & unit.bits(measured.sizes[unit.region])).any():
            names += [view_name(engine.manifest, number) for number in unit.views]
    return list(dict.fromkeys(names))


def by_finiteness(engine: Engine, measured: Measured, which: str) -> Verdict:
    """No NaN and no infinity among the floating-point elements that were written."""
    failed = run_poisoned(engine, measured, which, SEED_A)
    if failed is not None:
        return failed
    manifest = engine.manifest
    hit = settle(engine, measured, SEED_A)
    views = [n for n, view in enumerate(manifest.views) if view.region in measured.written]
    found = engine.nonfinite(views, measured.written)
    elements = sum(int(stats["elements"]) for stats in found)
    if not elements:
        return fail("nothing to compare", "no floating-point element is written")
    reasons = gap_reasons(engine) + outside_reasons(manifest, hit)
    for stats in found:
        if stats["nonfinite"]:
            index = ", ".join(map(str, stats["first"]["index"]))
            reasons.append(
                f"{stats['name']}: {stats['nonfinite']:,} of {stats['elements']:,} written elements "
                f"are not finite, first {stats['name']}[{index}] = {stats['first']['found']}"
            )
    if reasons:
        return Verdict(False, reasons[0], reasons)
    return Verdict(True, f"{elements:,} written elements are finite")


def by_agreement(engine: Engine, measured: Measured, which: str) -> Verdict:
    """Several replays on the same pre-state, each after the same poison, give the same."""
    if not measured.written_bytes:
        return fail("nothing to compare", "the launch writes nothing that was captured")
    noise = of_replays(engine, which, AGREEING_REPLAYS)
    reasons = gap_reasons(engine)
    views = engine.manifest.views
    differing = [
        (view_name(engine.manifest, v), views[v].dtype, largest) for v, largest in noise.views.items()
    ]
    differing += [(i.view["name"], i.view["dtype"], i.largest) for i in noise.inferred]
    for name, dtype, largest in differing:
        rtol, atol = view_tolerance(dtype)
        if largest > atol + rtol * largest or not dtype.startswith(("float", "bfloat")):
            reasons.append(f"{name}: {AGREEING_REPLAYS} replays differ by up to {largest:.3g}")
    if noise and not noise.typed:
        reasons.append(f"{AGREEING_REPLAYS} replays differ in bytes that no view describes")
    if reasons:
        return Verdict(False, reasons[0], reasons)
    word = "agree within tolerance" if noise else "agree"
    return Verdict(
        True,
        f"{AGREEING_REPLAYS} replays {word}; there is no reference to be correct against",
        exact=not noise,
    )


def self_check(path: Path, timeout_s: float = 30.0, target_python: str | None = None) -> tuple[str, str]:
    """Replay a new reproducer once and measure its write set; both are kept in it.

    ``target_python`` ran the captured program; it serves where kerncap's own has no torch and triton.
    Returns (``pass``, ``fail`` or ``skipped``, reason). Never raises for what the reproducer does.
    """
    deadline = time.monotonic() + timeout_s
    measured: Measured | None = None
    engine_name = ""
    try:
        with Reproducer.open(path) as reproducer:
            try:
                with Engine(reproducer, timeout_s=timeout_s, target_python=target_python) as engine:
                    engine_name = engine.choice.name
                    result, reason, measured = _self_check(engine, deadline)
            except BackendUnavailable as error:
                result, reason = "skipped", str(error)
            except KerncapError as error:
                result, reason = "fail", str(error)
            check = SelfCheck(result=result, reason=reason[:4096], engine=engine_name)
            save_checks(reproducer, measured, check)
    except KerncapError as error:
        return "fail", str(error)
    return result, reason


def _self_check(
    engine: Engine, deadline: float
) -> tuple[Literal["pass", "fail", "skipped"], str, Measured | None]:
    if engine.manifest.oracle.kind in ("fault", "timeout"):
        engine.timeout_s = max(1.0, deadline - time.monotonic())
        verdict = end_again(engine, ORIGINAL)
        return ("pass" if verdict.passed else "fail"), verdict.summary, None
    engine.timeout_s = max(1.0, deadline - time.monotonic())
    engine.restore()
    outcome = engine.launch()
    if outcome.status == "timeout":
        return "skipped", "one replay takes longer than the self-check may", None
    if not outcome.ok:
        return "fail", outcome.message, None
    same = not any(engine.diff(region, "post").any() for region in range(len(engine.manifest.regions)))
    try:
        measured = measure(engine, ORIGINAL, deadline)
    except OutOfTime:
        if same:
            return "pass", "the replay agrees; the write set was not measured in the time given", None
        return "skipped", "the replay differs, and how far it may was not measured in the time given", None
    verdict = judge(engine, measured)
    return ("pass" if verdict.passed else "fail"), verdict.summary, measured
