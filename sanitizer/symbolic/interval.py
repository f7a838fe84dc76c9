"""Outer bounds of expressions, with what is known about their parts.

Without facts, every node has its bounds from when it was made. With facts (bounds of nodes, bounds of
linear forms), the nodes above those are computed again.
"""

from __future__ import annotations

from typing import Protocol

from kerncap.sanitizer.symbolic.bits import bitwise_interval
from kerncap.sanitizer.symbolic.boolean import decide
from kerncap.sanitizer.symbolic.division import (
    divide_intervals,
    fits,
    modulo_interval,
    signed_range,
    truncated_quotient_interval,
    truncated_remainder_interval,
)
from kerncap.sanitizer.symbolic.node import Expr, Interval
from kerncap.sanitizer.symbolic.sums import extreme_interval, multiply_intervals, power_interval
from kerncap.sanitizer.symbolic.traversal import postorder


class Facts(Protocol):
    """What bounds are known of integer nodes beyond their own."""

    def get(self, node: Expr) -> Interval | None: ...


def interval(e: Expr) -> Interval:
    """Sound outer bounds of an integer expression, None for no bound."""
    return e.low, e.high


def intersect(a: Interval, b: Interval) -> Interval:
    low = a[0] if b[0] is None else b[0] if a[0] is None else max(a[0], b[0])
    high = a[1] if b[1] is None else b[1] if a[1] is None else min(a[1], b[1])
    return low, high


def is_empty(a: Interval) -> bool:
    return a[0] is not None and a[1] is not None and a[0] > a[1]


class Intervals:
    """Bounds of many expressions under the same facts; each node is computed once.

    Where the facts cannot all hold, a lower bound may be above the upper one.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.known: dict[Expr, Interval] = {}

    def of(self, e: Expr) -> Interval:
        found = self.known.get(e)
        if found is not None:
            return found
        for node in postorder((e,), self.known):
            if node.sort == "bool":
                self.known[node] = self._truth(node)
                continue
            bounds = (node.low, node.high)
            if node.args and any(self.known[a] != (a.low, a.high) for a in node.args):
                again = compute(node, [self.known[a] for a in node.args])
                if again is not None:
                    bounds = intersect(bounds, again)
            fact = self.facts.get(node)
            self.known[node] = bounds if fact is None else intersect(bounds, fact)
        return self.known[e]

    def _truth(self, node: Expr) -> Interval:
        """Of a boolean: (0, 0) for false, (1, 1) for true."""
        kind = node.kind
        args = [self.known[a] for a in node.args]
        result: Interval = (0, 1)
        if kind == "boolean":
            result = (int(node.payload), int(node.payload))
        elif kind in ("le", "ge", "eq", "ne"):
            form = node.args[0]
            if is_empty(args[0]):
                return 0, 1
            truth = decide(kind, args[0], (form.modulus, form.remainder), node.payload)
            result = (0, 1) if truth is None else (int(truth), int(truth))
        elif kind in ("and", "or"):
            result = extreme_interval("min" if kind == "and" else "max", args)
        elif kind == "not":
            low, high = args[0]
            result = (1 - high, 1 - low)  # type: ignore[operator]
        fact = self.facts.get(node)
        return result if fact is None else intersect(result, fact)


def compute(node: Expr, args: list[Interval]) -> Interval | None:
    """Bounds of an integer node from those of its arguments; None if they say nothing."""
    kind = node.kind
    if any(is_empty(a) for a in args):
        return None
    if kind == "sum":
        constant, coefficients = node.payload
        low: int | None = constant
        high: int | None = constant
        for (a, b), c in zip(args, coefficients, strict=True):
            if c < 0:
                a, b = b, a
            low = None if low is None or a is None else low + c * a
            high = None if high is None or b is None else high + c * b
        return low, high
    if kind == "mul":
        return _product(node, args)
    if kind in ("min", "max"):
        return extreme_interval(kind, args)
    if kind == "ite":
        condition, yes, no = args
        if condition[0] == condition[1]:
            return yes if condition[0] else no
        return (
            None if yes[0] is None or no[0] is None else min(yes[0], no[0]),
            None if yes[1] is None or no[1] is None else max(yes[1], no[1]),
        )
    if kind == "wrap":
        outer = signed_range(node.payload)
        return _wrapped(args[0], outer, 1 << node.payload)
    if kind in _DIVISIONS:
        if kind == "mod" and args[1][0] is not None and args[1][0] == args[1][1] and args[1][0] > 0:
            return _wrapped(args[0], (0, args[1][0] - 1), args[1][0])
        return _DIVISIONS[kind](args[0], args[1])
    if kind in ("bitand", "bitor", "bitxor"):
        return bitwise_interval(kind, args[0], args[1], node.payload)
    return None


def _wrapped(a: Interval, outer: tuple[int, int], modulus: int) -> Interval:
    """Where an interval lands that is shifted by a multiple of the modulus into the outer one."""
    low, high = a
    if low is None or high is None:
        return outer
    turns = (low - outer[0]) // modulus
    if fits((low - turns * modulus, high - turns * modulus), outer):
        return low - turns * modulus, high - turns * modulus
    return outer


def _product(node: Expr, args: list[Interval]) -> Interval:
    result: Interval = (1, 1)
    position = 0
    while position < len(args):
        count = 1
        while position + count < len(args) and node.args[position + count] is node.args[position]:
            count += 1
        result = multiply_intervals(result, power_interval(args[position], count))
        position += count
    return result


_DIVISIONS = {
    "div": divide_intervals,
    "mod": modulo_interval,
    "tdiv": truncated_quotient_interval,
    "trem": truncated_remainder_interval,
}
