"""A loop-carried value: before, within and behind its loop, with a closed form or with a range."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kerncap.sanitizer.symbolic.expr import FALSE, TRUE, Expr, Variable, ite, substitute, unknown, var
from kerncap.sanitizer.ttir.ir import FloatType, IntType, Operation, Type, Value
from kerncap.sanitizer.walk.access import Target
from kerncap.sanitizer.walk.values import (
    BlockPointer,
    Pointers,
    SymbolicValue,
    Tile,
    map_expressions,
    substitute_all,
)
from kerncap.sanitizer.walk.walker import Walker, element_of, with_undefined


@dataclass
class Carried:
    """One loop-carried value while its closed form is looked for."""

    name: str
    type: Type
    reason: str  # why it is not known exactly, if it has no closed form
    init: SymbolicValue
    placeholder: SymbolicValue
    closed: SymbolicValue | None = None  # over the loop's counter
    # An integer without a closed form: what every iteration keeps. None: the type's own range.
    low: int | None = None
    high: int | None = None
    became_undefined: Expr = FALSE  # in one iteration, if there is no closed form
    unchanged: Expr = FALSE  # where every iteration adds 0

    @property
    def bits(self) -> int | None:
        """Of an integer wider than a truth value."""
        element = element_of(self.type)
        return element.width if isinstance(element, IntType) and element.width > 1 else None

    @property
    def is_number(self) -> bool:
        """Whether it has a range: an integer, or how far a pointer has come from one argument."""
        return self.bits is not None or (isinstance(self.init, Pointers) and len(self.init.targets) == 1)


def placeholder(
    walker: Walker, operation: Operation, index: int, one: Carried, attempt: int
) -> SymbolicValue:
    """Stands for a carried value of which only a range is known."""
    reason = one.reason
    key = ("carried", operation.order, index, attempt, walker.instance)
    init = one.init
    if isinstance(init, Pointers):
        origins = {target.argument for target in init.targets}
        argument = origins.pop() if len(origins) == 1 else None
        offset = unknown(reason, key, walker.context_arguments(init.shape), one.low, one.high)
        return Pointers(init.shape, (Target(TRUE, argument, offset),))
    if isinstance(init, BlockPointer):
        numbers = iter(range(1_000))
        context = walker.context_arguments(())
        return map_expressions(
            init, lambda e: e if e.sort == "bool" else unknown(reason, (*key, next(numbers)), context)
        )
    return walker.fresh_of_type(one.type, key, reason, one.low, one.high)


def in_iteration(one: Carried, counter: Variable) -> SymbolicValue:
    if one.closed is not None:
        return one.closed
    undefined = undefined_through(one.init.undefined, one.became_undefined, counter)
    return with_undefined(one.placeholder, undefined)


def undefined_through(init: Expr, after: Expr, counter: Variable) -> Expr:
    """Undefined in iteration k if it came in so, or became so in an iteration before k."""
    if after is FALSE:
        return init
    earlier = Variable(f"earlier {counter.name}", "free", counter.low, counter.high)
    became = substitute(after, {counter: var(earlier)})
    return init | ((var(earlier) < var(counter)) & became)


def behind(
    walker: Walker, operation: Operation, result: Value, one: Carried, counter: Variable, trips: Expr
) -> SymbolicValue:
    """A carried value behind the loop: what iteration ``trips`` would have begun with."""
    if one.closed is not None:
        return substitute_all(one.closed, {counter: trips})
    undefined = substitute(
        undefined_through(one.init.undefined, one.became_undefined, counter), {counter: trips}
    )
    value = walker.fresh(operation, result, one.reason, one.low, one.high, undefined)
    if isinstance(value, Tile) and isinstance(one.init, Tile):
        return replace(value, expr=ite(one.unchanged, one.init.expr, value.expr))
    return value


def is_float(kind: Type) -> bool:
    return isinstance(element_of(kind), FloatType)
