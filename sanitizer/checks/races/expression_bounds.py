"""Bounds of expressions where a side's condition holds, as the questions about races ask for them."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd

import numpy as np

from kerncap.sanitizer.symbolic.expr import Buffer, Expr, conjuncts, const, ge, land, le, nodes_of, rebuild
from kerncap.sanitizer.symbolic.solve import Solver
from kerncap.sanitizer.symbolic.sums import from_terms, terms_of

# Parts of a condition past which its minima are not taken apart further.
MAX_PARTS = 64


# Elements of a table that are compared with each other.
MAX_VALUES = 1 << 22

# A buffer, the first and the last offset that is read and the step between them; the values that count.
_Values = tuple[Buffer, int, int, int, "int | None", "int | None"]


_COMPARE = {"le": np.less_equal, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal}


@dataclass
class Ranges:
    """Bounds of expressions under conditions, remembered: many pairs ask for the same ones."""

    solver: Solver
    _known: dict[tuple[Expr, Expr], tuple[int | None, int | None]] = field(default_factory=dict)
    _distinct: dict[_Values, bool] = field(default_factory=dict)
    _stronger: dict[Expr, Expr] = field(default_factory=dict)

    def of(self, e: Expr, condition: Expr) -> tuple[int | None, int | None]:
        key = (e, condition)
        if key not in self._known:
            if condition not in self._stronger:
                self._stronger[condition] = with_each_limit(condition)
            self._known[key] = self.solver.bounds(e, self._stronger[condition])
        return self._known[key]

    def unwrapped(self, e: Expr, condition: Expr) -> Expr:
        """The same numbers where the condition holds, without the wraps that change nothing there."""
        order = nodes_of([e])
        if not any(node.kind == "wrap" for node in order):
            return e
        plain: dict[Expr, Expr] = {}
        for node in order:
            args = tuple(plain[arg] for arg in node.args)
            plain[node] = node if args == node.args else rebuild(node, args)
            if node.kind == "wrap" and args:
                low, high = self.of(args[0], condition)
                limit = 1 << (node.payload - 1)
                if low is not None and high is not None and -limit <= low and high < limit:
                    plain[node] = args[0]
        return plain[e]

    def with_contents(self, e: Expr, condition: Expr) -> Expr:
        """The condition, and that what is read from memory lies between its least and its largest value."""
        parts = [condition]
        for one in e.reads | condition.reads:
            bounds = self._extremes(one, condition) if one.sort == "int" else None
            if bounds is not None:
                parts += [one >= bounds[0], one <= bounds[1]]
        return land(*parts)

    def _extremes(self, one: Expr, condition: Expr) -> tuple[int, int] | None:
        """Of the values that are read and that the condition lets through; None if they are not known."""
        memory = self.solver.memory
        if memory is None:
            return None
        low, high = self.of(one.args[0], condition)
        found = None
        if low is not None and high is not None and (high - low) // _step(low, one.args[0]) < MAX_VALUES:
            places = np.arange(low, high + 1, _step(low, one.args[0]), dtype=np.int64)
            found = memory.values(one.payload, places)
        if found is None:
            return memory.bounds(one.payload, (low, high))
        for part in conjuncts(condition):
            if part.kind in _COMPARE and part.args[0] is one:
                found = found[_COMPARE[part.kind](found, part.payload)]
        return (int(found.min()), int(found.max())) if len(found) else None

    def distinct(self, one: Expr, condition: Expr, other: Expr, other_condition: Expr) -> bool:
        """Whether two reads that give one value read one place: no value stands twice where they may read.

        Only values that the conditions let through count: a table is often padded with one of its own.
        """
        buffer = one.payload
        if self.solver.memory is None or other.payload != buffer or one.sort != "int":
            return False
        offsets = [self.of(one.args[0], condition), self.of(other.args[0], other_condition)]
        values = [self.of(one, condition), self.of(other, other_condition)]
        lows, highs = [low for low, _ in offsets], [high for _, high in offsets]
        if None in lows or None in highs:
            return False
        first, last = min(n for n in lows if n is not None), max(n for n in highs if n is not None)
        step = gcd(_step(first, one.args[0]), _step(first, other.args[0]))
        if step < buffer.itemsize or (last - first) // step >= MAX_VALUES:
            return False
        least = [low for low, _ in values if low is not None]
        most = [high for _, high in values if high is not None]
        key = (
            buffer,
            first,
            last,
            step,
            min(least) if len(least) == 2 else None,
            max(most) if len(most) == 2 else None,
        )
        if key not in self._distinct:
            self._distinct[key] = self._all_differ(*key)
        return self._distinct[key]

    def _all_differ(
        self, buffer: Buffer, first: int, last: int, step: int, low: int | None, high: int | None
    ) -> bool:
        assert self.solver.memory is not None
        found = self.solver.memory.values(buffer, np.arange(first, last + 1, step, dtype=np.int64))
        if found is None:
            return False
        keep = np.ones(len(found), dtype=np.bool_)
        if low is not None:
            keep &= found >= low
        if high is not None:
            keep &= found <= high
        kept = found[keep]
        return len(np.unique(kept)) == len(kept)


def _step(first: int, offset: Expr) -> int:
    """Counting from ``first`` by this goes through all values of an offset from there on."""
    return gcd(offset.modulus, first - offset.remainder) or 1


def with_each_limit(condition: Expr) -> Expr:
    """The condition and what follows from its minima: below ``min(a, b)`` is below ``a`` and below ``b``."""
    parts = list(conjuncts(condition))
    for part in parts:
        if part.kind not in ("le", "ge") or len(parts) > MAX_PARTS:
            continue
        constant, terms = terms_of(part.args[0])
        for atom, coefficient in terms:
            if atom.kind != ("min" if (coefficient < 0) == (part.kind == "le") else "max"):
                continue
            compare = le if part.kind == "le" else ge
            for one in atom.args:
                rest = {e: c for e, c in terms if e is not atom}
                form = from_terms(constant, rest) + coefficient * one
                parts.append(compare(form, const(part.payload)))
    return land(*parts)
