"""What two programs share, looked up over the whole grid if algebra does not distinguish programs.

Tile coordinates are often odd functions of the program id (swizzles with exclusive or, tables of tiles). They
are evaluated for every program with numpy: if the coordinates that a conflict needs to be equal are
equal for no two programs, there is no conflict.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.checks.races.digit_equations import Equation
from kerncap.sanitizer.checks.races.disjoint_tiles import Relation
from kerncap.sanitizer.symbolic.evaluate import ReadSource
from kerncap.sanitizer.symbolic.expr import Expr, Unevaluable, Variable, conjuncts, evaluate, land
from kerncap.sanitizer.symbolic.sums import from_terms

Ints = npt.NDArray[np.int64]

MAX_PROGRAMS = 1 << 22


def no_two_programs(relation: Relation, axes: Sequence[Variable], memory: ReadSource | None) -> bool:
    """Whether the equations over program ids alone have no solution in two different programs."""
    count = 1
    for axis in axes:
        count *= axis.points
    if count > MAX_PROGRAMS:
        return False
    programs = frozenset(axes)
    equations = [e for e in _equations(relation) if _speaks_of(e, programs)]
    if not equations:
        return False
    mesh = np.meshgrid(*(np.arange(a.low, a.high + 1, dtype=np.int64) for a in axes), indexing="ij")
    point = {axis: values.reshape(-1) for axis, values in zip(axes, mesh, strict=True)}
    try:
        left_here = _holds(relation.left_condition, programs, point, memory, count)
        right_here = _holds(relation.right_condition, programs, point, memory, count)
        left = [_values(from_terms(e.constant, dict(e.left)), point, memory, count) for e in equations]
        right = [_values(from_terms(0, dict(e.right)), point, memory, count) for e in equations]
    except (Unevaluable, OverflowError):
        return False
    ids = np.arange(count, dtype=np.int64)
    return _never_meet(
        [column[left_here] for column in left],
        ids[left_here],
        [column[right_here] for column in right],
        ids[right_here],
    )


def _equations(relation: Relation) -> list[Equation]:
    found = [Equation({a: 1}, {b: 1}, -offset) for (a, b), offset in relation.related.items()]
    return found + [e for e in relation.equalities if len(e.left) != 1 or len(e.right) != 1]


def _speaks_of(equation: Equation, programs: frozenset[Variable]) -> bool:
    atoms = (*equation.left, *equation.right)
    return all(a.variables <= programs and not a.unknown_reasons for a in atoms)


def _holds(
    condition: Expr,
    programs: frozenset[Variable],
    point: dict[Variable, Ints],
    memory: ReadSource | None,
    count: int,
) -> npt.NDArray[np.bool_]:
    """Where the parts of a condition that speak of programs alone hold."""
    parts = [c for c in conjuncts(condition) if c.variables <= programs and not c.unknown_reasons]
    if memory is None:
        parts = [c for c in parts if not c.reads]
    (found,) = evaluate([land(*parts)], _only(point, land(*parts)), memory)
    return np.broadcast_to(found.reshape(-1), (count,)).astype(np.bool_)


def _values(e: Expr, point: dict[Variable, Ints], memory: ReadSource | None, count: int) -> Ints:
    (found,) = evaluate([e], _only(point, e), memory)
    return np.broadcast_to(found.reshape(-1), (count,)).astype(np.int64)


def _only(point: dict[Variable, Ints], e: Expr) -> dict[Variable, int | Ints]:
    return {v: point[v] for v in e.variables}


def _never_meet(left: list[Ints], left_ids: Ints, right: list[Ints], right_ids: Ints) -> bool:
    """No row of ``left`` equals a row of ``right`` that has another id."""
    split = len(left_ids)
    key = np.zeros(split + len(right_ids), dtype=np.int64)
    for a, b in zip(left, right, strict=True):
        _, codes = np.unique(np.concatenate([a, b]), return_inverse=True)
        _, key = np.unique(key * (len(codes) + 1) + codes.reshape(-1), return_inverse=True)
        key = key.reshape(-1).astype(np.int64)
    size = int(key.max()) + 1 if len(key) else 0
    seen = np.full(size, -1, dtype=np.int64)
    seen[key[:split]] = left_ids
    several = np.zeros(size, dtype=np.bool_)
    several[key[:split][seen[key[:split]] != left_ids]] = True
    met = seen[key[split:]]
    return not bool(np.any((met >= 0) & ((met != right_ids) | several[key[split:]])))
