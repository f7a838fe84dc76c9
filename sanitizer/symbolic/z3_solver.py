"""Questions to z3, which is an optional dependency and is imported with the first question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kerncap.sanitizer.symbolic.node import Expr, Interval, Variable

TIMEOUT_S = 2.0  # per question; past it, the answer is "unproven"
MISSING = "z3 is not installed: pip install 'kerncap[sanitizer]'"


@dataclass(frozen=True)
class Impossible:
    """No point satisfies the condition, whatever the unknowns and reads in it are."""


@dataclass(frozen=True)
class Model:
    """A point that satisfies it for some values of the unknowns and reads in it."""

    assignment: dict[Variable, int]


@dataclass(frozen=True)
class NoAnswer:
    reason: str


def available() -> bool:
    try:
        import z3  # noqa: F401
    except ImportError:
        return False
    return True


class Query:
    """One question, to which conditions may be added after an answer."""

    def __init__(self, condition: Expr, known: Mapping[Expr, Interval]) -> None:
        import z3

        from kerncap.sanitizer.symbolic.z3_bits import BitLowering, width_of
        from kerncap.sanitizer.symbolic.z3_lower import Lowering

        self.z3: Any = z3
        self.context = z3.Context()
        width = width_of(condition)
        self.lowering: BitLowering | Lowering
        if width is None:
            self.lowering = Lowering(self.context, known)
            self.solver = z3.Solver(ctx=self.context)
        else:
            self.lowering = BitLowering(self.context, known, width)
            self.solver = z3.SolverFor("QF_BV", ctx=self.context)
        self.solver.add(self.lowering.lower(condition))
        self._flush()

    def _flush(self) -> None:
        self.solver.add(*self.lowering.constraints)
        self.lowering.constraints.clear()

    def require(self, condition: Expr) -> None:
        self.solver.add(self.lowering.lower(condition))
        self._flush()

    def ask(self, timeout_s: float) -> Impossible | Model | NoAnswer:
        self.solver.set("timeout", max(1, int(timeout_s * 1000)))
        answer = self.solver.check()
        if answer == self.z3.unsat:
            return Impossible()
        if answer == self.z3.unknown:
            return NoAnswer(f"z3: {self.solver.reason_unknown()} after {timeout_s:g} s")
        model = self.solver.model()
        return Model(
            {
                variable: self.lowering.number(model, term)
                for variable, term in self.lowering.variables.items()
            }
        )
