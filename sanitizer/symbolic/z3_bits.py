"""Expressions as z3 bit-vectors, wide enough that nothing leaves them: for conditions about bit patterns.

Every node of a condition has bounds, so a width is known in which signed arithmetic is exact. Imports z3,
so that it is itself imported only where z3 is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import z3

from kerncap.sanitizer.symbolic.division import signed_range
from kerncap.sanitizer.symbolic.node import Expr, Interval
from kerncap.sanitizer.symbolic.traversal import nodes_of
from kerncap.sanitizer.symbolic.z3_lower import Lowering

_BITWISE = frozenset(("bitand", "bitor", "bitxor", "shl", "lshr", "ashr"))
WIDEST = 160


def width_of(condition: Expr) -> int | None:
    """Bits in which every intermediate result fits; None where bit-vectors are not the right thing."""
    nodes = nodes_of((condition,))
    if not any(n.kind in _BITWISE for n in nodes):
        return None
    largest = 1
    for node in nodes:
        if node.sort == "bool":
            if node.kind in ("le", "ge", "eq", "ne"):
                largest = max(largest, abs(node.payload))
            continue
        if node.low is None or node.high is None:
            return None
        size = max(abs(node.low), abs(node.high))
        if node.kind == "sum":
            constant, coefficients = node.payload
            size = abs(constant)
            for atom, k in zip(node.args, coefficients, strict=True):
                assert atom.low is not None and atom.high is not None
                size += abs(k) * max(abs(atom.low), abs(atom.high), 1)
        elif node.kind in ("wrap", *_BITWISE):
            size = max(size, 1 << node.payload)
        largest = max(largest, size)
    width = largest.bit_length() + 2
    return width if width <= WIDEST else None


class BitLowering(Lowering):
    """Over bit-vectors of one width."""

    def __init__(self, context: z3.Context, known: Mapping[Expr, Interval], width: int) -> None:
        super().__init__(context, known)
        self.width = width

    def number(self, model: Any, term: Any) -> int:
        return int(model.eval(term, model_completion=True).as_signed_long())

    def _value(self, number: int) -> Any:
        return z3.BitVecVal(number, self.width, self.context)

    def _fresh(self, name: str) -> Any:
        self.free += 1
        return z3.BitVec(f"{name}!{self.free}", self.width, self.context)

    def _bound(self, term: Any, bounds: Interval) -> None:
        low, high = bounds
        inner = signed_range(self.width)
        if low is not None and low > inner[0]:
            self.constraints.append(term >= self._value(low))
        if high is not None and high < inner[1]:
            self.constraints.append(term <= self._value(high))

    def _term(self, node: Expr, args: list[Any]) -> Any:
        if node.kind == "sum":
            constant, coefficients = node.payload
            total = self._value(constant)
            for a, k in zip(args, coefficients, strict=True):
                total = total + (a if k == 1 else a * self._value(k))
            return total
        if node.kind == "mul":
            product = args[0]
            for a in args[1:]:
                product = product * a
            return product
        if node.kind == "wrap":
            return self._signed(args[0], node.payload)
        if node.kind in _BITWISE:
            return self._pattern(node, args)
        return super()._term(node, args)

    def _signed(self, a: Any, bits: int) -> Any:
        return z3.SignExt(self.width - bits, z3.Extract(bits - 1, 0, a))

    def _division(self, node: Expr, args: list[Any]) -> Any:
        a, b = args
        zero = self._value(0)
        rest = z3.SRem(a, b)
        if node.kind == "trem":
            result = rest
        elif node.kind == "tdiv":
            result = a / b
        else:
            off = z3.And(rest != zero, (rest < zero) != (b < zero))
            if node.kind == "mod":
                result = z3.If(off, rest + b, rest)
            else:
                result = z3.If(off, a / b - self._value(1), a / b)
        anything = self._fresh("by_zero")
        self._bound(anything, (node.low, node.high))
        return z3.If(b == zero, anything, result)

    def _pattern(self, node: Expr, args: list[Any]) -> Any:
        a, b = args
        bits: int = node.payload
        if node.kind == "bitand":
            return a & b
        if node.kind == "bitor":
            return a | b
        if node.kind == "bitxor":
            return a ^ b
        narrow_a: Any
        narrow_b: Any
        narrow_a, narrow_b = (z3.Extract(bits - 1, 0, x) for x in (a, b))
        if node.kind == "shl":
            shifted = narrow_a << narrow_b
        elif node.kind == "lshr":
            shifted = z3.LShR(narrow_a, narrow_b)
        else:
            shifted = narrow_a >> narrow_b
        anything = self._fresh("shifted")
        self._bound(anything, signed_range(bits))
        inside = z3.And(b >= self._value(0), b < self._value(bits))
        return z3.If(inside, z3.SignExt(self.width - bits, shifted), anything)
