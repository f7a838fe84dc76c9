"""Where two accesses would meet, as conditions over sizes: of two programs, or of two lanes of one store.

Both sides have programs, lanes and iterations of their own; only the sizes are the same. An address is a
number of several digits, whose bases are sizes (``row * N + column``): a digit that can be neither less nor
greater on one side is equal, which the other digits are asked with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kerncap.sanitizer.all_sizes.launches import AllSizes
from kerncap.sanitizer.all_sizes.products import multiplied_out
from kerncap.sanitizer.all_sizes.smallest_sizes import Asker
from kerncap.sanitizer.all_sizes.wrong_accesses import Wrong, long_loops
from kerncap.sanitizer.symbolic.expr import (
    TRUE,
    Expr,
    Variable,
    add,
    const,
    eq,
    land,
    linear,
    lt,
    mul,
    nodes_of,
    substitute,
    var,
)
from kerncap.sanitizer.symbolic.solve import Unsat
from kerncap.sanitizer.ttir.ir import Operation
from kerncap.sanitizer.walk.access import Access, Target, Walked

MOST_PAIRS = 200  # of accesses
_PATIENCE = 5  # of the solver's limits, what all pairs may take


@dataclass(frozen=True)
class _Side:
    access: Access
    target: Target

    @property
    def condition(self) -> Expr:
        return land(self.access.path, self.access.mask, self.target.guard)

    @property
    def variables(self) -> frozenset[Variable]:
        return self.condition.variables | self.target.offset_bytes.variables


class Meetings:
    """Of one kernel: what would be wrong with each memory operation next to all others."""

    def __init__(self, problem: AllSizes, walked: Walked, asker: Asker) -> None:
        self._asker = asker
        self._sizes = {v for size in problem.sizes.values() for v in size.variables}
        self._programs = [one for one in walked.programs if one.low != one.high]
        self._found: dict[Operation, list[Wrong]] = {one.operation: [] for one in walked.accesses}
        pairs = [*_pairs(walked.accesses)]
        for one, other in pairs[:MOST_PAIRS]:
            wrongs = [*self._between(one, other)]
            for operation in {one.operation, other.operation}:
                self._found[operation] += wrongs
        for one, other in pairs[MOST_PAIRS:]:
            for operation in {one.operation, other.operation}:
                self._found[operation].append(Wrong(reason=f"more than {MOST_PAIRS} pairs of accesses"))

    def of(self, operation: Operation) -> list[Wrong]:
        return self._found.get(operation, [])

    def _between(self, one: Access, other: Access) -> Iterator[Wrong]:
        for access in (one, other):
            yield from long_loops(access)
        for mine in one.targets:
            for theirs in other.targets:
                if mine.argument is None or theirs.argument is None:
                    yield Wrong(
                        reason="an address from memory: what it belongs to is not known for all sizes"
                    )
                elif mine.argument == theirs.argument:
                    yield from self._of_programs(_Side(one, mine), _Side(other, theirs))
                    if one is other and one.kind == "store":
                        yield from self._of_lanes(_Side(one, mine), _Side(other, theirs))

    def _of_programs(self, left: _Side, right: _Side) -> Iterator[Wrong]:
        own = {*right.variables, *self._programs} - self._sizes
        yield from self._cases(left, right, own, [var(one) for one in self._programs])

    def _of_lanes(self, left: _Side, right: _Side) -> Iterator[Wrong]:
        of_both = {*self._sizes, *self._programs, *(loop.counter for loop in right.access.loops)}
        lanes = [var(one) for one in right.access.lanes if one is not None]
        yield from self._cases(left, right, {*right.variables} - of_both, lanes)

    def _cases(self, left: _Side, right: _Side, own: set[Variable], apart: Sequence[Expr]) -> Iterator[Wrong]:
        """Both at one byte, and not at one point of ``apart``. ``own``: what only the right side has."""
        unknown = left.target.offset_bytes.unknown_reasons | left.condition.unknown_reasons
        unknown |= right.target.offset_bytes.unknown_reasons | right.condition.unknown_reasons
        if unknown:
            yield Wrong(reason=f"whether programs meet rests on {min(unknown)}")
            return
        copies = {v: var(Variable(f"{v.name}'", v.kind, v.low, v.high)) for v in own}
        here, there = left.target.offset_bytes, substitute(right.target.offset_bytes, copies)
        given = land(
            left.condition,
            substitute(right.condition, copies),
            here < there + right.access.width_bytes,
            there < here + left.access.width_bytes,
        )
        given = land(given, self._equal_digits(given, here, there, copies))
        equal: list[Expr] = []
        for one in apart:
            other = substitute(one, copies)
            # Of one access with itself, either side is as good as the other.
            for low, high in [(one, other), (other, one)][: 1 if left == right else 2]:
                yield Wrong(given, land(*equal, lt(low, high)))
            equal.append(eq(one, other))

    def _equal_digits(self, given: Expr, here: Expr, there: Expr, copies: Mapping[Variable, Expr]) -> Expr:
        """What follows for the digits of two addresses that are the same."""
        if self._asker.solver.z3_limits_spent > _PATIENCE:
            return TRUE
        known = TRUE
        open_ = [*self._digits(here, there), *_same_parts(here, there, copies)]
        while open_:
            for pair in open_:
                one, other = pair
                facts = land(given, known)
                if all(isinstance(self._asker.ask(facts, lt(*way)), Unsat) for way in (pair, pair[::-1])):
                    known = land(known, eq(one, other))
                    open_.remove(pair)
                    break
            else:
                break
        return known

    def _digits(self, here: Expr, there: Expr) -> list[tuple[Expr, Expr]]:
        mine, theirs = self._by_base(here), self._by_base(there)
        zero = const(0)
        return [(mine.get(one, zero), theirs.get(one, zero)) for one in dict.fromkeys((*mine, *theirs))]

    def _by_base(self, address: Expr) -> dict[Expr, Expr]:
        """By their bases, which are products of sizes; not the last one."""
        form = linear(multiplied_out(address))
        found: dict[Expr, Expr] = {}
        for atom, coefficient in form.terms if form is not None else ():
            factors = atom.args if atom.kind == "mul" else (atom,)
            bases = [one for one in factors if one.variables and one.variables <= self._sizes]
            base, rest = const(1), const(coefficient)
            for one in factors:
                if one in bases:
                    base = mul(base, one)
                else:
                    rest = mul(rest, one)
            if bases:
                found[base] = add(found.get(base, const(0)), rest)
        return found


def _same_parts(here: Expr, there: Expr, copies: Mapping[Variable, Expr]) -> Iterator[tuple[Expr, Expr]]:
    """Quotients and remainders that both addresses have."""
    parts = {*nodes_of((there,))}
    for node in nodes_of((here,)):
        other = substitute(node, copies)
        if node.kind in ("div", "tdiv", "mod", "trem") and other is not node and other in parts:
            yield node, other


def _pairs(accesses: Sequence[Access]) -> Iterator[tuple[Access, Access]]:
    """Pairs with a write that are not atomics of one width."""
    for at, one in enumerate(accesses):
        for other in accesses[at:]:
            if one.kind == other.kind == "load":
                continue
            if not (one.kind == other.kind == "atomic" and one.width_bytes == other.width_bytes):
                yield one, other
