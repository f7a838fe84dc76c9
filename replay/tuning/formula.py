"""Arithmetic that others wrote (a grid, a constraint), worked out over Python's syntax tree.

Nothing is handed to the interpreter: every node is checked against a list of what is known here, names are
looked up in what the caller gives, numbers and steps are bounded. What is not known ends in `Unknown`, which
says what it was.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MAX_LENGTH = 16 * 1024
_MAX_DEPTH = 64
_MAX_BITS = 512  # of an integer: grids and constraints are small numbers
_MAX_ITEMS = 4096
_MAX_STEPS = 20_000


class Unknown(Exception):
    """Something that can't be worked out here; the message says what."""


@dataclass(frozen=True)
class TensorFacts:
    """What arithmetic may ask of a tensor."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    dtype: str = ""

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def cdiv(a: Any, b: Any) -> Any:
    """As `triton.cdiv`."""
    return (a + b - 1) // b


def next_power_of_2(n: int) -> int:
    """As `triton.next_power_of_2`."""
    return 1 << max(0, int(n) - 1).bit_length()


def is_power_of_2(n: Any) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and n > 0 and n & (n - 1) == 0


# By the last part of its name: `triton.cdiv`, `tl.cdiv` and `cdiv` are the same.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cdiv": cdiv,
    "next_power_of_2": next_power_of_2,
    "is_power_of_2": is_power_of_2,
    "min": min,
    "max": max,
    "int": int,
    "float": float,
    "bool": bool,
    "abs": abs,
    "len": len,
    "sum": sum,
    "prod": math.prod,
    "round": round,
    "ceil": math.ceil,
    "floor": math.floor,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "tuple": tuple,
}
_MODULES = ("triton", "tl", "triton.language", "math", "np", "numpy", "builtins")
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.RShift: operator.rshift,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
    ast.Is: lambda a, b: _same(a, b),
    ast.IsNot: lambda a, b: not _same(a, b),
}


def _same(a: Any, b: Any) -> bool:
    if a is None or b is None or isinstance(a, bool) or isinstance(b, bool):
        return a is b
    raise Unknown("`is` between numbers")


def parse(text: str) -> ast.expr:
    """The tree of one expression.

    Raises Unknown for anything else, and for one that is too long.
    """
    if len(text) > MAX_LENGTH:
        raise Unknown(f"{len(text):,} characters are more than {MAX_LENGTH:,}")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unknown(f"not an expression: {getattr(error, 'msg', error)}") from None


def names_of(tree: ast.AST) -> set[str]:
    """The names that a tree reads, functions and modules known here left out."""
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    modules = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in _MODULES
    }
    return {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
        and id(node) not in modules
        and not (node in called and node.id in _FUNCTIONS)
    }


class Evaluator:
    """Works out expressions over ``names``; ``unresolved`` are names that had a value nobody kept."""

    def __init__(self, names: Mapping[str, Any], unresolved: Sequence[str] = ()) -> None:
        self.names = dict(names)
        self._unresolved = frozenset(unresolved)
        self._steps = 0

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """The value of an expression: a number, a bool, a string, None, a tuple of such, a TensorFacts."""
        self._steps += 1
        if depth > _MAX_DEPTH or self._steps > _MAX_STEPS:
            raise Unknown("it is nested too deeply, or too long")
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None:
            raise Unknown(f"{_text(node)} is not supported arithmetic")
        try:
            return _bounded(method(node, depth + 1), node)
        except Unknown:
            raise
        except (ArithmeticError, ValueError, TypeError, LookupError, AttributeError) as error:
            raise Unknown(f"{_text(node)}: {str(error) or type(error).__name__}") from None

    def _constant(self, node: ast.Constant, depth: int) -> Any:
        if node.value is None or isinstance(node.value, bool | int | float | str):
            return node.value
        raise Unknown(f"{_text(node)} is not a number")

    def _name(self, node: ast.Name, depth: int) -> Any:
        if node.id in self.names:
            return self.names[node.id]
        if node.id in self._unresolved:
            raise Unknown(f"it reads {node.id}, whose value was not stored at capture")
        raise Unknown(f"it reads {node.id}, which is not supported")

    def _tuple(self, node: ast.Tuple | ast.List, depth: int) -> tuple[Any, ...]:
        found: list[Any] = []
        for item in node.elts:
            if isinstance(item, ast.Starred):
                found.extend(self.value(item.value, depth))
            else:
                found.append(self.value(item, depth))
        return tuple(found)

    _list = _tuple

    def _binop(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self.value(node.left, depth), self.value(node.right, depth)
        for side in (left, right):
            if isinstance(side, str):
                raise Unknown(f"{_text(node)} calculates with text")
        if isinstance(node.op, ast.Pow | ast.LShift):
            power = isinstance(node.op, ast.Pow)
            if not isinstance(right, int | float) or abs(right) > _MAX_BITS:
                raise Unknown(f"{_text(node)} is too large")
            if (
                power
                and isinstance(left, int)
                and left.bit_length() * max(1, abs(int(right))) > 2 * _MAX_BITS
            ):
                raise Unknown(f"{_text(node)} is too large")
            return left**right if power else operator.lshift(left, right)
        function = _BINARY.get(type(node.op))
        if function is None:
            raise Unknown(f"{_text(node)} has an operator that is not supported")
        if isinstance(node.op, ast.Mult) and (isinstance(left, tuple) or isinstance(right, tuple)):
            raise Unknown(f"{_text(node)} repeats a tuple")
        return function(left, right)

    def _unaryop(self, node: ast.UnaryOp, depth: int) -> Any:
        value = self.value(node.operand, depth)
        if isinstance(node.op, ast.Not):
            return not value
        if isinstance(node.op, ast.USub):
            return -value
        return ~value if isinstance(node.op, ast.Invert) else +value

    def _boolop(self, node: ast.BoolOp, depth: int) -> Any:
        value: Any = None
        for item in node.values:
            value = self.value(item, depth)
            if bool(value) != isinstance(node.op, ast.And):
                return value
        return value

    def _compare(self, node: ast.Compare, depth: int) -> bool:
        left = self.value(node.left, depth)
        for kind, item in zip(node.ops, node.comparators, strict=True):
            right = self.value(item, depth)
            if not _COMPARISONS[type(kind)](left, right):
                return False
            left = right
        return True

    def _ifexp(self, node: ast.IfExp, depth: int) -> Any:
        return self.value(node.body if self.value(node.test, depth) else node.orelse, depth)

    def _subscript(self, node: ast.Subscript, depth: int) -> Any:
        container = self.value(node.value, depth)
        if isinstance(node.slice, ast.Slice):
            ends = [
                None if part is None else self.value(part, depth)
                for part in (node.slice.lower, node.slice.upper, node.slice.step)
            ]
            if not isinstance(container, tuple):
                raise Unknown(f"{_text(node)} is not part of a tuple")
            return container[slice(*ends)]
        key = self.value(node.slice, depth)
        if isinstance(container, Mapping):
            if key not in container:
                raise Unknown(f"it reads {key!r}, which the launch does not have")
            return container[key]
        if isinstance(container, tuple) and isinstance(key, int):
            return container[key]
        raise Unknown(f"{_text(node)} is not part of a tuple")

    def _attribute(self, node: ast.Attribute, depth: int) -> Any:
        owner = self.value(node.value, depth)
        if isinstance(owner, TensorFacts):
            known = {"shape": owner.shape, "ndim": len(owner.shape), "dtype": owner.dtype,
                     "itemsize": owner.itemsize}  # fmt: skip
            if node.attr in known:
                return known[node.attr]
        raise Unknown(f"{_text(node)} is not supported")

    def _call(self, node: ast.Call, depth: int) -> Any:
        if any(keyword.arg is None for keyword in node.keywords):
            raise Unknown(f"{_text(node)} passes keywords that it does not name")
        given = self._tuple(ast.Tuple(elts=node.args), depth)
        named = {str(keyword.arg): self.value(keyword.value, depth) for keyword in node.keywords}
        function = node.func
        if isinstance(function, ast.Name) and function.id in _FUNCTIONS and function.id not in self.names:
            return _FUNCTIONS[function.id](*given, **named)
        if isinstance(function, ast.Attribute):
            if _dotted(function.value) in _MODULES and function.attr in _FUNCTIONS:
                return _FUNCTIONS[function.attr](*given, **named)
            if not (isinstance(function.value, ast.Name) and function.value.id not in self.names):
                return self._method(node, self.value(function.value, depth), function.attr, given)
        raise Unknown(f"it calls {_text(function)}, which is not supported")

    def _method(self, node: ast.Call, owner: Any, name: str, given: tuple[Any, ...]) -> Any:
        if isinstance(owner, Mapping) and name == "get" and 1 <= len(given) <= 2:
            return owner.get(*given)
        if isinstance(owner, int) and name == "bit_length" and not given:
            return owner.bit_length()
        if isinstance(owner, TensorFacts):
            if name in ("numel", "nelement") and not given:
                return owner.elements
            if name == "element_size" and not given:
                return owner.itemsize
            if name == "dim" and not given:
                return len(owner.shape)
            if name in ("size", "stride") and len(given) <= 1:
                values = owner.shape if name == "size" else owner.strides
                return values[given[0]] if given else values
        raise Unknown(f"it calls {_text(node.func)}, which is not supported")


def _bounded(value: Any, node: ast.expr) -> Any:
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise Unknown(f"{_text(node)} is too large")
    if isinstance(value, tuple) and len(value) > _MAX_ITEMS:
        raise Unknown(f"{_text(node)} is too long")
    if isinstance(value, complex):
        raise Unknown(f"{_text(node)} is not a real number")
    return value


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return f"{_dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


def _text(node: ast.AST) -> str:
    try:
        text = " ".join(ast.unparse(node).split())
    except (ValueError, RecursionError):
        text = type(node).__name__
    return text if len(text) <= 80 else text[:77] + "..."
