"""`--where EXPR`: a small grammar, parsed into nested lists; of these come the steps of docs/session.md.

The text goes through Python's parser, and every node is checked against a list of what is
allowed. Nothing is evaluated here or in the hook.
"""

from __future__ import annotations

import ast
from typing import Any

from kerncap.errors import UsageError
from kerncap.format.contract import word

ATTRIBUTES = ("shape", "dtype", "ndim", "numel", "stride", "device")
ALLOWED = (
    "comparisons (== != < <= > >= in), and/or/not, argument names, "
    f".{', .'.join(ATTRIBUTES)}, [integer], numbers, strings, True, False, None, tuples, + - * // %"
)
MAX_LENGTH = 4096
MAX_DEPTH = 64

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.In: word.step.within,
}
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}

Expression = list[Any]


def parse_where(text: str) -> Expression:
    """The expression as nested lists; UsageError names the column and what is allowed."""
    if len(text) > MAX_LENGTH:
        raise UsageError(f"--where: {len(text)} characters, at most {MAX_LENGTH}")
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise UsageError(
            f"--where: column {error.offset or len(text.rstrip()) + 1}: {error.msg}: {text!r}"
        ) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"--where: not an expression: {error}") from error
    return _Parser(text.strip()).expression(tree.body, 0)


def postfix(expression: Expression) -> list[list[Any]]:
    """The parsed expression as steps, operands first: what the hook and the shims evaluate."""
    steps: list[list[Any]] = []
    todo = [expression]
    while todo:  # from the end on; a chain of `and` is nested as deeply as it is long
        kind, *operands = todo.pop()
        if kind == word.step.constant:
            steps += reversed(_constant(operands[0]))
        elif kind == word.step.name:
            steps.append([kind, operands[0]])
        elif kind in (word.step.attribute, word.step.item):
            steps.append([kind, operands[1]])
            todo.append(operands[0])
        else:
            steps.append([kind])
            todo += operands
    return steps[::-1]


def _constant(value: Any) -> list[list[Any]]:
    if isinstance(value, list):
        return [step for item in value for step in _constant(item)] + [[word.step.list, len(value)]]
    return [[word.step.constant, value]]


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text

    def refuse(self, node: ast.expr, what: str) -> UsageError:
        piece = ast.get_source_segment(self.text, node) or ""
        return UsageError(f"--where: column {node.col_offset + 1}: {what}: {piece!r}; allowed are {ALLOWED}")

    def expression(self, node: ast.expr, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            raise self.refuse(node, f"nested deeper than {MAX_DEPTH}")
        below = depth + 1
        if isinstance(node, ast.BoolOp):
            joint = word.step.both if isinstance(node.op, ast.And) else word.step.either
            return self._chain(joint, [self.expression(value, below) for value in node.values])
        if isinstance(node, ast.UnaryOp):
            return self._unary(node, below)
        if isinstance(node, ast.Compare):
            return self._compare(node, below)
        if isinstance(node, ast.BinOp):
            operator = _ARITHMETIC.get(type(node.op))
            if operator is None:
                raise self.refuse(node, "an operator that is not supported")
            return [operator, self.expression(node.left, below), self.expression(node.right, below)]
        if isinstance(node, ast.Name):
            return [word.step.name, node.id]
        if isinstance(node, ast.Attribute):
            if node.attr not in ATTRIBUTES:
                raise self.refuse(node, f"attribute .{node.attr}")
            return [word.step.attribute, self.expression(node.value, below), node.attr]
        if isinstance(node, ast.Subscript):
            return [word.step.item, self.expression(node.value, below), self._index(node.slice)]
        if isinstance(node, (ast.Constant, ast.Tuple, ast.List)):
            return [word.step.constant, self._constant(node)]
        raise self.refuse(node, "not allowed")

    def _unary(self, node: ast.UnaryOp, depth: int) -> Expression:
        if isinstance(node.op, ast.Not):
            return [word.step.negated, self.expression(node.operand, depth)]
        if isinstance(node.op, ast.USub):
            if isinstance(node.operand, ast.Constant):
                return [word.step.constant, self._constant(node)]
            return ["-", [word.step.constant, 0], self.expression(node.operand, depth)]
        raise self.refuse(node, "an operator that is not supported")

    def _compare(self, node: ast.Compare, depth: int) -> Expression:
        """``0 < n <= 4`` is two comparisons that must both hold."""
        operands = [node.left, *node.comparators]
        values = [self.expression(operand, depth) for operand in operands]
        parts: list[Expression] = []
        for position, operator in enumerate(node.ops):
            negated = isinstance(operator, ast.NotIn)
            comparator = word.step.within if negated else _COMPARISONS.get(type(operator))
            if comparator is None:
                raise self.refuse(node, "`is` is not supported, use ==")
            comparison: Expression = [comparator, values[position], values[position + 1]]
            parts.append([word.step.negated, comparison] if negated else comparison)
        return self._chain(word.step.both, parts)

    @staticmethod
    def _chain(joint: str, parts: list[Expression]) -> Expression:
        result = parts[0]
        for part in parts[1:]:
            result = [joint, result, part]
        return result

    def _index(self, node: ast.expr) -> int:
        value = self._constant(node) if isinstance(node, (ast.Constant, ast.UnaryOp)) else None
        if type(value) is not int:
            raise self.refuse(node, "an index must be an integer")
        return value

    def _constant(self, node: ast.expr) -> Any:
        if isinstance(node, (ast.Tuple, ast.List)):
            return [self._constant(item) for item in node.elts]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            value = self._constant(node.operand)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return -value
            raise self.refuse(node, "a minus sign needs a number")
        if isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float, str, type(None))):
            return node.value
        raise self.refuse(node, "not a constant")
