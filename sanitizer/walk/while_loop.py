"""``scf.while``: its condition is a part of the body, and how often it runs is what has to be found out."""

from __future__ import annotations

from collections.abc import Sequence

from kerncap.sanitizer.symbolic.expr import (
    TRUE,
    Expr,
    Variable,
    add,
    const,
    eq,
    ge,
    land,
    le,
    linear,
    substitute,
    var,
)
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.walk.access import Loop
from kerncap.sanitizer.walk.carried import in_iteration
from kerncap.sanitizer.walk.control import bind_values, terminator_values
from kerncap.sanitizer.walk.loop_body import LONGEST, Inside, close
from kerncap.sanitizer.walk.values import SymbolicValue, expressions, substitute_all
from kerncap.sanitizer.walk.walker import Handler, Walker


def _while(walker: Walker, operation: Operation) -> None:
    """``before`` decides and forwards, ``after`` is the body; both see the iteration's counter."""
    inits = [walker[operand] for operand in operation.operands]
    arguments = operation.regions[0].entry.arguments
    counter = Variable(_while_name(operation), "loop", 0, LONGEST)
    seen = _WhileBody(walker, operation)

    def closed(k: Variable) -> list[SymbolicValue]:
        """What iteration k begins with; ``seen`` then has what it decides and forwards."""
        with Inside(walker, Loop(k, k.name, var(k), operation.location), TRUE):
            values = [in_iteration(one, k) for one in close(walker, operation, arguments, inits, k, seen.run)]
            was_recording, walker.recording = walker.recording, False
            seen.run(values)
            walker.recording = was_recording
        return values

    values = closed(counter)
    last = _last_iteration(walker, seen.condition, counter)
    if last is not None:
        shorter = Variable(counter.name, "loop", 0, last)
        condition = seen.condition
        again = closed(shorter)
        if any(node.kind == "wrap" and shorter in node.variables for node in _below(seen.condition)):
            seen.condition = condition
        else:
            counter, values = shorter, again
    loop = Loop(counter, counter.name, var(counter), operation.location)
    # Iteration k is reached if the condition held in the one before.
    k = var(counter)
    reached = eq(k, 0) | substitute(seen.condition, {counter: k - 1})
    with Inside(walker, loop, reached):
        seen.run(values)
    # Behind the loop: what the iteration forwarded in which the condition failed.
    leaving = Variable(f"last {counter.name}", "loop", 0, counter.high)
    at_end = {counter: var(leaving)}
    for result, value in zip(operation.results, seen.forwarded, strict=True):
        walker.environment[result] = substitute_all(value, at_end)
    if any(counter in e.variables for value in seen.forwarded for e in expressions(value)):
        walker.path = walker.path & substitute(reached & ~seen.condition, at_end)
        walker.counters = (*walker.counters, leaving)


class _WhileBody:
    """One iteration of a while loop; keeps what the last run of it decided and forwarded."""

    def __init__(self, walker: Walker, operation: Operation) -> None:
        self._walker, self._before, self._after = walker, *operation.regions
        self.condition: Expr = TRUE
        self.forwarded: tuple[SymbolicValue, ...] = ()

    def run(self, values: Sequence[SymbolicValue]) -> tuple[SymbolicValue, ...]:
        walker = self._walker
        bind_values(walker, self._before.entry.arguments, tuple(values))
        steps, terminator = walker.body(self._before)
        walker.run(steps)
        assert terminator is not None
        self.condition = walker.tile(terminator.operands[0]).expr
        self.forwarded = tuple(walker[v] for v in terminator.operands[1:])
        outer, walker.path = walker.path, walker.path & self.condition
        bind_values(walker, self._after.entry.arguments, self.forwarded)
        steps, terminator = walker.body(self._after)
        walker.run(steps)
        walker.path = outer
        return terminator_values(walker, terminator)


def _last_iteration(walker: Walker, condition: Expr, counter: Variable) -> int | None:
    """The last iteration's number if nothing wraps around on the way there; None if none is found.

    With ideal integers the condition fails in every iteration past the one found. The caller
    has to see that nothing wraps up to there: then the real condition fails where the ideal one does.
    """
    if counter not in condition.variables:
        return None
    _, high = walker.solver.bounds(var(counter), walker.path & _without_wraps(condition))
    return None if high is None or high >= LONGEST - 1 else high + 1


def _without_wraps(e: Expr) -> Expr:
    """A condition with ideal integers in its sums."""
    if e.kind == "and":
        return land(*(_without_wraps(argument) for argument in e.args))
    if e.kind in ("le", "ge"):
        compare = le if e.kind == "le" else ge
        return compare(_ideal(e.args[0]), const(e.payload))
    return e


def _ideal(e: Expr) -> Expr:
    if e.kind == "wrap":
        return _ideal(e.args[0])
    form = linear(e)
    if form is None or not any(atom.kind == "wrap" for atom, _ in form.terms):
        return e
    return add(const(form.constant), *(factor * _ideal(atom) for atom, factor in form.terms))


def _below(e: Expr) -> list[Expr]:
    """Every node of the expression."""
    pending, seen = [e], {e}
    while pending:
        for argument in pending.pop().args:
            if argument not in seen:
                seen.add(argument)
                pending.append(argument)
    return list(seen)


def _while_name(operation: Operation) -> str:
    arguments = operation.regions[0].entry.arguments
    return f"iteration of the loop over {arguments[0].source_name}" if arguments else "iteration"


OPERATIONS: dict[str, Handler] = {"scf.while": _while}
