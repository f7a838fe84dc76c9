"""Judging a derived launch in a separate engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kerncap.api.replay import load_candidate
from kerncap.api.verify.verify_result import Case
from kerncap.format import Reproducer
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import CANDIDATE, ORIGINAL, Engine
from kerncap.replay.measure_write_set import measure
from kerncap.replay.verdict import judge
from kerncap.replay.verdict_words import Verdict, badly_ended


@contextmanager
def engine_of(case: Case, path: Path) -> Iterator[Engine]:
    """An engine like the case's for a derived launch (which is trusted as what it was derived from is)."""
    choice = case.engine.choice
    device = f"cuda:{choice.device}" if choice.memory == "cuda" else "cpu"
    with Reproducer.open(path) as reproducer, Engine(
        reproducer, choice.name, device, choice.python, case.options.timeout_s,
        hostile=choice.hostile, shared=case.engine.shared,
    ) as engine:  # fmt: skip
        yield engine


def original_agrees(case: Case, engine: Engine) -> tuple[Measured | None, Verdict]:
    """The captured kernel's write set on a derived launch, and whether it gives there what it gave.

    Another alignment or another address may be another instruction, so what rounding explains is allowed.
    """
    engine.restore()
    outcome = engine.launch(ORIGINAL)
    if not outcome.ok:
        return None, badly_ended(outcome)
    measured = measure(engine, ORIGINAL)
    verdict = judge(engine, measured, ORIGINAL, case.options.tolerance)
    source = engine.connection.job.content["source"]
    if not verdict.passed and source is not None and engine.choice.launcher in ("jit", "interpreter"):
        engine.load_candidate(engine.connection.job.folder / source)
        verdict = judge(engine, measured, CANDIDATE, case.options.tolerance)
        engine.unload(CANDIDATE)
    return measured, verdict


def candidate_verdict(case: Case, engine: Engine, measured: Measured) -> Verdict:
    """The verdict on the case's candidate on a derived launch."""
    refused = load_candidate(engine, case.options.candidate)
    return refused or judge(engine, measured, CANDIDATE, case.options.tolerance)
