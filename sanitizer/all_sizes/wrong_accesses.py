"""What would be wrong with an access, as conditions over sizes, programs, lanes and iterations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kerncap.sanitizer.all_sizes.launches import AllSizes
from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.overflow import exact_offset, is_offset, without_wraps, wraps_that_matter
from kerncap.sanitizer.findings import Check
from kerncap.sanitizer.launch import PointerArgument
from kerncap.sanitizer.symbolic.expr import TRUE, Expr, const, eq, land, leaves, lor, ne, substitute, var
from kerncap.sanitizer.walk.access import Access, Loop, Target
from kerncap.sanitizer.walk.loop_body import LONGEST


@dataclass(frozen=True)
class Wrong:
    """``condition``, wherever ``given`` holds. ``reason``: why that can't be asked at all.

    ``unconfirmed``: what it means; of a mistake that no evaluation of a launch shows.
    """

    given: Expr = TRUE
    condition: Expr = TRUE
    reason: str = ""
    unconfirmed: str = ""


def _given(access: Access, target: Target) -> Expr:
    return land(access.path, access.mask, target.guard)


def _out_of_bounds(analysis: Analysis, problem: AllSizes, access: Access) -> Iterator[Wrong]:
    yield from long_loops(access)
    for target in access.targets:
        given = _given(access, target)
        if target.argument is None:
            yield Wrong(reason="an address from memory: what it belongs to is not known for all sizes")
        elif target.argument in problem.tensors:
            tensor = problem.tensors[target.argument]
            width = analysis.launch.arguments[target.argument].itemsize  # type: ignore[union-attr]
            end = tensor.elements() * width
            offset = target.offset_bytes
            yield Wrong(given, offset < 0)
            yield Wrong(given, offset + access.width_bytes > end)
        else:
            assert isinstance(analysis.launch.arguments[target.argument], PointerArgument)
            yield Wrong(given)  # null


def _overflows(analysis: Analysis, problem: AllSizes, access: Access) -> Iterator[Wrong]:
    yield from long_loops(access)
    for target in access.targets:
        given, offset = _given(access, target), target.offset_bytes
        ideal, folded = exact_offset(analysis, access, target)
        steering = wraps_that_matter(offset)
        if folded or steering:
            away = TRUE if folded else lor(*map(leaves, steering))
            yield Wrong(given, away & ne(ideal, offset))
        letting = [node for node in wraps_that_matter(access.mask) if is_offset(node, offset)]
        if letting:
            yield Wrong(given, lor(*map(leaves, letting)) & ~without_wraps(access.mask))


def long_loops(access: Access) -> Iterator[Wrong]:
    """The walk counts iterations with numbers of any size, and no more than `LONGEST` of them."""
    for loop in access.loops:
        step = _step(loop)
        beyond = loop.induction + step > (1 << (loop.bits - 1)) - 1
        yield Wrong(
            access.path,
            beyond,
            unconfirmed=f"the loop over {loop.name} counts past its {loop.bits} bits and goes on",
        )
        if loop.counter.high >= LONGEST - 1:
            last = eq(var(loop.counter), loop.counter.high)
            yield Wrong(
                access.path, last, unconfirmed=f"the loop over {loop.name} has more than {LONGEST} iterations"
            )


def _step(loop: Loop) -> Expr:
    if loop.counter.low == loop.counter.high:
        return const(0)  # unrolled
    nearer = substitute(loop.induction, {loop.counter: var(loop.counter) - 1})
    return loop.induction - nearer


WRONG: dict[Check, Callable[[Analysis, AllSizes, Access], Iterator[Wrong]]] = {
    "oob": _out_of_bounds,
    "overflow": _overflows,
}
