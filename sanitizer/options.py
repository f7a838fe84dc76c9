"""What the user asked for: which checks, inside which bounds, and how much work and memory they may cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kerncap.sanitizer.findings import CHECKS
from kerncap.sanitizer.symbolic import z3_solver

Reached = Callable[[int, int], None]  # gets how many of how many programs were evaluated


@dataclass(frozen=True)
class Options:
    checks: frozenset[str] = frozenset(CHECKS)
    bounds: Literal["view", "storage", "allocation"] = "storage"
    solver_timeout_s: float = z3_solver.TIMEOUT_S
    # Of the concrete tier: elements × operations that one launch may cost before it is "unproven".
    evaluation_limit: int = 2_000_000_000
    evaluation_timeout_s: float = 90.0  # of processor time; the work takes a minute at most
    max_memory_bytes: int | None = None  # of copies of contents; past it, what rests on them is "unproven"
    progress: Callable[[str], Reached] | None = None  # for an evaluation, by what it does
