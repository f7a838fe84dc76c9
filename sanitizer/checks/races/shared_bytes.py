"""Every point of two sides, or a sample of them: which bytes two different programs share, exactly.

Addresses become cells of the finest size that both widths and all addresses are multiples of. A table of the
last program on the left in each cell finds the conflicts of the right in one pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.checks.races.sides import Side
from kerncap.sanitizer.symbolic.evaluate import Evaluated, ReadSource, evaluate_partially
from kerncap.sanitizer.symbolic.expr import Expr, Unevaluable, Variable, var
from kerncap.sanitizer.symbolic.solve import Solver

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

MAX_CELLS = 1 << 25


@dataclass(frozen=True)
class Points:
    """The points of one side at which its condition holds, flat. ``index`` leads back to the variables."""

    side: Side
    addresses: Ints
    programs: Ints  # linear over `axes`; equal only for one program
    values: dict[Expr, Ints]  # further expressions that were asked for
    index: Ints
    domain: tuple[tuple[Variable, Ints], ...]

    def assignment(self, position: int) -> dict[Variable, int]:
        """The variables at one of the points."""
        rest = int(self.index[position])
        found = {}
        for variable, values in reversed(self.domain):
            rest, here = divmod(rest, len(values))
            found[variable] = int(values[here])
        return found


Domain = dict[Variable, Ints]


def ranges_of(
    side: Side,
    solver: Solver,
    axes: Sequence[Variable],
    every_program: bool = False,
    more: Sequence[Expr] = (),
) -> dict[Variable, tuple[int, int]]:
    """The variables of a side and what its condition leaves of their ranges, where the solver knows.

    A program axis that nothing depends on is as good with two programs as with all (``every_program``:
    with all of them nevertheless).
    """
    used = side.variables.union(*(e.variables for e in more))
    ranges = {
        axis: (axis.low, axis.high if every_program else axis.low + 1) for axis in axes if axis not in used
    }
    for variable in sorted(used, key=lambda v: (v.kind != "program", v.name)):
        low, high = solver.bounds(var(variable), side.condition)
        low = variable.low if low is None else max(low, variable.low)
        high = variable.high if high is None else min(high, variable.high)
        ranges[variable] = (low, max(low, high))
    return ranges


def count_of(ranges: dict[Variable, tuple[int, int]]) -> int:
    """How many points there are."""
    return prod(high - low + 1 for low, high in ranges.values())


def full_domain(ranges: dict[Variable, tuple[int, int]]) -> Domain:
    """All values of all variables."""
    return {v: np.arange(low, high + 1, dtype=np.int64) for v, (low, high) in ranges.items()}


def sampled_domain(ranges: dict[Variable, tuple[int, int]], limit: int) -> Domain:
    """About ``limit`` points at most: first and last values of the longest variables."""
    keep = {v: high - low + 1 for v, (low, high) in ranges.items()}
    # Iterations first, then lanes: a conflict mostly shows in the first and last of them.
    order = {"loop": 0, "free": 0, "lane": 1, "program": 2}
    steps = ((0, 6), (1, 64), (2, 256), (1, 8), (2, 32), (0, 3), (1, 4), (2, 8), (1, 2), (2, 2))
    for kind, least in steps:
        for variable in keep:
            if order[variable.kind] == kind and prod(keep.values()) > limit:
                keep[variable] = min(keep[variable], least)
    domain: Domain = {}
    for variable, count in keep.items():
        low, high = ranges[variable]
        if count == high - low + 1:
            domain[variable] = np.arange(low, high + 1, dtype=np.int64)
        else:
            first = np.arange(low, low + (count + 1) // 2, dtype=np.int64)
            last = np.arange(high - count // 2 + 1, high + 1, dtype=np.int64)
            domain[variable] = np.concatenate([first, last])
    return domain


def points_of(
    side: Side, domain: Domain, axes: Sequence[Variable], memory: ReadSource | None, more: Sequence[Expr] = ()
) -> Points:
    """Evaluate a side over a domain. Raises Unevaluable where something that matters is unknown."""
    variables = tuple(domain.items())
    shape = tuple(len(values) for _, values in variables)
    spread: dict[Variable, Ints] = {}
    for position, (variable, values) in enumerate(variables):
        spread[variable] = values.reshape([-1 if i == position else 1 for i in range(len(shape))])
    expressions = [side.address, side.condition, *more]
    point = {v: spread[v] for e in expressions for v in e.variables}
    address, condition, *others = evaluate_partially(expressions, point, memory)
    if condition.known is not None and not np.all(condition.known):
        raise Unevaluable(condition.reason)
    holds = np.broadcast_to(condition.value.astype(np.bool_), shape).reshape(-1)
    index = np.flatnonzero(holds)

    def flat(found: Evaluated) -> Ints:
        if found.known is not None and not np.all(np.broadcast_to(found.known, shape).reshape(-1)[index]):
            raise Unevaluable(found.reason)
        return np.broadcast_to(found.value, shape).reshape(-1)[index].astype(np.int64)

    program: Ints = np.zeros((1,) * len(shape), dtype=np.int64)
    for axis in reversed(axes):
        program = program * axis.points + (spread[axis] - axis.low)
    programs = np.broadcast_to(program, shape).reshape(-1)[index]
    named = {e: flat(found) for e, found in zip(more, others, strict=True)}
    return Points(side, flat(address), programs, named, index, variables)


@dataclass(frozen=True)
class Meeting:
    """Positions in the two sides' points of one conflict between different programs.

    ``identical``: all stores that meet anywhere store the same there (None: not looked at).
    """

    left: int
    right: int
    identical: bool | None = None


class Undecided(Exception):
    """The points do not tell."""


def meeting(
    left: Points,
    right: Points,
    allowed: Sequence[tuple[Expr, Expr]] = (),
    values: tuple[Expr, Expr] | None = None,
) -> Meeting | None:
    """A conflict, if there is one; of stores whose ``values`` are known, one in which they differ.

    ``allowed``: two programs may meet where one of these pairs (a lock's address on each side) is
    equal. Raises Undecided where the addresses are too many for a table, or locks are too entangled.
    """
    if not len(left.addresses) or not len(right.addresses):
        return None
    base = int(min(left.addresses.min(), right.addresses.min()))
    unit = gcd(left.side.width, right.side.width)
    unit = gcd(unit, int(np.gcd.reduce(left.addresses - base)), int(np.gcd.reduce(right.addresses - base)))
    left_cells, left_of = _cells(left, base, unit)
    right_cells, right_of = _cells(right, base, unit)
    size = int(max(left_cells.max(), right_cells.max())) + 1
    if size > MAX_CELLS:
        every, codes = np.unique(np.concatenate([left_cells, right_cells]), return_inverse=True)
        codes = codes.reshape(-1)
        left_cells, right_cells, size = codes[: len(left_cells)], codes[len(left_cells) :], len(every)
        if size > MAX_CELLS:
            raise Undecided("the bytes that are touched are too many to compare one by one")
    # The last access on the left in each cell and, where that is not the only program there, another one.
    last = np.full(size, -1, dtype=np.int64)
    last[left_cells] = left_of
    elsewhere = left.programs[last[left_cells]] != left.programs[left_of]
    other = np.full(size, -1, dtype=np.int64)
    other[left_cells[elsewhere]] = left_of[elsewhere]
    pairs = [_partners(table, right_cells, right_of, left, right) for table in (last, other)]
    if not any(len(a) for a, _ in pairs):
        return None
    met = np.zeros(size, dtype=np.bool_)
    for table in (last, other):
        partner = table[right_cells]
        met[right_cells[(partner >= 0) & (left.programs[partner] != right.programs[right_of])]] = True
    if allowed:
        for some, others in pairs:
            bad = np.ones(len(some), dtype=np.bool_)
            for one, two in allowed:
                bad &= left.values[one][some] != right.values[two][others]
            if np.any(bad):
                first = int(np.flatnonzero(bad)[0])
                return Meeting(int(some[first]), int(others[first]))
        uniform = (
            _one_value(met, left_cells, left.values[a][left_of], right_cells, right.values[b][right_of])
            for a, b in allowed
        )
        if not any(uniform):
            raise Undecided("several locks guard the same bytes")
        return None
    a, b = next(pair for pair in pairs if len(pair[0]))
    if values is None:
        return Meeting(int(a[0]), int(b[0]))
    whole = left.side.width == right.side.width and _one_value(
        met, left_cells, left.addresses[left_of], right_cells, right.addresses[right_of]
    )
    one, two = values
    if (whole or left.side.width == right.side.width == unit) and _one_value(
        met, left_cells, left.values[one][left_of], right_cells, right.values[two][right_of]
    ):
        return Meeting(int(a[0]), int(b[0]), True)
    for a, b in pairs:
        unequal = np.flatnonzero(left.values[one][a] != right.values[two][b])
        if len(unequal):
            return Meeting(int(a[unequal[0]]), int(b[unequal[0]]), False)
    a, b = next(pair for pair in pairs if len(pair[0]))
    return Meeting(int(a[0]), int(b[0]), False)


def _partners(table: Ints, cells: Ints, of: Ints, left: Points, right: Points) -> tuple[Ints, Ints]:
    """Points on both sides that touch one cell and are of two programs."""
    partner = table[cells]
    here = np.flatnonzero(partner >= 0)
    a, b = partner[here], of[here]
    conflict = left.programs[a] != right.programs[b]
    return a[conflict], b[conflict]


def _one_value(met: Bools, left_cells: Ints, left: Ints, right_cells: Ints, right: Ints) -> bool:
    """Whether in each cell where programs meet all accesses have one value of this."""
    table = np.zeros(len(met), dtype=np.int64)
    table[left_cells] = left
    same_left = (table[left_cells] == left) | ~met[left_cells]
    same_right = (table[right_cells] == right) | ~met[right_cells]
    return bool(np.all(same_left) and np.all(same_right))


def _cells(points: Points, base: int, unit: int) -> tuple[Ints, Ints]:
    """The cells that the points touch, and which point each of them comes from."""
    first = (points.addresses - base) // unit
    count = points.side.width // unit
    where = np.arange(len(first), dtype=np.int64)
    if count == 1:
        return first, where
    cells = (first[:, None] + np.arange(count, dtype=np.int64)).reshape(-1)
    return cells, np.repeat(where, count)
