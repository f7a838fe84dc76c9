"""Is there a point where all of some conditions hold? The cheap ways first.

1. simplification, intervals, facts, linear systems (`affine`): flat in the ranges of variables;
2. every point, if they are few, else some (`enumerate`);
3. exact values of parts, over all programs or over what decides a read, then 1 again;
4. z3; 5. every point, up to the limit.

Whatever refutes is sound: wraps, unknowns and memory are over-approximated until they are evaluated. Every
`Sat` has been evaluated, with memory and without unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kerncap.sanitizer.symbolic import affine, meeting_programs, z3_solver
from kerncap.sanitizer.symbolic.enumerate import Nowhere, Somewhere, cost_of, exhaust, points_of, sample
from kerncap.sanitizer.symbolic.evaluate import ReadSource, evaluate_partially
from kerncap.sanitizer.symbolic.expr import conjuncts, eq, land, lnot, lor, ne, substitute
from kerncap.sanitizer.symbolic.interval import is_empty
from kerncap.sanitizer.symbolic.node import FALSE, TRUE, Expr, Interval, Variable, const
from kerncap.sanitizer.symbolic.projection import Projected, projections
from kerncap.sanitizer.symbolic.rewrite import Rewriter
from kerncap.sanitizer.symbolic.traversal import nodes_of

FEW_POINTS = 1 << 12
QUICK_BRANCHES = 10  # of a search that only looks for a short proof
SUBSTITUTED_POINTS = 24  # of a projection, where something is extreme, that are tried one by one
REFINEMENTS = 40  # of reads in a model of z3
MANY_NODES = 300  # of a condition on data, past which only its ranges are looked at


@dataclass(frozen=True)
class Unsat:
    """No point. ``contents``: that rests on what memory holds."""

    how: Literal["interval", "affine", "z3", "enumerated"]
    contents: bool = False


@dataclass(frozen=True)
class Sat:
    """A point at which the conditions evaluate to true; a value for each of their variables."""

    assignment: dict[Variable, int]
    how: Literal["interval", "affine", "z3", "enumerated"]
    contents: bool = False


@dataclass(frozen=True)
class Unknown:
    reason: str


Answer = Unsat | Sat | Unknown
_MOST_POINTS = 1 << 22  # that are evaluated one by one
_MOST_OPERATIONS = 64 * _MOST_POINTS  # so that long expressions are not a matter of minutes


class Solver:
    """Answers questions about expressions; remembers the answers.

    ``timeout_s`` is the limit of z3 per question, in seconds' worth of work. ``z3_limits_spent``: by all
    questions so far.
    """

    def __init__(self, memory: ReadSource | None = None, timeout_s: float = z3_solver.TIMEOUT_S) -> None:
        self.memory = memory
        self.timeout_s = timeout_s
        self.z3_limits_spent = 0.0
        self._answers: dict[Expr, Answer] = {}
        self._refuted: dict[Expr, bool] = {}
        self._rewriters: dict[Expr, Rewriter | None] = {}  # by what is given; None: it holds nowhere

    def satisfiable(self, *conditions: Expr) -> Answer:
        """Is there a point, all variables within their ranges, where all conditions hold?"""
        condition = land(*conditions)
        answer = self._answers.get(condition)
        if answer is None:
            answer = _Question(self, condition).answer()
            if len(self._answers) >= 4096:
                self._answers.clear()
            self._answers[condition] = answer
        if isinstance(answer, Sat):
            # Simplification may have dropped variables: any of their values will do.
            missing = {v: v.low for c in conditions for v in c.variables if v not in answer.assignment}
            if missing:
                answer = Sat({**missing, **answer.assignment}, answer.how, answer.contents)
        return answer

    def refuted(self, *conditions: Expr) -> bool:
        """Whether the cheap ways show that no point satisfies the conditions, whatever memory holds."""
        condition = land(*conditions)
        answer = self._answers.get(condition)
        if answer is not None:
            return isinstance(answer, Unsat)
        if condition not in self._refuted:
            if len(self._refuted) >= 4096:
                self._refuted.clear()
            found = affine.Search(condition, lambda _: True, branch_limit=QUICK_BRANCHES).run()
            self._refuted[condition] = isinstance(found, affine.Refuted)
        return self._refuted[condition]

    def bounds(self, e: Expr, given: Expr = TRUE) -> Interval:
        """Sound outer bounds of an integer expression where ``given`` holds; None for no bound.

        Where ``given`` holds nowhere, whatever comes out is sound.
        """
        if given is TRUE or given is FALSE:
            return e.low, e.high
        if given not in self._rewriters:
            simplified = affine.simplify(list(conjuncts(given)), {})
            if len(self._rewriters) >= 256:
                self._rewriters.clear()
            self._rewriters[given] = None if simplified is None else Rewriter(simplified[1])
        rewriter = self._rewriters[given]
        if rewriter is None:
            return e.low, e.high
        bounds = rewriter.intervals.of(rewriter.rewrite(e))
        return (e.low, e.high) if is_empty(bounds) else bounds


class _Question:
    def __init__(self, solver: Solver, condition: Expr) -> None:
        self.solver = solver
        self.condition = condition
        self.memory = solver.memory
        self.reason = ""
        self.known: dict[Expr, Interval] = {}
        self.contents = False  # whether `known` has anything from memory
        self.exact = False  # whether `known` has anything from evaluation

    def check(self, assignment: dict[Variable, int]) -> bool | None:
        (result,) = evaluate_partially([self.condition], self._whole(assignment), self.memory)
        if result.known is not None and not result.known:
            self.reason = result.reason
            return None
        return bool(result.value)

    def _sat(
        self, assignment: dict[Variable, int], how: Literal["interval", "affine", "z3", "enumerated"]
    ) -> Sat:
        return Sat(self._whole(assignment), how, bool(self.condition.reads))

    def _whole(self, assignment: dict[Variable, int]) -> dict[Variable, int]:
        """Of what simplification has dropped, any value will do."""
        return {v: assignment.get(v, v.low) for v in self.condition.variables}

    def answer(self) -> Answer:
        condition = self.condition
        if condition is FALSE:
            return Unsat("interval")
        if condition is TRUE:
            return Sat({}, "interval")
        answer = self._search()
        if answer is not None:
            return answer
        points = points_of(condition.variables)
        cost = cost_of([condition], condition.variables)
        steps = [self._bounded_reads, self._sampled, self._projected, self._z3]
        if condition.unknown_reasons:
            steps.remove(self._sampled)  # a point that rests on an unknown proves nothing
        if (condition.unknown_reasons or condition.reads) and len(nodes_of([condition])) > MANY_NODES:
            # Networks of comparisons (a sort) of data: evaluating the kernel is cheaper than reasoning.
            steps = [self._bounded_reads]
        if points <= FEW_POINTS and cost <= 1 << 18:
            steps.insert(0, self._exhaust)
        elif points <= _MOST_POINTS and cost <= _MOST_OPERATIONS:
            readable = condition.reads and self.memory is not None
            steps.insert(-1 if readable else len(steps), self._exhaust)
        for step in steps:
            answer = step()
            if answer is not None:
                return answer
        return Unknown(self.reason or "undecided")

    def _search(self) -> Answer | None:
        # Before exact values of parts are known, splitting into many cases is mostly in vain.
        limit = 100 if self.exact else 40
        if self.condition.reads:
            limit //= 4  # what hangs on memory is settled by evaluating
        result = affine.Search(self.condition, self.check, self.known, limit).run()
        if isinstance(result, affine.Refuted):
            return Unsat("enumerated" if self.exact else result.how, self.contents)
        if isinstance(result, affine.Found):
            return self._sat(result.assignment, "affine")
        self.reason = result.reason
        return None

    def _bounded_reads(self) -> Answer | None:
        """With the smallest and the largest element of what is read."""
        if self.memory is None or not self.condition.reads:
            return None
        for node in self.condition.reads:
            if node.sort == "int":
                bounds = self.memory.bounds(node.payload, (node.args[0].low, node.args[0].high))
                if bounds is not None:
                    self.known[node] = bounds
                    self.contents = True
        return self._search() if self.known else None

    def _sampled(self) -> Answer | None:
        point = sample(self.condition, self.memory)
        return None if point is None else self._sat(point, "enumerated")

    def _exhaust(self) -> Answer | None:
        result = exhaust(self.condition, self.memory)
        if isinstance(result, Nowhere):
            return Unsat("enumerated", bool(self.condition.reads))
        if isinstance(result, Somewhere):
            return self._sat(result.point, "enumerated")
        self.reason = result.reason
        return Unknown(result.reason)

    def _projected(self) -> Answer | None:
        found = list(projections(self.condition, self.memory, _MOST_POINTS, _MOST_OPERATIONS))
        for projected in found:
            if projected.points == 0:
                return Unsat("enumerated", self.contents or projected.contents)
            self.known.update(projected.bounds)
            self.contents |= projected.contents and bool(projected.bounds)
            self.exact |= bool(projected.bounds)
        if not found:
            return None
        if meeting_programs.refuted(self.condition, self.known, _MOST_POINTS):
            return Unsat("enumerated", self.contents)
        if self.exact:
            answer = self._search()
            if answer is not None:
                return answer
        for projected in () if self.condition.unknown_reasons else found:
            answer = self._substituted(projected)
            if answer is not None:
                return answer
        return None

    def _substituted(self, projected: Projected) -> Answer | None:
        """The rest of the condition at chosen points of some variables."""
        for point in projected.extremes[:SUBSTITUTED_POINTS]:
            fixed = {v: const(n) for v, n in point.items()}
            values = self._values_of_reads(point)
            replaced = ((substitute(node, fixed), bounds) for node, bounds in values.items())
            known = {node: bounds for node, bounds in replaced if node.kind != "const"}
            rest = substitute(self.condition, fixed)
            if rest is FALSE:
                continue

            def check(assignment: dict[Variable, int], point: dict[Variable, int] = point) -> bool | None:
                return self.check({**point, **assignment})

            result = affine.Search(rest, check, known).run()
            if isinstance(result, affine.Found):
                return self._sat({**point, **result.assignment}, "enumerated")
        return None

    def _values_of_reads(self, point: dict[Variable, int]) -> dict[Expr, Interval]:
        inside = [r for r in self.condition.reads if r.sort == "int" and r.variables <= point.keys()]
        values: dict[Expr, Interval] = {}
        for node, result in zip(inside, evaluate_partially(inside, point, self.memory), strict=True):
            if result.known is None or bool(result.known):
                values[node] = (int(result.value), int(result.value))
        return values

    def _z3(self) -> Answer | None:
        if not z3_solver.available():
            self.reason = z3_solver.MISSING
            return None
        query = z3_solver.Query(self.condition, self.known, self.solver.timeout_s)
        try:
            return self._refined(query)
        finally:
            self.solver.z3_limits_spent += query.spent

    def _refined(self, query: z3_solver.Query) -> Answer | None:
        """By models of which each is compared with memory, until one holds or there is none."""
        contents = self.contents
        for _ in range(REFINEMENTS):
            result = query.ask()
            if isinstance(result, z3_solver.Impossible):
                return Unsat("z3", contents)
            if isinstance(result, z3_solver.NoAnswer):
                self.reason = result.reason
                return None
            holds = self.check(result.assignment)
            if holds:
                return self._sat(result.assignment, "z3")
            refinement = self._what_memory_says(result.assignment)
            if refinement is TRUE:
                self.reason = self.reason or "a model that does not hold"
                return None
            contents = True
            query.require(refinement)
        self.reason = "what memory holds: too many cases"
        return None

    def _what_memory_says(self, assignment: dict[Variable, int]) -> Expr:
        """The values of the reads at the offsets that they have at this point."""
        reads = [n for n in nodes_of([self.condition]) if n.kind == "read"]
        if self.memory is None or not reads:
            return TRUE
        roots = [e for r in reads for e in (r, r.args[0])]
        results = evaluate_partially(
            roots, {v: assignment.get(v, v.low) for e in roots for v in e.variables}, self.memory
        )
        facts = []
        for position, node in enumerate(reads):
            value, offset = results[2 * position], results[2 * position + 1]
            if (value.known is not None and not value.known) or (
                offset.known is not None and not offset.known
            ):
                continue
            elsewhere = ne(node.args[0], const(int(offset.value)))
            if node.sort == "bool":
                here = node if bool(value.value) else lnot(node)
            else:
                here = eq(node, const(int(value.value)))
            facts.append(lor(elsewhere, here))
        return land(*facts)
