"""Search through a condition by facts, rewriting, linear systems, and splitting where it must be.

Everything that stays in linear forms, floor divisions, remainders, wraps, minima and choices is decided
here, however large the ranges of the variables. The rest is left open, with its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from kerncap.sanitizer.symbolic.boolean import ge, le, lnot
from kerncap.sanitizer.symbolic.expr import conjuncts
from kerncap.sanitizer.symbolic.implications import FactStore
from kerncap.sanitizer.symbolic.integer import Feasible, Infeasible, System
from kerncap.sanitizer.symbolic.interval import Intervals
from kerncap.sanitizer.symbolic.node import FALSE, ZERO, Expr, Interval, Variable, const
from kerncap.sanitizer.symbolic.rewrite import Rewriter, is_plain
from kerncap.sanitizer.symbolic.sums import terms_of
from kerncap.sanitizer.symbolic.traversal import nodes_of

How = Literal["interval", "affine"]

ROUNDS = 5  # of rewriting: each may free facts for the next
MOST_NODES = 8_000  # in the conjuncts of all branches together: half a second or so


@dataclass(frozen=True)
class Refuted:
    how: How


@dataclass(frozen=True)
class Found:
    assignment: dict[Variable, int]


@dataclass(frozen=True)
class Open:
    """Not decided. ``facts`` are those of the whole condition."""

    reason: str


Check = Callable[[dict[Variable, int]], "bool | None"]


class Search:
    """One condition. ``check`` says whether it holds at a point (None: that depends on an unknown)."""

    def __init__(
        self,
        condition: Expr,
        check: Check,
        known: Mapping[Expr, Interval] | None = None,
        branch_limit: int = 120,
    ) -> None:
        self.condition = condition
        self.check = check
        self.known = dict(known or {})
        self.branches_left = branch_limit
        self.nodes_left = MOST_NODES  # counted, not timed: the answer must not hang on how busy a machine is
        self.how: How = "interval"
        self.reason = ""

    def run(self) -> Refuted | Found | Open:
        stack = [list(conjuncts(self.condition))]
        undecided = False
        while stack:
            if self.branches_left <= 0 or self.nodes_left <= 0:
                return Open(self.reason or "too many cases")
            self.branches_left -= 1
            result = self._branch(stack.pop())
            if isinstance(result, Found):
                return result
            if isinstance(result, Open):
                undecided = True
                self.reason = self.reason or result.reason
            else:
                stack.extend(reversed(result))
        return Open(self.reason) if undecided else Refuted(self.how)

    def _branch(self, literals: list[Expr]) -> Found | Open | list[list[Expr]]:
        """The branches that it splits into; [] if it is refuted."""
        self.nodes_left -= len(nodes_of(literals))
        simplified = simplify(literals, self.known)
        if simplified is None:
            return []
        literals, facts = simplified
        if facts.refuted_form():
            self.how = "affine"
            return []
        for _ in range(ROUNDS):
            if not facts.decompose():
                break
            facts.propagate()
            facts.add(literals)
            if facts.contradiction or facts.refuted_form():
                self.how = "affine"
                return []
        choices = [c for c in literals if c.kind == "or"]
        if choices:
            split = min(choices, key=lambda c: len(c.args))
            rest = [c for c in literals if c is not split]
            return [rest + list(conjuncts(a)) for a in split.args]
        _narrow_atoms(facts)
        if facts.contradiction:
            return []
        result = System(facts).solve()
        if isinstance(result, Infeasible):
            self.how = "affine"
            return []
        if isinstance(result, Feasible):
            assignment = self._assignment(facts, result.values)
            holds = self.check(assignment)
            if holds:
                return Found(assignment)
            for literal in literals:
                if literal.kind == "ne":
                    form, number = literal.args[0], literal.payload
                    rest = [c for c in literals if c is not literal]
                    return [[*rest, le(form, const(number - 1))], [*rest, ge(form, const(number + 1))]]
            case = _case(literals, facts)
            if case is not None:
                return [[*literals, *conjuncts(case)], [*literals, *conjuncts(lnot(case))]]
            return Open("a value that is not known decides" if holds is None else "not linear")
        return Open("too many cases of integers")

    def _assignment(self, facts: FactStore, values: Mapping[Expr, int]) -> dict[Variable, int]:
        assignment = {}
        inside = {node.payload: value for node, value in values.items() if node.kind == "var"}
        pinned = {node.payload: bounds for node, bounds in facts.bounds.items() if node.kind == "var"}
        for variable in self.condition.variables:
            low, high = pinned.get(variable, (variable.low, variable.high))
            value = inside.get(variable)
            if value is None:
                value = variable.low if low is None else low
            assignment[variable] = value
        return assignment


def simplify(literals: list[Expr], known: Mapping[Expr, Interval]) -> tuple[list[Expr], FactStore] | None:
    """The conjuncts rewritten by each other's facts, and those facts; None if they exclude each other."""
    facts = FactStore()
    for node, bounds in known.items():
        facts.narrow_sum(node, bounds) if node.kind == "sum" else facts.narrow(node, bounds)
    for _ in range(ROUNDS):
        facts.add(literals)
        facts.propagate()
        if facts.contradiction or FALSE in literals:
            return None
        if is_plain(literals):
            break
        rewriter = Rewriter(facts)
        rewritten = rewriter.conjunction(literals)
        if FALSE in rewritten:
            return None
        if rewritten == literals:
            break
        literals = rewritten
        facts = _carry_over(facts, rewriter)
    else:
        facts.add(literals)
        facts.propagate()
        if facts.contradiction:
            return None
    return literals, facts


def _carry_over(facts: FactStore, rewriter: Rewriter) -> FactStore:
    """The bounds of atoms and forms, for what these have become."""
    fresh = FactStore()
    for node, bounds in facts.bounds.items():
        become = rewriter.form(node)
        if node.kind != "sum":
            fresh.narrow(node, bounds)
        if become.kind != "const" and (become is not node or node.kind == "sum"):
            fresh.narrow_sum(become, bounds)
    return fresh


def _narrow_atoms(facts: FactStore) -> None:
    """Gives compound atoms of forms the bounds that they have under the facts."""
    intervals = Intervals(facts)
    for form in list(facts.bounds):
        for atom, _ in terms_of(form)[1]:
            if atom.args:
                facts.narrow(atom, intervals.of(atom))


def _case(literals: list[Expr], facts: FactStore) -> Expr | None:
    """A condition that decides a node which the linear system knows only roughly."""
    nodes = nodes_of(literals)
    for literal in literals:
        if literal.kind == "iff":
            return literal.args[0]
        if literal.kind == "not" and literal.args[0].kind == "iff":
            return literal.args[0].args[0]
    intervals = Intervals(facts)
    for node in nodes:
        case = None
        if node.kind == "ite":
            case = node.args[0]
        elif node.kind in ("min", "max"):
            case = le(node.args[0], node.args[1])
        elif node.kind in ("tdiv", "trem") and node.args[1].low is not None and node.args[1].low > 0:
            case = ge(node.args[0], ZERO)
        if (
            case is not None
            and case.kind != "boolean"
            and intervals.of(case) == (0, 1)
            and case not in literals
        ):
            return case
    return None
