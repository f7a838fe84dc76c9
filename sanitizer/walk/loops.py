"""Loops in closed form: what a loop-carried value is in iteration k, without running k iterations.

A body is walked with its carried values as placeholders. Where what it yields is the placeholder
plus something that does not change, the value in iteration k is ``init + k * step``; where it does
not depend on what was carried, it is the last iteration's. What is neither gets a range that every
iteration keeps (an invariant, found by widening), or the loop is unrolled if it is short. The walk
that finds this out records nothing; the last one does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kerncap.sanitizer.symbolic.expr import (
    FALSE,
    TRUE,
    Expr,
    Variable,
    add,
    const,
    div_floor,
    eq,
    ge,
    interval,
    ite,
    land,
    le,
    linear,
    lnot,
    lor,
    lt,
    maximum,
    mul,
    sub,
    substitute,
    unknown,
    var,
    wrap,
)
from kerncap.sanitizer.ttir.ir import FloatType, IntType, Operation, Type, Value
from kerncap.sanitizer.walk.access import Loop, Target
from kerncap.sanitizer.walk.control import bind_values, terminator_values
from kerncap.sanitizer.walk.values import (
    BlockPointer,
    Pointers,
    SymbolicValue,
    Tile,
    expressions,
    map_expressions,
    substitute_all,
)
from kerncap.sanitizer.walk.walker import (
    Handler,
    Walker,
    body_of,
    describe,
    element_of,
    with_undefined,
)

MAX_ROUNDS = 7  # of looking for invariants
WIDENING = (0, 0, 1 << 16, 1 << 30, None)  # how far a bound that moves jumps, round by round
UNROLL_LIMIT = 64  # iterations of a loop that has no closed form where one is needed
LONGEST = 2**31 - 1  # iterations of a loop whose bounds are not known
MARK = "is carried through the loop"


@dataclass
class Carried:
    """One loop-carried value while its closed form is looked for."""

    name: str
    type: Type
    init: SymbolicValue
    placeholder: SymbolicValue
    closed: SymbolicValue | None = None  # over the loop's counter
    # An integer without a closed form: what every iteration keeps. None: the type's own range.
    low: int | None = None
    high: int | None = None
    became_undefined: Expr = FALSE  # in one iteration, where there is no closed form

    @property
    def bits(self) -> int | None:
        """Of an integer wider than a truth value."""
        element = element_of(self.type)
        return element.width if isinstance(element, IntType) and element.width > 1 else None

    @property
    def is_number(self) -> bool:
        """Whether it has a range: an integer, or how far a pointer has come from one argument."""
        return self.bits is not None or (isinstance(self.init, Pointers) and len(self.init.targets) == 1)


Run = Callable[[Sequence[SymbolicValue]], tuple[SymbolicValue, ...]]


# --- scf.for ---------------------------------------------------------------------------------------------


def _for(walker: Walker, operation: Operation) -> None:
    lower, upper, step = (walker.tile(operand) for operand in operation.operands[:3])
    inits = [walker[operand] for operand in operation.operands[3:]]
    step_low, _ = interval(step.expr)
    if step_low is None or step_low <= 0:
        return walker.unknown_operation(operation, "has a step that is not known to be positive")
    distance = sub(upper.expr, lower.expr)
    trips = maximum(const(0), div_floor(add(distance, sub(step.expr, const(1))), step.expr))
    low, high = walker.solver.bounds(trips, walker.path)
    if high is not None and high <= 0:
        return walker.define(operation, *inits)
    last = LONGEST if high is None else min(high, LONGEST)
    undefined = lor(lower.undefined, upper.undefined, step.undefined)
    count = low if low is not None and low == high else None
    body = operation.regions[0].entry
    name = _loop_name(operation)
    # Closed forms must hold behind the loop too, so the counter that they are found with goes one further.
    whole = Variable(name, "loop", 0, last)
    counter = Variable(name, "loop", 0, max(last - 1, 0))

    def induction_of(k: Variable) -> Expr:
        return add(lower.expr, mul(var(k), step.expr))

    def run_with(k: Variable) -> Run:
        def run(values: Sequence[SymbolicValue]) -> tuple[SymbolicValue, ...]:
            bind_values(walker, body.arguments, (Tile((), induction_of(k), undefined), *values))
            operations, terminator = body_of(operation.regions[0])
            walker.run(operations)
            return terminator_values(walker, terminator)

        return run

    def loop_of(k: Variable) -> Loop:
        return Loop(k, body.arguments[0].source_name, induction_of(k), operation.location)

    with _Inside(walker, loop_of(whole), lt(induction_of(whole), upper.expr)):
        carried = _close(walker, operation, body.arguments[1:], inits, whole, run_with(whole))
        values = [_in_iteration(one, whole) for one in carried]
    kept = len(walker.accesses), len(walker.promises)
    inside = lt(induction_of(counter), upper.expr)
    with _Inside(walker, loop_of(counter), inside):
        run_with(counter)([substitute_all(value, {whole: var(counter)}) for value in values])
    if count is not None and count <= UNROLL_LIMIT and _open_end_matters(walker, operation, carried, kept[0]):
        del walker.accesses[kept[0] :], walker.promises[kept[1] :]
        return walker.define(operation, *_unroll_for(walker, operation, inits, lower.expr, step.expr, count))
    for result, one in zip(operation.results, carried, strict=True):
        walker.environment[result] = _after(walker, operation, result, one, whole, trips)


def _loop_name(operation: Operation) -> str:
    return operation.regions[0].entry.arguments[0].source_name


class _Inside:
    """Walks a loop's body: its counter, its path, its place in the list of loops."""

    def __init__(self, walker: Walker, loop: Loop, path: Expr) -> None:
        self._walker, self._loop, self._path = walker, loop, path

    def __enter__(self) -> None:
        walker = self._walker
        self._old = walker.path, walker.loops, walker.counters
        walker.path = land(walker.path, self._path)
        walker.loops = (*walker.loops, self._loop)
        walker.counters = (*walker.counters, self._loop.counter)

    def __exit__(self, *error: object) -> None:
        self._walker.path, self._walker.loops, self._walker.counters = self._old


def _unroll_for(
    walker: Walker,
    operation: Operation,
    inits: Sequence[SymbolicValue],
    lower: Expr,
    step: Expr,
    count: int,
) -> tuple[SymbolicValue, ...]:
    body = operation.regions[0].entry
    operations, terminator = body_of(operation.regions[0])
    values: tuple[SymbolicValue, ...] = tuple(inits)
    old_loops, old_instance = walker.loops, walker.instance
    for iteration in range(count):
        induction = add(lower, mul(const(iteration), step))
        counter = Variable(_loop_name(operation), "loop", iteration, iteration)
        walker.loops = (*old_loops, Loop(counter, counter.name, induction, operation.location))
        walker.instance = (*old_instance, iteration)
        bind_values(walker, body.arguments, (Tile((), induction), *values))
        walker.run(operations)
        values = terminator_values(walker, terminator)
    walker.loops, walker.instance = old_loops, old_instance
    return values


# --- closed forms ----------------------------------------------------------------------------------------


def _close(
    walker: Walker,
    operation: Operation,
    arguments: Sequence[Value],
    inits: Sequence[SymbolicValue],
    counter: Variable,
    run: Run,
) -> list[Carried]:
    """Walk the body until nothing more is learned about its carried values; records nothing."""
    carried = [
        Carried(argument.source_name, argument.type, init, init)
        for argument, init in zip(arguments, inits, strict=True)
    ]
    was_recording, walker.recording = walker.recording, False
    attempts = iter(range(1_000))

    def once() -> tuple[SymbolicValue, ...]:
        attempt = next(attempts)
        for index, one in enumerate(carried):
            one.placeholder = _placeholder(walker, operation, index, one, attempt)
        return run([one.placeholder if one.closed is None else one.closed for one in carried])

    try:
        yields = once()
        while _learn(carried, yields, counter):
            yields = once()
        if any(one.closed is None and one.is_number for one in carried):
            _find_invariants(walker, carried, once)
            yields = once()
        for one, out in zip(carried, yields, strict=True):
            one.became_undefined = out.undefined
    finally:
        walker.recording = was_recording
    return carried


def _find_invariants(
    walker: Walker, carried: list[Carried], once: Callable[[], Sequence[SymbolicValue]]
) -> None:
    """Ranges that hold before the loop and that the body keeps, for all numbers without a closed form.

    Nothing learned under a range counts until all ranges are kept at once. A range that the body keeps
    may still be too large: what the body yields under it, with what came in, is kept as well.
    """
    unclosed = [one for one in carried if one.closed is None and one.is_number]
    before = {id(one): _range_of(walker, one.init) for one in unclosed}
    for one in unclosed:
        one.low, one.high = before[id(one)]
    kept_before = False
    for attempt in range(MAX_ROUNDS):
        yields = dict(zip(map(id, carried), once(), strict=True))
        after = {id(one): _range_of(walker, yields[id(one)]) for one in unclosed}
        kept = all(_within(after[id(one)], (one.low, one.high)) for one in unclosed)
        for one in unclosed:
            joined = _join(before[id(one)], after[id(one)])
            one.low, one.high = joined if kept else _widened((one.low, one.high), joined, attempt)
        if kept and kept_before:
            return
        kept_before = kept
    if not kept_before:
        for one in unclosed:
            one.low = one.high = None


Range = tuple["int | None", "int | None"]


def _range_of(walker: Walker, value: SymbolicValue) -> Range:
    if isinstance(value, Tile) and value.expr.sort == "int":
        return walker.solver.bounds(value.expr, walker.path)
    if isinstance(value, Pointers) and len(value.targets) == 1:
        return walker.solver.bounds(value.targets[0].offset_bytes, walker.path)
    return None, None


def _within(inner: Range, outer: Range) -> bool:
    return (outer[0] is None or (inner[0] is not None and inner[0] >= outer[0])) and (
        outer[1] is None or (inner[1] is not None and inner[1] <= outer[1])
    )


def _join(a: Range, b: Range) -> Range:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    high = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return low, high


def _widened(old: Range, new: Range, attempt: int) -> Range:
    """Bounds that moved jump: the body may move them a little in every one of many iterations."""
    low, high = new
    reach = WIDENING[min(attempt, len(WIDENING) - 1)]
    if low is not None and (old[0] is None or low < old[0]):
        # Zero is where most counters stop going down.
        low = None if reach is None else low if not reach else 0 if low >= 0 else min(low, -reach)
    if high is not None and (old[1] is None or high > old[1]):
        high = None if reach is None else max(high, reach)
    return low, high


def _in_iteration(one: Carried, counter: Variable) -> SymbolicValue:
    if one.closed is not None:
        return one.closed
    undefined = _undefined_through(one.init.undefined, one.became_undefined, counter)
    return with_undefined(one.placeholder, undefined)


def _placeholder(
    walker: Walker, operation: Operation, index: int, one: Carried, attempt: int
) -> SymbolicValue:
    """Stands for a carried value of which only a range is known."""
    reason = f"{one.name} {MARK}{describe(operation.location)}"
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


def _learn(carried: list[Carried], yields: Sequence[SymbolicValue], counter: Variable) -> bool:
    """Take the closed forms that a walk of the body showed; True where it showed one."""
    unclosed = {
        e.payload
        for one in carried
        if one.closed is None
        for e in expressions(one.placeholder)
        if e.kind == "unknown"
    }
    found = False
    for one, out in zip(carried, yields, strict=True):
        if one.closed is None:
            one.closed = _closed_form(one, out, counter, unclosed)
            found = found or one.closed is not None
    return found


def _closed_form(
    one: Carried, out: SymbolicValue, counter: Variable, unclosed: set[object]
) -> SymbolicValue | None:
    """The value over ``counter``, or None where it depends on what is carried in another way."""
    if type(out) is not type(one.init):
        return None
    before, after, init = expressions(one.placeholder), expressions(out), expressions(one.init)
    if not len(before) == len(after) == len(init):
        return None
    if _origins(out) != _origins(one.placeholder):
        return None
    closed = [
        _closed_expression(b, a, i, counter, unclosed, one.bits)
        for b, a, i in zip(before[:-1], after[:-1], init[:-1], strict=True)
    ]
    if any(form is None for form in closed):
        return None
    closed.append(_undefined_through(init[-1], after[-1], counter))
    remaining = iter(closed)
    return map_expressions(one.init, lambda _: next(remaining))  # type: ignore[arg-type, return-value]


def _origins(value: SymbolicValue) -> list[int | None]:
    return [target.argument for target in value.targets] if isinstance(value, Pointers) else []


def _closed_expression(
    before: Expr, after: Expr, init: Expr, counter: Variable, unclosed: set[object], bits: int | None
) -> Expr | None:
    if after is before:
        return init
    if not _contains(after, unclosed):
        # The previous iteration's, or what came in.
        previous = substitute(after, {counter: sub(var(counter), const(1))})
        return ite(eq(var(counter), const(0)), init, previous)
    if before.sort != "int":
        return None
    if after.kind == "wrap":
        after = after.args[0]
    step = sub(after, before)
    if _contains(step, unclosed):
        return None
    k = var(counter)
    if counter not in step.variables:
        total = mul(k, step)
    else:
        # A step that itself grows by the same amount every iteration (a triangle).
        first = substitute(step, {counter: const(0)})
        growth = sub(substitute(step, {counter: add(k, const(1))}), step)
        if counter in growth.variables:
            return None
        total = add(mul(k, first), mul(growth, div_floor(mul(k, sub(k, const(1))), const(2))))
    # Adding with wrap-around k times is wrapping the sum once.
    return add(init, total) if bits is None else wrap(add(init, total), bits)


def _undefined_through(init: Expr, after: Expr, counter: Variable) -> Expr:
    """Undefined in iteration k if it came in so, or became so in an iteration before k."""
    if after is FALSE:
        return init
    earlier = Variable(f"earlier {counter.name}", "free", counter.low, counter.high)
    became = substitute(after, {counter: var(earlier)})
    return lor(init, land(lt(var(earlier), var(counter)), became))


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


def _open_end_matters(walker: Walker, operation: Operation, carried: Sequence[Carried], since: int) -> bool:
    """Whether an address, a mask or a branch rests on a value that has no closed form."""
    unclosed = [index for index, one in enumerate(carried) if one.closed is None and not _is_float(one.type)]
    if not unclosed:
        return False
    reasons = {f"{carried[index].name} {MARK}{describe(operation.location)}" for index in unclosed}
    if not walker.recording or any(operation.results[index] in walker.used for index in unclosed):
        return True
    return any(reasons & set(access.unknowns) for access in walker.accesses[since:])


def _is_float(kind: Type) -> bool:
    return isinstance(element_of(kind), FloatType)


def _after(
    walker: Walker, operation: Operation, result: Value, one: Carried, counter: Variable, trips: Expr
) -> SymbolicValue:
    """A carried value behind the loop: what iteration ``trips`` would have begun with."""
    if one.closed is not None:
        return substitute_all(one.closed, {counter: trips})
    reason = f"{one.name} {MARK}{describe(operation.location)}"
    undefined = substitute(
        _undefined_through(one.init.undefined, one.became_undefined, counter), {counter: trips}
    )
    return walker.fresh(operation, result, reason, one.low, one.high, undefined)


# --- scf.while -------------------------------------------------------------------------------------------


def _while(walker: Walker, operation: Operation) -> None:
    """``before`` decides and forwards, ``after`` is the body; both see the iteration's counter."""
    inits = [walker[operand] for operand in operation.operands]
    arguments = operation.regions[0].entry.arguments
    counter = Variable(_while_name(operation), "loop", 0, LONGEST)
    seen = _WhileBody(walker, operation)
    loop = Loop(counter, counter.name, var(counter), operation.location)
    with _Inside(walker, loop, TRUE):
        carried = _close(walker, operation, arguments, inits, counter, seen.run)
        last = _last_iteration(walker, seen.condition, counter)
    if last is not None:
        shorter = Variable(counter.name, "loop", 0, last)
        loop = Loop(shorter, counter.name, var(shorter), operation.location)
        with _Inside(walker, loop, TRUE):
            again = _close(walker, operation, arguments, inits, shorter, seen.run)
        if not any(node.kind == "wrap" and shorter in node.variables for node in _below(seen.condition)):
            counter, carried = shorter, again
    loop = Loop(counter, counter.name, var(counter), operation.location)
    values = [_in_iteration(one, counter) for one in carried]
    # Iteration k is reached if the condition held in the one before.
    with _Inside(walker, loop, TRUE):
        was_recording, walker.recording = walker.recording, False
        seen.run(values)
        walker.recording = was_recording
    k = var(counter)
    reached = lor(eq(k, const(0)), substitute(seen.condition, {counter: sub(k, const(1))}))
    with _Inside(walker, loop, reached):
        seen.run(values)
    # Behind the loop: what the iteration forwarded in which the condition failed.
    leaving = Variable(f"last {counter.name}", "loop", 0, counter.high)
    at_end = {counter: var(leaving)}
    for result, value in zip(operation.results, seen.forwarded, strict=True):
        walker.environment[result] = substitute_all(value, at_end)
    if any(counter in e.variables for value in seen.forwarded for e in expressions(value)):
        walker.path = land(walker.path, substitute(land(reached, lnot(seen.condition)), at_end))
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
        operations, terminator = body_of(self._before)
        walker.run(operations)
        assert terminator is not None
        self.condition = walker.tile(terminator.operands[0]).expr
        self.forwarded = tuple(walker[v] for v in terminator.operands[1:])
        outer, walker.path = walker.path, land(walker.path, self.condition)
        bind_values(walker, self._after.entry.arguments, self.forwarded)
        operations, terminator = body_of(self._after)
        walker.run(operations)
        walker.path = outer
        return terminator_values(walker, terminator)


def _last_iteration(walker: Walker, condition: Expr, counter: Variable) -> int | None:
    """The last iteration's number if nothing wraps around on the way there; None where none is found.

    With ideal integers the condition fails in every iteration past the one found. The caller
    has to see that nothing wraps up to there: then the real condition fails where the ideal one does.
    """
    if counter not in condition.variables:
        return None
    _, high = walker.solver.bounds(var(counter), land(walker.path, _without_wraps(condition)))
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
    return add(const(form.constant), *(mul(const(factor), _ideal(atom)) for atom, factor in form.terms))


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


OPERATIONS: dict[str, Handler] = {
    "scf.for": _for,
    "scf.while": _while,
}
