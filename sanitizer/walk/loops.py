"""Loops in closed form: what a loop-carried value is in iteration k, without running k iterations.

A body is walked with its carried values as placeholders. What has a closed form gets it; what has none gets
a range that every iteration keeps, or the loop is unrolled if it is short. The walk that finds this out
records nothing; the last one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kerncap.sanitizer.symbolic.expr import Expr, Variable, const, interval, lor, maximum, var
from kerncap.sanitizer.ttir.ir import Operation, Value
from kerncap.sanitizer.walk.access import Loop
from kerncap.sanitizer.walk.carried import Carried, behind, in_iteration, is_float
from kerncap.sanitizer.walk.control import bind_values
from kerncap.sanitizer.walk.loop_body import LONGEST, Inside, close
from kerncap.sanitizer.walk.values import SymbolicValue, Tile, substitute_all
from kerncap.sanitizer.walk.walker import Handler, Walker, width_of

UNROLL_LIMIT = 64  # iterations of a loop that has no closed form where one is needed


def _for(walker: Walker, operation: Operation) -> None:
    lower, upper, step = (walker.tile(operand) for operand in operation.operands[:3])
    plan = walker.plan
    # Of what is carried, only what something depends on is looked at.
    live = plan.carried(operation)
    arguments = operation.regions[0].entry.arguments
    inits = [walker[operation.operands[3 + index]] for index in live]
    results = [operation.results[index] for index in live]
    bound = (arguments[0], *(arguments[1 + index] for index in live))
    step_low, _ = interval(step.expr)
    if step_low is None or step_low <= 0:
        return walker.unknown_operation(operation, "has a step that is not known to be positive")
    distance = upper.expr - lower.expr
    trips = maximum(const(0), (distance + (step.expr - 1)) // step.expr)
    low, high = walker.solver.bounds(trips, walker.path)
    if high is not None and high <= 0:
        return bind_values(walker, results, inits)
    last = LONGEST if high is None else min(high, LONGEST)
    undefined = lor(lower.undefined, upper.undefined, step.undefined)
    count = low if low is not None and low == high else None
    name = arguments[0].source_name
    # Closed forms must hold behind the loop too, so the counter that they are found with goes one further.
    whole = Variable(name, "loop", 0, last)
    counter = Variable(name, "loop", 0, max(last - 1, 0))

    def induction_of(k: Variable) -> Expr:
        return lower.expr + var(k) * step.expr

    def run_with(k: Variable, values: Sequence[SymbolicValue]) -> Operation | None:
        bind_values(walker, bound, (Tile((), induction_of(k), undefined), *values))
        steps, terminator = walker.body(operation.regions[0])
        walker.run(steps)
        return terminator

    def iterate(values: Sequence[SymbolicValue]) -> list[SymbolicValue]:
        terminator = run_with(whole, values)
        assert terminator is not None
        return [walker[terminator.operands[index]] for index in live]

    def loop_of(k: Variable) -> Loop:
        return Loop(k, name, induction_of(k), operation.location, width_of(arguments[0].type))

    carried: list[Carried] = []
    values: list[SymbolicValue] = []
    if live:
        with Inside(walker, loop_of(whole), induction_of(whole) < upper.expr):
            walker.plan = plan.closing(operation)
            carried = close(walker, operation, bound[1:], inits, whole, iterate)
            walker.plan = plan
            values = [in_iteration(one, whole) for one in carried]
    kept = len(walker.accesses), len(walker.promises)
    if walker.recording:
        inside = induction_of(counter) < upper.expr
        with Inside(walker, loop_of(counter), inside):
            run_with(counter, [substitute_all(value, {whole: var(counter)}) for value in values])
    if count is not None and count <= UNROLL_LIMIT and _open_end_matters(walker, results, carried, kept[0]):
        del walker.accesses[kept[0] :], walker.promises[kept[1] :]
        unrolled = _Unrolled(operation, bound, live, lower.expr, step.expr, count)
        return bind_values(walker, results, unrolled.run(walker, inits))
    for result, one in zip(results, carried, strict=True):
        walker.environment[result] = behind(walker, operation, result, one, whole, trips)


@dataclass(frozen=True)
class _Unrolled:
    """A loop of ``count`` iterations, walked one by one."""

    operation: Operation
    bound: tuple[Value, ...]  # the induction variable and what is carried
    live: tuple[int, ...]  # which of the carried values these are
    lower: Expr
    step: Expr
    count: int

    def run(self, walker: Walker, inits: Sequence[SymbolicValue]) -> list[SymbolicValue]:
        """What is carried behind the last iteration."""
        steps, terminator = walker.body(self.operation.regions[0])
        assert terminator is not None
        values = list(inits)
        old_loops, old_instance = walker.loops, walker.instance
        name = self.bound[0].source_name
        for iteration in range(self.count):
            induction = self.lower + iteration * self.step
            counter = Variable(name, "loop", iteration, iteration)
            walker.loops = (*old_loops, Loop(counter, name, induction, self.operation.location))
            walker.instance = (*old_instance, iteration)
            bind_values(walker, self.bound, (Tile((), induction), *values))
            walker.run(steps)
            values = [walker[terminator.operands[index]] for index in self.live]
        walker.loops, walker.instance = old_loops, old_instance
        return values


def _open_end_matters(
    walker: Walker, results: Sequence[Value], carried: Sequence[Carried], since: int
) -> bool:
    """Whether an address, a mask or a branch rests on a value that has no closed form."""
    unclosed = [index for index, one in enumerate(carried) if one.closed is None and not is_float(one.type)]
    if not unclosed:
        return False
    reasons = {carried[index].reason for index in unclosed}
    if not walker.recording or any(results[index] in walker.plan.used for index in unclosed):
        return True
    return any(reasons & set(access.unknowns) for access in walker.accesses[since:])


OPERATIONS: dict[str, Handler] = {"scf.for": _for}
