"""A witness that is easy to read: the first program, the first iterations, the first lane that go wrong.

The solver gives some point. Of programs and iterations the least is looked for by asking again with a
tighter bound, of lanes by evaluating the condition over the whole tile at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.symbolic.evaluate import evaluate_partially
from kerncap.sanitizer.symbolic.expr import Expr, Variable, eq, land, var
from kerncap.sanitizer.symbolic.solve import Answer, Sat, Unknown, Unsat
from kerncap.sanitizer.walk.access import Access

# Questions that z3 answers cost milliseconds, the others next to nothing.
MAX_Z3_ANSWERS = 12
MAX_ANSWERS = 80
MAX_LANES = 1 << 20


def smallest(analysis: Analysis, access: Access, conditions: Sequence[Expr], found: Sat) -> Sat:
    """A point with all ``conditions`` at least as small as ``found``: programs first, then iterations, lanes.

    Not always the least (the questions are limited), always one that the solver vouches for or that
    was evaluated.
    """
    condition = land(*conditions)
    programs = tuple(reversed(analysis.walked.programs))  # x runs fastest
    counters = tuple(loop.counter for loop in access.loops)
    budget = _Budget()
    best = found
    fixed: list[Expr] = []
    for variable in (*programs, *counters):
        if variable not in condition.variables:
            continue
        best = _lower(analysis, (condition, *fixed), variable, best, budget)
        fixed.append(eq(var(variable), best.assignment[variable]))
    return _first_lane(analysis, access, condition, best)


class _Budget:
    def __init__(self) -> None:
        self.answers = MAX_ANSWERS
        self.z3 = MAX_Z3_ANSWERS

    @property
    def left(self) -> bool:
        return self.answers > 0 and self.z3 > 0

    def spend(self, answer: Answer) -> None:
        self.answers -= 1
        if isinstance(answer, Unknown):
            self.z3 = 0  # it may have taken all the time that a question has
        elif answer.how == "z3":
            self.z3 -= 1


def _lower(
    analysis: Analysis, conditions: tuple[Expr, ...], variable: Variable, best: Sat, budget: _Budget
) -> Sat:
    least, guess = variable.low, variable.low  # the first program or iteration is tried at once
    while budget.left and least < best.assignment.get(variable, variable.low):
        answer = analysis.solver.satisfiable(*conditions, var(variable) <= guess)
        budget.spend(answer)
        if isinstance(answer, Sat):
            best = answer
        elif isinstance(answer, Unsat):
            least = guess + 1
        else:
            break
        guess = (least + best.assignment.get(variable, variable.low) - 1) // 2
    if variable in best.assignment:
        return best
    return Sat({**best.assignment, variable: variable.low}, best.how, best.contents)


def _first_lane(analysis: Analysis, access: Access, condition: Expr, best: Sat) -> Sat:
    lanes = [v for v in access.lanes if v is not None and v in condition.variables]
    points = 1
    for lane in lanes:
        points *= lane.points
    if not lanes or points > MAX_LANES:
        return best
    point: dict[Variable, int | np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = {
        v: best.assignment.get(v, v.low) for v in condition.variables
    }
    for axis, lane in enumerate(lanes):
        shape = [1] * len(lanes)
        shape[axis] = -1
        point[lane] = np.arange(lane.low, lane.high + 1, dtype=np.int64).reshape(shape)
    (found,) = evaluate_partially([condition], point, analysis.solver.memory)
    holds = np.asarray(found.value, dtype=np.bool_)
    if found.known is not None:
        holds = holds & found.known
    full = np.broadcast_to(holds, tuple(lane.points for lane in lanes))
    position = int(np.argmax(full))
    index = np.unravel_index(position, full.shape)
    if not full[index]:
        return best
    lowered = {lane: lane.low + int(i) for lane, i in zip(lanes, index, strict=True)}
    return Sat({**best.assignment, **lowered}, best.how, best.contents)
