"""Exact bounds of the parts of a condition that depend on few variables.

A swizzled program id is a maze of divisions and minima to an interval, but over a grid of some thousand
programs it is a table. So is a read whose offset depends on the program and a lane.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kerncap.sanitizer.symbolic.boolean import COMPARISONS, land
from kerncap.sanitizer.symbolic.enumerate import cost_of, points_of, project
from kerncap.sanitizer.symbolic.evaluate import ReadSource
from kerncap.sanitizer.symbolic.expr import conjuncts
from kerncap.sanitizer.symbolic.node import Expr, Interval, Variable
from kerncap.sanitizer.symbolic.sums import from_terms, terms_of
from kerncap.sanitizer.symbolic.traversal import nodes_of

GROUPS = 6  # sets of variables that are looked at


@dataclass(frozen=True)
class Projected:
    """``points``: where the conjuncts over these variables alone may hold; bounds are over those points."""

    variables: frozenset[Variable]
    bounds: dict[Expr, Interval]
    extremes: list[dict[Variable, int]]
    points: int
    contents: bool


def projections(
    condition: Expr, memory: ReadSource | None, limit: int, operations: int
) -> Iterator[Projected]:
    """One result per set of variables that parts of the condition depend on, as far as points allow."""
    parts = conjuncts(condition)
    atoms = _hard_atoms(condition)
    for variables in _groups(atoms, limit):
        inside = [a for a in atoms if a.variables <= variables]
        sums = _partial_sums(condition, variables)
        guard = land(*(c for c in parts if c.variables <= variables and not c.unknown_reasons))
        if memory is None:
            inside = [a for a in inside if not a.reads]
            sums = [s for s in sums if not s.reads]
            guard = land(*(c for c in conjuncts(guard) if not c.reads))
        expressions = list(dict.fromkeys([*sums, *inside]))
        cost = cost_of([guard, *expressions], variables)
        if not expressions or cost > operations:
            continue
        operations -= cost
        result = project(expressions, guard, variables, memory)
        contents = bool(guard.reads) or any(e.reads for e in expressions)
        yield Projected(variables, result.bounds, result.extremes, result.points, contents)


def _hard_atoms(condition: Expr) -> list[Expr]:
    """What is not linear and is a part of something linear."""
    atoms: dict[Expr, None] = {}
    for node in nodes_of([condition]):
        if (
            node.sort == "int"
            and node.args
            and node.kind != "sum"
            and not node.unknown_reasons
            and node.variables
        ):
            atoms[node] = None
    return list(atoms)


def _groups(atoms: list[Expr], limit: int) -> list[frozenset[Variable]]:
    """The sets of variables of the atoms, the largest that the limit allows first; none within another."""
    sets = sorted({a.variables for a in atoms}, key=points_of)
    allowed = [s for s in sets if points_of(s) <= limit]
    groups: list[frozenset[Variable]] = []
    for s in reversed(allowed):
        if not any(s <= g for g in groups):
            groups.append(s)
    return groups[:GROUPS]


def _partial_sums(condition: Expr, variables: frozenset[Variable]) -> list[Expr]:
    """The parts of compared sums that these variables decide: where they are extreme, so is the sum."""
    sums: dict[Expr, None] = {}
    for node in nodes_of([condition]):
        if node.kind in COMPARISONS:
            terms = {
                a: k
                for a, k in terms_of(node.args[0])[1]
                if a.variables <= variables and not a.unknown_reasons
            }
            part = from_terms(0, terms)
            if terms and any(a.kind != "var" for a in terms) and part.kind != "const":
                sums[part] = None
    return list(sums)
