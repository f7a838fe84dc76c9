"""Arithmetic over sizes, as text (``cdiv(n, 1024)``, ``M*K``), as expressions."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from kerncap.errors import UsageError
from kerncap.sanitizer.symbolic.expr import Expr, const, maximum, minimum

MAX_LENGTH = 1000
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1
_FUNCTIONS = ("cdiv", "max", "min")


def formula(text: str, names: Mapping[str, Expr], what: str) -> Expr:
    """The expression that ``text`` means, over ``names``: + - * // %, powers of numbers, cdiv, min, max.

    Raises UsageError, which begins with ``what``, for anything else and for a divisor that may be below 1.
    """
    problem = "not an expression" if len(text) <= MAX_LENGTH else "too long"
    tree = None
    if len(text) <= MAX_LENGTH:
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass
    if tree is None:
        raise UsageError(f"{what}: {text[:60]!r} is {problem}; expected arithmetic such as cdiv(n, 1024)")
    try:
        return _Reader(names, what).read(tree)
    except RecursionError:
        raise UsageError(f"{what}: {text[:60]!r} is nested too deeply; write it shorter") from None


class _Reader:
    def __init__(self, names: Mapping[str, Expr], what: str) -> None:
        self.names = names
        self.what = what

    def read(self, node: ast.expr) -> Expr:
        found = self._read(node)
        if found.low is None or found.high is None or found.low < _LEAST or found.high > _MOST:
            raise UsageError(f"{self.what}: {ast.unparse(node)} may leave 64 bits; choose smaller sizes")
        return found

    def _read(self, node: ast.expr) -> Expr:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return const(node.value)
        if isinstance(node, ast.Name):
            if node.id not in self.names:
                known = ", ".join(self.names) or "none"
                raise UsageError(f"{self.what}: {node.id} is not known here; the names are {known}")
            return self.names[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.read(node.operand)
        if isinstance(node, ast.BinOp):
            return self._binary(node, self.read(node.left), self.read(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            parts = [self.read(one) for one in node.args]
            if node.func.id == "cdiv" and len(parts) == 2:
                divisor = self._divisor(node, parts[1])
                return (parts[0] + (divisor - 1)) // divisor
            if node.func.id in ("min", "max") and len(parts) == 2:
                return (minimum if node.func.id == "min" else maximum)(*parts)
        raise UsageError(
            f"{self.what}: {ast.unparse(node)} is not supported; use + - * // %, cdiv, min and max"
        )

    def _binary(self, node: ast.BinOp, left: Expr, right: Expr) -> Expr:
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        if isinstance(node.op, ast.Mult):
            return left * right
        if isinstance(node.op, ast.FloorDiv):
            return left // self._divisor(node, right)
        if isinstance(node.op, ast.Mod):
            return left % self._divisor(node, right)
        base, power = left.value, right.value
        if isinstance(node.op, ast.Pow) and base is not None and power is not None and 0 <= power <= 64:
            return const(base**power)
        raise UsageError(
            f"{self.what}: {ast.unparse(node)} is not supported; use + - * // %, cdiv, min and max"
        )

    def _divisor(self, node: ast.expr, divisor: Expr) -> Expr:
        if divisor.low is None or divisor.low < 1:
            raise UsageError(f"{self.what}: {ast.unparse(node)} may divide by zero; begin the sizes above it")
        return divisor
