"""Judges other than the oracle: the user's reference, a predicate, agreement, what was written."""

from __future__ import annotations

from pathlib import Path

from kerncap.answer import Answer
from kerncap.api.replay import write_set
from kerncap.format import Reproducer
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import Engine
from kerncap.replay.memory_names import place_name, view_name
from kerncap.replay.noise_floor import of_replays
from kerncap.replay.poisoned_launch import SEED_A
from kerncap.replay.stray_writes import gap_reasons, outside_reasons, settle
from kerncap.replay.tolerance import view_tolerance
from kerncap.replay.verdict import run_poisoned
from kerncap.replay.verdict_words import (
    Tolerance,
    Verdict,
    badly_ended,
    mismatch,
    nothing_written,
    undecided,
    within,
)
from kerncap.replay.worker.common import bitmap
from kerncap.replay.worker.protocol import REFERENCE
from kerncap.replay.write_set_units import units

AGREEING_REPLAYS = 3


def written_otherwise(reproducer: Reproducer, engine: Engine, measured: Measured) -> list[str]:
    """What the captured kernel writes and a candidate does not, whose ``measured`` writes these are; and
    tensors, or memory beside them, that only the candidate writes to.

    Finite values and agreement are nothing if they are left over. Empty if the captured kernel can't run.
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


def by_reference(engine: Engine, measured: Measured, which: str, file: Path, tolerance: Tolerance) -> Verdict:
    """Compare the views that the user's reference speaks of."""
    views = engine.reference(file)
    if not views:
        why = f"{file.name} returns no tensor and changes none"
        return undecided(f"nothing to compare: {why}; a reference that gives one would decide it", why)
    ended = run_poisoned(engine, measured, which, SEED_A)
    if ended is not None:
        return ended
    generation = engine.generation
    manifest = engine.manifest
    wanted = [
        (v, *view_tolerance(manifest.views[v].dtype, 0.0, tolerance.rtol, tolerance.atol)) for v in views
    ]
    assert engine.generation == generation
    hit = settle(engine, measured, SEED_A)
    found = engine.compare(wanted, REFERENCE)
    reasons = (
        gap_reasons(engine)
        + outside_reasons(manifest, hit)
        + outside_reasons(manifest, _spoiled(engine, measured))
    )
    reasons += [mismatch(stats) for stats in found if stats.outside]
    if reasons:
        return Verdict(Answer.NO, reasons[0], reasons, views=found)
    names = ", ".join(stats.name for stats in found)
    exact = not any(stats.different for stats in found)
    summary = f"{names} as the reference has it" + ("" if exact else f", {within(found)}")
    verdict = Verdict(Answer.YES, summary, views=found, exact=exact)
    if unjudged := _unjudged(engine, measured, views):
        verdict.notes.append(f"{file.name} does not cover {', '.join(unjudged)}: not judged")
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
    ended = run_poisoned(engine, measured, which, SEED_A)
    if ended is not None:
        return ended
    manifest = engine.manifest
    hit = settle(engine, measured, SEED_A)
    views = [n for n, view in enumerate(manifest.views) if view.region in measured.written]
    found = engine.nonfinite(views, measured.written)
    elements = sum(stats.elements for stats in found)
    reasons = gap_reasons(engine) + outside_reasons(manifest, hit)
    for stats in found:
        if stats.nonfinite and stats.first is not None:
            index = ", ".join(map(str, stats.first.index))
            reasons.append(
                f"{stats.name}: {stats.nonfinite:,} of {stats.elements:,} written elements "
                f"are not finite, first {stats.name}[{index}] = {stats.first.found}"
            )
    if reasons:
        return Verdict(Answer.NO, reasons[0], reasons)
    if not elements:
        why = "no floating-point element is written"
        return undecided(f"nothing to compare: {why}; a --reference would decide it", why)
    return Verdict(Answer.YES, f"{elements:,} written elements are finite")


def by_agreement(engine: Engine, measured: Measured, which: str) -> Verdict:
    """Several replays on the same pre-state, each after the same poison, give the same."""
    if not measured.written_bytes:
        return nothing_written(engine.side_inputs.prints)
    noise = of_replays(engine, which, AGREEING_REPLAYS)
    if noise.ended is not None:
        return badly_ended(noise.ended)
    reasons = gap_reasons(engine)
    views = engine.manifest.views
    differing = [
        (view_name(engine.manifest, v), views[v].dtype, largest) for v, largest in noise.views.items()
    ]
    differing += [(i.view.name, i.view.dtype, i.largest) for i in noise.inferred]
    for name, dtype, largest in differing:
        rtol, atol = view_tolerance(dtype)
        if largest > atol + rtol * largest or not dtype.startswith(("float", "bfloat")):
            reasons.append(f"{name}: {AGREEING_REPLAYS} replays differ by up to {largest:.3g}")
    if noise and not noise.typed:
        reasons.append(f"{AGREEING_REPLAYS} replays differ in bytes that no view describes")
    if reasons:
        return Verdict(Answer.NO, reasons[0], reasons)
    word = "agree within tolerance" if noise else "agree"
    return Verdict(
        Answer.YES,
        f"{AGREEING_REPLAYS} replays {word}; there is no reference to be correct against",
        exact=not noise,
    )
