"""Expressions as z3 terms: integers, with quotients for remainders and wraps; bits only where they are.

Imports z3, so that it is itself imported only where z3 is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import z3

from kerncap.sanitizer.symbolic.node import Expr, Interval, Variable
from kerncap.sanitizer.symbolic.traversal import postorder


class Lowering:
    """Terms of one query, and the constraints that give their free variables their meaning."""

    def __init__(self, context: z3.Context, known: Mapping[Expr, Interval]) -> None:
        self.context = context
        self.known = known
        self.terms: dict[Expr, Any] = {}
        self.variables: dict[Variable, Any] = {}
        self.constraints: list[Any] = []
        self.free = 0

    def lower(self, e: Expr) -> Any:
        for node in postorder((e,), self.terms):
            term = self._term(node, [self.terms[a] for a in node.args])
            self.terms[node] = term
            if node.sort == "int" and node in self.known:
                self._bound(term, self.known[node])
        return self.terms[e]

    def number(self, model: Any, term: Any) -> int:
        return int(model.eval(term, model_completion=True).as_long())

    def _value(self, number: int) -> Any:
        return z3.IntVal(number, self.context)

    def _fresh(self, name: str) -> Any:
        self.free += 1
        return z3.Int(f"{name}!{self.free}", self.context)

    def _bound(self, term: Any, bounds: Interval) -> None:
        low, high = bounds
        if low is not None:
            self.constraints.append(term >= low)
        if high is not None:
            self.constraints.append(term <= high)

    def _term(self, node: Expr, args: list[Any]) -> Any:
        kind = node.kind
        if kind == "const":
            return self._value(node.payload)
        if kind == "boolean":
            return z3.BoolVal(node.payload, self.context)
        if kind == "var":
            term = self._fresh(node.payload.name)
            self.variables[node.payload] = term
            self._bound(term, (node.low, node.high))
            return term
        if kind in ("read", "unknown"):
            # Anything at all; the answer is checked against what memory holds.
            if node.sort == "bool":
                self.free += 1
                return z3.Bool(f"{kind}!{self.free}", self.context)
            term = self._fresh(kind)
            self._bound(term, (node.low, node.high))
            return term
        if kind == "sum":
            constant, coefficients = node.payload
            total = z3.Sum(*(a if c == 1 else a * c for a, c in zip(args, coefficients, strict=True)))
            return total + constant if constant else total
        if kind == "mul":
            product = args[0]
            for a in args[1:]:
                product = product * a
            self._bound(product, (node.low, node.high))
            return product
        if kind in ("min", "max"):
            result = args[0]
            for a in args[1:]:
                result = z3.If(a < result if kind == "min" else a > result, a, result)
            return result
        if kind == "ite":
            return z3.If(args[0], args[1], args[2])
        if kind == "wrap":
            return self._remainder(args[0], 1 << node.payload, -(1 << (node.payload - 1)))
        if kind in ("div", "mod", "tdiv", "trem"):
            return self._division(node, args)
        if node.sort == "int":
            return self._bits(node, args)
        return self._truth(node, args)

    def _remainder(self, a: Any, modulus: int, low: int) -> Any:
        quotient = self._fresh("turns")
        result = a - quotient * modulus
        self._bound(result, (low, low + modulus - 1))
        return result

    def _division(self, node: Expr, args: list[Any]) -> Any:
        a, b = args
        quotient, rest = self._fresh("quotient"), self._fresh("rest")
        definition = [a == quotient * b + rest]
        if node.kind in ("div", "mod"):
            definition.append(z3.If(b > 0, z3.And(rest >= 0, rest < b), z3.And(rest <= 0, rest > b)))
        else:
            size: Any = z3.If(b > 0, b, -b)
            definition.append(z3.If(a >= 0, z3.And(rest >= 0, rest < size), z3.And(rest <= 0, rest > -size)))
        meaning = z3.And(*definition)
        # By zero: anything.
        divisor = node.args[1]
        never_zero = (divisor.low is not None and divisor.low > 0) or (
            divisor.high is not None and divisor.high < 0
        )
        self.constraints.append(meaning if never_zero else z3.Or(b == 0, meaning))
        result = quotient if node.kind in ("div", "tdiv") else rest
        self._bound(result, (node.low, node.high))
        return result

    def _bits(self, node: Expr, args: list[Any]) -> Any:
        bits: int = node.payload
        a, b = (z3.Int2BV(x, bits) for x in args)
        if node.kind == "bitand":
            pattern = a & b
        elif node.kind == "bitor":
            pattern = a | b
        elif node.kind == "bitxor":
            pattern = a ^ b
        else:
            shifted = {"shl": a << b, "lshr": z3.LShR(a, b), "ashr": a >> b}[node.kind]
            inside = z3.And(args[1] >= 0, args[1] < bits)
            anything = self._fresh("shifted")
            self._bound(anything, (-(1 << (bits - 1)), (1 << (bits - 1)) - 1))
            return z3.If(inside, z3.BV2Int(shifted, True), anything)
        result = z3.BV2Int(pattern, True)
        self._bound(result, (node.low, node.high))
        return result

    def _truth(self, node: Expr, args: list[Any]) -> Any:
        kind = node.kind
        if kind == "and":
            return z3.And(*args)
        if kind == "or":
            return z3.Or(*args)
        if kind == "not":
            return z3.Not(args[0])
        if kind == "iff":
            return args[0] == args[1]
        number = self._value(node.payload)
        if kind == "le":
            return args[0] <= number
        if kind == "ge":
            return args[0] >= number
        return args[0] == number if kind == "eq" else args[0] != number
