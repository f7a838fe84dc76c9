"""The determinism stage: how far repeated runs on the same contents differ, buffer by buffer."""

from __future__ import annotations

import dataclasses

from kerncap.api.verify.verify_result import Case, StageResult
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, ORIGINAL
from kerncap.replay.judge_requests import FLOATS
from kerncap.replay.memory_names import view_name
from kerncap.replay.noise_floor import Noise
from kerncap.replay.poisoned_launch import SEED_A, poison
from kerncap.replay.tolerance import view_tolerance
from kerncap.replay.worker.common import bitmap

_RUNS_ON_HOST = 2  # the interpreter runs one program after the other: what differs differs at once
_RUNS_ON_DEVICE = 20
_NOISIER = 4.0  # a candidate's largest difference over the captured kernel's: two samples of one
# distribution of 20 runs seldom differ by more than twice


def stage(case: Case) -> StageResult:
    """Repeat the captured kernel and the candidate, each on the pre-state under the same poison."""
    found = StageResult("determinism")
    if case.measured is None:
        return StageResult.skipped("determinism", "the captured kernel fails here")
    runs = _RUNS_ON_HOST if case.engine.choice.memory == "host" else _RUNS_ON_DEVICE
    original = _observe(case, case.measured, ORIGINAL, runs)
    if original.ended is not None:
        return found.ended(original.ended, "the captured kernel: ")
    found.shown += _described(case, original, "the captured kernel", runs)
    if case.which == CANDIDATE:
        candidate = _observe(case, case.measured, CANDIDATE, runs)
        if candidate.ended is not None:
            return found.ended(candidate.ended)
        found.shown += _described(case, candidate, "the candidate", runs)
        found.failed(*_noisier(case, original, candidate))
        found.not_shown += [
            f"{view_name(case.engine.manifest, view)}: the captured kernel's differs by more than rounding"
            for view in sorted(original.without_floor(case.engine.manifest) & candidate.views.keys())
        ]
    else:
        races = [
            f"{view_name(case.engine.manifest, view)} differs from run to run by up to "
            f"{original.views[view]:.3g}, which is more than rounding"
            for view in original.races(case.engine.manifest)
        ]
        told = case.engine.side_inputs.told
        if races and told:
            found.undecided(*(f"{each}: the kernel {told}" for each in races))
        else:
            found.failed(*(f"{each}: a race" for each in races))
    found.not_shown.append(f"differences rarer than one in {runs} runs")
    return found


def _observe(case: Case, measured: Measured, which: str, runs: int) -> Noise:
    """What differs between runs, or how one ended badly."""
    noise, engine = Noise(), case.engine
    for run in range(runs):
        engine.restore()
        poison(engine, measured, SEED_A)
        outcome = engine.launch(which)
        if not outcome.ok:
            noise.ended = dataclasses.replace(outcome, message=f"run {run + 1} of {runs}: {outcome.message}")
            return noise
        if run == 0:
            engine.snapshot("first of many")
        else:
            noise.observe(engine, "first of many")
    engine.drop("first of many")
    return noise


def _described(case: Case, noise: Noise, who: str, runs: int) -> list[str]:
    if not noise:
        return [f"{who}: {runs} runs agree bit by bit"]
    manifest = case.engine.manifest
    lines = [
        f"{who}: {view_name(manifest, view)} differs from run to run by up to {largest:.3g} "
        f"(largest value there {noise.scales[view]:.3g})"
        for view, largest in noise.views.items()
    ]
    if not noise.typed:
        count = sum(bitmap.count(bits) for bits in noise.bytes.values())
        lines.append(f"{who}: {count:,} bytes of no known type differ from run to run")
    return lines


def _noisier(case: Case, original: Noise, candidate: Noise) -> list[str]:
    reasons = []
    manifest = case.engine.manifest
    for view, largest in candidate.views.items():
        if view in original.without_floor(manifest):
            continue  # a clock's values: of two such samples neither is the noisier
        dtype, known = manifest.views[view].dtype, original.views.get(view, 0.0)
        rtol, atol = view_tolerance(dtype, 0.0, case.options.rtol, case.options.atol)
        allowed = atol + rtol * candidate.scales[view] if dtype.startswith(FLOATS) else 0.0
        if largest > max(_NOISIER * known, allowed):
            than = f"by up to {known:.3g}" if known else "not at all"
            reasons.append(
                f"{view_name(manifest, view)} differs from run to run by up to {largest:.3g}, "
                f"the captured kernel's {than}"
            )
    if candidate and not candidate.typed and not original:
        reasons.append("bytes of no known type differ from run to run, the captured kernel's do not")
    return reasons
