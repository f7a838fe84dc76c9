"""Expressions made simpler by what is known: wraps that change nothing go, choices that are decided fall."""

from __future__ import annotations

from collections.abc import Iterable

from kerncap.sanitizer.symbolic.boolean import COMPARISONS, compare, lor
from kerncap.sanitizer.symbolic.division import div_floor, fits, mod_floor, signed_range
from kerncap.sanitizer.symbolic.expr import conjuncts, rebuild
from kerncap.sanitizer.symbolic.implications import FactStore
from kerncap.sanitizer.symbolic.interval import Intervals
from kerncap.sanitizer.symbolic.node import TRUE, Expr, Interval, boolean, const
from kerncap.sanitizer.symbolic.sums import neg, sub
from kerncap.sanitizer.symbolic.traversal import nodes_of, postorder

_PLAIN = frozenset((*COMPARISONS, "var", "const", "sum", "unknown", "read", "mul", "boolean", "not", "and"))


class Rewriter:
    """Rewrites under the facts of a store. What comes out is equal wherever the facts hold."""

    def __init__(self, facts: FactStore) -> None:
        self.facts = facts
        self.intervals = Intervals(facts)
        self.done: dict[Expr, Expr] = {}

    def conjunction(self, literals: Iterable[Expr]) -> list[Expr]:
        """The conjuncts, rewritten; one that is a fact itself is not decided by itself."""
        result: dict[Expr, None] = {}
        for literal in literals:
            for part in conjuncts(self._literal(literal)):
                if part is not TRUE:
                    result[part] = None
        return list(result)

    def _literal(self, literal: Expr) -> Expr:
        if literal.kind in COMPARISONS:
            return compare(literal.kind, self.form(literal.args[0]), literal.payload)
        if literal.kind == "or":
            return lor(*(self.rewrite(a) for a in literal.args))
        if not literal.args:
            return literal
        return rebuild(literal, tuple(self.rewrite(a) for a in literal.args))

    def form(self, form: Expr) -> Expr:
        """Of what a conjunct compares: not as a number, though the facts may say which.

        The fact is that conjunct itself, which would be gone.
        """
        args = tuple(self.rewrite(a) for a in form.args)
        return self._simpler_node(form if args == form.args else rebuild(form, args))

    def rewrite(self, e: Expr) -> Expr:
        found = self.done.get(e)
        if found is not None:
            return found
        for node in postorder((e,), self.done):
            args = tuple(self.done[a] for a in node.args)
            new = node if args == node.args else rebuild(node, args)
            self.done[node] = self._simpler(new)
        return self.done[e]

    def _bounds(self, e: Expr) -> Interval:
        return self.intervals.of(e)

    def _simpler(self, node: Expr) -> Expr:
        if not node.args and node.kind not in ("var", "unknown"):
            return node
        low, high = self._bounds(node)
        if node.sort == "bool":
            return boolean(bool(low)) if low is not None and low == high else node
        if low is not None and low == high:
            return const(low)
        return self._simpler_node(node)

    def _simpler_node(self, node: Expr) -> Expr:
        kind = node.kind
        if kind == "wrap":
            operand = node.args[0]
            return operand if fits(self._bounds(operand), signed_range(node.payload)) else node
        if kind == "ite":
            truth = self._bounds(node.args[0])
            return node if truth[0] != truth[1] else node.args[1] if truth[0] else node.args[2]
        if kind in ("min", "max"):
            return self._extreme(node)
        if kind in ("div", "mod", "tdiv", "trem"):
            return self._division(node)
        return node

    def _extreme(self, node: Expr) -> Expr:
        kept: list[Expr] = []
        for new in node.args:
            superfluous = False
            for old in list(kept):
                low, high = self._bounds(sub(new, old))
                if node.kind == "max":
                    low, high = (None if high is None else -high), (None if low is None else -low)
                if low is not None and low >= 0:
                    superfluous = True
                    break
                if high is not None and high <= 0:
                    kept.remove(old)
            if not superfluous:
                kept.append(new)
        return kept[0] if len(kept) == 1 else rebuild(node, tuple(kept))

    def _division(self, node: Expr) -> Expr:
        kind = node.kind
        a, b = node.args
        low, high = self._bounds(a)
        divisor = self._bounds(b)
        if divisor[0] is None or divisor[0] <= 0:
            return node
        if kind in ("tdiv", "trem"):
            floor = div_floor if kind == "tdiv" else mod_floor
            if low is not None and low >= 0:
                return self._again(floor(a, b))
            if high is not None and high <= 0:
                return neg(self._again(floor(neg(a), b)))
            return node
        if low is None:
            return node
        if b.kind == "const":
            if high is None or low // b.payload != high // b.payload:
                return node
            turns = low // b.payload
            return const(turns) if kind == "div" else sub(a, const(turns * b.payload))
        if low >= 0:
            room = self._bounds(sub(b, a))[0]
            if (high is not None and high < divisor[0]) or (room is not None and room > 0):
                return const(0) if kind == "div" else a
        return node

    def _again(self, node: Expr) -> Expr:
        return self._division(node) if node.kind in ("div", "mod") else node


def is_plain(literals: Iterable[Expr]) -> bool:
    """Whether there is nothing that rewriting could make simpler."""
    return all(node.kind in _PLAIN for node in nodes_of(literals))
