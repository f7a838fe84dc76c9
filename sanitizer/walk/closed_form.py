"""Closed forms: from one symbolic walk of a loop's body to the value in iteration k.

Where what the body yields is what it got plus something that does not change, the value in iteration k is
``init + k * step``; if it does not depend on what was carried, it is the last iteration's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from kerncap.sanitizer.symbolic.expr import FALSE, Expr, Variable, const, eq, ite, substitute, var, wrap
from kerncap.sanitizer.walk.carried import Carried, undefined_through
from kerncap.sanitizer.walk.values import Pointers, SymbolicValue, expressions, map_expressions


def learn(
    carried: Sequence[Carried],
    yields: Sequence[SymbolicValue],
    counter: Variable,
    around: Collection[Variable],
) -> set[object]:
    """Take the closed forms that a walk of the body showed; what stood for those values in it.

    ``around``: the counters that hold still while the loop goes on, and its own.
    """
    open_ones = [(one, out) for one, out in zip(carried, yields, strict=True) if one.closed is None]
    unclosed = {marker for one, _ in open_ones for marker in _markers(one)}
    learned: set[object] = set()
    for one, out in open_ones:
        one.closed = _closed_form(one, out, counter, unclosed, around)
        if one.closed is not None:
            learned.update(_markers(one))
    return learned


def shows_more(carried: Sequence[Carried], yields: Sequence[SymbolicValue], learned: set[object]) -> bool:
    """Whether another walk of the body, with the closed forms, may show more of what still has none."""
    return any(
        one.is_number or out.undefined is not FALSE or any(_contains(e, learned) for e in expressions(out))
        for one, out in zip(carried, yields, strict=True)
        if one.closed is None
    )


def _markers(one: Carried) -> list[object]:
    return [e.payload for e in expressions(one.placeholder) if e.kind == "unknown"]


def _closed_form(
    one: Carried, out: SymbolicValue, counter: Variable, unclosed: set[object], around: Collection[Variable]
) -> SymbolicValue | None:
    """The value over ``counter``, or None if it depends on what is carried in another way."""
    if type(out) is not type(one.init):
        return None
    before, after, init = expressions(one.placeholder), expressions(out), expressions(one.init)
    if not len(before) == len(after) == len(init):
        return None
    if _origins(out) != _origins(one.placeholder):
        return None
    closed = [
        _closed_expression(b, a, i, counter, unclosed, around, one.bits)
        for b, a, i in zip(before[:-1], after[:-1], init[:-1], strict=True)
    ]
    if any(form is None for form in closed):
        return None
    closed.append(undefined_through(init[-1], after[-1], counter))
    remaining = iter(closed)
    return map_expressions(one.init, lambda _: next(remaining))  # type: ignore[arg-type, return-value]


def _origins(value: SymbolicValue) -> list[int | None]:
    return [target.argument for target in value.targets] if isinstance(value, Pointers) else []


def _closed_expression(
    before: Expr,
    after: Expr,
    init: Expr,
    counter: Variable,
    unclosed: set[object],
    around: Collection[Variable],
    bits: int | None,
) -> Expr | None:
    if after is before:
        return init
    if not _contains(after, unclosed):
        # The previous iteration's, or what came in.
        previous = substitute(after, {counter: var(counter) - 1})
        return ite(eq(var(counter), 0), init, previous)
    if before.sort != "int":
        return None
    if after.kind == "wrap":
        after = after.args[0]
    step = after - before
    if _contains(step, unclosed):
        return None
    if any(v.kind == "loop" and v not in around for v in step.variables):
        # How often a while loop inside this one ran: another number in each iteration, so no sum of k.
        return None
    k = var(counter)
    if counter not in step.variables:
        total = k * step
    else:
        # A step that itself grows by the same amount every iteration (a triangle).
        first = substitute(step, {counter: const(0)})
        growth = substitute(step, {counter: k + 1}) - step
        if counter in growth.variables:
            return None
        total = k * first + growth * (k * (k - 1) // 2)
    # Adding with wrap-around k times is wrapping the sum once.
    return init + total if bits is None else wrap(init + total, bits)


def _contains(e: Expr, placeholders: set[object]) -> bool:
    """Whether one of the placeholders occurs in ``e``, in whatever lane."""
    if not placeholders or not e.unknown_reasons:
        return False
    pending, seen = [e], {e}
    while pending:
        one = pending.pop()
        if one.kind == "unknown" and one.payload in placeholders:
            return True
        for argument in one.args:
            if argument not in seen:
                seen.add(argument)
                pending.append(argument)
    return False
