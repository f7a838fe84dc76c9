"""A loop's body: what holds inside it, and the walks that show what becomes of its carried values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kerncap.sanitizer.symbolic.expr import TRUE, Expr, Variable
from kerncap.sanitizer.ttir.ir import Block, Operation, Value
from kerncap.sanitizer.walk import left_out
from kerncap.sanitizer.walk.access import Loop
from kerncap.sanitizer.walk.carried import Carried, placeholder
from kerncap.sanitizer.walk.closed_form import learn, shows_more
from kerncap.sanitizer.walk.invariants import find_invariants
from kerncap.sanitizer.walk.values import SymbolicValue, Tile
from kerncap.sanitizer.walk.walker import Walker, describe

LONGEST = 2**31 - 1  # iterations of a loop whose bounds are not known

Iterate = Callable[[Sequence[SymbolicValue]], Sequence[SymbolicValue]]


class Inside:
    """Walks a loop's body: its counter, its path, its place in the list of loops."""

    def __init__(self, walker: Walker, loop: Loop, path: Expr) -> None:
        self._walker, self._loop, self._path = walker, loop, path

    def __enter__(self) -> None:
        walker = self._walker
        self._old = walker.path, walker.loops, walker.counters
        walker.path = walker.path & self._path
        walker.loops = (*walker.loops, self._loop)
        walker.counters = (*walker.counters, self._loop.counter)

    def __exit__(self, *error: object) -> None:
        self._walker.path, self._walker.loops, self._walker.counters = self._old


def close(
    walker: Walker,
    operation: Operation,
    arguments: Sequence[Value],
    inits: Sequence[SymbolicValue],
    counter: Variable,
    iterate: Iterate,
) -> list[Carried]:
    """Walk the body until nothing more is learned about its carried values; records nothing.

    ``iterate`` gives what one iteration makes of the values that it is given.
    """
    where = describe(operation.location)
    carried = [
        Carried(
            argument.source_name,
            argument.type,
            f"{argument.source_name} is carried through the loop{where}",
            init,
            init,
        )
        for argument, init in zip(arguments, inits, strict=True)
    ]
    was_recording, walker.recording = walker.recording, False
    path, counters = walker.path, walker.counters
    attempts = iter(range(1_000))

    def once() -> Sequence[SymbolicValue]:
        attempt = next(attempts)
        # What a while loop inside the body left there holds for one walk of it.
        walker.path, walker.counters = path, counters
        for index, one in enumerate(carried):
            one.placeholder = placeholder(walker, operation, index, one, attempt)
        return iterate([one.placeholder if one.closed is None else one.closed for one in carried])

    try:
        yields = once()
        while learned := learn(carried, yields, counter, counters):
            if not shows_more(carried, yields, learned):
                break
            yields = once()
        if any(one.closed is None and one.is_number for one in carried):
            find_invariants(walker, carried, once)
            yields = once()
        for one, argument, out in zip(carried, arguments, yields, strict=True):
            one.became_undefined = out.undefined
            if one.closed is None and isinstance(one.init, Tile):
                _accumulate(walker, one, argument, counter)
    finally:
        walker.recording = was_recording
    return carried


def _accumulate(walker: Walker, one: Carried, argument: Value, counter: Variable) -> None:
    """What starts at 0 and is added to: lanes that a load leaves out in some iterations add nothing there."""
    added = _added_to(argument)
    value = None if added is None else walker.environment.get(added)
    if not isinstance(value, Tile) or not left_out.is_marked(value.undefined):
        return
    assert isinstance(one.init, Tile)
    if left_out.holds(one.init.expr, 0) is not TRUE:
        return
    nothing = left_out.holds(value.expr, 0)
    matters = left_out.in_lane(value.undefined) & ~nothing
    one.became_undefined = left_out.accumulated(value.undefined, counter) | matters
    one.unchanged = left_out.all_along(nothing, counter, walker.solver, walker.path)


def _added_to(argument: Value) -> Value | None:
    """What each iteration adds to a carried value, if that is all that it does with it."""
    block = argument.owner
    if not isinstance(block, Block) or block.operations[-1].name != "scf.yield":
        return None
    yielded = block.operations[-1].operands
    position = argument.index - (len(block.arguments) - len(yielded))
    owner = yielded[position].owner if 0 <= position < len(yielded) else None
    if not isinstance(owner, Operation) or owner.name not in ("arith.addf", "arith.addi"):
        return None
    others = [operand for operand in owner.operands if operand is not argument]
    return others[0] if len(others) == 1 else None
