"""Whether conditions over sizes can hold, and at which smallest sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kerncap.sanitizer.all_sizes.products import with_consequences
from kerncap.sanitizer.symbolic.expr import (
    Expr,
    Variable,
    add,
    eq,
    evaluate,
    land,
    leaves,
    nodes_of,
    transform,
)
from kerncap.sanitizer.symbolic.solve import Answer, Sat, Solver, Unsat

MOST_WRAPS = 60  # of one question


@dataclass(frozen=True)
class Smallest:
    """A point with the least sum of sizes, and of these the first in order.

    ``least``: it is shown that there is no smaller one.
    """

    assignment: dict[Variable, int]
    least: bool


class Asker:
    """A solver's answers, helped by what is known of products and of wraps that don't happen."""

    def __init__(self, solver: Solver) -> None:
        self.solver = solver
        self._plain: dict[Expr, Expr] = {}

    def ask(self, given: Expr, wrong: Expr) -> Answer:
        """Is there a point where both hold? ``given`` is that of many questions."""
        return self._ask(self._without_wraps(given & wrong, given))

    def _ask(self, condition: Expr) -> Answer:
        return self.solver.satisfiable(with_consequences(condition))

    def _without_wraps(self, condition: Expr, given: Expr) -> Expr:
        """The condition, at the same points, without wraps that change nothing where ``given`` holds."""
        wraps = [node for node in nodes_of((condition,)) if node.kind == "wrap"]
        if not wraps or len(wraps) > MOST_WRAPS:
            return condition
        plain: dict[Expr, Expr] = {}
        held: list[Expr] = []
        known = given
        for node in wraps:  # the innermost first
            inner = transform(node.args[0], plain.get)
            wrap = transform(node, plain.get)
            if wrap.kind != "wrap":
                plain[node] = wrap
                continue
            away = leaves(wrap)
            if isinstance(self._ask(known & away), Unsat):
                plain[wrap] = inner
                held.append(~away)
                known = land(transform(given, plain.get), *held)
        return land(transform(condition, plain.get), *held)

    def smallest(self, given: Expr, wrong: Expr, sizes: Sequence[Expr], found: Sat) -> Smallest:
        """Lowers the sum of ``sizes``, then each of them, as far as the questions have answers."""
        condition = self._without_wraps(given & wrong, given)
        best, least = self._reached(found.assignment, condition, sizes), True
        fixed: list[Expr] = []
        for size in (add(*sizes), *sizes[:-1]):
            best, exact = self._lowered(land(condition, *fixed), size, best)
            least &= exact
            fixed.append(eq(size, value_of(size, best)))
        return Smallest(best, least)

    def _reached(
        self, assignment: dict[Variable, int], condition: Expr, sizes: Sequence[Expr]
    ) -> dict[Variable, int]:
        named = {v for e in (condition, *sizes) for v in e.variables}
        return {v: assignment.get(v, v.low) for v in named} | assignment

    def _lowered(
        self, condition: Expr, size: Expr, best: dict[Variable, int]
    ) -> tuple[dict[Variable, int], bool]:
        assert size.low is not None
        low, step = size.low, 1
        while low < (reached := value_of(size, best)):
            # From below in doubling steps: most mistakes show at small sizes.
            guess = min(low + step - 1, (low + reached - 1) // 2) if step else (low + reached - 1) // 2
            answer = self._ask(condition & (size <= guess))
            if isinstance(answer, Sat):
                best = {**best, **answer.assignment}
                step = 0
            elif isinstance(answer, Unsat):
                low = guess + 1
                step *= 4
            else:
                return best, False
        return best, True


def value_of(e: Expr, assignment: Mapping[Variable, int]) -> int:
    """At a point; variables that it leaves out are at their least."""
    (value,) = evaluate((e,), {v: assignment.get(v, v.low) for v in e.variables})
    return int(value)
