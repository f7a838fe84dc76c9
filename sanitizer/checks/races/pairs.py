"""One pair of accesses: do two different programs meet in a byte, unordered?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.checks.races.disjoint_tiles import Relation
from kerncap.sanitizer.checks.races.equal_values import same_value
from kerncap.sanitizer.checks.races.expression_bounds import Ranges
from kerncap.sanitizer.checks.races.grid_lookup import no_two_programs
from kerncap.sanitizer.checks.races.ordering.pair_order import PairOrder
from kerncap.sanitizer.checks.races.ordering.synchronisation import Synchronisation
from kerncap.sanitizer.checks.races.shared_bytes import (
    Points,
    count_of,
    full_domain,
    meeting,
    points_of,
    ranges_of,
    sampled_domain,
)
from kerncap.sanitizer.checks.races.shared_bytes import Undecided as PointsUndecided
from kerncap.sanitizer.checks.races.sides import Side, apart, in_own_storage, program_axes
from kerncap.sanitizer.symbolic.expr import Expr, Unevaluable, Variable, land, ne
from kerncap.sanitizer.symbolic.solve import Sat, Unsat

# Points of one side that are compared one by one: a tenth of a second.
MAX_POINTS = 1 << 21
# Points of one side in a sample that looks for a conflict among very many.
SAMPLE = 1 << 17
# Points of one side that are looked at first: most conflicts show among the first of everything.
GLANCE = 1 << 12

Assignment = dict[Variable, int]


@dataclass(frozen=True)
class Safe:
    how: str
    contents: bool = False


@dataclass(frozen=True)
class Race:
    """Two points of two programs. ``identical``: both store the same (None: not known or no two stores)."""

    left: Side
    right: Side
    left_point: Assignment
    right_point: Assignment
    identical: bool | None
    contents: bool
    detail: str = ""  # what was meant to order them and doesn't


@dataclass(frozen=True)
class Undecided:
    reason: str


# Launches that the concrete tier goes through in seconds.
MAX_PROGRAMS_EVALUATED = 1 << 16


@dataclass(frozen=True)
class _Pair:
    analysis: Analysis
    left: Side
    right: Side
    axes: tuple[Variable, ...]
    order: PairOrder
    relation: Relation
    relaxed: bool  # conditions lost the parts that rest on atomics

    @property
    def reads(self) -> bool:
        return any(e.reads for s in (self.left, self.right) for e in (s.address, s.condition))


def decide(
    analysis: Analysis,
    synchronisation: Synchronisation,
    ranges: Ranges,
    left: Side,
    right: Side,
    patient: bool = True,
) -> Safe | Race | Undecided:
    """Whether some program at ``left`` and a different one at ``right`` share a byte, unordered.

    Not ``patient``: a pair that only the solver could decide stays undecided.
    """
    solver = analysis.solver
    axes = tuple(program_axes(analysis))
    if _far_apart(ranges, left, right):
        return Safe("interval")
    relation = _relation(left, right, ranges)
    if relation.same_programs(axes):
        return Safe("affine", relation.contents)
    known = replace(left, condition=ranges.with_contents(left.address, left.condition))
    other = replace(right, condition=ranges.with_contents(right.address, right.condition))
    if (known.condition, other.condition) != (left.condition, right.condition):
        if _far_apart(ranges, known, other):
            return Safe("interval", contents=True)
        informed = _relation(known, other, ranges)
        if informed.same_programs(axes):
            return Safe("affine", contents=True)
        if no_two_programs(informed, axes, solver.memory):
            return Safe("enumerated", contents=True)
    order = synchronisation.between(left.access, right.access)
    if any(relation.equal(a, b) for a, b in order.words):
        return Safe("affine", order.contents or relation.contents)
    if synchronisation.distinct(relation):
        return Safe("affine", relation.contents)
    reads = any(e.reads for s in (left, right) for e in (s.address, s.condition))
    if no_two_programs(relation, axes, solver.memory):
        return Safe("enumerated", reads)
    if synchronisation.beside_atomics(left.access, right.access):
        return Safe("affine", order.contents)
    pair = _Pair(
        analysis,
        replace(left, condition=synchronisation.without_atomics(left.condition)),
        replace(right, condition=synchronisation.without_atomics(right.condition)),
        axes,
        order,
        relation,
        False,
    )
    if pair.left.condition is not left.condition or pair.right.condition is not right.condition:
        pair = replace(pair, relaxed=True)
    pair = replace(
        pair,
        left=in_own_storage(analysis.launch, pair.left, ranges),
        right=in_own_storage(analysis.launch, pair.right, ranges),
    )
    answer = _by_points(pair)
    if answer is None and not patient:
        answer = Undecided("whether programs meet is not decided: other accesses took all the work")
    if answer is None and pair.reads and _evaluates(pair):
        # Tables of more points than are tried above: running the kernel on them is quicker than a search.
        answer = Undecided("whether programs meet depends on the contents of memory")
    if answer is None:
        answer = _by_solver(pair)
    return _with_order(pair, answer)


def _evaluates(pair: _Pair) -> bool:
    """Whether the concrete tier can be left to answer: it has what is read, and few programs to run."""
    launch = pair.analysis.launch
    if launch.program_count > MAX_PROGRAMS_EVALUATED:
        return False
    reads = {one for s in (pair.left, pair.right) for e in (s.address, s.condition) for one in e.reads}
    return all(launch.contents.read(one.payload.storage) is not None for one in reads)


def _relation(left: Side, right: Side, ranges: Ranges) -> Relation:
    relation = Relation(left.condition, right.condition, ranges)
    relation.overlap(
        ranges.unwrapped(left.address, left.condition),
        left.width,
        ranges.unwrapped(right.address, right.condition),
        right.width,
    )
    return relation


def _far_apart(ranges: Ranges, left: Side, right: Side) -> bool:
    low, high = ranges.of(left.address, left.condition)
    first, last = ranges.of(right.address, right.condition)
    before = high is not None and first is not None and high + left.width <= first
    return before or (last is not None and low is not None and last + right.width <= low)


def _with_order(pair: _Pair, answer: Safe | Race | Undecided) -> Safe | Race | Undecided:
    """What atomics have to do with a conflict."""
    order = pair.order
    if isinstance(answer, Safe):
        return replace(answer, contents=answer.contents or (bool(order.words) and order.contents))
    if isinstance(answer, Undecided):
        return Undecided(order.unclear[0]) if order.unclear else answer
    if order.defects:
        return replace(answer, detail=order.defects[0], contents=answer.contents or order.contents)
    if order.unclear:
        return Undecided(order.unclear[0])
    if order.words:
        return replace(answer, detail="they synchronise on different words of memory there")
    if pair.relaxed:
        return Undecided("whether both run rests on what atomics give")
    return answer


# --- point by point -----------------------------------------------------------------------------------------


def _by_points(pair: _Pair) -> Safe | Race | Undecided | None:
    """Exactly, where the points are few; else a conflict, if a sample has one. None: not decided."""
    solver = pair.analysis.solver
    left_more = [a for a, _ in pair.order.words]
    right_more = [b for _, b in pair.order.words]
    values = _known_values(pair)
    ranges = [
        ranges_of(pair.left, solver, pair.axes, more=left_more + values[:1]),
        ranges_of(pair.right, solver, pair.axes, more=right_more + values[1:]),
    ]
    total = max(map(count_of, ranges))
    for limit in (GLANCE, SAMPLE if total > MAX_POINTS else MAX_POINTS):
        exact = total <= limit
        domains = [full_domain(r) if exact else sampled_domain(r, limit) for r in ranges]
        try:
            left = points_of(pair.left, domains[0], pair.axes, solver.memory, left_more + values[:1])
            right = points_of(pair.right, domains[1], pair.axes, solver.memory, right_more + values[1:])
            compared = (values[0], values[1]) if values else None
            found = meeting(left, right, pair.order.words, compared)
        except (Unevaluable, PointsUndecided, OverflowError):
            return None
        if found is None and exact:
            return Safe("enumerated", pair.reads)
        if found is None or (found.identical and not exact and limit == GLANCE):
            continue
        identical = found.identical if exact or found.identical is False else None
        if identical and any(value.reads for value in values) and not left.values[values[0]][found.left]:
            identical = None  # zeros from memory are equal by chance: memory that nobody filled in
        return _race(pair, left, right, found.left, found.right, identical)
    return None


def _race(
    pair: _Pair, left: Points, right: Points, left_position: int, right_position: int, identical: bool | None
) -> Race:
    if identical is None and _two_stores(pair):
        identical = same_value(pair.analysis, pair.relation, pair.left, pair.right)
    return Race(
        pair.left,
        pair.right,
        left.assignment(left_position),
        right.assignment(right_position),
        identical,
        pair.reads,
    )


def _two_stores(pair: _Pair) -> bool:
    return pair.left.access.kind == pair.right.access.kind == "store"


def _known_values(pair: _Pair) -> list[Expr]:
    """What the two stores store, if it can be evaluated."""
    if not _two_stores(pair):
        return []
    values = [pair.left.access.value, pair.right.access.value]
    found: list[Expr] = []
    for value in values:
        if value is None or value.unknown_reasons:
            return []
        if value.reads and pair.analysis.solver.memory is None:
            return []
        found.append(value)
    return found


# --- the solver ---------------------------------------------------------------------------------------------


def _by_solver(pair: _Pair) -> Safe | Race | Undecided:
    left, right = pair.left, pair.right
    more: Sequence[Expr] = [b for _, b in pair.order.words]
    two = apart(left, right, pair.axes, *more)
    unordered = [ne(a, two.right_copy(b)) for a, b in pair.order.words]
    conflict = land(left.condition, two.right_condition, two.overlap, two.different, *unordered)
    answer = pair.analysis.solver.satisfiable(conflict)
    if isinstance(answer, Unsat):
        return Safe(answer.how, answer.contents)
    if not isinstance(answer, Sat):
        return Undecided(_why(pair, answer.reason))
    back = {copy: variable for variable, copy in two.right_of.items()}
    left_point = {v: n for v, n in answer.assignment.items() if v not in back}
    right_point = {back[v]: n for v, n in answer.assignment.items() if v in back}
    identical = same_value(pair.analysis, pair.relation, left, right) if _two_stores(pair) else None
    return Race(left, right, left_point, right_point, identical, answer.contents)


def _why(pair: _Pair, reason: str) -> str:
    for side in (pair.left, pair.right):
        unknown = side.address.unknown_reasons | side.condition.unknown_reasons
        if unknown:
            return f"whether programs meet rests on {min(unknown)}"
    return f"whether programs meet is not decided: {reason}"
