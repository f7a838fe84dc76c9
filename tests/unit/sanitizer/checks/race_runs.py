"""Runs the race check on kernels as they are written, and says how each of their lines came out."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.checks import races
from kerncap.sanitizer.checks.races.evaluated.race_observer import RaceObserver
from kerncap.sanitizer.concrete.memory import Memory
from kerncap.sanitizer.concrete.run import Limits, evaluate
from kerncap.sanitizer.findings import Finding, Settled, Verdict, Violated
from kerncap.sanitizer.launch import Launch
from tests.unit.sanitizer.checks.hand_made import Held
from tests.unit.sanitizer.compiled import analysis_of, launch_of

# Signatures.
F = "*fp32"
TWO = {"x": F, "o": F, "n": "i32"}


def launched(
    kernel: Any,
    grid: tuple[int, ...],
    signature: Mapping[str, str],
    contents: Sequence[npt.NDArray[Any] | None] = (),
    **values: Any,
) -> Launch:
    """Upper-case names are constexprs."""
    constants = {name: values.pop(name) for name in list(values) if name.isupper() and name not in signature}
    launch = launch_of(kernel, grid, signature, constants, **values)
    return replace(launch, contents=Held(contents)) if len(contents) else launch


def check(launch: Launch) -> list[Settled]:
    return races.check(analysis_of(launch))


def evaluated(launch: Launch) -> dict[int, Verdict]:
    """The verdicts of the concrete tier, by line."""
    analysis = analysis_of(launch)
    observer = RaceObserver(analysis)
    outcome = evaluate(
        analysis.module,
        analysis.function,
        launch,
        Memory(launch),
        observer=observer,
        limits=Limits(10**9, 30.0),
    )
    assert outcome.complete, outcome.reason
    return {operation.location.frames[0].line: v for operation, v in observer.verdicts().items()}


def outcomes(settled: list[Settled]) -> set[str]:
    """The kinds of verdicts that there are, of findings apart from notes."""
    return {kind_of(one.verdict) for one in settled}


def kind_of(verdict: Verdict) -> str:
    if isinstance(verdict, Violated):
        return "violated" if any(not finding.note for finding in verdict.findings) else "note"
    return type(verdict).__name__.lower()


def findings(settled: list[Settled]) -> list[Finding]:
    return [f for one in settled if isinstance(one.verdict, Violated) for f in one.verdict.findings]


def line(kernel: Any, text: str) -> int:
    """The line of the kernel's source that holds ``text``."""
    lines, first = inspect.getsourcelines(kernel.fn)
    (found,) = [first + index for index, one in enumerate(lines) if text in one]
    return found


def zeros(count: int, dtype: str = "float32") -> npt.NDArray[Any]:
    return np.zeros(count, dtype=dtype)
