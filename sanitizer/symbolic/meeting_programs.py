"""Two copies of a kernel that meet in the same place: which pairs of programs do?

Sums of dominating strides come apart into equalities of their digits. Where a digit is no linear form (a
swizzled program id), each side's values are a table, and the pairs that agree are a join of two tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kerncap.sanitizer.symbolic import affine
from kerncap.sanitizer.symbolic.boolean import land
from kerncap.sanitizer.symbolic.enumerate import blocks, points_of
from kerncap.sanitizer.symbolic.evaluate import evaluate_partially
from kerncap.sanitizer.symbolic.expr import conjuncts
from kerncap.sanitizer.symbolic.implications import FactStore
from kerncap.sanitizer.symbolic.node import NO_VARIABLES, TRUE, Expr, Interval, Variable
from kerncap.sanitizer.symbolic.sums import from_terms, terms_of

BRANCHES = 16
SIDE_POINTS = 1 << 18  # of a table: joining sorts them
Array = npt.NDArray[Any]
Side = frozenset[Variable]


@dataclass(frozen=True)
class Equality:
    """``left`` (over one set of variables) equals ``right`` (over another)."""

    left: Expr
    right: Expr


def refuted(condition: Expr, known: Mapping[Expr, Interval], limit: int) -> bool:
    """Whether in every case of the condition some pair of sides has no agreeing points. Without memory."""
    stack = [list(conjuncts(condition))]
    taken = 0
    while stack:
        taken += 1
        if taken > BRANCHES:
            return False
        simplified = affine.simplify(stack.pop(), known)
        if simplified is None:
            continue
        literals, facts = simplified
        choices = [c for c in literals if c.kind == "or"]
        if choices:
            rest = [c for c in literals if c is not choices[0]]
            stack.extend([*rest, *conjuncts(a)] for a in choices[0].args)
            continue
        if facts.decompose():
            facts.propagate()
            facts.add(literals)
        if not facts.contradiction and not _some_pair_is_empty(literals, facts, limit):
            return False
    return True


def _some_pair_is_empty(literals: list[Expr], facts: FactStore, limit: int) -> bool:
    most = min(limit, SIDE_POINTS)
    return any(
        points_of(left) <= most
        and points_of(right) <= most
        and _no_pair(left, right, equalities, literals, limit)
        for (left, right), equalities in _equalities(facts).items()
    )


def _equalities(facts: FactStore) -> dict[tuple[Side, Side], list[Equality]]:
    """The equalities between two sides, by the sides; only those pairs where some digit is no variable."""
    forms = [
        form for form, bounds in facts.bounds.items() if bounds[0] is not None and bounds[0] == bounds[1]
    ]
    sides = _components([atom for form in forms for atom, _ in terms_of(form)[1]])
    found: dict[tuple[Side, Side], list[Equality]] = {}
    hard: set[tuple[Side, Side]] = set()
    for form in forms:
        terms = terms_of(form)[1]
        involved = sorted(
            {sides[v] for a, _ in terms for v in a.variables}, key=lambda s: min(v.name for v in s)
        )
        if len(involved) != 2 or form.reads or form.unknown_reasons:
            continue
        pair = (involved[0], involved[1])
        left = {a: k for a, k in terms if a.variables <= pair[0]}
        right = {a: -k for a, k in terms if not a.variables <= pair[0]}
        number = facts.bounds[form][0]
        assert number is not None
        found.setdefault(pair, []).append(Equality(from_terms(0, left), from_terms(number, right)))
        if any(a.args for a, _ in terms):
            hard.add(pair)
    return {pair: equalities for pair, equalities in found.items() if pair in hard}


def _components(atoms: list[Expr]) -> dict[Variable, Side]:
    """Variables that occur in one atom are on one side."""
    sides: dict[Variable, Side] = {}
    for atom in atoms:
        merged = atom.variables.union(*(sides.get(v, NO_VARIABLES) for v in atom.variables))
        for v in merged:
            sides[v] = merged
    return sides


def _no_pair(left: Side, right: Side, equalities: list[Equality], literals: list[Expr], limit: int) -> bool:
    usable = [c for c in literals if not c.reads and not c.unknown_reasons]
    tables = []
    for side, keys in ((left, [e.left for e in equalities]), (right, [e.right for e in equalities])):
        guard = land(*(c for c in usable if c.variables <= side))
        table = _table(side, keys, guard)
        if table is None:
            return False
        tables.append(table)
    pairs = _join(tables[0][0], tables[1][0], limit)
    if pairs is None:
        return False
    here, there = pairs
    point = {v: column[here] for v, column in tables[0][1].items()}
    point.update({v: column[there] for v, column in tables[1][1].items()})
    both = land(*(c for c in usable if c.variables <= left | right))
    if not len(here):
        return True
    if both is TRUE:
        return False
    (result,) = evaluate_partially([both], point)
    possible = result.value if result.known is None else result.value | ~result.known
    return not bool(np.any(possible))


def _table(side: Side, keys: list[Expr], guard: Expr) -> tuple[Array, dict[Variable, Array]] | None:
    """The keys (keys × points) and the variables' values at the points of a side where its guard may hold."""
    key_columns: list[Array] = []
    columns: dict[Variable, list[Array]] = {v: [] for v in side}
    for block in blocks(side):
        guarded, *values = evaluate_partially([guard, *keys], block.arrays)
        inside = guarded.value if guarded.known is None else guarded.value | ~guarded.known
        chosen = np.broadcast_to(inside, block.shape).reshape(-1)
        rows = []
        for result in values:
            if result.known is not None or result.value.dtype == object:
                return None
            rows.append(np.broadcast_to(result.value, block.shape).reshape(-1)[chosen])
        key_columns.append(np.stack(rows))
        for v, parts in columns.items():
            parts.append(np.broadcast_to(block.arrays[v], block.shape).reshape(-1)[chosen])
    return np.concatenate(key_columns, axis=1), {v: np.concatenate(parts) for v, parts in columns.items()}


def _join(left: Array, right: Array, limit: int) -> tuple[Array, Array] | None:
    """Indices of all pairs of equal columns; None if there are more than the limit."""
    _, names = np.unique(np.concatenate([left, right], axis=1), axis=1, return_inverse=True)
    names = np.reshape(names, -1)
    a, b = names[: left.shape[1]], names[left.shape[1] :]
    order = np.argsort(b, kind="stable")
    sorted_b = b[order]
    first = np.searchsorted(sorted_b, a, side="left")
    counts = np.searchsorted(sorted_b, a, side="right") - first
    total = int(counts.sum())
    if total > limit:
        return None
    here = np.repeat(np.arange(len(a)), counts)
    within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return here, order[np.repeat(first, counts) + within]
