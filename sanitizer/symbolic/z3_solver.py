"""Questions to z3, which is an optional dependency and is imported with the first question.

A question's limit is work as z3 counts it, so that the answer does not hang on how busy a machine is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kerncap.sanitizer.symbolic.node import Expr, Interval, Variable

TIMEOUT_S = 2.0  # per question; past it, the answer is "unproven"
# z3's units of work in a second of processor time, of integers and of bit-vectors: what hard questions take.
_WORK_PER_S, _BIT_WORK_PER_S = 450_000, 3_000_000
# For what z3 does not count: this multiple of the limit, in seconds of wall time.
_FAR_TOO_LONG = 30
_SPENT = "rlimit count"
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

    def __init__(self, condition: Expr, known: Mapping[Expr, Interval], timeout_s: float) -> None:
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
        self._timeout_s = timeout_s
        self._limit = _at_most(timeout_s * (_WORK_PER_S if width is None else _BIT_WORK_PER_S))
        self._spent = 0
        self.solver.set("timeout", _at_most(timeout_s * 1000 * _FAR_TOO_LONG))
        self.solver.add(self.lowering.lower(condition))
        self._flush()

    @property
    def spent(self) -> float:
        """Of the limit, the share that the answers so far took."""
        return self._spent / self._limit

    def _flush(self) -> None:
        self.solver.add(*self.lowering.constraints)
        self.lowering.constraints.clear()

    def require(self, condition: Expr) -> None:
        self.solver.add(self.lowering.lower(condition))
        self._flush()

    def ask(self) -> Impossible | Model | NoAnswer:
        left = self._limit - self._spent
        if left <= 0:
            return self._no_answer()
        self.solver.set("rlimit", left)
        answer = self.solver.check()
        told = self.solver.statistics()
        if _SPENT in told.keys():  # noqa: SIM118 -- not where bit-vectors need no search
            self._spent = int(told.get_key_value(_SPENT))
        if answer == self.z3.unsat:
            return Impossible()
        if answer == self.z3.unknown:
            incomplete = "incomplete" in self.solver.reason_unknown()
            return NoAnswer("z3: it can't decide this") if incomplete else self._no_answer()
        model = self.solver.model()
        return Model(
            {
                variable: self.lowering.number(model, term)
                for variable, term in self.lowering.variables.items()
            }
        )

    def _no_answer(self) -> NoAnswer:
        return NoAnswer(f"z3: no answer in the work of {self._timeout_s:g} s")


def _at_most(number: float) -> int:
    """As z3 takes limits; 0 would be none."""
    return max(1, min(int(number), 2**32 - 1))
